"""A small real game behind real servers: whoever works earns 1 a turn, and two at once earn 2 more.

Everything follows from seed and letters. The subclasses break in one way each.
"""

import asyncio
import hashlib
import random
from dataclasses import dataclass, field

from potluck.common.v1 import common_pb2 as common_pb
from potluck.env.v1 import env_service_pb2 as pb
from potluck.env.v1.env_service_pb2_grpc import EnvServiceServicer, add_EnvServiceServicer_to_server
from potluck.policy.v1 import policy_service_pb2 as policy_pb
from potluck.policy.v1.policy_service_pb2_grpc import PolicyServiceServicer, add_PolicyServiceServicer_to_server
from potluck.rpc.errors import PotluckError, Reason
from potluck.rpc.server import serve

GAME = "pantry/duo"
AGENTS = ("agent_0", "agent_1")
TURNS = 6
BASE = "d" * 64


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


DIGESTS = {"agent_0": sha("diligent"), "agent_1": sha("lazy")}
TIRELESS, IDLE = sha("tireless"), sha("idle")
DILIGENCE = {DIGESTS["agent_0"]: 0.9, DIGESTS["agent_1"]: 0.4, TIRELESS: 1.0, IDLE: 0.0}


@dataclass
class Party:
    """An episode."""

    seed: int
    baselines: dict[str, int]
    choices: list[pb.Choose] = field(default_factory=list)
    total: float = 0.0
    pay: tuple[float, float, float] = (0.0, 1.0, 4.0)
    """Of a turn in which none, one or two work."""

    @property
    def turn(self) -> int:
        return len(self.choices)

    @property
    def deciding(self) -> list[str]:
        return [a for a in AGENTS if a not in self.baselines]

    def items(self, agent: str) -> list[common_pb.Item]:
        options = ["work", "wait"]
        random.Random(f"{self.seed}/{agent}/{self.turn}").shuffle(options)
        return [common_pb.Item(letter=x, option=o, text=o, word=o) for x, o in zip("AB", options, strict=True)]

    def choose(self, choose: pb.Choose) -> pb.Progress:
        working = sum(
            next(i.option for i in self.items(c.agent) if i.letter == c.letter) == "work" for c in choose.choices
        )
        gained = self.pay[working]
        progress = pb.Progress()
        progress.steps.add(step=self.turn, reward=gained)
        for choice in choose.choices:
            option = next(i.option for i in self.items(choice.agent) if i.letter == choice.letter)
            progress.options.add(agent=choice.agent, decision=self.turn, option=option, duration=1, outcome="success")
        self.choices.append(choose)
        self.total += gained
        return progress

    def recording(self) -> pb.Recording:
        recording = pb.Recording(
            schema_version=1, game=GAME, seed=self.seed, horizon=TURNS, choices=self.choices, steps=self.turn
        )
        recording.digest = hashlib.sha256(recording.SerializeToString(deterministic=True)).hexdigest()
        return recording


class PantryEnv(EnvServiceServicer):
    """Plays as the contract says."""

    def __init__(self, pay: tuple[float, float, float] = (0.0, 1.0, 4.0)) -> None:
        self.started: list[str] = []
        self.pay = pay

    async def ListGames(self, request, context):
        return pb.ListGamesResponse(games=[pb.GameInfo(name=GAME, agents=AGENTS, reward_unit="jars")])

    async def Play(self, request_iterator, context):
        parties: dict[str, Party] = {}
        async for request in request_iterator:
            for command in request.commands:
                update = pb.Update(episode_id=command.episode_id, request_id=command.request_id)
                progress = pb.Progress()
                if command.HasField("start"):
                    self.started.append(command.episode_id)
                    seats = {s.agent: s.baseline for s in command.start.baselines}
                    parties[command.episode_id] = Party(command.start.seed, seats, pay=self.pay)
                else:
                    progress = parties[command.episode_id].choose(command.choose)
                self.answer(update, parties[command.episode_id], progress)
                yield pb.PlayResponse(updates=[update])

    def answer(self, update: pb.Update, party: Party, progress: pb.Progress) -> None:
        if party.turn == TURNS or not party.deciding:
            update.finished.CopyFrom(
                pb.Finished(
                    steps=party.turn,
                    team_return=self.earned(party),
                    truncated=True,
                    progress=progress,
                    recording=party.recording(),
                )
            )
            return
        update.menus.step = update.menus.boundary = party.turn
        update.menus.progress.CopyFrom(progress)
        for agent in party.deciding:
            items = party.items(agent)
            prompt = common_pb.Prompt(rules="work or wait", observation=f"turn {party.turn}", items=items)
            update.menus.decisions.add(agent=agent, decision=party.turn, prompt=prompt, menu_digest=sha(str(items)))

    def earned(self, party: Party) -> float:
        return party.total

    async def Replay(self, request, context):
        recording = request.recording
        reply = pb.ReplayResponse(digest=recording.digest, steps=recording.steps)
        reply.scene.CopyFrom(pb.Scene(width=2, height=1, tiles=["floor", "floor"]))
        for step in range(recording.steps + 1):
            frame = reply.frames.add(step=step)
            for seat, agent in enumerate(AGENTS):
                frame.sprites.add(kind="chef", x=seat, y=0, seat=seat, facing="S")
                frame.agents.add(agent=agent, option="work")
        return reply


class SpendthriftEnv(PantryEnv):
    """Has another library than the one of the records: the same choices earn something else."""

    def answer(self, update, party, progress):
        super().answer(update, party, progress)
        if update.HasField("finished"):
            update.finished.recording.digest = sha("another game")


class ForgetfulEnv(PantryEnv):
    """Cannot re-execute."""

    async def Replay(self, request, context):
        raise PotluckError(Reason.REPLAY_DIVERGED, "the recording ends elsewhere", "use the library it was made with")


class StrikingEnv(PantryEnv):
    """Begins no further episode after so many until it is told to go on."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after
        self.go_on = asyncio.Event()

    async def Play(self, request_iterator, context):
        async def requests():
            async for request in request_iterator:
                if len(self.started) >= self.after and any(c.HasField("start") for c in request.commands):
                    await self.go_on.wait()
                yield request

        async for response in super().Play(requests(), context):
            yield response


class BrokeEnv(PantryEnv):
    """Pays what is no number."""

    def earned(self, party: Party) -> float:
        return float("nan")


class SlowEnv(PantryEnv):
    """Takes its time over a replay."""

    async def Replay(self, request, context):
        await asyncio.sleep(30)


class PantryPolicy(PolicyServiceServicer):
    """Adapters that work more or less; holds only what was published."""

    def __init__(self, *, holding: bool = True) -> None:
        self.held = set(DILIGENCE) if holding else set()
        self.released: list[str] = []

    async def Describe(self, request, context):
        return policy_pb.DescribeResponse(base_digest=BASE, max_batch=64)

    async def HoldAdapter(self, request, context):
        if request.digest not in self.held:
            raise PotluckError(Reason.UNKNOWN_ADAPTER, f"no adapter {request.digest[:12]}", "publish it")
        return policy_pb.HoldAdapterResponse(lease=f"lease of {request.digest[:12]}")

    async def ReleaseAdapter(self, request, context):
        self.released.append(request.lease)
        return policy_pb.ReleaseAdapterResponse()

    async def Choose(self, request, context):
        return policy_pb.ChooseResponse(choices=[self.score(d) for d in request.decisions], base_digest=BASE)

    def score(self, decision):
        name = decision.policy.adapter
        if name and name not in self.held:
            raise PotluckError(Reason.UNKNOWN_ADAPTER, f"no adapter {name[:12]}", "publish it")
        work = DILIGENCE[name] if name else 0.5
        chances = [work if i.option == "work" else 1 - work for i in decision.prompt.items]
        index = int(random.Random(decision.seed).random() >= chances[0])
        return policy_pb.ScoredChoice(
            letter=decision.prompt.items[index].letter, index=index, probabilities=chances, adapter_digest=name,
            builtin=decision.policy.builtin, prompt_digest=sha(decision.prompt.observation),
        )  # fmt: skip


async def serve_env(env: PantryEnv):
    return await serve(
        lambda s: add_EnvServiceServicer_to_server(env, s), services=["potluck.env.v1.EnvService"], bind="127.0.0.1:0"
    )


async def serve_policy(policy: PantryPolicy):
    return await serve(
        lambda s: add_PolicyServiceServicer_to_server(policy, s),
        services=["potluck.policy.v1.PolicyService"],
        bind="127.0.0.1:0",
    )
