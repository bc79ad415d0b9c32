"""Hand-made records with known right values, written as a trainer writes them."""

import json
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from potluck.common.v1 import common_pb2 as common_pb
from potluck.env.v1 import env_service_pb2 as pb
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.records import Episode

FC = "overcooked/forced_coordination"
AGENTS = ("agent_0", "agent_1")
DIGESTS = {"agent_0": "a" * 64, "agent_1": "b" * 64}
LAYOUT = ("XXXPX", "O X P", "O X X", "D X X", "XXXSX")
TILES = {"X": "counter", "P": "pot", "O": "onions", "D": "dishes", "S": "window", " ": "floor"}


@dataclass
class Tape:
    """Writes down what happened in an episode."""

    agents: tuple[str, ...] = AGENTS
    progress: pb.Progress = field(default_factory=pb.Progress)

    def step(self, *agent_steps: pb.AgentStep, reward: float = 0.0) -> pb.StepRecord:
        return self.progress.steps.add(step=len(self.progress.steps), reward=reward, agents=agent_steps)

    def event(self, kind: str, agent: str, obj: str, place: str, *, reward: float = 0.0, parts=(), x=0, y=0) -> None:
        record = self.step(reward=reward)
        record.events.add(kind=kind, agent=agent, object=obj, place=place, reward=reward, parts=parts, x=x, y=y)

    def option(self, agent: str, option: str, duration: int, outcome: str = "success") -> None:
        done = sum(o.agent == agent for o in self.progress.options)
        self.progress.options.add(agent=agent, decision=done, option=option, duration=duration, outcome=outcome)

    def over_counter(self, giver: str, taker: str, obj: str) -> None:
        self.event("pickup", giver, obj, "dispenser")
        self.event("drop", giver, obj, "counter")
        self.event("pickup", taker, obj, "counter")

    def soup(self, number: int, giver: str, cook: str, server: str = "", *, reward: float = 1.0) -> None:
        """A soup whose four ingredients and dish cross the counter, as Forced Coordination demands."""
        onions = [f"onion#{number}{i}" for i in range(3)]
        for onion in onions:
            self.over_counter(giver, cook, onion)
            self.event("pot", cook, onion, "pot")
        self.event("cook", cook, f"soup#{number}", "pot", parts=onions)
        dish = f"dish#{number}"
        self.over_counter(giver, cook, dish)
        self.event("plate", cook, f"soup#{number}", "pot", parts=[*onions, dish])
        if server:
            self.event("drop", cook, f"soup#{number}", "counter")
            self.event("pickup", server, f"soup#{number}", "counter")
        self.event("deliver", server or cook, f"soup#{number}", "window", reward=reward, parts=[*onions, dish])


def _episode(tape: Tape | None = None, **changes) -> Episode:
    tape = tape or Tape()
    seed = changes.get("seed", 10000)
    values = {
        "set": "eval/trained", "round": 3, "episode_id": f"e{seed}", "member": 0, "game": FC,
        "library_digest": "c" * 64, "dynamics": "start_cooking", "seed": seed, "sample_seed": seed + 7, "horizon": 400,
        "steps": len(tape.progress.steps), "team_return": sum(s.reward for s in tape.progress.steps),
        "agent_returns": (0.0, 0.0), "policies": DIGESTS, "digest": f"{seed:064x}",
        "recording": pb.Recording(schema_version=1, game=FC, seed=seed, digest=f"{seed:064x}").SerializeToString(),
        "step_records": tape.progress.SerializeToString(), "reward_unit": "soups", "temperature": 1.0,
        "label_scheme": "words", "backbone": "tiny", "base_digest": "d" * 64,
    }  # fmt: skip
    return Episode(**(values | changes))


EPISODE_SCHEMA = pa.schema(
    [
        ("schema_version", pa.int32()), ("run", pa.string()), ("set", pa.string()), ("round", pa.int32()),
        ("episode_id", pa.string()), ("member", pa.int32()), ("game", pa.string()), ("library_digest", pa.string()),
        ("dynamics", pa.string()), ("seed", pa.uint64()), ("sample_seed", pa.uint64()), ("horizon", pa.int32()),
        ("steps", pa.int32()), ("team_return", pa.float64()), ("agent_returns", pa.list_(pa.float64())),
        ("truncated", pa.bool_()), ("policies", pa.string()), ("digest", pa.string()), ("recording", pa.binary()),
        ("step_records", pa.binary()), ("attempts", pa.int32()), ("trace_id", pa.string()),
        ("reward_unit", pa.string()), ("temperature", pa.float64()), ("label_scheme", pa.string()),
        ("backbone", pa.string()), ("base_digest", pa.string()),
    ]
)  # fmt: skip


def _row(episode: Episode, version: int) -> dict:
    own = {name: getattr(episode, name) for name in EPISODE_SCHEMA.names if hasattr(episode, name)}
    policies = json.dumps(dict(episode.policies))
    return own | {"schema_version": version, "run": "demo", "truncated": True, "trace_id": "", "policies": policies}


def _write_run(root, episodes, *, version: int = 1, decisions=()):
    """One part per set; training rounds are parts of their own."""
    parts: dict[str, list[Episode]] = {}
    for episode in episodes:
        train = episode.set == "train"
        parts.setdefault(f"round-{episode.round:06d}" if train else episode.set.replace("/", "-"), []).append(episode)
    (root / "episodes").mkdir(parents=True, exist_ok=True)
    (root / "decisions").mkdir(exist_ok=True)
    for name, rows in parts.items():
        table = pa.Table.from_pylist([_row(e, version) for e in rows], schema=EPISODE_SCHEMA)
        pq.write_table(table, root / "episodes" / f"{name}.parquet")
    if decisions:
        pq.write_table(pa.Table.from_pylist(list(decisions)), root / "decisions" / "eval-trained.parquet")
    (root / "config.json").write_text(json.dumps({"seed": 0, "game": FC, "evaluation": {"greedy": False}}))
    (root / "versions.json").write_text(json.dumps({"python": "3.11.2", "packages": {"potluck-audit": "0.1.0"}}))
    return root


ITEMS = (
    ("A", "pick_onion", "(0,1)", "take an onion at (0,1)"),
    ("B", "pick_dish", "(0,3)", "take a dish at (0,3)"),
    ("C", "wait", "", "wait a moment"),
)


def _replay(steps: int = 40, *, soups: int = 2, digest: str = "") -> pb.ReplayResponse:
    """Two cooks who walk up and down, a pot that fills and cooks, a plate handed over the counter."""
    tiles = [TILES[c] for row in LAYOUT for c in row]
    reply = pb.ReplayResponse(digest=digest, steps=steps, scene=pb.Scene(width=5, height=5, tiles=tiles))
    for step in range(steps + 1):
        gained = soups * step // steps
        frame = reply.frames.add(step=step, team_return=gained)
        up = 1 + abs(step % 4 - 2)
        frame.sprites.add(kind="chef", x=1, y=up, facing="NESW"[step % 4], seat=0, held="onion" if step % 6 < 3 else "")
        frame.sprites.add(
            kind="chef", x=3, y=4 - up, facing="WSEN"[step % 4], seat=1, held="soup" if step % 9 > 6 else ""
        )
        label = ["1/3", "2/3", "3/3", "12", "ready"][step * 5 // (steps + 1)]
        frame.sprites.add(kind="pot", x=3, y=0, seat=-1, label=label)
        frame.sprites.add(kind="pot", x=4, y=1, seat=-1, label="2/3")
        frame.sprites.add(kind="dish" if step % 2 else "onion", x=2, y=2, seat=-1)
        for seat, agent in enumerate(AGENTS):
            decided = step - step % (5 + 2 * seat)
            chosen = ITEMS[decided % 3]
            view = frame.agents.add(
                agent=agent, option=chosen[1], target=chosen[2], letter=chosen[0], decided_at=decided
            )
            view.items.extend(
                common_pb.Item(letter=letter, option=option, target=target, text=text, word=option)
                for letter, option, target, text in ITEMS
            )
    return reply


def _team(tapes, name: str = "eval/trained", **changes) -> EpisodeSet:
    """One episode a tape; a bare number is the return of an episode without steps."""
    episodes = []
    for place, one in enumerate(tapes):
        own = {"set": name, "seed": 10000 + place, "member": place} | changes
        episodes.append(_episode(one, **own) if isinstance(one, Tape) else _episode(team_return=one, **own))
    return EpisodeSet(name, episodes, "soups")


@pytest.fixture(scope="module")
def tape():
    return Tape


@pytest.fixture(scope="module")
def episode():
    return _episode


@pytest.fixture(scope="module")
def team():
    return _team


@pytest.fixture(scope="module")
def write_run():
    return _write_run


@pytest.fixture(scope="module")
def replay():
    return _replay


@pytest.fixture(scope="module")
def at():
    """An agent's step: position and activity."""

    def make(x: int, y: int, activity: str) -> pb.AgentStep:
        return pb.AgentStep(x=x, y=y, activity=pb.Activity.Value(f"ACTIVITY_{activity}"))

    return make
