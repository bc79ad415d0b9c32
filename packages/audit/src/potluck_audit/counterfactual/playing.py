"""Plays line-ups of one setting on common random numbers, each once in a run folder's life.

Environment and policy samples take their seeds from the setting, and every decision's sample from (sample seed, agent,
decision): until a line-up's state departs from another's it repeats the other's choices, and afterwards the policies
are asked again under the same noise. Several line-ups with few seeds are played side by side, so that the policy
server gets full batches.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.play.driver import play
from potluck.play.policy_client import PolicyClient
from potluck.play.pool import EnvPool
from potluck.play.specs import EpisodeResult, EpisodeSpec
from potluck.rpc.errors import Reason
from potluck_audit.counterfactual.adapters import held
from potluck_audit.counterfactual.lineups import Lineup
from potluck_audit.counterfactual.setting import MAX_LIVE, Setting
from potluck_audit.counterfactual.shelf import Key, Played, Shelf, key_digest
from potluck_audit.errors import AuditError, Diverged, InvalidRequest
from potluck_audit.progress import Clock, OnStage


@dataclass(frozen=True)
class Players:
    """Where counterfactuals are played."""

    envs: EnvPool
    policy: PolicyClient | None
    run: Path
    """Its adapters are published where the policy server lacks them, and its `audit/` keeps what was played."""
    greedy: bool = False
    other_runs: tuple[Path, ...] = ()
    """Further run folders with adapters."""


class NoReturn(AuditError):
    """An episode came back without a number."""

    def __init__(self, label: str, seed: int, value: float) -> None:
        super().__init__(
            Reason.INTERNAL,
            f"the env server gave {value} as the return of {label} on seed {seed}: nothing can be said of it",
            "look into the game's rewards; what was played before is kept",
            seed=seed,
        )


class Stage:
    """Where line-ups of one setting are played and kept."""

    def __init__(
        self,
        setting: Setting,
        run: Path,
        name: str,
        *,
        detail: env_pb.Detail.ValueType = env_pb.DETAIL_DECISIONS,
        verified: str = "",
    ) -> None:
        """`name` says what for, such as an episode set; `verified` names the records that the play was held against."""
        self.setting = setting
        self._name = name
        self._detail = detail
        self._verified = verified
        self._shelf = Shelf(run)

    def key(self, lineup: Lineup) -> Key:
        return {
            "for": self._name,
            "setting": self.setting.facts(),
            "seats": lineup.parts(),
            "draws": [list(draw) for draw in self.setting.draws],
            "detail": int(self._detail),
            "verified": self._verified,
        }

    def known(self, lineup: Lineup) -> tuple[Played, ...] | None:
        """What lies on the shelf. Raises CorruptCache."""
        return self._shelf.get(self.key(lineup))

    async def play(
        self,
        lineups: Sequence[Lineup],
        players: Players,
        on_stage: OnStage,
        before: Callable[[], Awaitable[None]] | None = None,
        also_held: Sequence[Lineup] = (),
    ) -> list[tuple[Played, ...]]:
        """The episodes of every line-up in the order of the draws; `before` is awaited once, if anything is played."""
        distinct = {key_digest(self.key(lineup)): lineup for lineup in lineups}
        missing = [lineup for lineup in distinct.values() if self.known(lineup) is None]
        if missing:
            await self._check_library(players)
            async with AsyncExitStack() as stack:
                await self._hold(stack, [*missing, *also_held], players)
                if before is not None:
                    await before()
                await self._play_missing(missing, len(distinct), players, on_stage)
        on_stage("line-ups played", len(distinct), len(distinct))
        return [self.known(lineup) or () for lineup in lineups]

    async def _play_missing(self, missing: Sequence[Lineup], total: int, players: Players, on_stage: OnStage) -> None:
        clock = Clock(len(missing))
        side_by_side = max(1, MAX_LIVE // len(self.setting.draws))
        for start in range(0, len(missing), side_by_side):
            batch = missing[start : start + side_by_side]
            with_whom = f" with {batch[0].baseline} partners" if len(batch[0].members) < len(batch[0].own) else ""
            more = f" and {len(batch) - 1} more" if len(batch) > 1 else ""
            done = total - len(missing) + start
            on_stage(f"playing {batch[0].label}{with_whom}{more}{clock.words(start)}", done, total)
            for lineup, played in zip(batch, await self.play_now(batch, players), strict=True):
                self._shelf.put(self.key(lineup), played)

    async def play_now(
        self, lineups: Sequence[Lineup], players: Players, draws: int | None = None
    ) -> list[tuple[Played, ...]]:
        """Plays without a look at the shelf; with `draws` only the first of them. Adapters must be held."""
        wanted = self.setting.draws[:draws]
        specs = [
            EpisodeSpec(
                episode_id=f"audit-{number}-{lineup.label}-{draw.seed}-{draw.sample_seed}",
                game=self.setting.game,
                seed=draw.seed,
                horizon=self.setting.horizon,
                policies=plan.policies,
                baselines=plan.baselines,
                detail=self._detail,
                interface=self.setting.interface,
                sample_seed=draw.sample_seed,
            )
            for number, (lineup, plan) in enumerate((one, one.seats) for one in lineups)
            for draw in wanted
        ]
        asked = any(spec.policies for spec in specs)
        results = await play(specs, players.envs, players.policy if asked else None, self.setting.options)
        by_lineup = [results[at : at + len(wanted)] for at in range(0, len(results), len(wanted))]
        return [
            tuple(_played(result, lineup, self._detail) for result in own)
            for lineup, own in zip(lineups, by_lineup, strict=True)
        ]

    async def _hold(self, stack: AsyncExitStack, lineups: Sequence[Lineup], players: Players) -> None:
        asked = any(lineup.seats.policies for lineup in lineups)
        if players.policy is None:
            if asked:
                raise InvalidRequest("services.policy", "coalitions need the agents' policies", "name a policy server")
            return
        if not asked:
            return
        digests = {digest: agent for lineup in lineups for digest, agent in lineup.adapters.items()}
        runs = (players.run, *players.other_runs)
        await stack.enter_async_context(held(players.policy, digests, *runs))
        served = (await players.policy.describe()).base_digest
        if self.setting.base_digest and served != self.setting.base_digest:
            raise AuditError(
                Reason.WRONG_BASE,
                f"the episodes were played on base {self.setting.base_digest[:12]} and the policy server has "
                f"{served[:12] or 'none'}",
                "serve the backbone that the run was trained on",
            )

    async def _check_library(self, players: Players) -> None:
        game = (await players.envs.games()).get(self.setting.game)
        if game is None:
            return  # the env server says so itself, with the games that it has
        ours, theirs = self.setting.library_digest, game.library_digest
        if ours and theirs and ours != theirs:
            raise Diverged(
                f"the records were made with option library {ours[:12]} and the env server has {theirs[:12]}",
                "start the env server with the guards and package versions of the run",
            )


def _played(result: EpisodeResult, lineup: Lineup, detail: env_pb.Detail.ValueType) -> Played:
    finished, spec = result.finished, result.spec
    for value in (finished.team_return, *finished.agent_returns):
        if not math.isfinite(value):
            raise NoReturn(lineup.label, spec.seed, value)
    with_steps = detail == env_pb.DETAIL_STEPS
    progress = env_pb.Progress(steps=result.steps, options=result.options) if with_steps else env_pb.Progress()
    return Played(
        spec.seed,
        spec.sample_seed,
        finished.team_return,
        tuple(finished.agent_returns),
        finished.steps,
        result.digest,
        finished.recording.SerializeToString(deterministic=True) if with_steps else b"",
        progress.SerializeToString(deterministic=True),
    )
