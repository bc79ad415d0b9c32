"""What the child process finds out about a drafted library: faults, then play, guards and suspicions.

That `wait` succeeds and changes nothing is what it promises; it is the one success without a change that is no fault.
"""

from __future__ import annotations

import base64
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from potluck_optionlib import validation
from potluck_optionlib.burnin import Burnin, BurninPlan, run
from potluck_optionlib.contracts import Contract
from potluck_optionlib.drafting.findings import Finding, Stage
from potluck_optionlib.drafting.messages import OutcomeRow, Verdict
from potluck_optionlib.drafting.settings import Play
from potluck_optionlib.game import NOOP, SymbolicGame
from potluck_optionlib.menus import WAIT
from potluck_optionlib.mining import mine
from potluck_optionlib.suspicion import SuspicionKind, examine

SAMPLE = BurninPlan(solo_episodes=2, team_episodes=2, seed=20_260_801, horizon=60)
"""The short play of `inspect`."""


def warm_up(game: SymbolicGame) -> None:
    """Goes through everything once under trusted contracts, so that nothing is imported for the first time later."""
    burnin = run(game, SAMPLE)
    examine(burnin, mine([burnin]), ())
    validation.check(game, episodes=1)
    pack(burnin)


def inspect(game: SymbolicGame, contracts: Sequence[Contract[Any]]) -> Verdict:
    """Validation, and a short play. Raises what the module raises, unless validation has said so already."""
    faults = _validate(game)
    try:
        findings, sample = (*faults, *_meddling(game)), run(game, SAMPLE).digest
    except Exception:
        if not faults:
            raise
        return Verdict(findings=faults)
    return Verdict(
        findings=findings,
        contracts=tuple(contract.data() for contract in contracts),
        contracts_digest=game.contracts_digest,
        sample_digest=sample,
    )


def play(
    game: SymbolicGame, contracts: Sequence[Contract[Any]], settings: Play, progress: Callable[[int, int], None]
) -> Verdict:
    """The burn-in, the guards that come of it, and what looks wrong about both."""
    sample = run(game, SAMPLE).digest
    plan = BurninPlan(settings.solo_episodes, settings.team_episodes, settings.seed, settings.horizon)
    burnin = run(game, plan, progress)
    library = mine([burnin], settings.min_support)
    suspicions = tuple(
        Finding(
            stage=Stage.SUSPECT,
            kind=suspicion.kind,
            option=suspicion.option,
            evidence=suspicion.evidence,
            counts=dict(suspicion.counts),
        )
        for suspicion in examine(burnin, library, contracts)
        if (suspicion.option, suspicion.kind) != (WAIT, SuspicionKind.EFFECT_WITHOUT_CHANGE)
    )
    return Verdict(
        findings=suspicions,
        contracts=tuple(contract.data() for contract in contracts),
        contracts_digest=game.contracts_digest,
        sample_digest=sample,
        outcomes=_outcomes(burnin),
        guards=library.dump(),
        burnin_digest=burnin.digest,
        records=burnin.records,
        solo_only=burnin.solo_only,
        burnin=pack(burnin),
    )


def pack(burnin: Burnin) -> str:
    """The records as a base64 Arrow stream: the child may write no file."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, burnin.table.schema, options=options) as writer:
        writer.write_table(burnin.table)
    return base64.b64encode(sink.getvalue()).decode("ascii")


def unpack(verdict: Verdict, game: str, settings: Play) -> Burnin:
    """The burn-in that a verdict came with. Raises ValueError where it is not the one that the verdict names."""
    table = pa.ipc.open_stream(base64.b64decode(verdict.burnin)).read_all()
    plan = BurninPlan(settings.solo_episodes, settings.team_episodes, settings.seed, settings.horizon)
    burnin = Burnin(game, verdict.contracts_digest, verdict.solo_only, plan, table)
    if burnin.digest != verdict.burnin_digest:
        raise ValueError("the records do not have the digest that came with them")
    return burnin


def _validate(game: SymbolicGame) -> tuple[Finding, ...]:
    return tuple(
        Finding(
            stage=Stage.VALIDATE,
            kind=fault.rule,
            option=fault.option,
            evidence=f"{fault.field}: {fault.seen}. {fault.cure}",
        )
        for fault in validation.check(game)
        if (fault.option, fault.rule) != (WAIT, validation.Rule.ABSOLUTE_EFFECT)
    )


def _outcomes(burnin: Burnin) -> tuple[OutcomeRow, ...]:
    seen: dict[str, Counter[str]] = {}
    for tally in burnin.tallies():
        seen.setdefault(tally.option, Counter())[tally.outcome] += tally.count
    return tuple(OutcomeRow(option=option, outcomes=dict(sorted(seen[option].items()))) for option in sorted(seen))


def _meddling(game: SymbolicGame) -> tuple[Finding, ...]:
    """Instantiation, read sets and explicit failures only look; a hook that changes the state is a fault."""
    rng = random.Random(SAMPLE.seed)
    game.reset(SAMPLE.seed)
    while game.steps < SAMPLE.horizon:
        for agent in game.idle():
            before = game.state_bytes()
            offered = list(game.candidates(agent))
            for instance in offered:
                game.features(agent, instance)
                game.explicit(agent, instance)
                if game.state_bytes() != before:
                    evidence = "asking what exists and what fails changed the game's state; hooks must only look."
                    return (Finding(stage=Stage.VALIDATE, kind="meddles", option=instance.option, evidence=evidence),)
            game.begin(agent, rng.choice(offered) if offered else NOOP)
        game.step()
    return ()
