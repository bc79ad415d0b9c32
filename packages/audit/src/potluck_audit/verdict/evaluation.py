"""Plays a run's checkpoints: the whole team, every agent alone, the team without each agent, and the baseline alone.

All checkpoints are played on the same seeds, which are neither test nor validation seeds. What was played lies in the
run's `audit/coalitions/`, so that a gate that was interrupted goes on where it was, and one that was played before
needs no server.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck_audit.counterfactual.lineups import Lineup, whole
from potluck_audit.counterfactual.playing import Players, Stage
from potluck_audit.counterfactual.setting import Draw, Incomparable, Setting
from potluck_audit.counterfactual.shelf import Played
from potluck_audit.counterfactual.values import CoalitionValues
from potluck_audit.errors import InvalidRequest, Unsupported
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.progress import OnStage
from potluck_audit.records import Episode, RunRecords
from potluck_audit.records.run import TRAIN
from potluck_audit.verdict.checkpoints import SavedTeam
from potluck_audit.verdict.measures import CheckpointPlay
from potluck_audit.verdict.rule import set_name

FIRST_SEED = 30_000
NAME = "checkpoints"
REFERENCES = ("uniform", "frozen")


@dataclass(frozen=True)
class Reference:
    """A team that learned nothing."""

    name: str
    returns: tuple[float, ...]


def run_setting(run: RunRecords, episodes: int) -> Setting:
    """How the run's checkpoints are played: as its training recorded, at the temperature of its evaluations."""
    if episodes < 1:
        raise InvalidRequest("episodes", f"{episodes} episodes measure nothing", "play at least 2, better 12")
    trained = run.of(TRAIN)
    if not trained:
        raise Unsupported(f"{run.name} holds no training episodes", "give a run that `potluck train` wrote")
    last = trained[-1]
    evaluation = _table(run.config.get("evaluation"))
    native = run.config.get("interface") == "native"
    seeds = range(FIRST_SEED, FIRST_SEED + episodes)
    return Setting(
        game=last.game,
        horizon=last.horizon,
        draws=tuple(Draw(seed, _sample_seed(seed)) for seed in seeds),
        library_digest=last.library_digest,
        dynamics=last.dynamics,
        interface=env_pb.INTERFACE_NATIVE if native else env_pb.INTERFACE_MENU,
        temperature=evaluation.get("temperature") or last.temperature or 1.0,
        greedy=run.greedy,
        label_scheme=last.label_scheme,
        backbone=last.backbone,
        base_digest=last.base_digest,
        unit=last.reward_unit,
    )


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _sample_seed(seed: int) -> int:
    return int.from_bytes(hashlib.sha256(f"checkpoint/{seed}".encode()).digest()[:8], "big") >> 1


async def play_checkpoints(
    setting: Setting,
    saved: Sequence[SavedTeam],
    run: Path,
    players: Players | None,
    on_stage: OnStage,
    baseline: str = "noop",
    references: Sequence[str] = REFERENCES,
) -> tuple[list[CheckpointPlay], list[Reference]]:
    """All coalitions of all checkpoints. Without players what was played before must be complete: InvalidRequest."""
    for one in saved:
        if setting.base_digest and one.base_digest != setting.base_digest:
            raise Incomparable("run", f"checkpoint {one.round} and the run's records differ in their frozen base")
        if len(one.adapters) < 2:
            raise Unsupported("a team of one agent cannot cooperate", "give a run of a game with several agents")
    teams = Stage(setting, run, NAME, detail=env_pb.DETAIL_STEPS)
    rest = Stage(setting, run, NAME)
    wholes = [whole(one.adapters) for one in saved]
    parts = [_parts(one, baseline) for one in saved]
    untrained = [Lineup(saved[0].adapters, frozenset(), name) for name in references]
    others = [lineup for own in parts for lineup in own] + untrained
    if players is None:
        left_out = sum(teams.known(x) is None for x in wholes) + sum(rest.known(x) is None for x in others)
        if left_out:
            raise InvalidRequest(
                "envs",
                f"{left_out} of {len(wholes) + len(others)} line-ups have not been played yet",
                "name --envs and --policy (`potluck up` starts both)",
            )
    else:
        await teams.play(wholes, players, _within(on_stage, "whole teams"))
        await rest.play(others, players, _within(on_stage, "coalitions"))
    plays = [
        _checkpoint(one, setting, baseline, _there(teams, lineup), [(x.members, _there(rest, x)) for x in own])
        for one, lineup, own in zip(saved, wholes, parts, strict=True)
    ]
    return plays, [Reference(x.baseline, tuple(p.team_return for p in _there(rest, x))) for x in untrained]


def _parts(one: SavedTeam, baseline: str) -> list[Lineup]:
    agents = tuple(one.adapters)
    sizes = sorted({0, 1, len(agents) - 1})
    return [Lineup(one.adapters, frozenset(m), baseline) for size in sizes for m in combinations(agents, size)]


def _within(on_stage: OnStage, what: str) -> OnStage:
    return lambda name, done, total: on_stage(f"{what}: {name}", done, total)


def _there(stage: Stage, lineup: Lineup) -> tuple[Played, ...]:
    found = stage.known(lineup)
    if found is None:
        raise InvalidRequest("run", "a played line-up has gone from audit/coalitions", "run the gate again")
    return found


def _checkpoint(
    one: SavedTeam,
    setting: Setting,
    baseline: str,
    team: tuple[Played, ...],
    parts: Sequence[tuple[frozenset[str], tuple[Played, ...]]],
) -> CheckpointPlay:
    returns = {members: tuple(p.team_return for p in played) for members, played in parts}
    returns[frozenset(one.adapters)] = tuple(p.team_return for p in team)
    values = CoalitionValues(tuple(one.adapters), baseline, setting.seeds, returns)
    episodes = [episode_of(p, setting, one.adapters, one.round, number) for number, p in enumerate(team)]
    return CheckpointPlay(one.round, values, EpisodeSet(set_name(one.round), episodes, setting.unit))


def episode_of(played: Played, setting: Setting, policies: Any, round_number: int, member: int) -> Episode:
    """A played episode in the shape of a recorded one."""
    return Episode(
        set=set_name(round_number),
        round=round_number,
        episode_id=f"{set_name(round_number)}-{played.seed}",
        member=member,
        game=setting.game,
        library_digest=setting.library_digest,
        dynamics=setting.dynamics,
        seed=played.seed,
        sample_seed=played.sample_seed,
        horizon=setting.horizon,
        steps=played.steps,
        team_return=played.team_return,
        agent_returns=played.agent_returns,
        policies=dict(policies),
        digest=played.digest,
        recording=played.recording,
        step_records=played.step_records,
        reward_unit=setting.unit,
        temperature=0.0 if setting.greedy else setting.temperature,
        label_scheme=setting.label_scheme,
        backbone=setting.backbone,
        base_digest=setting.base_digest,
    )
