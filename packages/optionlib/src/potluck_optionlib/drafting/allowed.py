"""What a drafted module may use: modules to import from, and builtins. The screen reads it, the child enforces it."""

from __future__ import annotations

import builtins
import dataclasses
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

_WITHHELD = """
update_wrapper wraps make_dataclass cached_property singledispatch singledispatchmethod get_type_hints ForwardRef
TypedDict EnumMeta EnumType global_enum global_enum_repr global_flag_repr global_str pickle_by_enum_name
pickle_by_global_name
"""
WITHHELD = frozenset(_WITHHELD.split())
"""Names that copy attributes by their names, run text, make metaclasses or write into other modules."""

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
    found = {name: getattr(loaded, name) for name in names if not name.startswith("_") and name not in WITHHELD}
    found = {name: value for name, value in found.items() if not isinstance(value, ModuleType)}
    return MappingProxyType(
        {name: _dataclass if value is dataclasses.dataclass else value for name, value in found.items()}
    )


def namespace(name: str) -> dict[str, Any]:
    """The globals that a drafted module begins with."""
    safe = {word: getattr(builtins, word) for word in BUILTINS if hasattr(builtins, word)}
    return {
        "__name__": name,
        "__builtins__": {**safe, "type": _type, "__import__": _import, "__build_class__": builtins.__build_class__},
    }


def _type(value: object, /) -> type:
    """Stands in for `type`: no metaclass comes of it, and no class from a dictionary of any names."""
    if isinstance(value, type):
        raise TypeError("a drafted module may not ask for the type of a class")
    return type(value)


def _dataclass(cls: Any = None, /, **options: Any) -> Any:
    """Stands in for `dataclass`, which runs its fields' names as part of a text."""

    def made(cls: Any) -> Any:
        for name in (name for kind in cls.__mro__ for name in vars(kind).get("__annotations__", ())):
            if not (type(name) is str and name.isidentifier() and not name.startswith("__")):
                raise TypeError("a drafted dataclass may not have a field of this name")
        return dataclasses.dataclass(**options)(cls)

    return made if cls is None else made(cls)


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
