"""Our ordered Lua leaves the stock dynamics unchanged: episodes of the stock engine and of ours, told apart or not.

Compared by episode: apples that grew, apples over all steps and at the end, dirt that came and that is left, cells
cleaned, apples eaten, patches alive (Mann-Whitney); over all episodes: where agents begin, all of them and the first
alone, and who gets a cell that two want (chi-square). The stock engine cannot be seeded, so a p-value below the limit
does come up by chance: in the short test once in some thousand runs, in the long one once in a hundred.

Power 0.9 against a shift of d standard deviations in one of ten comparisons (normal approximation):
short, 20 episodes a side, p < 0.0001 each: d = 1.7; long, 200 a side, p < 0.001 each: d = 0.46. The controls show that
a level with doubled growth, doubled dirt, or no regrowth is told apart by the short test.
"""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import episodes
import pytest
from scipy import stats

HERE = Path(__file__).parent
MEASURES = {
    "clean_up": ("ripe", "dirt", "dirty", "clean"),
    "commons_harvest__open": ("grow", "ripe", "apples", "eat", "alive"),
}
pytestmark = pytest.mark.timeout(1200)

SHORT, SHORT_LIMIT = 20, 1e-4
LONG, LONG_LIMIT = 200, 1e-3
CHANGED = {
    "clean_up": """
local known = require('meltingpot.lua.modules.component_registry').getAllComponents()
local dirt, grow = known.DirtSpawner.update, known.AppleGrow.update
known.DirtSpawner.update = function(self) dirt(self) dirt(self) end
known.AppleGrow.update = function(self) grow(self) grow(self) end
""",
    "commons_harvest__open": """
local known = require('meltingpot.lua.modules.component_registry').getAllComponents()
known.DensityRegrow.registerUpdaters = function() end
""",
}


def played(name, lua, count, builds, first):
    """Records of episodes."""
    command = [sys.executable, str(HERE / "episodes.py"), name, str(lua), *map(str, (count, builds, first))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    records = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(records) == count
    return records


def p_values(name, one, two):
    """How surprising the differences are, by what is compared."""
    found = {}
    for measure in MEASURES[name]:
        pair = [[record[measure] for record in side] for side in (one, two)]
        same = len({*pair[0], *pair[1]}) == 1
        found[measure] = 1.0 if same else float(stats.mannwhitneyu(*pair).pvalue)
    found["spawns"] = contingency(*[Counter(tuple(p[:2]) for r in side for p in r["spawns"]) for side in (one, two)])
    found["first_spawn"] = contingency(*[Counter(tuple(r["spawns"][0][:2]) for r in side) for side in (one, two)])
    found["facing"] = contingency(*[Counter(p[2] for r in side for p in r["spawns"]) for side in (one, two)])
    wins = [{key: sum(record[key] for record in side) for key in ("lower", "upper")} for side in (one, two)]
    found["contested"] = contingency(*wins)
    return found, wins


def contingency(one, two):
    """Chi-square's p-value of two samples of counts."""
    keys = [key for key in {**one, **two} if one.get(key, 0) + two.get(key, 0)]
    return float(stats.chi2_contingency([[side.get(key, 0) for key in keys] for side in (one, two)]).pvalue)


@pytest.mark.parametrize("name", sorted(MEASURES))
@pytest.mark.parametrize(
    ("count", "limit"),
    [
        (SHORT, SHORT_LIMIT),
        pytest.param(LONG, LONG_LIMIT, marks=[pytest.mark.slow, pytest.mark.timeout(7200)]),
    ],
)
def test_nothing_tells_our_engine_from_the_stock_one(tmp_path, name, count, limit):
    stock = played(name, episodes.variant(tmp_path / "lua", name), count, max(2, count // 25), 10_000)
    ours = played(name, "ours", count, 1, 50_000)
    found, wins = p_values(name, stock, ours)
    print(name, count, {key: round(p, 4) for key, p in found.items()}, wins)
    assert {key: p for key, p in found.items() if p < limit} == {}
    assert all(sum(side.values()) > count for side in wins), "cells were contested"
    for side in wins:
        assert stats.binomtest(side["lower"], sum(side.values())).pvalue > limit, "no number has the better chances"


@pytest.mark.parametrize("name", sorted(MEASURES))
def test_a_level_with_other_rules_is_told_apart(tmp_path, name):
    changed = played(name, episodes.variant(tmp_path / "lua", name, CHANGED[name]), SHORT, 1, 10_000)
    found, _ = p_values(name, changed, played(name, "ours", SHORT, 1, 50_000))
    for measure in ("dirt", "ripe") if name == "clean_up" else ("grow", "eat"):
        assert found[measure] < SHORT_LIMIT, measure


def test_a_better_chance_for_low_numbers_is_told_apart():
    assert contingency({"lower": 300, "upper": 300}, {"lower": 380, "upper": 220}) < SHORT_LIMIT
