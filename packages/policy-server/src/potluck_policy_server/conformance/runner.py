"""Runs all checks on a server and tells the result as a table."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from potluck.rpc.errors import PotluckError
from potluck_policy_server.conformance import adapters, answers, refusals, streams
from potluck_policy_server.conformance.peer import Broken, Peer, Plan, Skipped, peer

Check = Callable[[Peer], Awaitable[str]]

CHECKS: tuple[Check, ...] = (
    answers.describes_itself,
    answers.distributions_hold,
    answers.replies_name_their_makers,
    answers.batches_answer_as_singles,
    answers.seeds_decide_samples,
    answers.samples_follow_the_distribution,
    answers.greedy_takes_the_best,
    answers.temperature_sharpens,
    answers.builtins_are_exact,
    refusals.wrong_decisions_are_refused,
    refusals.unknown_names_are_refused,
    refusals.limits_hold,
    refusals.goes_on_after_a_client_leaves,
    adapters.publishing_takes_effect,
    adapters.versions_stay_apart,
    adapters.bad_uploads_are_refused,
    adapters.leases_hold,
    adapters.the_base_can_be_fetched,
    streams.streams_answer_as_calls,
    streams.streams_refuse_alone,
    streams.streams_take_back,
)


class CheckResult(NamedTuple):
    """What came of a check."""

    name: str
    kept: bool
    evidence: str
    """What was compared, what is broken, or why it was skipped."""
    seconds: float
    skipped: bool = False
    """The server need not keep this promise; `kept` is true then."""


async def check(address: str, plan: Plan) -> list[CheckResult]:
    """All checks, one after the other. Raises PotluckError if nothing answers at the address."""
    async with peer(address, plan) as server:
        return [await _run(one, server) for one in CHECKS]


async def run_one(one: Check, address: str, plan: Plan) -> str:
    """One check on a fresh connection; raises Broken, Skipped or PotluckError."""
    async with peer(address, plan) as server:
        return await one(server)


async def _run(one: Check, server: Peer) -> CheckResult:
    name, began = str(getattr(one, "__name__", one)).replace("_", " "), time.perf_counter()
    skipped = False
    try:
        kept, evidence = True, await one(server)
    except Skipped as why:
        kept, evidence, skipped = True, str(why), True
    except (Broken, PotluckError) as error:
        kept, evidence = False, str(error)
    except Exception as error:
        kept, evidence = False, f"the check met {type(error).__name__}: {error}"
    return CheckResult(name, kept, evidence, time.perf_counter() - began, skipped)


def table(address: str, results: Sequence[CheckResult]) -> str:
    """One line per check."""
    width = max(len(result.name) for result in results)
    lines = [f"{_mark(r):<4}  {r.name:<{width}}  {r.evidence}  ({r.seconds:.1f} s)" for r in results]
    tried = [result for result in results if not result.skipped]
    summary = f"{sum(result.kept for result in tried)} of {len(tried)} checks kept"
    if len(tried) < len(results):
        summary += f", {len(results) - len(tried)} skipped"
    return "\n".join([address, *lines, summary])


def _mark(result: CheckResult) -> str:
    return "skip" if result.skipped else "ok" if result.kept else "FAIL"
