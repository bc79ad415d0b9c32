"""Command lines as jobs: each subcommand's flags, and the coroutine that they ask for."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from pydantic import Field

from potluck_trainer.config import Frozen, RunConfig, Seed
from potluck_trainer.config_file import split_config
from potluck_trainer.errors import ConfigError
from potluck_trainer.flags import parse_flags
from potluck_trainer.progress import Reporter

Job = Callable[[], Coroutine[Any, Any, int]]


class TrainArgs(RunConfig):
    """Train a team: K joint episodes a round, one advantage per episode, private adapters, a frozen base.

    Everything that a round did is in the run folder: metrics.jsonl, decisions/, episodes/, adapters/. Ctrl-C throws
    the round under way away and leaves a run that --resume goes on with, to the same result.
    """

    resume: Path | None = None
    """Run folder to go on with; its own settings apply, only --rounds, --envs and --policy may be given."""
    dry_run: bool = False
    """Print the resolved settings as JSON and stop."""


class EvalArgs(Frozen):
    """Play a run's teams on the test seeds and compare them.

    Teams: `trained` (the chosen checkpoint), `frozen` (the base without adapters), `uniform` (over the menu),
    `scripted` (greedy), solo tests in which one agent keeps its policy and the others do nothing: `solo/AGENT`, and
    `adapters:DIR`, where DIR is another run (its chosen checkpoint) or has one adapter per agent, in DIR/AGENT/ or
    DIR/AGENT/<digest>/. Episodes are recorded under eval/NAME.
    """

    run: tyro.conf.Positional[Path]
    """Run folder."""
    teams: tuple[str, ...] = ()
    """Which teams; by default trained, frozen and uniform (with --interface json, trained and frozen)."""
    interface: Literal["menu", "native", "json"] | None = None
    """Play another interface than the run's, recorded under eval/INTERFACE/NAME. `json`: agents write free text that
    names option and target; what cannot be read or done becomes a wait. Needs a language model; guards do not apply."""
    checkpoint: int | None = None
    """Round of the checkpoint to judge; by default the best on validation seeds, or the last."""
    seeds: tuple[Seed, ...] = ()
    """Test seeds; by default the run's."""
    greedy: bool | None = None
    """Take the most probable item instead of a sample; by default the run's setting."""
    temperature: float | None = Field(default=None, gt=0)
    """Sampling temperature of every team; by default the run's."""
    envs: str = ""
    """Env servers, host:port, comma-separated; empty = start one."""
    policy: str = ""
    """Policy server, host:port; empty = start one."""


class ReplayArgs(Frozen):
    """Re-execute recorded episodes in the engine and compare the digests of their trajectories."""

    run: tyro.conf.Positional[Path]
    """Run folder."""
    episodes: tuple[str, ...] = ()
    """Episode ids; by default all evaluation episodes, or all of the last round."""
    listed: Annotated[bool, tyro.conf.arg(name="list")] = False
    """Name the recorded episodes instead."""
    envs: str = ""
    """Env servers, host:port; empty = start one."""


class UpArgs(Frozen):
    """Start env, policy and audit servers on this machine, print their addresses, and stop them at Ctrl-C."""

    backbone: str = "tiny"
    """What the policy server loads."""
    env_workers: int = Field(default=2, ge=1)
    """Worker processes of the env server."""
    env_timeout_s: float = Field(default=30.0, gt=0)
    """Seconds that the env server gives one command in an engine."""
    logs: Path = Path("runs/logs")
    """Folder of the services' logs."""


class DemoArgs(RunConfig):
    """Train a team, evaluate trained, frozen and uniform teams and each agent alone, audit them, and write report.html.

    Starts env, policy and audit servers as processes of their own and stops them at the end.
    """

    dry_run: bool = False
    """Print the resolved settings as JSON and stop."""


class DpoArgs(Frozen):
    """Train agents' adapters on the contrast pairs that `potluck-audit blame` wrote, with TRL's DPO.

    Starts from a checkpoint's adapters, whose frozen copies are the reference. Needs the extra `trl`.
    """

    run: tyro.conf.Positional[Path]
    """Run folder."""
    base: Path
    """Folder of the frozen base with its tokenizer; it must be the run's backbone."""
    pairs: Path | None = None
    """pairs.jsonl; by default RUN/audit/blame/pairs.jsonl."""
    agents: tuple[str, ...] = ()
    """Which agents; by default all that have pairs."""
    checkpoint: int | None = None
    """Round of the checkpoint to start from; by default the best on validation seeds, or the last."""
    out: Path | None = None
    """Where OUT/AGENT/<digest>/ goes; by default RUN/dpo."""
    beta: float = 0.1
    """Strength of the pull towards the starting adapter."""
    lr: float = 2e-5
    """Learning rate."""
    epochs: float = 1.0
    """Passes over the pairs."""
    batch: int = 8
    """Pairs an optimiser step."""
    seed: int = 0
    """Order of the pairs."""
    device: str = "cpu"
    """`cpu` or `cuda`."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: one line about it, its settings, and what makes a job of them and of the flags given."""

    about: str
    model: type[Frozen]
    job: Callable[[Any, frozenset[str]], Job | None]


def parse(args: Sequence[str]) -> Job | None:
    """The job of a command line; None where there is nothing left to do."""
    name, rest = args[0], list(args[1:])
    if name not in COMMANDS:
        raise ConfigError(f'there is no command "{name}"; known: {", ".join(COMMANDS)}')
    command = COMMANDS[name]
    default: Frozen | None = None
    if issubclass(command.model, RunConfig):
        default, rest = split_config(rest, command.model)
    parsed = parse_flags(command.model, rest, f"potluck {name}", default)
    return command.job(parsed, frozenset(arg.split("=")[0] for arg in rest))


def _run_config(args: RunConfig, exclude: set[str]) -> RunConfig:
    return RunConfig.model_validate(args.model_dump(exclude=exclude))


def _print(config: RunConfig) -> None:
    sys.stdout.write(json.dumps(config.resolved().model_dump(mode="json"), indent=2) + "\n")


def _train(args: TrainArgs, flags: frozenset[str]) -> Job | None:
    from potluck_trainer.commands.train import resumed_config, train

    config = _run_config(args, {"resume", "dry_run"})
    if args.resume is not None:
        changed = sorted(flag for flag in flags if flag.startswith("--") and flag not in RESUME_FLAGS)
        if changed:
            raise ConfigError(f"{', '.join(changed)} cannot change in a resumed run; leave it out, or start a new run")
        config = resumed_config(args.resume, args.rounds if "--rounds" in flags else None, args.envs, args.policy)
    if args.dry_run:
        _print(config)
        return None

    async def job() -> int:
        with Reporter() as reporter:
            await train(config, reporter, resume=args.resume is not None)
        return 0

    return job


def _demo(args: DemoArgs, flags: frozenset[str]) -> Job | None:
    from potluck_trainer.commands.demo import demo

    config = _run_config(args, {"dry_run"})
    if args.dry_run:
        _print(config)
        return None

    async def job() -> int:
        with Reporter() as reporter:
            await demo(config, reporter)
        return 0

    return job


def _eval(args: EvalArgs, flags: frozenset[str]) -> Job:
    from potluck_trainer.commands.eval import evaluate_run

    async def job() -> int:
        with Reporter() as reporter:
            await evaluate_run(args, reporter)
        return 0

    return job


def _replay(args: ReplayArgs, flags: frozenset[str]) -> Job:
    from potluck_trainer.commands.replay import replay

    async def job() -> int:
        with Reporter() as reporter:
            return await replay(args, reporter)

    return job


def _dpo(args: DpoArgs, flags: frozenset[str]) -> Job:
    from potluck_trainer.commands.dpo import dpo

    async def job() -> int:
        with Reporter() as reporter:
            await dpo(args, reporter)
        return 0

    return job


def _up(args: UpArgs, flags: frozenset[str]) -> Job:
    from potluck_trainer.commands.up import up

    async def job() -> int:
        with Reporter() as reporter:
            await up(args, reporter)
        return 0

    return job


RESUME_FLAGS = frozenset({"--resume", "--rounds", "--envs", "--policy", "--dry-run"})

COMMANDS = {
    "train": Command("train a team", TrainArgs, _train),
    "eval": Command("play teams on the test seeds and compare them", EvalArgs, _eval),
    "replay": Command("re-execute recorded episodes and compare digests", ReplayArgs, _replay),
    "dpo": Command("train adapters on the audit's contrast pairs", DpoArgs, _dpo),
    "up": Command("start the local services and keep them", UpArgs, _up),
    "demo": Command("train, evaluate and audit a small team", DemoArgs, _demo),
}
