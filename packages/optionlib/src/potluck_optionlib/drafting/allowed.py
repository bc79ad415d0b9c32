"""What a drafted module may use: modules to import from, and builtins. The screen reads it, the child enforces it."""

from __future__ import annotations

import builtins
import importlib
from functools import cache
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

MODULES = (
    "__future__",
    "collections",
    "collections.abc",
    "dataclasses",
    "enum",
    "functools",
    "itertools",
    "math",
    "re",
    "typing",
    "potluck_optionlib.contracts",
    "potluck_optionlib.game",
)
"""Pure modules: nothing in them reads a file, a clock, a network or random bits."""

_BUILTINS = """
ArithmeticError AssertionError AttributeError Ellipsis Exception False IndexError KeyError LookupError None
NotImplemented NotImplementedError OverflowError RuntimeError StopIteration True TypeError ValueError
ZeroDivisionError abs all any bool bytes callable chr classmethod complex dict divmod enumerate filter float
frozenset int isinstance issubclass iter len list map max min next object ord pow property range repr reversed
round set slice sorted staticmethod str sum super tuple type zip
"""
BUILTINS = frozenset(_BUILTINS.split())
"""No `hash` and `id`: they differ between runs."""


@cache
def public(module: str) -> MappingProxyType[str, Any]:
    """The names that may be imported from a module: public, and no modules themselves."""
    loaded = importlib.import_module(module)
    names = getattr(loaded, "__all__", None) or (getattr(loaded, "all_feature_names", None) or dir(loaded))
    found = {name: getattr(loaded, name) for name in names if not name.startswith("_")}
    return MappingProxyType({name: value for name, value in found.items() if not isinstance(value, ModuleType)})


def namespace(name: str) -> dict[str, Any]:
    """The globals that a drafted module begins with."""
    safe = {word: getattr(builtins, word) for word in BUILTINS if hasattr(builtins, word)}
    return {
        "__name__": name,
        "__builtins__": {**safe, "__import__": _import, "__build_class__": builtins.__build_class__},
    }


def _import(
    name: str, globals: Any = None, locals: Any = None, fromlist: tuple[str, ...] | None = (), level: int = 0
) -> object:
    """Stands in for `__import__`: shallow copies of the allowed modules, so that no module leads to another."""
    if level or name not in MODULES:
        raise ImportError(f"a drafted module may not import {'.' * level}{name}")
    return _copy(name if fromlist else name.partition(".")[0])


@cache
def _copy(name: str) -> SimpleNamespace:
    inner = {other.removeprefix(f"{name}."): _copy(other) for other in MODULES if other.startswith(f"{name}.")}
    own = dict(public(name)) if name in MODULES else {}
    return SimpleNamespace(**{**own, **inner})
