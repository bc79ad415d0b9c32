"""Teams by name: who plays which seat in an evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from potluck.env.v1.env_service_pb2 import Baseline
from potluck.play import adapter, builtin
from potluck.policy.v1.policy_service_pb2 import BuiltinPolicy, Policy
from potluck_trainer.checkpoints import CONFIG_NAME, Checkpoint, read_adapter
from potluck_trainer.errors import ConfigError
from potluck_trainer.learners.base import Adapter
from potluck_trainer.run_folder import RunFolder

BUILTINS = {
    "frozen": BuiltinPolicy.BUILTIN_POLICY_FROZEN,
    "uniform": BuiltinPolicy.BUILTIN_POLICY_UNIFORM,
    "scripted": BuiltinPolicy.BUILTIN_POLICY_SCRIPTED,
}
RULES = ("uniform", "scripted")
"""Rules over menus: they write no text."""
KNOWN = "trained, frozen, uniform, scripted, adapters:DIR, solo/AGENT"
MENU_TEAMS, JSON_TEAMS = ("trained", "frozen", "uniform"), ("trained", "frozen")


@dataclass(frozen=True, slots=True)
class Lineup:
    """Who plays in one episode set."""

    name: str
    policies: Mapping[str, Policy]
    baselines: Mapping[str, Baseline.ValueType] = field(default_factory=dict)
    adapters: tuple[Adapter, ...] = ()
    """To be published before."""

    @property
    def set(self) -> str:
        return f"eval/{self.name}"


def lineups(names: Sequence[str], run: RunFolder, checkpoint: Checkpoint, interface: str = "") -> list[Lineup]:
    """The teams of these names, read from disk alone; `interface` is given where it is not the run's own."""
    agents = tuple(checkpoint.adapters)
    found = [_lineup(name, agents, run, checkpoint) for name in names or default_teams(interface)]
    for one in found:
        if interface == "json" and one.name in RULES:
            raise ConfigError(
                f"{one.name} is a rule over menus and writes no text; leave it out of --teams with --interface json"
            )
    if twice := {one.name for one in found if sum(other.name == one.name for other in found) > 1}:
        raise ConfigError(f"two teams are named {', '.join(sorted(twice))}; give each once, folders by different names")
    return [replace(one, name=f"{interface}/{one.name}") if interface else one for one in found]


def default_teams(interface: str) -> tuple[str, ...]:
    return JSON_TEAMS if interface == "json" else MENU_TEAMS


def _lineup(name: str, agents: Sequence[str], run: RunFolder, checkpoint: Checkpoint) -> Lineup:
    if name in BUILTINS:
        return Lineup(name, {agent: builtin(BUILTINS[name]) for agent in agents})
    if name.startswith("adapters:"):
        return _from_folder(Path(name.removeprefix("adapters:")), agents, checkpoint.base_digest)
    if name == "trained":
        return _of_run(name, run, agents, checkpoint)
    agent = name.removeprefix("solo/")
    if name.startswith("solo/") and agent in agents:
        others = {other: Baseline.BASELINE_NOOP for other in agents if other != agent}
        own = run.checkpoints.load_adapter(agent, checkpoint.adapters[agent], checkpoint.base_digest)
        return Lineup(name, {agent: adapter(own.digest)}, others, (own,))
    raise ConfigError(f'there is no team "{name}"; known: {KNOWN}, with agents {", ".join(agents)}')


def _of_run(name: str, run: RunFolder, agents: Sequence[str], checkpoint: Checkpoint) -> Lineup:
    if set(agents) != set(checkpoint.adapters):
        raise ConfigError(
            f"{run.path} has adapters of {', '.join(checkpoint.adapters)}, the game has {', '.join(agents)}; "
            "take a run of a game with as many agents"
        )
    adapters = {
        agent: run.checkpoints.load_adapter(agent, checkpoint.adapters[agent], checkpoint.base_digest)
        for agent in agents
    }
    policies = {agent: adapter(one.digest) for agent, one in adapters.items()}
    return Lineup(name, policies, adapters=tuple(adapters.values()))


def _from_folder(folder: Path, agents: Sequence[str], base_digest: str) -> Lineup:
    """A run, its adapters/ folder, or a folder with one adapter per agent: `DIR/AGENT/` or `DIR/AGENT/<digest>/`."""
    home = folder.resolve().parent if folder.resolve().name == "adapters" else folder
    for path in (folder, home):
        if (path / "checkpoints.jsonl").exists():
            other = RunFolder.open(path)
            best = other.checkpoints.best()
            _check_base(path, best.base_digest, base_digest)
            return _of_run(f"adapters/{other.path.resolve().name}", other, agents, best)
    found = {agent: read_adapter(_own_folder(folder, agent), agent, base_digest) for agent in agents}
    policies = {agent: adapter(one.digest) for agent, one in found.items()}
    return Lineup(f"adapters/{folder.resolve().name}", policies, adapters=tuple(found.values()))


def _check_base(path: Path, other: str, served: str) -> None:
    if other != served:
        raise ConfigError(
            f"{path} was trained on base {other[:16]}…, this run on {served[:16]}…; "
            "adapters play on the base that they were trained on"
        )


def _own_folder(folder: Path, agent: str) -> Path:
    own = folder / agent
    if (own / CONFIG_NAME).exists():
        return own
    inside = sorted(path for path in own.glob("*") if path.is_dir())
    if len(inside) != 1:
        raise ConfigError(
            f"{own} holds {len(inside)} adapters; put exactly one adapter folder there, "
            "or name a run folder that `potluck train` wrote"
        )
    return inside[0]
