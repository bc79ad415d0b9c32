"""Runs all checks on a game and tells the result as a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from potluck.rpc.errors import PotluckError
from potluck_envs.conformance import books, branches, menus, seeds
from potluck_envs.conformance.plan import Broken, Plan, Player

Check = Callable[[Player], str]

CHECKS: tuple[Check, ...] = (
    seeds.same_seed_same_trajectory,
    seeds.same_seed_same_trajectory_elsewhere,
    seeds.different_seeds_differ,
    branches.fork_repeats_the_original,
    branches.fork_leaves_the_original_alone,
    branches.reseeded_forks_diverge,
    branches.replay_repeats_the_digest,
    menus.menus_hold,
    menus.looking_changes_nothing,
    menus.refusals,
    menus.protocol_is_strict,
    books.horizon_is_exact,
    books.rewards_add_up,
    books.options_leave_no_gap,
    books.native_steps,
)


class CheckResult(NamedTuple):
    """What came of a check."""

    name: str
    kept: bool
    evidence: str
    """What was compared, or what is broken."""
    seconds: float


def check(game: str, plan: Plan) -> list[CheckResult]:
    """All checks on one game. Raises EnvError if it cannot be made at all."""
    Player(game, plan)
    return [_run(one, game, plan) for one in CHECKS]


def _run(one: Check, game: str, plan: Plan) -> CheckResult:
    name, began = one.__name__.replace("_", " "), time.perf_counter()
    try:
        kept, evidence = True, one(Player(game, plan))
    except (Broken, PotluckError) as error:
        kept, evidence = False, str(error)
    except Exception as error:
        kept, evidence = False, f"the game raised {type(error).__name__}: {error}"
    return CheckResult(name, kept, evidence, time.perf_counter() - began)


def table(game: str, results: Sequence[CheckResult]) -> str:
    """One line per check."""
    width = max(len(result.name) for result in results)
    lines = [f"{'ok  ' if r.kept else 'FAIL'}  {r.name:<{width}}  {r.evidence}  ({r.seconds:.1f} s)" for r in results]
    kept = sum(result.kept for result in results)
    return "\n".join([game, *lines, f"{kept} of {len(results)} checks kept"])
