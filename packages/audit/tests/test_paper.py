"""The paper's figures on records of ours: the numbers are the audit's, and the readings follow their intervals."""

import json
import re
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from potluck_audit.cli import main
from potluck_audit.errors import InvalidRequest
from potluck_audit.intervals import Estimate
from potluck_audit.metrics.metric import Metric
from potluck_audit.metrics.options import jensen_shannon
from potluck_audit.paper import published
from potluck_audit.paper.page import paper_audit, part_of
from potluck_audit.saved import SavedSet, load_results

SMALL = Path(__file__).parent / "data" / "small_run"


@pytest.fixture(scope="module")
def kitchen():
    return load_results(SMALL)


def row(name, value, low=None, high=None, agent="", key="", group="eval/trained"):
    return Metric(name, group, Estimate(value, low, high, 4), agent, key, "apples")


@pytest.fixture(scope="module")
def orchard(kitchen):
    agents = tuple(f"agent_{seat}" for seat in range(7))
    sets = [SavedSet(f"eval/{name}", "meltingpot/clean_up", "apples", agents, 4) for name in ("trained", "frozen")]
    metrics = [row("patches_alive", 4.0 - step / 100, 3.0, 5.0, key=str(step)) for step in (0, 40, 80)]
    metrics += [row("patches_alive", 1.0, 0.5, 2.0, key="40", group="eval/frozen")]
    metrics += [row("patch_survival_area", 0.5, 0.4, 0.6), row("return", 30.0, 25.0, 35.0)]
    for seat, agent in enumerate(agents):
        metrics += [row("consumption", 10.0 if seat < 3 else 0.0, 0.0, 12.0, agent)]
        metrics += [row("cleans", 0.0 if seat < 3 else 5.0, 0.0, 7.0, agent)]
        metrics += [row("role_share", 1.0, 1.0, 1.0, agent, "eat_apple" if seat < 3 else "clean_dirt")]
    return replace(kitchen, run="river", sets=sets, metrics=metrics, visits={}, curve=[])


def test_the_paper_s_divergence_is_that_of_its_printed_shares():
    shares = list(zip(*published.AA_SHARES.values(), strict=True))
    assert jensen_shannon(shares) == pytest.approx(published.AA_DIVERGENCE, abs=5e-4)
    busy = list(zip(*(s for o, s in published.AA_SHARES.items() if o != "wait"), strict=True))
    assert jensen_shannon(busy) == pytest.approx(published.AA_DIVERGENCE_WITHOUT_WAIT, abs=5e-4)


def test_a_page_and_its_figures(kitchen, tmp_path):
    written = list(paper_audit([SMALL], tmp_path))
    page = written[-1].read_text(encoding="utf-8")
    for name in re.findall(r"!\[.*?\]\((.*?)\)", page):
        assert ElementTree.fromstring((tmp_path / name).read_text(encoding="utf-8")).tag.endswith("svg")
    team = kitchen.find("return", "eval/trained").estimate
    assert f"| the team | 7.57 | {team.value:.2f} \\[{team.low:.2f}, {team.high:.2f}\\] |" in page
    assert "The layout forces 4 transfers upon every soup" in page
    assert page.count("**The paper:**") == page.count("**What the figure alone does not tell:**") == 3


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.5, 2.0, "they need each other"),
        (-0.5, 0.5, "side by side"),
        (-2.0, -0.5, "hinder each other"),
        (None, None, "not known"),
    ],
)
def test_what_is_said_of_synergy_follows_its_interval(kitchen, low, high, said):
    others = [m for m in kitchen.metrics if m.name != "synergy"]
    synergy = Metric("synergy", "eval/trained", Estimate(0.1, low, high, 3), key="noop", unit="soups")
    found = part_of(replace(kitchen, metrics=[*others, synergy])).readings[1].found
    assert said in found
    assert ("no interval" in found) == (low is None)


def test_a_commons_without_a_river_has_survival_beside_the_paper(orchard):
    dry = [m for m in orchard.metrics if m.name != "cleans"]
    part = part_of(replace(orchard, metrics=dry))
    survival, _ = part.tables
    assert survival.rows[1][:3] == ["40", "5.4", "4.75"]
    assert [cell.estimate.value if cell.estimate else None for cell in survival.rows[1][3:]] == [3.6, 1.0, None]
    [reading] = part.readings
    assert "restraint beside a last apple: not measured" in reading.found.lower()
    assert "patches-alive.svg" in dict(part.figures)


def test_one_with_a_river_has_roles_and_no_patches_of_another_game(orchard):
    part = part_of(orchard)
    [roles] = part.tables
    assert [r[1] for r in roles.rows] == ["eat_apple (100.0 % of episodes)"] * 3 + [
        "clean_dirt (100.0 % of episodes)"
    ] * 4
    [reading] = part.readings
    assert "eat 30.00 apples together" in reading.found
    assert "patches-alive.svg" not in dict(part.figures)


def test_runs_that_fit_no_figure_are_refused(kitchen, orchard, tmp_path):
    with pytest.raises(InvalidRequest, match="no figure of pantry/duo"):
        part_of(replace(kitchen, sets=[replace(kitchen.sets[0], game="pantry/duo")]))
    with pytest.raises(InvalidRequest, match="no audited eval/trained"):
        part_of(replace(kitchen, sets=kitchen.sets[1:]))
    with pytest.raises(InvalidRequest, match="no run is named"):
        list(paper_audit([], tmp_path))


def test_the_command(tmp_path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["paper", str(SMALL), "--out", str(tmp_path / "p")])
    assert ended.value.code == 0
    assert capsys.readouterr().out.splitlines()[-1] == str(tmp_path / "p" / "paper-audit.md")
    (tmp_path / "bare" / "audit").mkdir(parents=True)
    (tmp_path / "bare" / "audit" / "results.json").write_text(json.dumps({"schema_version": 1}))
    for folder, said in (("bare", "cannot be read"), ("nowhere", "has not been audited")):
        with pytest.raises(SystemExit) as ended:
            main(["paper", str(tmp_path / folder), "--out", str(tmp_path / "q")])
        assert ended.value.code == 1
        assert said in capsys.readouterr().err
