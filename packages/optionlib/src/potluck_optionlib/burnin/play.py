"""Plays episodes of uniform random choices over the unguarded candidates.

Solo episodes (every partner a no-op, each seat in turn) tell who caused what; team episodes show what partners make
possible. One episode depends on the game, the plan and its own number only, so episodes can be played in any order.

A game that raises while an option is being carried out does not end the burn-in: each execution that may have raised is
recorded with the outcome `raised:<ExceptionType>` and without features, and that episode ends there, because the state
behind the exception cannot be trusted. Where several agents had options under way nobody can tell whose raised, so such
records count as no evidence for anything but themselves.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Protocol, TypeGuard, runtime_checkable

from potluck_optionlib.burnin.errors import GameFaultError, TooManyInstancesError
from potluck_optionlib.burnin.features import check_features
from potluck_optionlib.burnin.plan import BurninPlan
from potluck_optionlib.burnin.records import RAISED, Burnin, Ledger, Row
from potluck_optionlib.errors import OptionlibError
from potluck_optionlib.game import NOOP, Instance, SymbolicGame

MAX_INSTANCES = 500
"""Targets that one option type may have in one state."""
_ENDS = (KeyboardInterrupt, GeneratorExit)
"""What ends a burn-in from outside; a SystemExit of a game is an exception like any other."""


@runtime_checkable
class QuickBurnin(Protocol):
    """What a game may bring besides, where asking for every candidate and playing every step costs it too much."""

    def burnin_rows(self, seed: int, actor: int | None, horizon: int) -> Sequence[Row] | None:
        """Exactly the rows of `one_by_one`, in the same order; None where this game cannot give them quickly."""
        ...


def run(game: SymbolicGame, plan: BurninPlan, progress: Callable[[int, int], None] | None = None) -> Burnin:
    """Plays the plan in this process; `progress` gets episodes done and in all."""
    ledger = Ledger()
    for episode in range(plan.episodes):
        play_episode(game, plan, episode, ledger)
        if progress is not None:
            progress(episode + 1, plan.episodes)
    table = ledger.table()
    check_features(table)
    return Burnin(game.spec.name, game.contracts_digest, tuple(sorted(game.solo_only)), plan, table)


def play_episode(game: SymbolicGame, plan: BurninPlan, episode: int, ledger: Ledger) -> None:
    """Plays one episode into the ledger."""
    seed, actor = plan.episode_seed(episode), plan.actor(episode, game.spec.agents)
    rows, name = None, game.spec.name
    if _quick(game):
        with _faults(name, "`burnin_rows`"):
            rows = game.burnin_rows(seed, actor, plan.horizon)
    if rows is None:
        rows = one_by_one(game, seed, actor, plan.horizon)
    ledger.add(episode, actor is not None, rows)


def one_by_one(game: SymbolicGame, seed: int, actor: int | None, horizon: int) -> list[Row]:
    """The rows of one episode by the game protocol alone; `actor` plays alone unless it is None."""
    with _faults(game.spec.name, "`reset`"):
        game.reset(seed)
    with _faults(game.spec.name, "play outside of any option"):
        return _Episode(game, seed, actor).play(horizon)


@contextmanager
def _faults(game: str, what: str) -> Iterator[None]:
    """Whatever a game raises is its fault, SystemExit too; only who runs the burn-in can end it."""
    try:
        yield
    except (OptionlibError, *_ENDS):
        raise
    except BaseException as error:
        raise GameFaultError(
            f"{game}: {what} raised {type(error).__name__}: {error}. It must work in every state; mend the game."
        ) from error


class _Episode:
    def __init__(self, game: SymbolicGame, seed: int, actor: int | None) -> None:
        self._game, self._actor = game, actor
        self._rng = random.Random(seed)
        self._rows: list[Row] = []
        self._running: dict[int, tuple[int, Instance]] = {}

    def play(self, horizon: int) -> list[Row]:
        game = self._game
        while game.steps < horizon:
            for agent in sorted(game.idle(), key=lambda seat: seat == self._actor):
                if not self._begin(agent):
                    return self._rows
            try:
                step = game.step()
            except _ENDS:
                raise
            except BaseException as error:
                return self._give_up(error, self._running)
            for end in step.ended:
                self._running.pop(end.agent, None)
                self._rows.append(
                    Row(
                        end.start_step,
                        end.agent,
                        end.instance,
                        end.features,
                        end.outcome,
                        end.own_changed,
                        end.changed,
                    )
                )
        return self._rows

    def _begin(self, agent: int) -> bool:
        game = self._game
        if self._actor is not None and agent != self._actor:
            game.begin(agent, NOOP)
            return True
        instance = self._rng.choice(self._candidates(agent))
        try:
            game.begin(agent, instance)
        except _ENDS:
            raise
        except BaseException as error:
            self._give_up(error, {agent: (game.steps, instance)})
            return False
        self._running[agent] = (game.steps, instance)
        return True

    def _candidates(self, agent: int) -> Sequence[Instance]:
        try:
            found = self._game.candidates(agent)
        except _ENDS:
            raise
        except BaseException as error:
            raise GameFaultError(
                f"{self._game.spec.name}: candidates of agent {agent} raised {type(error).__name__}: {error}. "
                "Instantiation must work in every state; mend the contract."
            ) from error
        if len(found) > MAX_INSTANCES:
            option, count = Counter(instance.option for instance in found).most_common(1)[0]
            if count > MAX_INSTANCES:
                raise TooManyInstancesError(
                    f"{self._game.spec.name}: option {option!r} has {count} instances for agent {agent}; "
                    f"at most {MAX_INSTANCES} are played. Bind the option to things that exist, not to every cell."
                )
        if not found:
            raise GameFaultError(
                f"{self._game.spec.name}: agent {agent} has no candidate at step {self._game.steps}. "
                "`wait` must always be there; mend the contracts."
            )
        return found

    def _give_up(self, error: BaseException, running: dict[int, tuple[int, Instance]]) -> list[Row]:
        if isinstance(error, OptionlibError):
            raise error
        outcome = f"{RAISED}{type(error).__name__}"
        self._rows += [
            Row(start, agent, instance, {}, outcome, None, None) for agent, (start, instance) in sorted(running.items())
        ]
        return self._rows


def _quick(game: SymbolicGame) -> TypeGuard[QuickBurnin]:
    return _is_quick(type(game))


@cache
def _is_quick(kind: type[SymbolicGame]) -> bool:
    return issubclass(kind, QuickBurnin)
