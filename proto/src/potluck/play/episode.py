"""The state of one episode while it is played: what it is offered, what was chosen, what came back."""

import math
from typing import NamedTuple

from opentelemetry.context import get_current
from opentelemetry.trace import Span, StatusCode

from potluck.common.v1.common_pb2 import TraceContext
from potluck.env.v1.env_service_pb2 import (
    Baseline,
    Choice,
    Choose,
    Command,
    DecisionPoint,
    Finished,
    Fork,
    Menus,
    OptionRecord,
    Progress,
    SeatBaseline,
    Start,
    StepRecord,
)
from potluck.play.fleet import Seat
from potluck.play.scoring import Answer
from potluck.play.specs import DecisionRecord, EpisodeResult, EpisodeSpec, Spoken
from potluck.policy.v1.policy_service_pb2 import ScoredChoice
from potluck.rpc.errors import PotluckError, Reason
from potluck.telemetry import names
from potluck.telemetry.context import Attributes, open_span, trace_id, trace_message


class Scored(NamedTuple):
    """A decision and its answer."""

    boundary: int
    step: int
    point: DecisionPoint
    answer: Answer


class Episode:
    """One spec being played; `begin` starts it over."""

    def __init__(self, order: int, spec: EpisodeSpec) -> None:
        self.order = order
        self.spec = spec
        self.attempts = 0
        self.seat: Seat | None = None
        self.avoid = ""
        self.menus: Menus | None = None
        self.command: Command | None = None
        self._seats = {agent: place for place, agent in enumerate(spec.policies)}
        self._caller = get_current()
        self._span: Span | None = None
        self._trace: TraceContext | None = None
        self._clear()

    def _clear(self) -> None:
        self.menus = None
        self._requests = 0
        self._scored: list[Scored] = []
        self._steps: list[StepRecord] = []
        self._options: list[OptionRecord] = []

    @property
    def step(self) -> int:
        """Primitive steps played so far."""
        return self.menus.step if self.menus is not None else 0

    def begin(self, seat: Seat) -> None:
        """Starts (again) on a server."""
        self._clear()
        self.attempts += 1
        self.seat = seat
        attributes: Attributes = {
            names.EPISODE_ID: self.spec.episode_id,
            names.GAME: self.spec.game,
            names.SEED: str(self.spec.seed),
            names.ATTEMPT: self.attempts,
            names.ENV: seat.address,
        }
        self._span = open_span(names.EPISODE, attributes, self._caller)
        self._trace = trace_message(self._span)
        command = self._next()
        if self.spec.fork is not None:
            command.fork.CopyFrom(_fork(self.spec))
        else:
            command.start.CopyFrom(_start(self.spec))

    def points(self) -> list[DecisionPoint]:
        """The decisions to make now, in the order of the spec's policies."""
        assert self.menus is not None
        points = list(self.menus.decisions)
        for point in points:
            if point.agent not in self._seats:
                message = f"{point.agent} must decide in episode {self.spec.episode_id} and has no policy"
                cure = "give every agent of the game a policy or a baseline"
                raise PotluckError(Reason.WRONG_AGENT, message, cure, agent=point.agent)
        points.sort(key=lambda point: self._seats[point.agent])
        return points

    def offered(self, menus: Menus) -> None:
        """Takes a decision boundary."""
        if not menus.decisions:
            message = f"episode {self.spec.episode_id} stopped at boundary {menus.boundary} with nothing to decide"
            raise PotluckError(Reason.INTERNAL, message, "report this to the game's author")
        self.menus = menus
        self.command = None
        self._collect(menus.progress)

    def given(self, point: DecisionPoint) -> Answer | None:
        """The answer that the spec gives to a decision on offer, or None where a policy is to be asked."""
        assert self.menus is not None
        item = self.spec.given.get(self.menus.boundary, {}).get(point.agent)
        if item is None:
            return None
        if self.spec.in_json and isinstance(item, str):
            return Answer(ScoredChoice(logprob=math.nan, label_mass=math.nan), item)
        for index, offered in enumerate(point.prompt.items):
            if item in (offered.letter, (offered.option, offered.target)):
                return Answer(ScoredChoice(letter=offered.letter, index=index, logprob=math.nan, label_mass=math.nan))
        what = item if isinstance(item, str) else f"{item[0]} {item[1]}".strip()
        message = f"{point.agent} was not offered {what!r} at boundary {self.menus.boundary}"
        raise PotluckError(
            Reason.LETTER_NOT_OFFERED, message, "give an item of the menu there", agent=point.agent, field="given"
        )

    def answer(self, points: list[DecisionPoint], answers: list[Answer]) -> None:
        """Takes the policies' answers and makes them the next command."""
        menus = self.menus
        assert menus is not None
        choices = []
        for point, answer in zip(points, answers, strict=True):
            self._scored.append(Scored(menus.boundary, menus.step, point, answer))
            choices.append(Choice(agent=point.agent, letter=answer.choice.letter, text=answer.text or ""))
        self._next().choose.CopyFrom(Choose(boundary=menus.boundary, choices=choices))

    def lost(self, error: PotluckError) -> None:
        """Ends the attempt."""
        self._leave()
        if self._span is not None:
            self._span.set_attribute(names.ERROR_TYPE, error.reason)
            self._span.set_status(StatusCode.ERROR)
        self.close()

    def turned_away(self, error: PotluckError) -> None:
        """Takes back an attempt that never began."""
        self.lost(error)
        self.attempts -= 1

    def close(self) -> None:
        """Ends the attempt's span, once."""
        if self._span is not None:
            self._span.end()
            self._span = None

    def finish(self, finished: Finished, base_digest: str, tokenizer_digest: str) -> EpisodeResult:
        """The whole episode as a result."""
        assert self.seat is not None
        address = self.seat.address
        self._collect(finished.progress)
        self._leave()
        trace = ""
        if self._span is not None:
            trace = trace_id(self._span)
            self._span.set_attribute(names.STEPS, finished.steps)
            self._span.set_attribute(names.RETURN, finished.team_return)
            self._span.set_attribute(names.TRAJECTORY, finished.recording.digest)
        self.close()
        ends = {(option.agent, option.decision): option for option in self._options}
        return EpisodeResult(
            spec=self.spec,
            finished=finished,
            decisions=[
                _record(scored, ends.get((scored.point.agent, scored.point.decision))) for scored in self._scored
            ],
            steps=self._steps,
            options=self._options,
            attempts=self.attempts,
            env=address,
            base_digest=base_digest,
            tokenizer_digest=tokenizer_digest,
            trace_id=trace,
        )

    def _leave(self) -> None:
        if self.seat is not None:
            self.avoid = self.seat.address
            self.seat.leave()
        self.seat = None
        self.command = None

    def _collect(self, progress: Progress) -> None:
        self._steps.extend(progress.steps)
        self._options.extend(progress.options)

    def _next(self) -> Command:
        self._requests += 1
        request_id = f"{self.attempts}.{self._requests}"
        self.command = Command(episode_id=self.spec.episode_id, request_id=request_id, trace=self._trace)
        return self.command


def _baselines(spec: EpisodeSpec) -> list[SeatBaseline]:
    return [
        SeatBaseline(agent=agent, baseline=Baseline.BASELINE_PLUGIN, plugin=baseline)
        if isinstance(baseline, str)
        else SeatBaseline(agent=agent, baseline=baseline)
        for agent, baseline in spec.baselines.items()
    ]


def _start(spec: EpisodeSpec) -> Start:
    return Start(
        game=spec.game,
        seed=spec.seed,
        horizon=spec.horizon,
        interface=spec.interface,
        baselines=_baselines(spec),
        detail=spec.detail,
    )


def _fork(spec: EpisodeSpec) -> Fork:
    assert spec.fork is not None
    fork = spec.fork
    return Fork(
        recording=fork.recording,
        boundary=fork.boundary,
        reseed=fork.reseed,
        baselines=_baselines(spec),
        detail=spec.detail,
    )


def _record(scored: Scored, option: OptionRecord | None) -> DecisionRecord:
    point, (choice, text) = scored.point, scored.answer
    spoken = (
        Spoken(text, option.option if option else "", option.target if option else "") if text is not None else None
    )
    return DecisionRecord(
        agent=point.agent,
        decision=point.decision,
        boundary=scored.boundary,
        step=scored.step,
        prompt=point.prompt,
        letter=choice.letter,
        index=choice.index,
        logprob=choice.logprob,
        probabilities=tuple(choice.probabilities),
        label_mass=choice.label_mass,
        adapter_digest=choice.adapter_digest,
        builtin=choice.builtin,
        prompt_digest=choice.prompt_digest,
        prompt_tokens=choice.prompt_tokens,
        tokens=choice.tokens if choice.HasField("tokens") else None,
        menu_digest=point.menu_digest,
        cut=point.cut,
        outcome=option.outcome if option is not None else "",
        duration=option.duration if option is not None else 0,
        reward=option.reward if option is not None else 0.0,
        spoken=spoken,
    )
