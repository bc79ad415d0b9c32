"""The child process: `python -m potluck_optionlib.drafting.runner`, request on stdin, events on stdout.

First the trusted part: the game's provider is imported and a game that only knows `wait` is played, so that engines
are warm. Then everything is given up (`jail.py`), and only then the drafted module is executed, with the builtins of
`allowed.py`. What it prints goes nowhere.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from potluck_optionlib.contracts import Contract, waiting
from potluck_optionlib.drafting import jail, judge
from potluck_optionlib.drafting.allowed import namespace
from potluck_optionlib.drafting.findings import Finding, Stage
from potluck_optionlib.drafting.messages import Event, Request, Task, Verdict
from potluck_optionlib.drafting.screen import ENTRY
from potluck_optionlib.errors import OptionlibError
from potluck_optionlib.games import DraftableProvider, find_draftable

FILENAME = "<drafted>"
MODULE = "potluck_drafted"


class Loading(Exception):
    """The module cannot be made a game of."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.evidence)
        self.finding = finding


def main() -> None:
    """Serves one request."""
    wire = os.dup(1)
    request = Request.model_validate_json(sys.stdin.buffer.read())
    _silence()

    def send(event: Event) -> None:
        line = event.model_dump_json(exclude_defaults=True).encode() + b"\n"
        while line:
            line = line[os.write(wire, line) :]

    try:
        provider = find_draftable(request.game)
        judge.warm_up(provider.with_contracts(request.game, lambda world: [waiting()]))
    except (OptionlibError, KeyError) as error:
        send(Event(event="failed", name=type(error).__name__, text=str(error)))
        return
    jail.lock(request.limits, request.seconds, lambda name, text: send(Event(event="breach", name=name, text=text)))
    send(Event(event="ready"))
    send(Event(event="result", verdict=_answer(request, provider, send)))


def _answer(request: Request, provider: DraftableProvider, send: Callable[[Event], None]) -> Verdict:
    stage = Stage.LOAD
    try:
        build = load(request.source)
        game = provider.with_contracts(request.game, build)
        if request.task is Task.INSPECT:
            stage = Stage.VALIDATE
            send(Event(event="phase", name=stage))
            return judge.inspect(game, build.made)
        stage = Stage.PLAY
        send(Event(event="phase", name=stage))
        return judge.play(
            game, build.made, request.play, lambda done, total: send(Event(event="progress", done=done, total=total))
        )
    except Loading as error:
        return Verdict(findings=(error.finding,))
    except MemoryError:
        limit = request.limits.memory_mb
        return Verdict(findings=(_finding(stage, "memory", f"more than {limit} MiB were asked for."),))
    except Exception as error:
        told = str(error)[:500].encode("utf-8", "backslashreplace").decode()
        text = f"{type(error).__name__}: {told}{where(error, request.source)}"
        return Verdict(findings=(_finding(stage, "raises", text),))


class Build:
    """The module's `contracts` as providers take it; `made` holds what it last gave."""

    def __init__(self, entry: Callable[[Any], Any]) -> None:
        self._entry = entry
        self.made: tuple[Contract[Any], ...] = ()

    def __call__(self, world: Any) -> Sequence[Contract[Any]]:
        made = self._entry(world)
        if not isinstance(made, list | tuple) or not all(isinstance(item, Contract) for item in made):
            kinds = sorted({type(item).__name__ for item in made}) if isinstance(made, list | tuple) else []
            raise Loading(
                _finding(
                    Stage.LOAD,
                    "returns",
                    f"`{ENTRY}` must return a list of Contract, it returned {type(made).__name__} of {kinds}.",
                )
            )
        self.made = tuple(made)
        return list(made)


def load(source: str) -> Build:
    """Executes a module's source. Raises Loading, or what the module raises."""
    module = types.ModuleType(MODULE)
    module.__dict__.update(namespace(MODULE))
    sys.modules[MODULE] = module
    exec(compile(source, FILENAME, "exec"), module.__dict__)
    entry = module.__dict__.get(ENTRY)
    if not callable(entry):
        raise Loading(_finding(Stage.LOAD, "entry", f"`{ENTRY}` is not a function."))
    return Build(entry)


def where(error: BaseException, source: str) -> str:
    """The drafted line that an error passed last, as " (line N: text)"."""
    lines, found = source.splitlines(), 0
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == FILENAME:
            found = trace.tb_lineno
        trace = trace.tb_next
    return f" (line {found}: {lines[found - 1].strip()[:200]})" if 0 < found <= len(lines) else ""


def _finding(stage: Stage, kind: str, evidence: str) -> Finding:
    return Finding(stage=stage, kind=kind, evidence=evidence)


def _silence() -> None:
    """Standard input and output are the void from here on."""
    void = os.open(os.devnull, os.O_RDWR)
    os.dup2(void, 0)
    os.dup2(void, 1)
    os.close(void)


if __name__ == "__main__":
    main()
