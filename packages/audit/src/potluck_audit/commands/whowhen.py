"""`potluck-audit whowhen`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import tyro

from potluck_audit.commands.console import say, tell
from potluck_audit.errors import InvalidRequest

if TYPE_CHECKING:
    from potluck_audit.foreign.judges import Judgement
    from potluck_audit.foreign.log import FailureLog
    from potluck_audit.foreign.models import OpenModel


@dataclass(frozen=True)
class WhoWhenCommand:
    """Score failure attribution on logs of the Who&When format.

    Prints constant, random and positional baselines beside the judges that were asked for, with exact intervals, and
    writes them with every judgement as JSON. Judgements are kept as they come (OUT.judgements.jsonl): a command that
    broke off goes on where it was. Without --judge nothing is sent anywhere. Exit status: 0, 1 for an error.
    """

    folder: tyro.conf.Positional[Path]
    """Folder of logs (JSON with history, mistake_agent, mistake_step); each subfolder is a group of its own."""
    judge: tuple[Literal["all-at-once", "step-by-step", "binary"], ...] = ()
    """Prompted judges to run."""
    model: str = ""
    """Model of an OpenAI-compatible endpoint; its key is read from OPENAI_API_KEY."""
    base_url: str = ""
    """The endpoint, such as http://127.0.0.1:8000/v1; by default OpenAI's."""
    policy: str = ""
    """Policy server, host:port, whose Generate judges instead."""
    adapter: str = ""
    """Digest of the policy server's adapter; by default the frozen base."""
    ground_truth: bool = False
    """Tell judges the task's right answer."""
    predictions: tuple[Path, ...] = ()
    """JSON files {log: {agent, step}} of methods that ran elsewhere, to be scored too."""
    out: Path = Path("whowhen.json")
    """Where the JSON goes."""
    tolerance: tuple[int, ...] = (1, 2, 3, 4, 5)
    """Steps within ±k of the label."""
    confidence: float = 0.95
    """Of the intervals."""
    max_tokens: int = 1024
    """Longest reply."""
    temperature: float | None = 0.0
    """None leaves it to the endpoint."""
    parallel: int = 4
    """Logs that are judged at once."""

    def run(self) -> int:
        from potluck_audit.foreign import comparison
        from potluck_audit.foreign.predictions import read_predictions
        from potluck_audit.foreign.whowhen import read_folder
        from potluck_audit.results import write_file

        self._check()
        logs = read_folder(self.folder)
        known = {log.name for log in logs}
        given = {file.stem: read_predictions(file) for file in self.predictions}
        for method, answers in given.items():
            if unknown := sorted(set(answers) - known):
                cure = "name logs by their path in the folder"
                raise InvalidRequest("predictions", f"{method}.json answers {unknown[0]!r}, which is no log", cure)
        judged = asyncio.run(self._judge(logs)) if self.judge else {}
        found = comparison.compare(
            self.folder.name, logs, judged, given, confidence=self.confidence, tolerances=self.tolerance
        )
        for line in comparison.lines(found):
            say(line)
        text = json.dumps(comparison.to_json(found), allow_nan=False, ensure_ascii=False, indent=1)
        say(f"results {write_file(self.out, text + chr(10))}")
        return 0

    def _check(self) -> None:
        if not 0 < self.confidence < 1:
            raise InvalidRequest("confidence", f"{self.confidence} is no confidence", "give one such as 0.95")
        if any(k < 0 for k in self.tolerance):
            raise InvalidRequest("tolerance", "a tolerance is negative", "give whole numbers such as 1 2 3")
        if self.parallel < 1:
            raise InvalidRequest("parallel", f"{self.parallel} logs at once are none", "give at least 1")
        if self.judge and bool(self.model) == bool(self.policy):
            cure = "give --model with --base-url, or --policy"
            raise InvalidRequest("judge", "a judge needs one model to ask, and only one", cure)

    async def _judge(self, logs: Sequence[FailureLog]) -> dict[str, list[Judgement]]:
        from potluck_audit.foreign.journal import Journal
        from potluck_audit.foreign.judges import JUDGES, judge_logs

        found: dict[str, list[Judgement]] = {}
        told = " with the right answer" if self.ground_truth else ""
        place = {"base_url": self.base_url, "policy": self.policy, "adapter": self.adapter, "model": self.model}
        how = {"ground_truth": self.ground_truth, "max_tokens": self.max_tokens, "temperature": self.temperature}
        async with self._model() as model:
            for name in self.judge:
                journal = Journal(self.out.with_suffix(".judgements.jsonl"), {"judge": name, **place, **how})
                found[f"{name} ({model.name}{told})"] = await judge_logs(
                    JUDGES[name],
                    logs,
                    model,
                    ground_truth=self.ground_truth,
                    parallel=self.parallel,
                    memory=journal,
                    on_done=lambda done, total, name=name: tell(f"{name} {done}/{total}"),  # type: ignore[misc]
                )
                if journal.found:
                    tell(f"{name}: {journal.found} of {len(logs)} judgements were there already")
        return found

    def _model(self) -> OpenModel:
        from potluck_audit.foreign.models import OpenAIModel, PolicyModel, Sampling

        sampling = Sampling(max_tokens=self.max_tokens, temperature=self.temperature)
        if self.policy:
            return PolicyModel(self.policy, self.adapter, sampling)
        return OpenAIModel(self.model, self.base_url or None, sampling)
