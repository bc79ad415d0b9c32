"""Puts the parts of several runs into one Markdown page with its figures as files beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from potluck_audit.errors import InvalidRequest
from potluck_audit.figures import Theme, figures, slug
from potluck_audit.paper.kitchens import kitchen
from potluck_audit.paper.orchards import orchard
from potluck_audit.paper.readings import Part
from potluck_audit.results import write_file
from potluck_audit.saved import SavedResults, load_results
from potluck_audit.tables.formats import markdown

PAGE = "paper-audit.md"
TRAINED = "eval/trained"


def paper_audit(runs: Sequence[Path], out: Path, theme: Theme = "light") -> Iterator[Path]:
    """Writes the page and its figures; yields what was written, the page last. Raises NotAudited, InvalidRequest."""
    if not runs:
        raise InvalidRequest("folders", "no run is named", "name audited runs, such as runs/demo")
    text = [
        "# The paper's audit figures on our runs",
        "",
        "Brackets are intervals over episodes. Numbers of the paper (arXiv:2608.01425v1) are of other backbones, menus "
        "and seeds than ours: compare shapes, not amounts.",
    ]
    for path in runs:
        results = load_results(path)
        part = part_of(results, theme)
        text += ["", f"## {part.title}: run {results.run}", "", _facts(results)]
        for table in part.tables:
            text += ["", markdown(table).rstrip()]
        for name, chart in part.figures:
            file = f"{slug(results.run)}-{name}"
            yield write_file(out / file, chart)
            text += ["", f"![{name.removesuffix('.svg').replace('-', ' ')}]({file})"]
        for reading in part.readings:
            text += ["", f"**The paper:** {reading.claim}", "", f"**On this run:** {reading.found}"]
            text += ["", f"**What the figure alone does not tell:** {reading.weaker}"]
    yield write_file(out / PAGE, "\n".join(text) + "\n")


def part_of(results: SavedResults, theme: Theme = "light") -> Part:
    """The figures of the paper that fit the run's game."""
    team = next((s for s in results.sets if s.name == TRAINED), None)
    if team is None:
        raise InvalidRequest(
            "folders",
            f"{results.run} has no audited {TRAINED}",
            "evaluate the trained team with `potluck eval` and audit again",
        )
    charts = dict(figures(results, theme))
    if team.game.startswith("overcooked/"):
        return kitchen(results, team, charts)
    if any(results.all("consumption", team.name)):
        return orchard(results, team, charts)
    raise InvalidRequest(
        "folders", f"the paper has no figure of {team.game} ({results.run})", "name runs of Overcooked or of a commons"
    )


def _facts(results: SavedResults) -> str:
    named = ("Game", "Dynamics", "Horizon", "Backbone", "Temperature", "Evaluation seeds")
    return "; ".join(f"{name.lower()} {results.facts[name]}" for name in named if results.facts.get(name)) + "."
