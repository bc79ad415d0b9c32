"""Plays episodes in lockstep waves.

A wave: each env server gets one request with the commands of its episodes and answers them all; then the decisions of
all live episodes, in the order of the specs and of each spec's policies, are scored together. What is played depends
on the specs alone, not on which answer came first.

An episode whose server or engine is lost is played again whole, with the same seed, elsewhere if there is an
elsewhere. After `max_attempts` starts it raises `EpisodeLost`: it is never left out silently. Every wait has a
deadline. Refusals are raised as the `PotluckError` that the server sent.
"""

import asyncio
import time
from collections.abc import Sequence

from potluck.env.v1.env_service_pb2 import Update
from potluck.play.episode import Episode
from potluck.play.errors import DigestMismatch, EpisodeLost
from potluck.play.fleet import Fleet, Seat
from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.play.scoring import Answer, Ask, Scorer
from potluck.play.specs import EpisodeResult, EpisodeSpec, OnWave, PlayOptions, Wave
from potluck.play.stream import Answers
from potluck.play.writing import check_writers
from potluck.rpc.errors import PotluckError, Reason, from_status
from potluck.telemetry import names
from potluck.telemetry.context import start_span


async def play(
    specs: Sequence[EpisodeSpec],
    envs: EnvPool,
    policy: PolicyClient | None,
    options: PlayOptions | None = None,
    on_wave: OnWave | None = None,
) -> list[EpisodeResult]:
    """Plays all episodes to their end; results are in the order of the specs. `on_wave` is told of each wave."""
    options = options or PlayOptions()
    _check(specs, options)
    game = _Game(specs, envs, policy, options)
    try:
        return await game.run(on_wave)
    finally:
        game.close()


class _Game:
    """One call of `play`."""

    def __init__(
        self, specs: Sequence[EpisodeSpec], envs: EnvPool, policy: PolicyClient | None, options: PlayOptions
    ) -> None:
        self._options = options
        self._fleet = Fleet(envs, options.reconnect_timeout_s)
        self._scorer = Scorer(policy, options) if policy is not None else None
        self._queue = [Episode(order, spec) for order, spec in enumerate(specs)]
        self._total = len(self._queue)
        self._live: list[Episode] = []
        self._results: dict[int, EpisodeResult] = {}
        self._libraries: dict[str, str] = {}
        self._waves = 0
        self._reruns = 0

    async def run(self, on_wave: OnWave | None) -> list[EpisodeResult]:
        while self._queue or self._live:
            self._waves += 1
            with start_span(names.WAVE, {names.WAVE_NUMBER: self._waves}) as span:
                wave = await self._wave()
                span.set_attribute(names.EPISODES, wave.live)
                span.set_attribute(names.DECISIONS, wave.decisions)
            if on_wave is not None:
                on_wave(wave)
        return [self._results[order] for order in range(self._total)]

    def close(self) -> None:
        self._fleet.close()
        for episode in self._live:
            episode.close()

    async def _wave(self) -> Wave:
        began = time.perf_counter()
        await self._begin()
        await self._exchange()
        moved = time.perf_counter()
        decisions = await self._decide()
        ended = time.perf_counter()
        return Wave(
            number=self._waves,
            live=len(self._live),
            done=len(self._results),
            total=self._total,
            decisions=decisions,
            steps=max((episode.step for episode in self._live), default=0),
            reruns=self._reruns,
            env_s=moved - began,
            choose_s=ended - moved,
        )

    async def _begin(self) -> None:
        room = (self._options.max_live or self._total) - len(self._live)
        if not self._queue or room <= 0 or not await self._fleet.prepare(wait=not self._live):
            return
        beginning, self._queue = self._queue[:room], self._queue[room:]
        for episode in beginning:
            episode.begin(self._fleet.pick(episode.avoid))
        self._live = sorted([*self._live, *beginning], key=lambda episode: episode.order)

    async def _exchange(self) -> None:
        crews: dict[Seat, list[Episode]] = {}
        for episode in self._live:
            assert episode.seat is not None
            crews.setdefault(episode.seat, []).append(episode)
        timeout_s = self._options.wave_timeout_s
        answers = await asyncio.gather(*(_exchange(seat, crew, timeout_s) for seat, crew in crews.items()))
        told = dict(zip(crews, answers, strict=True))
        for seat, answer in told.items():
            if answer.lost is not None:
                seat.fail(answer.lost)
        for episode in self._live:
            assert episode.seat is not None
            self._take(episode, told[episode.seat], episode.seat)
        self._live = [episode for episode in self._live if episode.seat is not None]

    def _take(self, episode: Episode, answer: Answers, seat: Seat) -> None:
        update = answer.updates.get(episode.spec.episode_id)
        if answer.lost is None:
            assert update is not None
            self._apply(episode, update, seat)
        elif update is not None and update.HasField("finished"):
            self._finish(episode, update)
        else:
            self._again(episode, answer.lost)

    def _apply(self, episode: Episode, update: Update, seat: Seat) -> None:
        outcome = update.WhichOneof("outcome")
        if outcome == "menus":
            self._fleet.took()
            episode.offered(update.menus)
        elif outcome == "finished":
            self._finish(episode, update)
        elif outcome == "failed":
            self._again(episode, from_status(update.failed.status))
        else:
            self._refused(episode, from_status(update.refused.status), seat)

    def _refused(self, episode: Episode, error: PotluckError, seat: Seat) -> None:
        if episode.menus is not None or error.reason not in (Reason.DRAINING, Reason.OVERLOADED):
            raise error
        episode.turned_away(error)
        self._fleet.turned_away(seat, error)
        self._wait(episode)

    def _finish(self, episode: Episode, update: Update) -> None:
        scorer = self._scorer
        base, tokenizer = (scorer.base_digest, scorer.tokenizer_digest) if scorer is not None else ("", "")
        result = episode.finish(update.finished, base, tokenizer)
        recording = update.finished.recording
        library = self._libraries.setdefault(recording.game, recording.library_digest)
        if recording.library_digest != library:
            what = f"the library that {result.env} played {recording.game} with"
            cure = "start all env servers with the same package versions and guards"
            raise DigestMismatch(what, library, recording.library_digest, cure)
        self._results[episode.order] = result

    def _again(self, episode: Episode, error: PotluckError) -> None:
        episode.lost(error)
        if episode.attempts >= self._options.max_attempts:
            raise EpisodeLost(episode.spec.episode_id, episode.attempts, error)
        self._reruns += 1
        self._wait(episode)

    def _wait(self, episode: Episode) -> None:
        self._queue = sorted([*self._queue, episode], key=lambda waiting: waiting.order)

    async def _decide(self) -> int:
        turns = [(episode, [(point, episode.given(point)) for point in episode.points()]) for episode in self._live]
        asks = [Ask(episode.spec, point) for episode, points in turns for point, given in points if given is None]
        asked = iter(await self._ask(asks))
        for episode, points in turns:
            answers = [next(asked) if given is None else given for _, given in points]
            episode.answer([point for point, _ in points], answers)
        return len(asks)

    async def _ask(self, asks: Sequence[Ask]) -> list[Answer]:
        if not asks:
            return []
        if self._scorer is None:
            message = "agents must decide and there is no policy server"
            raise PotluckError(
                Reason.INVALID_ARGUMENT, message, "name one, or give every seat a baseline", field="policy"
            )
        return await self._scorer.answers(asks)


async def _exchange(seat: Seat, crew: Sequence[Episode], timeout_s: float) -> Answers:
    assert seat.stream is not None
    commands = [episode.command for episode in crew if episode.command is not None]
    return await seat.stream.exchange(commands, timeout_s)


def _check(specs: Sequence[EpisodeSpec], options: PlayOptions) -> None:
    seen: set[str] = set()
    for spec in specs:
        if not spec.episode_id or spec.episode_id in seen:
            message = f"episode id {spec.episode_id!r} is empty or used twice"
            raise PotluckError(Reason.INVALID_ARGUMENT, message, "give each episode its own", field="episode_id")
        seen.add(spec.episode_id)
        if spec.in_json:
            check_writers(spec)
    for temperature in (options.temperature, *options.temperatures.values()):
        if not temperature > 0:
            message = f"temperature {temperature} is not above 0"
            raise PotluckError(Reason.INVALID_ARGUMENT, message, "use greedy for the best item", field="temperature")
    for name in ("max_attempts", "max_tokens"):
        if (value := getattr(options, name)) < 1:
            raise PotluckError(Reason.INVALID_ARGUMENT, f"{name} {value} is below 1", "allow at least one", field=name)
