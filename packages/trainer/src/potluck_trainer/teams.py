"""Teams by name: who plays which seat in an evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from potluck.env.v1.env_service_pb2 import Baseline
from potluck.play import adapter, builtin
from potluck.policy.v1.policy_service_pb2 import BuiltinPolicy, Policy
from potluck_trainer.checkpoints import Checkpoint, read_adapter
from potluck_trainer.errors import ConfigError
from potluck_trainer.learners.base import Adapter
from potluck_trainer.run_folder import RunFolder
from potluck_trainer.session import Session

BUILTINS = {
    "frozen": BuiltinPolicy.BUILTIN_POLICY_FROZEN,
    "uniform": BuiltinPolicy.BUILTIN_POLICY_UNIFORM,
    "scripted": BuiltinPolicy.BUILTIN_POLICY_SCRIPTED,
}
KNOWN = "trained, frozen, uniform, scripted, adapters:DIR, solo/AGENT"


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


def lineup(name: str, session: Session, run: RunFolder, checkpoint: Checkpoint) -> Lineup:
    """The team of this name."""
    if name in BUILTINS:
        return Lineup(name, {agent: builtin(BUILTINS[name]) for agent in session.agents})
    if name.startswith("adapters:"):
        return _from_folders(Path(name.removeprefix("adapters:")), session)
    trained = {
        agent: run.checkpoints.load_adapter(agent, digest, checkpoint.base_digest)
        for agent, digest in checkpoint.adapters.items()
    }
    if name == "trained":
        policies = {agent: adapter(trained[agent].digest) for agent in session.agents}
        return Lineup(name, policies, adapters=tuple(trained.values()))
    agent = name.removeprefix("solo/")
    if name.startswith("solo/") and agent in session.agents:
        others = {other: Baseline.BASELINE_NOOP for other in session.agents if other != agent}
        return Lineup(name, {agent: adapter(trained[agent].digest)}, others, (trained[agent],))
    raise ConfigError(f'there is no team "{name}"; known: {KNOWN}, with agents {", ".join(session.agents)}')


def _from_folders(folder: Path, session: Session) -> Lineup:
    """`DIR/AGENT/<digest>/`: one adapter of each agent, as in another run's adapters/ folder."""
    found = {}
    for agent in session.agents:
        folders = sorted(path for path in (folder / agent).glob("*") if path.is_dir())
        if len(folders) != 1:
            raise ConfigError(f"{folder / agent} holds {len(folders)} adapters; put exactly one adapter folder there")
        found[agent] = read_adapter(folders[0], agent, session.served.base_digest)
    policies = {agent: adapter(one.digest) for agent, one in found.items()}
    return Lineup(folder.name, policies, adapters=tuple(found.values()))
