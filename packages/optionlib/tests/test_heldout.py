"""Fresh play against a library: what counts as hidden, and the exact interval."""

import dataclasses

import pytest
from scipy.stats import beta

from potluck_optionlib import cli
from potluck_optionlib.burnin import BurninPlan
from potluck_optionlib.burnin.errors import BurninWorkerError, EmptyBurninError
from potluck_optionlib.errors import BurninReusedError, ContractMismatchError
from potluck_optionlib.fresh import Fresh, hold_out_fresh
from potluck_optionlib.guards import NO_GUARDS, Channel, Guard, GuardLibrary
from potluck_optionlib.heldout import exact_interval, hold_out
from potluck_optionlib.mining import mine

MINED = (*[("pick", "effect_fail", {"held": "onion"})] * 5, *[("ring", "effect_fail", {"held": "none"})] * 5)


@pytest.fixture
def library(recorded):
    return mine([recorded(*MINED, solo_only=("ring",))])


def test_a_success_under_a_guard_is_hidden(library, recorded) -> None:
    fresh = recorded(
        *[("pick", "success", {"held": "onion"}, False)] * 2,
        *[("pick", "effect_fail", {"held": "onion"})] * 8,
        ("pick", "explicit:NoPath", {"held": "onion"}),
        ("pick", "success", {"held": "none"}),
        solo_only=("ring",),
        seed=1,
    )
    found = hold_out(library, fresh)
    assert (found.decisions, found.guarded, found.hidden, found.shared) == (12, 10, 2, 0)
    assert found.lines == ("pick with held = onion succeeded 2 times (team)",)
    assert found.interval == exact_interval(2, 12)


def test_what_a_partner_may_have_caused_is_counted_apart(library, recorded) -> None:
    team, solo = ("ring", "success", {"held": "none"}, False), ("ring", "success", {"held": "none"}, True)
    found = hold_out(library, recorded(*[team] * 3, solo, solo_only=("ring",), seed=1))
    assert (found.hidden, found.shared) == (1, 3)


def test_intervals_are_clopper_and_pearsons() -> None:
    assert exact_interval(0, 500_000).low == 0
    assert exact_interval(0, 500_000).high == pytest.approx(1 - 0.05 ** (1 / 500_000))
    low, high = exact_interval(3, 1000)
    assert low == pytest.approx(beta.ppf(0.025, 3, 998))
    assert high == pytest.approx(beta.ppf(0.975, 4, 997))
    assert exact_interval(0, 0) == (0, 1)


def test_a_library_cannot_be_held_against_its_own_records(library, recorded) -> None:
    with pytest.raises(BurninReusedError, match="another seed"):
        hold_out(library, recorded(*MINED, solo_only=("ring",)))
    with pytest.raises(ContractMismatchError):
        hold_out(library, recorded(*MINED, digest="other", seed=1))
    with pytest.raises(EmptyBurninError, match="more episodes"):
        hold_out(library, recorded(solo_only=("ring",), seed=1))


@pytest.mark.parametrize("update", [{"team_episodes": 0}, {"solo_episodes": 9}, {"horizon": 99}])
def test_some_of_its_own_episodes_will_not_do_either(library, recorded, update) -> None:
    part = recorded(*MINED[:5], solo_only=("ring",))
    part = dataclasses.replace(part, plan=dataclasses.replace(part.plan, **update))
    with pytest.raises(BurninReusedError, match=r"episodes of this burn-in \(toy/hands, seed 0\).*another seed"):
        hold_out(library, part)
    assert hold_out(library, dataclasses.replace(part, game="toy/probe")).decisions == 5


WRONG = GuardLibrary(guards=(Guard(option="grab", channel=Channel.INFERRED, when={"held": "none"}, support=9),))
"""A guard against what works."""


def test_rounds_are_played_until_there_are_enough_decisions(toy_module) -> None:
    seen: list[int] = []
    fresh = Fresh(toy_module.ToyGame, WRONG, BurninPlan(2, 2, seed=7, horizon=20))
    found = hold_out_fresh(fresh, 500, progress=seen.append)
    assert seen[-2] < 500 <= seen[-1] == found.decisions
    assert found.hidden > 0
    assert found.kinds == {k: n for k, n in found.kinds.items() if "grab with held = none" in k and n > 0}
    assert sum(found.kinds.values()) == found.hidden
    assert hold_out_fresh(Fresh(toy_module.ToyGame, NO_GUARDS, BurninPlan(2, 2, seed=7, horizon=20)), 500).hidden == 0
    other = hold_out_fresh(Fresh(toy_module.ToyGame, WRONG, BurninPlan(2, 2, seed=1007, horizon=20)), 500)
    assert other.kinds != found.kinds


def test_workers_change_nothing_and_one_that_dies_is_named(toy_module) -> None:
    fresh = Fresh(toy_module.ToyGame, WRONG, BurninPlan(2, 2, seed=7, horizon=20))
    assert hold_out_fresh(fresh, 600, workers=2) == hold_out_fresh(fresh, 600)
    with pytest.raises(BurninWorkerError, match="fewer workers"):
        hold_out_fresh(Fresh(toy_module.DyingGame, WRONG), 600, workers=2)


def test_a_round_of_a_seed_that_was_mined_from_is_refused(toy_module, recorded) -> None:
    mined = mine([recorded(*MINED, digest="c" * 64, seed=9)])
    with pytest.raises(BurninReusedError, match="seed 9"):
        hold_out_fresh(Fresh(toy_module.ToyGame, mined, BurninPlan(1, 1, seed=7, horizon=20)), 10**6)


def test_the_command_plays_until_enough_and_says_so(toy, monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr("potluck_optionlib.commands.heldout.make_game", lambda name: toy.ToyGame())
    path = tmp_path / "guards.json"
    path.write_text(WRONG.dump())
    with pytest.raises(SystemExit) as stop:
        cli.main(["heldout", "toy/hands", str(path), "--decisions", "300", "--horizon", "20", "--solo-episodes", "1"])
    assert stop.value.code == 1
    out = capsys.readouterr().out
    assert "grab with held = none" in out
    assert "hidden successes of " in out
    for wrong in (["--decisions", "0"], ["--workers", "2"], ["--decisions", "9", "--burnin", "x"]):
        with pytest.raises(SystemExit) as stop:
            cli.main(["heldout", "toy/hands", str(path), *wrong])
        assert stop.value.code == 2
