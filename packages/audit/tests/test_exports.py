"""Tables and figures of an audit against golden files, which these commands write anew:

cd packages/audit/tests/data
potluck-audit table small_run --format latex --out golden        (markdown, csv --table teams credit: likewise)
potluck-audit figures small_run --out golden                     (learning-curve.svg and visits-trained-agent_0.svg)
"""

import csv
import io
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from potluck_audit.cli import main
from potluck_audit.figures import figures, palette, slug, standalone
from potluck_audit.intervals import UNDEFINED, Estimate
from potluck_audit.metrics.metric import Metric
from potluck_audit.report.charts.bars import Bar, bars
from potluck_audit.saved import load_results
from potluck_audit.tables import DEFAULT, FORMATS, NAMES, Grid, Number, grid
from potluck_audit.tables.formats import SUFFIXES, comma_separated, latex, latex_text, markdown

DATA = Path(__file__).parent / "data"
SMALL, GOLDEN = DATA / "small_run", DATA / "golden"
UNMEASURED = ("commons", "flow", "training")
COOKING = tuple(name for name in DEFAULT if name not in UNMEASURED)
CHOSEN = {"latex": COOKING, "markdown": COOKING, "csv": ("teams", "credit")}
CASES = [(form, name) for form, names in CHOSEN.items() for name in names]
CHARTS = ("learning-curve.svg", "visits-trained-agent_0.svg")
HOSTILE = "a_1 | 50% & $x$ #{2} \\ ~^ <b>\n[y] *z* `c`"


@pytest.fixture(scope="module")
def results():
    return load_results(SMALL)


@pytest.fixture
def command(capsys):
    def call(*args):
        with pytest.raises(SystemExit) as ended:
            main([str(a) for a in args])
        return ended.value.code, *capsys.readouterr()

    return call


@pytest.mark.parametrize(("form", "name"), CASES)
def test_tables_are_the_golden_ones(results, form, name):
    golden = (GOLDEN / f"{name}{SUFFIXES[form]}").read_text(encoding="utf-8")
    assert FORMATS[form](grid(results, name)) == golden


@pytest.mark.parametrize("form", list(FORMATS))
def test_another_number_is_another_table(results, form):
    def moved(metric):
        low = metric.estimate.low
        return replace(metric, estimate=metric.estimate._replace(low=low - 1)) if metric.name == "credit" else metric

    other = replace(results, metrics=[moved(m) for m in results.metrics])
    name = "credit"
    assert FORMATS[form](grid(other, name)) != (GOLDEN / f"{name}{SUFFIXES[form]}").read_text(encoding="utf-8")


@pytest.fixture
def odd():
    """Every kind of cell."""
    cells = [
        Number(Estimate(-1.25, -2.0, 0.5, 5)), Number(Estimate(0.123, 0.1, 0.2, 5), percent=True),
        Number(UNDEFINED), Number(None), Number(Estimate(3.0, None, None, 1)), Number(Estimate(-0.001, -0.002, 0.0, 4)),
    ]  # fmt: skip
    return Grid("odd", HOSTILE, [HOSTILE, "value"], [[HOSTILE, cell] for cell in cells])


def test_latex_escapes_and_says_what_is_undefined(odd):
    text = latex(odd)
    escaped = (
        r"a\_1 \textbar{} 50\% \& \$x\$ \#\{2\} \textbackslash{} \textasciitilde{}\textasciicircum{} "
        r"\textless{}b\textgreater{} {[}y{]} *z* \textasciigrave{}c\textasciigrave{}"
    )
    assert rf"\caption{{{escaped}}}" in text
    rows = [line for line in text.splitlines() if line.startswith(escaped)][1:]
    assert [row.removeprefix(escaped).removesuffix(r" \\").removeprefix(" & ") for row in rows] == [
        r"$-$1.25\,{\scriptsize [$-$2.00, 0.50]}",
        r"12.3\,\%\,{\scriptsize [10.0, 20.0]}",
        r"\textit{undefined}",
        "--",
        r"3.00\,{\scriptsize (no interval)}",
        r"0.00\,{\scriptsize [0.00, 0.00]}",
    ]
    assert r"\begin{tabular}{lr}" in text
    # Nothing is left that LaTeX would act on: braces pair up, no bare special character.
    plain = re.sub(r"\\[A-Za-z]+\{\}|\\[&%$#_{}]", "", latex_text(HOSTILE))
    assert not re.search(r"[\\&%$#_~^]", plain)
    assert "%" in latex_text("%")  # the search above would find one


def test_markdown_escapes_and_says_what_is_undefined(odd):
    lines = markdown(odd).splitlines()
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines[2:]]
    assert {len(row) for row in cells} == {2}
    assert cells[1] == [" --- ", " ---: "]
    assert cells[2][0].strip() == r"a\_1 \| 50% \& \$x\$ \#\{2\} \\ \~\^ \<b\> \[y\] \*z\* \`c\`"
    assert [row[1].strip() for row in cells[2:]] == [
        "\N{MINUS SIGN}1.25 \\[\N{MINUS SIGN}2.00, 0.50\\]", "12.3 % \\[10.0, 20.0\\]", "undefined", "\N{EN DASH}",
        "3.00 (no interval)", "0.00 \\[0.00, 0.00\\]",
    ]  # fmt: skip


def test_csv_reads_back(odd):
    header, *rows = csv.reader(io.StringIO(comma_separated(odd)))
    assert header == [HOSTILE, "value", "value low", "value high"]
    assert {row[0] for row in rows} == {HOSTILE}
    assert [row[1:] for row in rows] == [
        ["-1.25", "-2.0", "0.5"], ["0.123", "0.1", "0.2"], ["undefined"] * 3, [""] * 3,
        ["3.0", "undefined", "undefined"], ["-0.001", "-0.002", "0.0"],
    ]  # fmt: skip


def test_every_figure_of_the_audit_is_in_the_long_table(results):
    rows = list(csv.DictReader(io.StringIO(comma_separated(grid(results, "metrics")))))
    assert len(rows) == len(results.metrics)
    for row, metric in zip(rows, results.metrics, strict=True):
        assert (row["metric"], row["set"], row["agent"], row["key"]) == (
            metric.name,
            metric.set,
            metric.agent,
            metric.key,
        )
        assert row["value"] == ("undefined" if metric.estimate.value is None else repr(metric.estimate.value))


def test_solo_values_that_were_played_stand_with_the_teams(results):
    sets = [s for s in results.sets if "solo" not in s.name]
    played = replace(
        results, sets=sets, metrics=[*results.metrics, Metric("solo", "eval/trained", UNDEFINED, "x", "noop")]
    )
    names = [row[0] for row in grid(played, "teams").rows]
    assert names == [
        "trained",
        "frozen",
        "solo agent_0 (others noop)",
        "solo agent_1 (others noop)",
        "solo x (others noop)",
    ]


def test_p_values_stand_beside_their_difference_and_need_no_interval(results):
    tested = [
        Metric("p_value_holm", "eval/trained", Estimate(p, None, None, 3), key=f"return_gain {other}")
        for p, other in ((0.25, "eval/frozen"), (0.5, "eval/uniform"))
    ]
    found = grid(replace(results, metrics=[*results.metrics, *tested]), "differences")
    [row] = [line for line in markdown(found).splitlines() if line.startswith("| trained \N{MINUS SIGN} frozen")]
    assert row.endswith(" | 0.2500 |")
    assert comma_separated(found).splitlines()[:2] == [
        "difference,seeds,soups,soups low,soups high,p (Holm)",
        "trained \N{MINUS SIGN} frozen,3,3.6666666666666665,1.0,5.0,0.25",
    ]
    assert "p (Holm)" not in grid(results, "differences").header  # nothing was tested


def test_a_commons_has_a_table_of_its_own(results):
    social = [
        Metric("equality", "eval/trained", Estimate(0.5, 0.25, 0.75, 3)),
        Metric("peace", "eval/trained", UNDEFINED),
    ]
    found = grid(replace(results, metrics=[*results.metrics, *social]), "commons")
    assert (found.header, len(found.rows)) == (["episodes", "equality", "peace (agents)"], 1)
    assert "| trained | 0.50 \\[0.25, 0.75\\] | undefined |" in markdown(found)
    empty = grid(results, "commons")
    assert not empty.rows
    assert all(write(empty) for write in FORMATS.values())


def test_the_command_prints_or_writes_them(command, tmp_path, results):
    code, said, _ = command("table", SMALL, "--format", "latex", "--table", "credit")
    assert (code, said) == (0, latex(grid(results, "credit")))
    code, said, _ = command("table", SMALL, "--format", "csv")
    assert (code, said) == (0, comma_separated(grid(results, "metrics")))
    code, said, _ = command("table", SMALL, "--out", tmp_path / "t", "--table", *NAMES)
    assert code == 0
    assert sorted(p.name for p in (tmp_path / "t").iterdir()) == sorted(f"{n}.md" for n in NAMES if n not in UNMEASURED)
    code, _, error = command("table", SMALL, "--format", "csv", "--table", "teams", "credit")
    assert code == 1
    assert "several tables make no CSV" in error


def test_failed_checks_and_missing_numbers_are_said(command, tmp_path):
    copied = Path(shutil.copytree(SMALL, tmp_path / "copied"))
    file = copied / "audit" / "results.json"
    saved = json.loads(file.read_text())
    saved["checks"][0]["passed"] = False
    saved["metrics"] = [m for m in saved["metrics"] if m["name"] not in ("credit", "coalition")]
    file.write_text(json.dumps(saved))
    code, said, error = command("table", copied, "--table", "credit")
    assert (code, said) == (0, "")
    assert "FAILED eval/trained" in error
    assert "credit: nothing of the kind was measured" in error
    assert "FAILED" not in command("table", SMALL)[2]
    file.unlink()
    code, _, error = command("figures", copied, "--out", tmp_path / "f")
    assert code == 1
    assert "has not been audited" in error


def drawn(text):
    """Every element with its attributes and text, style aside: what is golden about a figure."""
    return [
        (e.tag.rpartition("}")[2], sorted(e.attrib.items()), e.text)
        for e in ElementTree.fromstring(text).iter()
        if not e.tag.endswith("style")
    ]


@pytest.mark.parametrize("name", CHARTS)
def test_figures_are_the_golden_ones(results, name):
    assert drawn(dict(figures(results))[name]) == drawn((GOLDEN / name).read_text(encoding="utf-8"))


def test_another_curve_is_another_figure(results):
    first, *rest = results.curve
    other = replace(results, curve=[first._replace(estimate=first.estimate._replace(value=0.1)), *rest])
    golden = (GOLDEN / CHARTS[0]).read_text(encoding="utf-8")
    assert drawn(dict(figures(other))[CHARTS[0]]) != drawn(golden)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_stand_alone(results, theme):
    found = dict(figures(results, theme))
    assert {"learning-curve.svg", "options-by-time-trained.svg", "visits-frozen-agent_1.svg"} <= set(found)
    for name, text in found.items():
        assert ElementTree.fromstring(text).tag == "{http://www.w3.org/2000/svg}svg", name
        assert "var(" not in text, name
        assert not re.search(r"(?:href|src|url\((?!#)|@import|<script)", text), name
        assert set(re.findall(r"url\(#(\w+)\)", text)) <= set(re.findall(r'id="(\w+)"', text)), name
        assert ".chart .gridline" in text
    words = [e.text for e in ElementTree.fromstring(found["options-by-time-trained.svg"]).iter() if e.text]
    assert words[-2:] == ["agent_0", "agent_1"]  # whose bars they are


def test_themes_differ_and_unknown_colours_are_no_figure(results):
    light, dark = (dict(figures(results, theme))["learning-curve.svg"] for theme in ("light", "dark"))
    assert light != dark
    with pytest.raises(KeyError):
        standalone('<svg class="chart"><rect fill="var(--nowhere)"/></svg>')
    assert palette(":root { --a: #fff; --b: 1 2 3; } @media x { :root { --a: #000; } }", "dark") == {
        "--a": "#000", "--b": "1 2 3"
    }  # fmt: skip


def test_hostile_names_stay_text(results):
    chart = bars({HOSTILE: [Bar(0, Estimate(1.0, 0.5, 1.5, 3), HOSTILE)]})
    texts = [e.text for e in ElementTree.fromstring(standalone(chart)).iter() if e.tag.endswith("}title")]
    assert texts == [f"{HOSTILE}: 1.00"]
    assert slug("eval/../../etc/passwd") == "etc-passwd"
    assert slug("..") == "unnamed"


def test_the_command_writes_figures(command, tmp_path, results):
    code, said, _ = command("figures", SMALL, "--out", tmp_path / "f")
    assert code == 0
    assert sorted(p.name for p in (tmp_path / "f").iterdir()) == sorted(name for name, _ in figures(results))
    assert len(said.splitlines()) == len(list((tmp_path / "f").iterdir()))
    (tmp_path / "file").write_text("x")
    code, _, error = command("figures", SMALL, "--out", tmp_path / "file")
    assert code == 1
    assert "takes no files" in error
