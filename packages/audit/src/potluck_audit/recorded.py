"""What a run's own records tell: behaviour of every episode set, gains with their tests, and the course of training."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from potluck_audit.errors import InvalidRequest
from potluck_audit.facts import run_facts
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.behaviour import behaviour, checks
from potluck_audit.metrics.curves import learning_curve
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.returns import gain, gain_tests
from potluck_audit.metrics.roles import roles_across
from potluck_audit.metrics.trends import trends
from potluck_audit.metrics.visits import visits
from potluck_audit.progress import OnStage
from potluck_audit.records import RunRecords, load_run
from potluck_audit.records.run import TRAIN
from potluck_audit.results import AuditResults

TRAINED = "eval/trained"
SOLO = "eval/solo/"
TEAMS = "teams"
"""The set of figures that compare teams of several runs."""


def episode_set(run: RunRecords, name: str) -> EpisodeSet:
    episodes = run.of(name)
    return EpisodeSet(name, episodes, episodes[0].reward_unit)


def measure(run: RunRecords, intervals: Intervals, on_stage: OnStage) -> AuditResults:
    sets = [episode_set(run, name) for name in run.sets if name != TRAIN]
    results = AuditResults(run.name, run_facts(run), intervals.confidence, sets)
    for number, group in enumerate(sets):
        on_stage(f"measuring {group.name}", number, len(sets))
        results.metrics += behaviour(group, intervals)
        results.checks += checks(group)
        results.visits[group.name] = visits(group)
        if unknown := sum(e.team_return is None for e in group.episodes):
            results.notes.append(
                f"{unknown} of {len(group.episodes)} episodes of {group.name} hold no return that is a number: figures "
                "of returns leave them out, figures of behaviour do not."
            )
        if len(group.episodes) == 1:
            results.notes.append(f"{group.name} has one episode: its numbers have no intervals.")
    gains, notes = _gains(sets, intervals)
    results.metrics += gains
    results.notes += notes
    training = run.of(TRAIN)
    results.curve = learning_curve(training, intervals)
    rounds = sorted({e.round for e in training})
    results.trends = trends(run.path, rounds, intervals, lambda n, of: on_stage("following training", n, of))
    if not sets:
        results.notes.append(
            "The run holds no evaluation yet (`potluck eval RUN` plays one): only its training is shown."
        )
    return results


def _gains(sets: Sequence[EpisodeSet], intervals: Intervals) -> tuple[list[Metric], list[str]]:
    """The trained team against every other team, with tests that are corrected together; and what is not compared."""
    trained = next((s for s in sets if s.name == TRAINED), None)
    others = [s for s in sets if s is not trained and not s.name.startswith(SOLO)]
    if trained is None or not others:
        return [], []
    unlike = {other.name: words for other in others if (words := _differ_in(trained, other))}
    notes = [f"{TRAINED} and {name} are not compared: they differ in their {words}." for name, words in unlike.items()]
    alike = [other for other in others if other.name not in unlike]
    gains = [metric for other in alike for metric in gain(trained, other, intervals)]
    return gains + (gain_tests(trained, alike, intervals) if alike else []), notes


def _differ_in(one: EpisodeSet, other: EpisodeSet) -> str:
    """What keeps returns of two sets from being subtracted; interface and policies are what is compared."""
    both = [*one.episodes, *other.episodes]
    seen: dict[str, Collection[object]] = {
        "game": {e.game for e in both},
        "option library": {e.library_digest for e in both},
        "dynamics": {e.dynamics for e in both},
        "horizon": {e.horizon for e in both},
    }
    return " and ".join(words for words, found in seen.items() if len(found) > 1)


def compare_seeds(run: RunRecords, others: Sequence[Path], intervals: Intervals) -> list[Metric]:
    """Whether teams of other training seeds split the work alike; teams that cannot be compared are refused."""
    if not run.of(TRAINED):
        raise InvalidRequest("seeds", f"{run.name} has no {TRAINED}", "evaluate the trained team with `potluck eval`")
    teams = [episode_set(run, TRAINED)] + [episode_set(load_run(path, (TRAINED,)), TRAINED) for path in others]
    return roles_across(teams, intervals, TEAMS)
