"""Tables for papers and spreadsheets: what an audit found as LaTeX, Markdown or CSV."""

from potluck_audit.tables.contents import DEFAULT, NAMES, grid
from potluck_audit.tables.formats import FORMATS, Format
from potluck_audit.tables.grid import Grid, Number

__all__ = ["DEFAULT", "FORMATS", "NAMES", "Format", "Grid", "Number", "grid"]
