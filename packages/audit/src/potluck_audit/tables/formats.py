"""LaTeX (booktabs), Markdown (pipes) and CSV (RFC 4180) of a grid.

What is undefined says "undefined", what has no interval says so, and what was not measured is a dash (empty in CSV).
CSV gives numbers in full, shares as fractions, with columns of their own for the ends of the interval.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable
from typing import Literal

from potluck_audit.tables.grid import Cell, Grid, Number

Format = Literal["latex", "markdown", "csv"]
UNDEFINED = "undefined"
MINUS, DASH = "\N{MINUS SIGN}", "\N{EN DASH}"

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", "[": "{[}", "]": "{]}", MINUS: "$-$", DASH: "--", "Σ": r"$\Sigma$",
    "∅": r"$\emptyset$", "±": r"$\pm$", "`": r"\textasciigrave{}",
}  # fmt: skip
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>#|~&$^])")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]+")


def latex_text(text: str) -> str:
    """A text that LaTeX prints as it is. "[" is braced: after the end of a row it would open an argument."""
    return "".join(_LATEX.get(c, c) for c in _BLANK.sub(" ", text))


def markdown_text(text: str) -> str:
    """A text that no Markdown reads as markup, on one line."""
    return _MARKDOWN.sub(r"\\\1", _BLANK.sub(" ", text))


def latex(grid: Grid) -> str:
    """A `table` that needs the package booktabs."""
    columns = "".join("r" if numeric else "l" for numeric in grid.numeric)
    label = re.sub(r"[^a-z0-9]+", "-", grid.name.lower()).strip("-")
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\caption{{{latex_text(grid.caption)}}}",
        rf"\label{{tab:{label}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        " & ".join(latex_text(title) for title in grid.header) + r" \\",
        r"\midrule",
        *(" & ".join(_latex_cell(cell) for cell in row) + r" \\" for row in grid.rows),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return latex_text(cell)
    if cell.estimate is None:
        return "--"
    if cell.estimate.value is None:
        return rf"\textit{{{UNDEFINED}}}"
    shown = cell.shown(cell.estimate.value).replace("-", "$-$").replace(" %", r"\,\%")
    between = cell.between.replace("-", "$-$")
    return rf"{shown}\,{{\scriptsize {between}}}" if between else shown


def markdown(grid: Grid) -> str:
    """A pipe table under its caption."""
    lines = [
        markdown_text(grid.caption),
        "",
        _piped([markdown_text(title) for title in grid.header]),
        _piped(["---:" if numeric else "---" for numeric in grid.numeric]),
        *(_piped([_markdown_cell(cell) for cell in row]) for row in grid.rows),
    ]
    return "\n".join(lines) + "\n"


def _piped(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _markdown_cell(cell: Cell) -> str:
    if isinstance(cell, str):
        return markdown_text(cell)
    if cell.estimate is None:
        return DASH
    if cell.estimate.value is None:
        return UNDEFINED
    between = markdown_text(cell.between)
    return f"{cell.shown(cell.estimate.value)} {between}".rstrip().replace("-", MINUS)


def comma_separated(grid: Grid) -> str:
    """A header and rows; each column of numbers is followed by its `low` and `high`."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    header: list[str] = []
    for at, title in enumerate(grid.header):
        width = len(_csv_fields(grid.rows[0][at])) if grid.rows else 1
        header += [title, f"{title} low", f"{title} high"][:width]
    writer.writerow(header)
    for row in grid.rows:
        writer.writerow([field for cell in row for field in _csv_fields(cell)])
    return out.getvalue()


def _csv_fields(cell: Cell) -> list[str]:
    if not isinstance(cell, Number):
        return [cell]
    width = 1 if cell.pointwise else 3
    if cell.estimate is None:
        return [""] * width
    return [UNDEFINED if number is None else repr(number) for number in cell.estimate[:width]]


FORMATS: dict[Format, Callable[[Grid], str]] = {"latex": latex, "markdown": markdown, "csv": comma_separated}
SUFFIXES: dict[Format, str] = {"latex": ".tex", "markdown": ".md", "csv": ".csv"}
