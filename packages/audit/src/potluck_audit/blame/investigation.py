"""One `potluck-audit blame`: failed episodes of a set, their first decisive errors, and shares of credit if asked for.

A failure is a return below the threshold; where none is stated it is the set's median return, and the result says so.
"""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import MutableMapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck_audit.blame.agreement import agreements
from potluck_audit.blame.branches import leased
from potluck_audit.blame.case import Case, case_of
from potluck_audit.blame.credit import decision_shares, episode_credits
from potluck_audit.blame.errors import NeverActed
from potluck_audit.blame.files import write_blame
from potluck_audit.blame.judges import Bench, DecisionJudge, Judged, Subject, judge
from potluck_audit.blame.locate import locate
from potluck_audit.blame.pairs import Form, Pair, pairs_of
from potluck_audit.blame.results import BlameResults, Located
from potluck_audit.blame.settings import OWN, LocateSettings
from potluck_audit.blame.trace import walk
from potluck_audit.counterfactual.coalitions import Players
from potluck_audit.counterfactual.seats import is_adapter
from potluck_audit.errors import CannotWrite, InvalidRequest, UnknownRun
from potluck_audit.foreign.models import Model
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.progress import OnStage
from potluck_audit.records import Episode, RunRecords, load_run
from potluck_audit.records.run import TRAIN


@dataclass(frozen=True)
class BlameRequest:
    """What to investigate and with what. `settings.threshold` is replaced where `threshold` is None."""

    run: Path
    set: str = "eval/trained"
    episodes: tuple[str, ...] = ()
    """Episode ids; none = failed ones, in order of seed."""
    limit: int = 5
    """Failed episodes that are looked into, where none are named."""
    threshold: float | None = None
    settings: LocateSettings = field(default_factory=lambda: LocateSettings(0.0))
    judges: tuple[str, ...] = ()
    """Judges that share the agents' credit among decisions; none = no shares."""
    baseline: str = "noop"
    """Of credit and of the counterfactual judge."""
    pairs: Form | None = None
    """Form of contrast pairs; None = text under the words scheme, else chat."""


class Services(NamedTuple):
    """Where branches are played, host:port."""

    envs: tuple[str, ...]
    policy: str = ""


class Investigation(NamedTuple):
    """What came of it."""

    results: BlameResults
    pairs: list[Pair]
    written: Path | None


Found = tuple[Located, Sequence[Pair]]
"""What came of one episode."""


async def investigate(
    request: BlameRequest,
    envs: EnvPool,
    policy: PolicyClient | None,
    on_stage: OnStage,
    model: Model | None = None,
    *,
    write: bool = True,
    found: MutableMapping[str, Found] | None = None,
) -> Investigation:
    """Raises what records, servers and judges refuse; single undecided episodes are results, not errors.

    found: episodes of an interrupted investigation by the same request; new ones are added as they come.
    """
    on_stage("reading records", 0, 0)
    run = await asyncio.to_thread(load_run, request.run, [request.set])
    results = BlameResults(run.name, request.baseline)
    settings = replace(request.settings, threshold=_threshold(request, run, results))
    chosen = _chosen(request, run, settings.threshold, results)
    cases = [case_of(episode) for episode in chosen]
    judges = _judges(request, envs, policy, model)
    pairs: list[Pair] = []
    async with AsyncExitStack() as stack:
        asked = (OWN, settings.continuation, *((request.baseline,) if is_adapter(request.baseline) else ()))
        plans = [case.lineup(policy_name) for case in cases for policy_name in asked]
        await stack.enter_async_context(leased(policy, run.path, *plans))
        known: MutableMapping[str, Found] = {} if found is None else found
        for number, case in enumerate(cases):
            on_stage(f"investigating {case.episode_id}", number, len(cases))
            if case.episode_id not in known:
                located = await locate(case, envs, policy, settings, on_stage)
                known[case.episode_id] = (located, await _pairs(located, case, envs, request.pairs))
            located, contrasts = known[case.episode_id]
            results.located.append(located)
            pairs += contrasts
        if judges:
            await _share(request, run, chosen, judges, Players(envs, policy, run.path, run.greedy), results, on_stage)
    written = None
    if write:
        on_stage("writing", 0, 0)
        form = request.pairs or (_form(cases[0]) if cases else "text")
        written = await asyncio.to_thread(_written, results, pairs, run.path, form)
    return Investigation(results, pairs, written)


async def blamed(
    request: BlameRequest,
    services: Services,
    on_stage: OnStage,
    model: Model | None = None,
    *,
    write: bool = True,
    found: MutableMapping[str, Found] | None = None,
) -> Investigation:
    """The same with services by address, and the set that holds the named episode where none is named."""
    if not request.set:
        request = replace(request, set=await asyncio.to_thread(_set_of, request))
    async with AsyncExitStack() as stack:
        envs = await stack.enter_async_context(EnvPool(services.envs))
        policy = await stack.enter_async_context(PolicyClient(services.policy)) if services.policy else None
        return await investigate(request, envs, policy, on_stage, model, write=write, found=found)


def _set_of(request: BlameRequest) -> str:
    if not request.episodes:
        return BlameRequest.set
    episode = request.episodes[0]
    run = load_run(request.run)
    sets = [e.set for e in run.episodes if e.episode_id == episode and e.set != TRAIN]
    if not sets:
        raise UnknownRun(f"run {run.name} has no evaluation episode {episode!r}", "name one of an evaluation set")
    return sets[0]


def _threshold(request: BlameRequest, run: RunRecords, results: BlameResults) -> float:
    if request.threshold is not None:
        return request.threshold
    returns = [e.team_return for e in run.of(request.set) if e.team_return is not None]
    if not returns:
        raise InvalidRequest("threshold", f"no episode of {request.set} has a return", "state a threshold")
    found = float(statistics.median(returns))
    results.notes.append(f"No threshold was stated: a failure is a return below the set's median, {found:g}.")
    return found


def _chosen(request: BlameRequest, run: RunRecords, threshold: float, results: BlameResults) -> list[Episode]:
    group = run.of(request.set)
    if request.episodes:
        by_id = {e.episode_id: e for e in group}
        if unknown := [name for name in request.episodes if name not in by_id]:
            raise UnknownRun(
                f"{request.set} of run {run.name} has no episode {unknown[0]!r}", f"it has {', '.join(by_id)}"
            )
        return [by_id[name] for name in request.episodes]
    if request.limit < 1:
        raise InvalidRequest("limit", f"{request.limit} episodes are none", "give at least 1")
    failed = [e for e in group if e.team_return is not None and e.team_return < threshold]
    without = sum(e.team_return is None for e in group)
    if without:
        results.notes.append(f"{without} of {len(group)} episodes have no return and are left out.")
    if not failed:
        results.notes.append(f"No episode of {request.set} has a return below {threshold:g}: nothing failed.")
    if len(failed) > request.limit:
        results.notes.append(f"{len(failed)} episodes failed; the first {request.limit} by seed are looked into.")
    return failed[: request.limit]


def _judges(
    request: BlameRequest, envs: EnvPool, policy: PolicyClient | None, model: Model | None
) -> list[DecisionJudge]:
    settings = request.settings
    bench = Bench(envs, policy, model, request.baseline, settings.continuations, settings.budget)
    return [judge(name, bench) for name in request.judges]


async def _pairs(found: Located, case: Case, envs: EnvPool, form: Form | None) -> list[Pair]:
    if found.error is None and not found.repairs:
        return []
    return pairs_of(found, await walk(case, envs), dict(case.policies), form or _form(case))


def _form(case: Case) -> Form:
    return "chat" if case.label_scheme == "letters" else "text"


async def _share(
    request: BlameRequest,
    run: RunRecords,
    chosen: Sequence[Episode],
    judges: Sequence[DecisionJudge],
    players: Players,
    results: BlameResults,
    on_stage: OnStage,
) -> None:
    if not chosen:
        return
    group = EpisodeSet(request.set, chosen, chosen[0].reward_unit)
    credits = await episode_credits(group, players, request.baseline, on_stage)
    for number, episode in enumerate(chosen):
        case = case_of(episode)
        trace = await walk(case, players.envs)
        for agent in case.lineup("own").policies:
            on_stage(f"sharing the credit of {agent}", number, len(chosen))
            credit = credits[episode.episode_id][agent]
            try:
                rows, judged = await decision_shares(Subject(case, trace, agent), credit, judges)
            except NeverActed as never:
                results.notes.append(f"{never.message}; its credit is {credit:g}.")
                continue
            results.shares += rows
            for name, said in judged.items():
                _count(results, name, said, case, agent)
    results.agreement = agreements(results.shares, request.settings.confidence)


def _count(results: BlameResults, name: str, said: Judged, case: Case, agent: str) -> None:
    total: dict[str, Any] = results.judges.setdefault(name, {"missing": 0})
    total["missing"] += sum(label.value is None for label in said.labels)
    for key, value in said.cost.items():
        before = total.get(key, 0)
        total[key] = None if value is None or before is None else before + value
    if said.note:
        results.notes.append(f"{name}, {agent} in {case.episode_id}: {said.note}.")


def _written(results: BlameResults, pairs: Sequence[Pair], run: Path, form: Form) -> Path:
    try:
        return write_blame(results, pairs, run, form)
    except OSError as error:
        raise CannotWrite(run, error.strerror or str(error)) from error
