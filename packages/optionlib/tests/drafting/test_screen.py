"""The static screen: what it refuses, with lines, and what it lets through."""

from contextlib import suppress

import pytest

from potluck_optionlib.drafting.allowed import MODULES, namespace, public
from potluck_optionlib.drafting.screen import MAX_BYTES, screen

DATACLASS = """from dataclasses import dataclass


@dataclass(frozen=True)
class Spot:
    x: int

    def __post_init__(self) -> None:
        self._seen = 1
"""
BODY = "def contracts(world):\n    return []\n"


def kinds(source: str) -> set[str]:
    return {finding.kind for finding in screen(source)}


def test_the_prompt_s_own_example_passes(good: str) -> None:
    assert screen(good) == ()


@pytest.mark.parametrize(
    "line",
    [
        "from __future__ import annotations",
        "import math\nROOT = math.sqrt(4)",
        "import collections.abc",
        "from collections.abc import Callable, Sequence",
        DATACLASS,
        "from typing import NamedTuple\n\n\nclass Spot(NamedTuple):\n    x: int\n\n\nNEXT = Spot(1)._replace(x=2)",
        "try:\n    int('x')\nexcept ValueError as error:\n    SEEN = str(error)",
        "PAIRS = {a: b for a, b in zip('ab', range(2), strict=True)}",
        "KIND = type(3)",
        "from dataclasses import dataclass\n\n\n@dataclass\nclass A:\n    x: int\n\n\nMADE = A(x=1)",
        "from enum import Enum\n\n\nclass Way(Enum):\n    UP = 1",
        "match 3:\n    case int(n) if n > 2:\n        N = n\n    case _:\n        N = 0",
        "def walk(*steps, **options):\n    return (step for step in steps), options",
    ],
)
def test_plain_python_passes_and_runs(line: str) -> None:
    source = f"{line}\n{BODY}"
    assert screen(source) == ()
    exec(compile(source, "<drafted>", "exec"), namespace("drafted"))


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("import os", "import"),
        ("import math, socket", "import"),
        ("from os import path", "import"),
        ("from . import contracts as other", "import"),
        ("from potluck_optionlib.games import make_game", "import"),
        ("from potluck_optionlib.contracts import json", "import"),
        ("from dataclasses import sys", "import"),
        ("from collections import _sys", "import"),
        ("from math import *", "import"),
        ("open('x')", "builtin"),
        ("exec('1')", "builtin"),
        ("eval('1')", "builtin"),
        ("compile('1', '', 'eval')", "builtin"),
        ("getattr(1, 'real')", "builtin"),
        ("setattr(contracts, 'x', 1)", "builtin"),
        ("globals()", "builtin"),
        ("print(1)", "builtin"),
        ("hash('a')", "builtin"),
        ("helper()", "name"),
        ("__import__('os')", "dunder"),
        ("__builtins__['open']", "dunder"),
        ("().__class__.__base__", "dunder"),
        ("lambda f: f.__globals__", "dunder"),
        ("match 1:\n    case int(__class__=kind):\n        pass", "dunder"),
        ("class Trap:\n    def __getattr__(self, name):\n        return 1", "dunder"),
        ("def trap(__import__):\n    pass", "dunder"),
        ("(x for x in ()).gi_frame.f_back", "private"),
        ("def walk(error):\n    return error.tb_frame", "private"),
        ("def look(world):\n    return world._kitchen", "private"),
        ("match 1:\n    case int(_engine=engine):\n        pass", "private"),
        ("from functools import update_wrapper", "import"),
        ("from functools import cached_property, wraps", "import"),
        ("from dataclasses import make_dataclass", "import"),
        ("from typing import get_type_hints", "import"),
        ("from typing import TypedDict", "import"),
        ("from enum import EnumMeta", "import"),
        ("class D:\n    pass\n\n\nmatch 1:\n    case D(g):\n        pass", "pattern"),
        ("match 1:\n    case int(n):\n        pass\n    case other:\n        int = other", "pattern"),
        ("M = type('M', (), {'__match_args__': ('__globals__',)})", "builtin"),
        ("M = type(*[1])", "builtin"),
        ("make = type", "builtin"),
        ("class M(type):\n    pass", "builtin"),
        ("def contracts(world):\n    return 1", "entry"),
        ("def broken(:", "syntax"),
        ("return 5", "syntax"),
        ("x = 1\x00", "syntax"),
        ("x = " + "(" * 300 + ")" * 300, "syntax"),
        ("#" * (MAX_BYTES + 1), "too_long"),
    ],
)
def test_everything_else_is_refused(line: str, kind: str) -> None:
    assert kind in kinds(f"{line}\n{BODY}")


@pytest.mark.parametrize(
    "source",
    ["", "contracts = 1\n", "def contracts():\n    return []\n", "def contracts(a, b):\n    return []\n",
     "async def contracts(world):\n    return []\n", "def contracts(world, *, more):\n    return []\n"],
)  # fmt: skip
def test_the_entry_must_take_the_world(source: str) -> None:
    assert kinds(source) == {"entry"}


def test_offences_come_with_their_lines_and_are_all_told() -> None:
    found = screen(f"import os\n{BODY}open('x')\n")
    assert [finding.evidence.partition(":")[0] for finding in found] == ["line 1", "line 4"]
    syntax = screen("x = 1\ny = = 2\n")
    assert "line 2" in syntax[0].evidence
    assert "y = = 2" in syntax[0].evidence


def test_modules_reach_a_draft_as_copies_that_lead_nowhere() -> None:
    import types

    space = namespace("drafted")
    exec("import collections.abc\nfrom re import compile as regex\nimport potluck_optionlib.contracts as c\n", space)
    assert space["regex"]("a").match("a")
    assert not isinstance(space["collections"], types.ModuleType)
    assert space["collections"].abc.Sequence
    assert space["c"].Contract
    for module in MODULES:
        assert not [name for name, value in public(module).items() if isinstance(value, types.ModuleType)]
    with pytest.raises(ImportError, match="may not import os"):
        exec("import os", namespace("drafted"))
    with pytest.raises(NameError):
        exec("open('x')", namespace("drafted"))


PROBES = {
    "copies attributes": "functools.update_wrapper",
    "makes any fields": "dataclasses.make_dataclass",
    "runs annotations": "typing.get_type_hints",
    "makes a metaclass": "type(int)",
    "makes a class of any names": "type('M', (), {})",
    "runs a field's name": "dataclasses.dataclass(enum.Enum('E', {'__annotations__': {'x=().__class__': int}}))",
    "writes into other modules": "enum.global_enum",
}


@pytest.mark.parametrize("probe", PROBES)
def test_past_the_screen_the_child_withholds_the_same(probe: str) -> None:
    space = namespace("drafted")
    exec("import dataclasses, enum, functools, typing", space)
    with pytest.raises((AttributeError, TypeError)):
        eval(PROBES[probe], space)
    real = {name: __import__(name) for name in ("dataclasses", "enum", "functools", "typing")}
    real["sys"] = __import__("sys")
    with suppress(SyntaxError):
        assert eval(PROBES[probe], {**real, "__name__": __name__}) is not None
