"""`potluck-audit blame`."""

from __future__ import annotations

import asyncio
import logging
import sys
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from potluck.telemetry import setup
from potluck_audit.commands.console import SERVICE, say, tell
from potluck_audit.errors import InvalidRequest

if TYPE_CHECKING:
    from potluck_audit.blame.investigation import BlameRequest, Investigation
    from potluck_audit.blame.results import Located
    from potluck_audit.foreign.models import OpenModel

UNDECIDED = 4


@dataclass(frozen=True)
class BlameCommand:
    """Find the first decisive error of failed episodes.

    An episode failed when its return is below --threshold. Branches of it are played on from its decision boundaries
    until the decision is found after which success is no longer likely, with its agent and a better choice. With
    --judges the agents' credit is shared among their decisions as well. Writes RUN/audit/blame/: blame.json, Parquet
    tables, and contrast pairs in TRL's preference format. Exit status: 0, 1 for an error, 4 when no error was found in
    any episode.
    """

    folder: tyro.conf.Positional[Path]
    """The run folder, such as runs/demo."""
    envs: str
    """Env servers, host:port, comma-separated."""
    policy: str = ""
    """Policy server, host:port."""
    set: str = "eval/trained"
    """Episode set."""
    episodes: tuple[str, ...] = ()
    """Episode ids; by default the first failed ones."""
    limit: int = 5
    """Failed episodes to look into, where none are named."""
    threshold: float | None = None
    """A return below it is a failure; by default the set's median."""
    tau: float = 0.5
    """Success is likely from this probability on."""
    continuation: str = "own"
    """Who plays on: own, or scripted, uniform, frozen or an adapter digest for all seats."""
    continuations: int = 16
    """Plays of a prefix at first."""
    most: int = 64
    """Plays of a prefix next to the error at most."""
    scan: Literal["auto", "binary", "linear"] = "auto"
    """Binary search where success was found monotone, or a linear scan, which alone finds repairs."""
    budget: int = 20_000
    """Branches of one episode that may be played."""
    judges: tuple[str, ...] = ()
    """Share credit among decisions: counterfactual, greedy, prompted, or a plug-in of potluck.judges."""
    baseline: str = "noop"
    """Of credit and of the counterfactual judge: noop, uniform, frozen, scripted or an adapter digest."""
    model: str = ""
    """The prompted judge's model at an OpenAI-compatible endpoint; its key is read from OPENAI_API_KEY."""
    base_url: str = ""
    """The endpoint, such as http://127.0.0.1:8000/v1; by default OpenAI's."""
    judge_policy: str = ""
    """A policy server, host:port, whose Generate is the prompted judge instead."""
    pairs: Literal["text", "chat"] | None = None
    """Form of the contrast pairs; by default text under the words scheme and chat under letters."""
    confidence: float = 0.95
    """Of the intervals."""

    def run(self) -> int:
        return asyncio.run(self._investigate())

    async def _investigate(self) -> int:
        from potluck_audit.blame.investigation import Services, blamed

        logging.basicConfig(level="WARNING", stream=sys.stderr)
        request = self._request()
        setup.configure(SERVICE)
        try:
            async with AsyncExitStack() as stack:
                addresses = tuple(part.strip() for part in self.envs.split(",") if part.strip())
                model = await stack.enter_async_context(self._model()) if self._prompted else None
                found = await blamed(request, Services(addresses, self.policy), _show_stage, model)
        finally:
            await asyncio.to_thread(setup.shutdown)
        _summarise(found)
        located = found.results.located
        return UNDECIDED if located and not any(one.decided for one in located) else 0

    @property
    def _prompted(self) -> bool:
        return bool(self.model or self.judge_policy)

    def _request(self) -> BlameRequest:
        from potluck_audit.blame.investigation import BlameRequest
        from potluck_audit.blame.settings import LocateSettings

        if self.model and self.judge_policy:
            raise InvalidRequest("judges", "two models are named", "give --model or --judge-policy")
        settings = LocateSettings(
            threshold=self.threshold or 0.0,
            tau=self.tau,
            continuation=self.continuation,
            continuations=self.continuations,
            most=self.most,
            scan=self.scan,
            budget=self.budget,
            confidence=self.confidence,
        )
        return BlameRequest(
            run=self.folder,
            set=self.set,
            episodes=self.episodes,
            limit=self.limit,
            threshold=self.threshold,
            settings=settings,
            judges=self.judges,
            baseline=self.baseline,
            pairs=self.pairs,
        )

    def _model(self) -> OpenModel:
        from potluck_audit.foreign.models import OpenAIModel, PolicyModel

        if self.judge_policy:
            return PolicyModel(self.judge_policy)
        return OpenAIModel(self.model, self.base_url or None)


def _show_stage(name: str, done: int, total: int) -> None:
    tell(f"{name} {done}/{total}" if total else name)


def _summarise(found: Investigation) -> None:
    results = found.results
    for note in results.notes:
        say(note)
    for located in results.located:
        for line in lines(located):
            say(line)
    for one in results.agreement:
        value = "undefined" if one.value is None else f"{one.value:.2f}"
        between = f" [{one.low:.2f}, {one.high:.2f}]" if one.low is not None and one.high is not None else ""
        say(f"{one.measure} of {one.first} and {one.second}: {value}{between} over {one.decisions} decisions")
    say(f"contrast pairs {len(found.pairs)}")
    say(f"results {found.written}")


def lines(located: Located) -> list[str]:
    """One episode in words."""
    head = f"{located.episode_id}: {located.team_return:g} of {located.threshold:g} {located.unit}"
    cost = f"{located.scan or 'no'} scan, {located.spent.branches} branches, {located.spent.decisions} decisions"
    if located.error is None:
        return [f"{head}: undecided ({located.undecided}): {located.why} ({cost})"]
    error = located.error
    said = [
        f"{head}: {error.agent} at step {error.step} (decision {error.decision}) took "
        f"{error.taken.option} {error.taken.target}".rstrip()
        + f"; success {error.before.p:.2f} -> {error.after.p:.2f}, certainty {error.certainty:.2f} ({cost})"
    ]
    if error.better is not None and error.gain is not None:
        spread = "" if error.gain.success_se is None else f" (se {error.gain.success_se:.2f})"
        said.append(
            f"  better: {error.better.option} {error.better.target}".rstrip()
            + f", success +{error.gain.success:.2f}{spread}, return {error.gain.returns:+.2f}"
        )
    said += [
        f"  repaired at step {r.step} by {r.agent}: {r.taken.option} {r.taken.target}".rstrip() for r in located.repairs
    ]
    return said
