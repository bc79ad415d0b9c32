"""Fresh play held against a library, round by round, on as many cores as asked for, until enough decisions are seen.

A round is a small burn-in of its own seed, played, counted and forgotten, so memory does not grow. Rounds count in
their order and no further than needed, so the result depends on the first seed and on nothing else.
"""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import count

from potluck_optionlib.burnin import BurninPlan, run
from potluck_optionlib.burnin.errors import BurninWorkerError, EmptyBurninError
from potluck_optionlib.game import SymbolicGame
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.heldout import HeldOut, hold_out

ROUND = BurninPlan(20, 20)
"""What one round plays, but for its seed."""
NOTHING = HeldOut(0, 0, 0, 0)


@dataclass(frozen=True, slots=True)
class Fresh:
    """What is played: a way to the game, the library, and the plan of a round (of whose seed round n is n on)."""

    make: Callable[[], SymbolicGame]
    library: GuardLibrary
    plan: BurninPlan = ROUND


def hold_out_fresh(
    fresh: Fresh, decisions: int, workers: int = 1, progress: Callable[[int], None] = lambda seen: None
) -> HeldOut:
    """At least `decisions` fresh decisions under the library's guards; `progress` gets how many there are so far.

    Raises what `hold_out` raises, and BurninWorkerError where a worker dies. With several workers `fresh.make` is sent
    to them, so it must pickle.
    """
    found = NOTHING
    for played in _rounds(fresh) if workers <= 1 else _many(fresh, workers):
        if not played.decisions:
            raise EmptyBurninError("A round of fresh play has no records. Play longer episodes.")
        found += played
        progress(found.decisions)
        if found.decisions >= decisions:
            break
    return found


def _rounds(fresh: Fresh) -> Iterator[HeldOut]:
    game = fresh.make()
    for number in count():
        yield _round(game, fresh, number)


def _round(game: SymbolicGame, fresh: Fresh, number: int) -> HeldOut:
    return hold_out(fresh.library, run(game, replace(fresh.plan, seed=fresh.plan.seed + number)))


def _many(fresh: Fresh, workers: int) -> Iterator[HeldOut]:
    """The rounds in their order, some ahead of the one that is asked for."""
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _begin, (fresh,))
    waiting: deque[Future[HeldOut]] = deque()
    try:
        for number in count():
            waiting.append(pool.submit(_play, number))
            if len(waiting) > 2 * workers:
                yield waiting.popleft().result()
    except BrokenProcessPool as error:
        raise BurninWorkerError(
            "A worker process died (out of memory, or killed). Run the command again with fewer workers."
        ) from error
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


_here: list[tuple[Fresh, SymbolicGame]] = []
"""What this worker process plays."""


def _begin(fresh: Fresh) -> None:
    _here.append((fresh, fresh.make()))


def _play(number: int) -> HeldOut:
    fresh, game = _here[0]
    return _round(game, fresh, number)
