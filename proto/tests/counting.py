"""A small real game behind real servers: agents add numbers, and everything follows from seed and letters.

Agent "a" decides at every boundary, agent "b" at even ones. The subclasses break in one way each.
"""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import grpc

from potluck.common.v1.common_pb2 import Item, Prompt
from potluck.env.v1 import env_service_pb2 as pb
from potluck.env.v1.env_service_pb2_grpc import EnvServiceServicer, add_EnvServiceServicer_to_server
from potluck.policy.v1 import policy_service_pb2 as pp
from potluck.policy.v1.policy_service_pb2_grpc import PolicyServiceServicer, add_PolicyServiceServicer_to_server
from potluck.rpc.errors import PotluckError, Reason
from potluck.rpc.security import Security
from potluck.rpc.server import RunningServer, serve

GAME = "counting/sum"
ENV = "potluck.env.v1.EnvService"
POLICY = "potluck.policy.v1.PolicyService"
PLAIN = Security()
LIBRARY = hashlib.sha256(b"library").hexdigest()
BASE = hashlib.sha256(b"base").hexdigest()
TOKENIZER = hashlib.sha256(b"tokenizer").hexdigest()
AMOUNTS = {"wait": 0, "one": 1, "two": 2}


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass
class Count:
    """An episode's state."""

    start: pb.Start
    boundary: int = 0
    total: int = 0
    choices: list[pb.Choose] = field(default_factory=list)
    segments: list[pb.Segment] = field(default_factory=list)

    @property
    def horizon(self) -> int:
        return self.start.horizon or 6

    def seats(self) -> list[str]:
        played = {seat.agent for seat in self.start.baselines}
        agents = ["a", "b"] if self.boundary % 2 == 0 else ["a"]
        return [agent for agent in agents if agent not in played]

    def items(self, agent: str) -> list[Item]:
        options = list(AMOUNTS)
        random.Random(f"{self.start.seed}/{agent}/{self.boundary}").shuffle(options)
        return [
            Item(letter=letter, word=option, option=option, text=f"add {option}", action_key=option)
            for letter, option in zip("ABC", options, strict=True)
        ]

    def menus(self, progress: pb.Progress) -> pb.Menus:
        points = []
        for agent in self.seats():
            items = self.items(agent)
            prompt = Prompt(rules="add", observation=f"total {self.total}", items=items, state_key=str(self.boundary))
            digest = sha("/".join(item.option for item in items))
            decision = self.boundary if agent == "a" else self.boundary // 2
            points.append(pb.DecisionPoint(agent=agent, decision=decision, prompt=prompt, menu_digest=digest))
        return pb.Menus(step=self.boundary, boundary=self.boundary, decisions=points, progress=progress)

    def choose(self, choose: pb.Choose) -> pb.Progress:
        progress = pb.Progress()
        gained = 0
        for choice in choose.choices:
            item = next((item for item in self.items(choice.agent) if item.letter == choice.letter), None)
            if item is None:
                raise PotluckError(Reason.LETTER_NOT_OFFERED, f"{choice.letter} was not offered", "offer it")
            gained += AMOUNTS[item.option]
            decision = self.boundary if choice.agent == "a" else self.boundary // 2
            progress.options.add(
                agent=choice.agent, decision=decision, option=item.option, duration=1, outcome="success", reward=gained
            )
        progress.steps.add(step=self.boundary, reward=gained)
        self.total += gained
        self.boundary += 1
        self.choices.append(choose)
        return progress

    def update(self, progress: pb.Progress, library: str) -> dict[str, Any]:
        if self.boundary < self.horizon and self.seats():
            return {"menus": self.menus(progress)}
        recording = pb.Recording(
            schema_version=1,
            game=self.start.game,
            library_digest=library,
            seed=self.start.seed,
            horizon=self.start.horizon,
            segments=self.segments,
            choices=self.choices,
            steps=self.boundary,
        )
        recording.digest = hashlib.sha256(recording.SerializeToString(deterministic=True)).hexdigest()
        finished = pb.Finished(
            steps=self.boundary, team_return=self.total, truncated=True, progress=progress, recording=recording
        )
        return {"finished": finished}


class CountingEnv(EnvServiceServicer):
    """Plays the game as the contract says."""

    library = LIBRARY
    drawn_digest = ""

    def __init__(self) -> None:
        self.requests: list[list[str]] = []
        self.starts: list[str] = []
        self.begun: list[pb.Start] = []
        self.traces: list[str] = []
        self.metadata: dict[str, str] = {}

    async def ListGames(self, request, context):
        game = pb.GameInfo(name=GAME, agents=["a", "b"], default_horizon=6, library_digest=self.library)
        return pb.ListGamesResponse(games=[game])

    async def Play(self, request_iterator, context) -> AsyncIterator[pb.PlayResponse]:
        self.metadata = dict(context.invocation_metadata())
        counts: dict[str, Count] = {}
        async for request in request_iterator:
            self.requests.append([command.episode_id for command in request.commands])
            # One response each, last first: a client must not rely on their order.
            for command in reversed(request.commands):
                if (update := await self.carry_out(command, counts, context)) is not None:
                    yield pb.PlayResponse(updates=[update])

    async def carry_out(self, command, counts: dict[str, Count], context) -> pb.Update | None:
        self.traces.append(command.trace.traceparent)
        try:
            outcome = self.outcome(command, counts)
        except PotluckError as error:
            outcome = {"refused": pb.Refused(status=error.status())}
        return pb.Update(episode_id=command.episode_id, request_id=command.request_id, **outcome)

    def outcome(self, command, counts: dict[str, Count]) -> dict[str, Any]:
        match command.WhichOneof("action"):
            case "start":
                self.starts.append(command.episode_id)
                if command.start.game != GAME:
                    raise PotluckError(
                        Reason.UNKNOWN_GAME, f"no game {command.start.game}", "ask ListGames", known=GAME
                    )
                self.begun.append(command.start)
                count = Count(command.start)
                progress = pb.Progress()
            case "fork":
                self.starts.append(command.episode_id)
                count, progress = self.forked(command.fork), pb.Progress()
            case _:
                count = counts[command.episode_id]
                progress = count.choose(command.choose)
        counts[command.episode_id] = count
        return count.update(progress, self.library)

    def forked(self, fork: pb.Fork) -> Count:
        source = fork.recording
        start = pb.Start(game=source.game, seed=source.seed, horizon=source.horizon, baselines=fork.baselines)
        count = Count(start)
        for choose in source.choices[: fork.boundary]:
            count.choose(choose)
        reseed = fork.reseed if fork.HasField("reseed") else None
        count.segments.append(pb.Segment(boundary=fork.boundary, reseed=reseed))
        if reseed is not None:
            start.seed = reseed
        return count

    async def Replay(self, request, context):
        frames = [pb.Frame(step=step) for step in range(request.recording.steps + 1)] if request.frames else []
        digest = self.drawn_digest or request.recording.digest
        return pb.ReplayResponse(digest=digest, steps=request.recording.steps, frames=frames)


class CrashingEnv(CountingEnv):
    """Breaks the stream at a boundary, the first `times` times."""

    def __init__(self, boundary: int, times: int) -> None:
        super().__init__()
        self.boundary, self.times = boundary, times

    async def carry_out(self, command, counts, context):
        if command.HasField("choose") and command.choose.boundary == self.boundary and self.times > 0:
            self.times -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "killed")
        return await super().carry_out(command, counts, context)


class FailingEnv(CountingEnv):
    """Fails one episode's engine at a boundary, the first `times` times."""

    def __init__(self, episode_id: str, times: int, reason: Reason = Reason.ENGINE_CRASHED) -> None:
        super().__init__()
        self.episode_id, self.times, self.reason = episode_id, times, reason

    def outcome(self, command, counts):
        if command.HasField("choose") and command.episode_id == self.episode_id and self.times > 0:
            self.times -= 1
            del counts[command.episode_id]
            error = PotluckError(self.reason, "the engine's process died", "start the episode again")
            return {"failed": pb.Failed(status=error.status())}
        return super().outcome(command, counts)


class HangingEnv(CountingEnv):
    """Never answers one episode after its start."""

    def __init__(self, episode_id: str) -> None:
        super().__init__()
        self.episode_id = episode_id

    async def carry_out(self, command, counts, context):
        if command.HasField("choose") and command.episode_id == self.episode_id:
            return None
        return await super().carry_out(command, counts, context)


class DrainingEnv(CountingEnv):
    """Refuses every start."""

    def outcome(self, command, counts):
        raise PotluckError(Reason.DRAINING, "this server is shutting down", "use another")


class SmallEnv(CountingEnv):
    """Has room for so many episodes at once."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.room = room

    def outcome(self, command, counts):
        running = sum(count.boundary < count.horizon for count in counts.values())
        if command.HasField("start") and running >= self.room:
            raise PotluckError(Reason.OVERLOADED, "no room for another episode", "try again later")
        return super().outcome(command, counts)


class OtherLibraryEnv(CountingEnv):
    """Was started with other guards."""

    library = hashlib.sha256(b"other").hexdigest()


class CountingPolicy(PolicyServiceServicer):
    """A softmax over hashes of policy, prompt and item: exact, deterministic, different per adapter."""

    max_batch = 64

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, int]]] = []
        self.deadlines: list[float] = []
        self.requests: list[pp.ChooseRequest] = []
        self.traceparents: list[str] = []
        self.busy = 0
        self.broken_uploads = 0
        self.chunks: list[int] = []
        self.leases: dict[str, str] = {}

    async def Describe(self, request, context):
        return pp.DescribeResponse(base_digest=BASE, tokenizer_digest=TOKENIZER, max_batch=self.max_batch)

    async def Choose(self, request, context):
        self.requests.append(request)
        self.deadlines.append(context.time_remaining())
        self.traceparents.append(dict(context.invocation_metadata()).get("traceparent", ""))
        if self.busy:
            self.busy -= 1
            raise PotluckError(Reason.OVERLOADED, "the queue is full", "try again later")
        self.batches.append([(d.prompt.observation, d.seed) for d in request.decisions])
        choices = [self.score(decision, request.tokens) for decision in request.decisions]
        return pp.ChooseResponse(choices=choices, base_digest=BASE, tokenizer_digest=TOKENIZER)

    async def PublishAdapter(self, request_iterator, context):
        header, data = pp.AdapterHeader(), b""
        async for request in request_iterator:
            if request.HasField("header"):
                header = request.header
            else:
                self.chunks.append(len(request.chunk))
                data += request.chunk
        if self.broken_uploads:
            self.broken_uploads -= 1
            await context.abort(grpc.StatusCode.UNAVAILABLE, "restarting")
        assert (len(data), hashlib.sha256(data).hexdigest()) == (header.size, header.sha256)
        digest = sha(f"{header.base_digest}\n{header.config_json}\n{header.sha256}\n")
        return pp.PublishAdapterResponse(digest=digest, lease=self.lease(digest))

    def lease(self, digest: str) -> str:
        name = f"lease-{len(self.leases)}"
        self.leases[name] = digest
        return name

    async def HoldAdapter(self, request, context):
        return pp.HoldAdapterResponse(lease=self.lease(request.digest))

    async def ReleaseAdapter(self, request, context):
        if self.leases.pop(request.lease, None) is None:
            raise PotluckError(Reason.UNKNOWN_LEASE, f"no lease {request.lease}", "take one with HoldAdapter")
        return pp.ReleaseAdapterResponse()

    def score(self, decision: pp.Decision, tokens: bool) -> pp.ScoredChoice:
        policy = decision.policy
        name = policy.adapter or str(policy.builtin)
        options = [item.option for item in decision.prompt.items]
        weights = [
            (1 + int(sha(f"{name}/{decision.prompt.observation}/{option}")[:4], 16)) ** (1 / decision.temperature)
            for option in options
        ]
        if decision.greedy:
            index = max(range(len(weights)), key=weights.__getitem__)
        else:
            index = random.Random(decision.seed).choices(range(len(options)), weights)[0]
        total = sum(weights)
        return pp.ScoredChoice(
            letter=decision.prompt.items[index].letter,
            index=index,
            logprob=0.0,
            probabilities=[weight / total for weight in weights],
            label_mass=1.0,
            adapter_digest=policy.adapter,
            builtin=policy.builtin,
            prompt_digest=sha(decision.prompt.observation),
            tokens=pp.Tokens(prefix=[1], suffix=[2]) if tokens else None,
        )


class WrongAdapterPolicy(CountingPolicy):
    """Answers with another adapter than asked for, as a server that falls back to the base would."""

    def score(self, decision, tokens):
        choice = super().score(decision, tokens)
        choice.adapter_digest = ""
        return choice


class WrongBasePolicy(CountingPolicy):
    """Was restarted with another base."""

    async def Choose(self, request, context):
        reply = await super().Choose(request, context)
        reply.base_digest = "0" * 64
        return reply


class OtherNamesPolicy(CountingPolicy):
    """Names adapters by another rule."""

    async def PublishAdapter(self, request_iterator, context):
        reply = await super().PublishAdapter(request_iterator, context)
        reply.digest = sha(reply.digest)
        return reply


class StrayLetterPolicy(CountingPolicy):
    """Answers with a letter that is not the one at its index."""

    def score(self, decision, tokens):
        choice = super().score(decision, tokens)
        choice.letter = "Z"
        return choice


class ShortPolicy(CountingPolicy):
    """Loses the last answer of a batch."""

    async def Choose(self, request, context):
        reply = await super().Choose(request, context)
        del reply.choices[-1]
        return reply


class HangingPolicy(CountingPolicy):
    """Never answers."""

    async def Choose(self, request, context):
        await asyncio.sleep(60)


async def serve_env(env: CountingEnv, **kwargs) -> RunningServer:
    kwargs.setdefault("security", PLAIN)
    return await serve(lambda server: add_EnvServiceServicer_to_server(env, server), services=[ENV], **kwargs)


async def serve_policy(policy: CountingPolicy, **kwargs) -> RunningServer:
    kwargs.setdefault("security", PLAIN)
    return await serve(lambda server: add_PolicyServiceServicer_to_server(policy, server), services=[POLICY], **kwargs)
