"""One episode of any game: boundaries, menus, answers, records.

A boundary is a moment before the horizon at which a seat that the stream decides for is idle; it is numbered by the
boundaries answered so far. The menus of all idle seats are drawn before any option begins, and options begin in seat
order, so that a seat played by a baseline and one played over the stream see the same game. `choose` answers a
boundary completely, or raises and changes nothing.

A `Mark` is an episode at a boundary; `Episode.resume` goes on from one, and `rebase` gives what follows other
baselines or new randomness. A seat that comes to `noop` first finishes its option under way: options are
call-and-return.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import cast

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.baselines import Baseline, as_message, pick
from potluck_envs.digest import TrajectoryDigest
from potluck_envs.errors import InvalidField, WrongAgent
from potluck_envs.messages import fill_point, step_record
from potluck_envs.offers import Answer, by_letter, by_text, check_form, json_rules, offer
from potluck_envs.registry import Library, agent_name
from potluck_envs.seat import Seat
from potluck_envs.seeds import from_reseed, from_seed
from potluck_optionlib.game import NOOP, EndingGame, Instance, SymbolicGame
from potluck_optionlib.menus import WAIT, Menu

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Settings:
    """What an episode is begun with. Interface and detail are never UNSPECIFIED here."""

    seed: int
    horizon: int
    interface: int = pb.INTERFACE_MENU
    detail: int = pb.DETAIL_DECISIONS


@dataclass(frozen=True, slots=True)
class Mark:
    """An episode at a boundary, before its answers: enough to go on from there any number of times."""

    game: object
    settings: Settings
    source: str
    seats: tuple[Seat, ...]
    digest: TrajectoryDigest
    segments: tuple[pb.Segment, ...]
    choices: tuple[pb.Choose, ...]
    agent_returns: tuple[float, ...]
    team_return: float


class Episode:
    """A running or finished episode."""

    def __init__(self, library: Library, settings: Settings, game: SymbolicGame, source: str) -> None:
        self.library = library
        self.settings = settings
        self.game = game
        self.seats: list[Seat] = []
        self.segments: list[pb.Segment] = []
        self.choices: list[pb.Choose] = []
        self.team_return = 0.0
        self.agent_returns: list[float] = []
        self.on_step: Callable[[], None] | None = None
        self.finished = False
        self._source = source
        self._digest: TrajectoryDigest
        self._idle: dict[int, Menu] = {}
        self._pending: dict[int, Menu] = {}
        self._woken: list[int] = []
        """Seats that stood still as noop and are to decide again."""
        self._progress = pb.Progress()

    @classmethod
    def start(cls, library: Library, settings: Settings, baselines: Mapping[int, Baseline]) -> Episode:
        """A new episode at step 0. `advance` brings its first menus."""
        game = library.make()
        game.reset(settings.seed)
        self = cls(library, settings, game, from_seed(settings.seed))
        self.seats = [
            Seat(index, agent_name(index), _rules(game, settings, index)) for index in range(game.spec.agents)
        ]
        self.agent_returns = [0.0] * len(self.seats)
        interface = pb.Interface.Name(pb.Interface.ValueType(settings.interface))
        self._digest = TrajectoryDigest(library.name, library.digest, settings.seed, interface)
        self._assign(baselines, None)
        return self

    @classmethod
    def resume(cls, library: Library, mark: Mark, detail: int) -> Episode:
        """A new episode that stands where the mark was set. `advance` brings its menus."""
        game = library.make()
        game.restore(mark.game)
        self = cls(library, replace(mark.settings, detail=detail), game, mark.source)
        self.seats = [seat.copy() for seat in mark.seats]
        self.segments, self.choices = list(mark.segments), list(mark.choices)
        self.team_return, self.agent_returns = mark.team_return, list(mark.agent_returns)
        self._digest = mark.digest.copy()
        self._woken = self._to_wake()
        return self

    def mark(self) -> Mark:
        """Marks the boundary on offer."""
        return Mark(
            self.game.snapshot(),
            self.settings,
            self._source,
            tuple(seat.copy() for seat in self.seats),
            self._digest.copy(),
            tuple(self.segments),
            tuple(self.choices),
            tuple(self.agent_returns),
            self.team_return,
        )

    def rebase(self, baselines: Mapping[int, Baseline], reseed: int | None) -> None:
        """Gives what follows these baselines, all others removed, and new randomness if asked. Before `advance`."""
        for seat in self.seats:
            if seat.noop and baselines.get(seat.index) != pb.BASELINE_NOOP:
                self._check_release(seat)
        if reseed is not None:
            self.game.reseed(reseed)
            self._source = from_reseed(reseed)
        self._assign(baselines, reseed)

    def _check_release(self, seat: Seat) -> None:
        """Not every game lets a seat begin something after `noop`, which never ends."""
        before = self.game.snapshot()
        try:
            self.game.begin(seat.index, Instance(WAIT))
        except ValueError as error:
            why = f"{seat.name} stands still as noop here, and {self.library.name} cannot wake it"
            raise InvalidField("fork.baselines", why, "fork an episode in which it plays") from error
        self.game.restore(before)

    def _assign(self, baselines: Mapping[int, Baseline], reseed: int | None) -> None:
        for seat in self.seats:
            seat.baseline = baselines.get(seat.index, pb.BASELINE_UNSPECIFIED)
        self._woken = self._to_wake()
        segment = pb.Segment(boundary=self.boundary, reseed=reseed)
        for seat in self.seats:
            if not seat.decides:
                segment.baselines.append(as_message(seat.name, seat.baseline))
        self.segments.append(segment)

    def _to_wake(self) -> list[int]:
        return [seat.index for seat in self.seats if seat.noop and seat.baseline != pb.BASELINE_NOOP]

    @property
    def boundary(self) -> int:
        """The number of the boundary on offer, or of the next one."""
        return len(self.choices)

    def advance(self) -> pb.Menus | pb.Finished:
        """Plays to the next boundary or the horizon."""
        game, horizon = self.game, self.settings.horizon
        while game.steps < horizon and not self._over():
            if idle := self._idle_seats():
                self._idle = self._menus(idle)
                self._pending = {i: menu for i, menu in self._idle.items() if self.seats[i].decides}
                if self._pending:
                    return self._boundary()
                self._begin({})
            self._step()
        return self.stop()

    def choose(self, choose: pb.Choose) -> pb.Menus | pb.Finished:
        """Answers the boundary on offer and plays on."""
        said = self._said(choose)
        answers = {index: self._answer(menu, said[index]) for index, menu in self._pending.items()}
        self._digest.boundary((menu, said[index].letter or said[index].text) for index, menu in self._pending.items())
        self.choices.append(pb.Choose(boundary=self.boundary, choices=said.values()))
        self._begin(answers)
        self._step()
        return self.advance()

    def stop(self) -> pb.Finished:
        """Ends the episode here."""
        self.finished = True
        for seat in self.seats:
            if record := seat.truncate(self.game.steps):
                self._progress.options.append(record)
        return pb.Finished(
            steps=self.game.steps,
            team_return=self.team_return,
            agent_returns=self.agent_returns,
            truncated=not self._over(),
            progress=self._take_progress(),
            recording=self.recording(),
        )

    def recording(self) -> pb.Recording:
        """The trajectory so far as data."""
        return pb.Recording(
            schema_version=SCHEMA_VERSION,
            game=self.library.name,
            library_digest=self.library.digest,
            seed=self.settings.seed,
            horizon=self.settings.horizon,
            interface=pb.Interface.ValueType(self.settings.interface),
            segments=self.segments,
            choices=self.choices,
            digest=self._digest.hexdigest(),
            steps=self.game.steps,
        )

    def _said(self, choose: pb.Choose) -> dict[int, pb.Choice]:
        """The choices by seat, in seat order, once they are complete and for the right agents."""
        if choose.boundary != self.boundary:
            why = f"boundary {choose.boundary} is not on offer"
            raise InvalidField("choose.boundary", why, f"answer boundary {self.boundary}")
        deciding = [self.seats[index].name for index in self._pending]
        by_agent = {choice.agent: choice for choice in choose.choices}
        for agent in by_agent:
            if agent not in deciding:
                raise WrongAgent(f"{agent or 'an agent without name'} has nothing to decide now", deciding)
        if len(by_agent) < len(choose.choices):
            raise WrongAgent("an agent was answered for twice", deciding)
        if missing := [name for name in deciding if name not in by_agent]:
            raise WrongAgent(f"no choice came for {', '.join(missing)}", deciding)
        return {index: by_agent[self.seats[index].name] for index in self._pending}

    def _answer(self, menu: Menu, choice: pb.Choice) -> Answer:
        check_form(self.settings.interface, choice)
        if self.settings.interface == pb.INTERFACE_JSON:
            return by_text(self.game, menu.agent, choice.text)
        return by_letter(menu, choice.letter)

    def _menus(self, idle: Sequence[int]) -> dict[int, Menu]:
        """Menus of idle seats; noop seats begin to stand still."""
        menus = {}
        for index in idle:
            seat = self.seats[index]
            if seat.baseline != pb.BASELINE_NOOP:
                menus[index] = self._menu(seat)
            elif not seat.noop:
                seat.begin(NOOP, self.game.steps)
                self.game.begin(index, NOOP)
        return menus

    def _idle_seats(self) -> Sequence[int]:
        idle = self.game.idle()
        return sorted({*idle, *self._woken}) if self._woken else idle

    def _menu(self, seat: Seat) -> Menu:
        interface = self.settings.interface
        if (
            seat.baseline == pb.BASELINE_GREEDY
            or isinstance(seat.baseline, str)
            or (interface == pb.INTERFACE_JSON and not seat.decides)
        ):
            interface = pb.INTERFACE_MENU
        return offer(self.game, self.library.guards, interface, seat.index, self._source, seat.decisions)

    def _begin(self, answers: Mapping[int, Answer]) -> None:
        for index, menu in self._idle.items():
            seat = self.seats[index]
            answer = answers.get(index) or pick(seat.baseline, menu, self._source, seat.decisions)
            seat.decide(menu, answer, self.game.steps)
            self.game.begin(index, answer.instance)
        self._idle, self._pending, self._woken = {}, {}, []

    def _step(self) -> None:
        number = self.game.steps
        step = self.game.step()
        self._digest.step(step, self.game.state_bytes())
        if step.reward:
            self.team_return += step.reward
            for seat in self.seats:
                seat.reward += step.reward
        if any(step.agent_rewards):
            for index, reward in enumerate(step.agent_rewards):
                self.agent_returns[index] += reward
        positions = self.settings.detail == pb.DETAIL_STEPS
        if positions or step.reward or step.events:
            names = [seat.name for seat in self.seats]
            self._progress.steps.append(step_record(number, step, names, positions))
        for ended in step.ended:
            self._progress.options.append(self.seats[ended.agent].end(ended))
        if self.on_step:
            self.on_step()

    def _boundary(self) -> pb.Menus:
        game = self.game
        menus = pb.Menus(step=game.steps, boundary=self.boundary, progress=self._take_progress())
        for index, menu in self._pending.items():
            fill_point(menus.decisions.add(), self.seats[index], menu, game.observe(index))
        return menus

    def _over(self) -> bool:
        return _ends(type(self.game)) and cast(EndingGame, self.game).over()

    def _take_progress(self) -> pb.Progress:
        progress, self._progress = self._progress, pb.Progress()
        return progress


@cache
def _ends(kind: type[SymbolicGame]) -> bool:
    return issubclass(kind, EndingGame)


def _rules(game: SymbolicGame, settings: Settings, index: int) -> str:
    rules = game.rules(index)
    return f"{rules}\n{json_rules(game, index)}" if settings.interface == pb.INTERFACE_JSON else rules
