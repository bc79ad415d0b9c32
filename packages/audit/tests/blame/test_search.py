"""Searching known success curves: binary where monotone, linear with repairs where not, undecided where it must be."""

import numpy as np
import pytest

from potluck_audit.blame.curve import Point
from potluck_audit.blame.search import FromTheStart, crossings, is_monotone, largest_step, search
from potluck_audit.blame.settings import LocateSettings
from potluck_audit.errors import InvalidRequest

QUICK = LocateSettings(1.0, continuations=16, most=64)


class Known:
    """A curve whose probabilities are known; plays are drawn from them, the same ones for the same prefix."""

    def __init__(self, p, seed=0):
        self.p, self.last, self.points, self.plays = p, len(p), {len(p): Point(len(p), 0, 0)}, 0
        self._draws = np.random.default_rng(seed).random((len(p), 256))

    async def at(self, boundaries, plays):
        for b in boundaries:
            known = self.points.get(b)
            if b < self.last and (known is None or known.plays < plays):
                self.plays += plays
                self.points[b] = Point(b, int((self._draws[b, :plays] < self.p[b]).sum()), plays)
        return [self.points[b] for b in boundaries]


def step_down(at, n=40, high=0.95, low=0.03):
    return [high if b <= at else low for b in range(n)]


@pytest.mark.parametrize("at", [0, 1, 7, 20, 38])
@pytest.mark.parametrize("seed", range(3))
async def test_a_monotone_curve_is_searched_by_halves(at, seed):
    curve = Known(step_down(at), seed)
    found = await search(curve, QUICK)
    assert (found.scan, found.monotone, found.rises) == ("binary", True, ())
    assert found.falls[-1].boundary == at
    assert found.falls[-1].certainty > 0.9
    scanned = Known(step_down(at), seed)
    linear = await search(scanned, LocateSettings(1.0, continuations=16, most=64, scan="linear"))
    assert linear.falls[-1].boundary == at
    assert curve.plays < scanned.plays / 2


async def test_an_error_that_was_repaired_is_not_the_decisive_one():
    p = [0.95] * 10 + [0.02] * 12 + [0.95] * 8 + [0.02] * 10
    found = await search(Known(p), QUICK)
    assert (found.scan, found.monotone) == ("linear", False)
    assert [fall.boundary for fall in found.falls] == [9, 29]
    assert [rise.boundary for rise in found.rises] == [21]


async def test_halving_without_the_check_would_have_named_one_of_the_two_and_missed_the_repair():
    """Negative control of the monotonicity check."""
    p = [0.95] * 10 + [0.02] * 12 + [0.95] * 8 + [0.02] * 10
    found = await search(Known(p), LocateSettings(1.0, scan="binary", checkpoints=3))
    assert found.rises == ()
    assert not found.monotone or len(found.falls) == 1


async def test_a_team_that_fails_from_the_start_blames_no_decision():
    with pytest.raises(FromTheStart) as hopeless:
        await search(Known([0.1] * 20), QUICK)
    assert hopeless.value.point.plays == 64


async def test_a_slow_decline_is_not_certain():
    p = list(np.linspace(0.9, 0.1, 30))
    found = await search(Known(p), QUICK)
    assert found.falls[-1].certainty < QUICK.certainty


def test_monotone_needs_one_change_and_no_significant_rise():
    assert is_monotone([Point(0, 16, 16), Point(5, 15, 16), Point(9, 1, 16), Point(12, 0, 0)], QUICK)
    assert not is_monotone([Point(0, 16, 16), Point(5, 1, 16), Point(9, 15, 16), Point(12, 0, 0)], QUICK)
    rising = [Point(0, 40, 64), Point(5, 63, 64), Point(9, 0, 64)]
    assert not is_monotone(rising, QUICK)


def test_an_estimate_that_wavers_about_tau_is_one_crossing():
    wavering = [Point(b, k, 16) for b, k in enumerate((16, 15, 7, 9, 8, 7, 1, 0))]
    assert crossings(wavering, QUICK) == ([(1, 6)], [])


def test_the_largest_step_and_its_share():
    place, share = largest_step([Point(0, 64, 64), Point(1, 40, 64), Point(2, 2, 64), Point(3, 0, 0)], rising=False)
    assert place == 1
    assert 0.9 < share <= 1.0


@pytest.mark.parametrize(
    "wrong", [{"tau": 0.0}, {"continuations": 1}, {"checkpoints": 2}, {"most": 4}, {"budget": 0}, {"scan": "both"}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(InvalidRequest, match=next(iter(wrong))) as refused:
        LocateSettings(1.0, **wrong)
    assert refused.value.metadata["field"] == next(iter(wrong))
