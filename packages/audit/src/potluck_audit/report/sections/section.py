"""What a section is."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup


class Section(NamedTuple):
    """A heading with an anchor, its short name in the contents list, and what stands below."""

    id: str
    title: str
    short: str
    html: Markup
