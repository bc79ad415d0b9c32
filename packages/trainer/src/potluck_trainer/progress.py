"""What a person sees: a live bar on a terminal, one plain line per round or set elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from potluck.play import Wave


class Reporter:
    """Shows rounds, team return, decisions/s and the time left."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stdout
        self._live = self._stream.isatty()
        self._console = Console(file=self._stream)
        self._progress: Progress | None = None
        self._main: TaskID | None = None
        self._total = 0
        self._started = time.monotonic()
        self._first = 0
        self._seconds = 0.0

    def __enter__(self) -> Self:
        if self._live:
            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[note]}"),
                TimeElapsedColumn(),
                console=self._console,
            )
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()

    def say(self, text: str) -> None:
        """A plain line."""
        if self._progress is not None:
            self._progress.console.print(text, highlight=False)
        else:
            print(text, file=self._stream, flush=True)

    def begin(self, what: str, total: int, done: int = 0) -> None:
        """A new stage."""
        self._total, self._first, self._started = total, done, time.monotonic()
        if self._progress is not None:
            if self._main is not None:
                self._progress.remove_task(self._main)
            self._main = self._progress.add_task(what, total=total, completed=done, note="")

    def wave(self, wave: Wave) -> None:
        """Progress within a round or set."""
        if self._progress is not None and self._main is not None:
            note = f"step {wave.steps}, {wave.live} episodes live"
            self._progress.update(self._main, note=note)

    def round(self, metrics: dict[str, Any]) -> None:
        """A finished round."""
        done = metrics["round"] + 1
        note = round_note(metrics, self._left(done))
        if self._progress is not None and self._main is not None:
            self._progress.update(self._main, completed=done, note=note)
        else:
            self.say(f"round {done}/{self._total}  {note}")

    def _left(self, done: int) -> float:
        spent = time.monotonic() - self._started
        return spent / max(done - self._first, 1) * (self._total - done)


def round_note(metrics: dict[str, Any], left_s: float) -> str:
    """Team return, speed and time left in one line."""
    speed = metrics["decisions_per_s"]
    parts = [
        f"return {metrics['return_mean']:.2f} ({metrics['return_min']:g}..{metrics['return_max']:g})",
        f"{speed:.0f} decisions/s" if speed else "",
        f"acting {metrics['acting_s']:.1f} s, learning {metrics['learning_s']:.1f} s",
        f"no update: {metrics['skipped']}" if metrics["skipped"] else "",
        f"{metrics['lost']} lost" if metrics["lost"] else "",
        f"{clock(left_s)} left",
    ]
    return "  ".join(part for part in parts if part)


def clock(seconds: float) -> str:
    """m:ss, or h:mm:ss."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
