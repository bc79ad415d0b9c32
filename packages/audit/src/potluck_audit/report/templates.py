"""The report's templates: every text in them is escaped unless it is markup already."""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

import jinja2
from markupsafe import Markup

from potluck_audit.report import numbers
from potluck_audit.report.charts import canvas

_ASSETS = files("potluck_audit.report") / "assets"


def asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")


@cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        loader=jinja2.FunctionLoader(lambda name: asset(name)),
    )
    environment.globals.update(colour=canvas.colour, swatch=canvas.swatch, label=numbers.set_label)
    return environment


def fill_in(name: str, **values: Any) -> Markup:
    """The template of that name with these values."""
    return Markup(_environment().get_template(name).render(**values))


def embedded(data: Any) -> Markup:
    """JSON that cannot end the script element that holds it."""
    text = json.dumps(data, allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029"))
