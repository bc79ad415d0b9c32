"""Reads a drafted module without running it: it parses, defines `contracts`, and uses nothing but what it may.

Refused are imports off the list, names and attributes with leading underscores (but `self._x`), the attributes by
which generators, frames, tracebacks and functions lead to other code, and every builtin off the list. Every offence
is reported with its line, so that one repair can cure them all.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterator
from typing import TypeGuard

from potluck_optionlib.drafting.allowed import BUILTINS, MODULES, public
from potluck_optionlib.drafting.findings import Finding, Stage

MAX_BYTES = 200_000
MAX_FINDINGS = 20
ENTRY = "contracts"
_SPECIAL_METHODS = frozenset({"__init__", "__post_init__", "__call__", "__eq__", "__repr__", "__len__", "__iter__"})
_PUBLIC_UNDERSCORED = frozenset({"_replace", "_asdict", "_fields", "_make"})
"""The named tuple's own."""
_GENERATOR_AND_FRAME_ATTRIBUTES = """
gi_frame gi_code gi_yieldfrom cr_frame cr_code cr_await cr_origin ag_frame ag_code ag_await f_back f_builtins
f_code f_globals f_locals f_trace tb_frame tb_next tb_lasti func_globals func_code mro
"""
_SELF_MATCHING = frozenset(["bool", "bytes", "dict", "float", "frozenset", "int", "list", "set", "str", "tuple"])
"""Builtins whose one positional pattern is the value itself."""
_INNARDS = frozenset(_GENERATOR_AND_FRAME_ATTRIBUTES.split())


def screen(source: str) -> tuple[Finding, ...]:
    """Every offence of a module's source, at most MAX_FINDINGS; empty where it may be loaded."""
    if len(source.encode("utf-8", "replace")) > MAX_BYTES:
        return (_fault("too_long", f"the module has more than {MAX_BYTES} bytes. Write a shorter one."),)
    try:
        tree = ast.parse(source)
        compile(tree, "contracts.py", "exec")
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        text = (getattr(error, "text", None) or "").strip()
        where = f"line {line}: " if line else ""
        return (_fault("syntax", f"{where}{getattr(error, 'msg', error)}{f' in `{text}`' if text else ''}"),)
    except (RecursionError, MemoryError):
        return (_fault("syntax", "the module nests too deeply for Python's parser."),)
    offences = sorted(set(_offences(tree)))
    return tuple(_fault(kind, f"line {line}: {text}" if line else text) for line, kind, text in offences[:MAX_FINDINGS])


Offence = tuple[int, str, str]


def _offences(tree: ast.Module) -> Iterator[Offence]:
    yield from _entry(tree)
    bound = _bound(tree)
    asked = {id(node.func) for node in ast.walk(tree) if _asks_for_a_type(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from _imports(node)
        elif isinstance(node, ast.Attribute):
            yield from _attribute(node)
        elif isinstance(node, ast.Name):
            yield from _name(node, bound)
            if node.id == "type" and "type" not in bound and id(node) not in asked:
                yield node.lineno, "builtin", "`type` may only be called with one argument, as in `type(x)`."
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            if _dunder(node.name) and node.name not in _SPECIAL_METHODS:
                yield node.lineno, "dunder", f"`{node.name}` may not be defined."
        elif isinstance(node, ast.MatchClass):
            yield from _class_pattern(node, bound)
        elif isinstance(node, ast.arg | ast.keyword | ast.MatchAs | ast.MatchStar | ast.ExceptHandler | ast.alias):
            yield from _binding(node)


def _entry(tree: ast.Module) -> Iterator[Offence]:
    found = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == ENTRY]
    if len(found) != 1:
        yield (
            0,
            "entry",
            f"the module must define `def {ENTRY}(world)` exactly once at top level, it does {len(found)} times.",
        )
        return
    arguments = found[0].args
    needed = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    keywords = sum(default is None for default in arguments.kw_defaults)
    if needed > 1 or keywords or len(arguments.posonlyargs) + len(arguments.args) < 1:
        yield found[0].lineno, "entry", f"`{ENTRY}` must take one positional argument."


def _imports(node: ast.Import | ast.ImportFrom) -> Iterator[Offence]:
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    else:
        names = ["." * node.level + (node.module or "")]
    for name in names:
        if name not in MODULES:
            yield node.lineno, "import", f"`{name}` may not be imported; allowed are {', '.join(MODULES)}."
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if alias.name not in public(name) and f"{name}.{alias.name}" not in MODULES:
                    yield node.lineno, "import", f"`{alias.name}` may not be imported from `{name}`."


def _asks_for_a_type(node: ast.AST) -> TypeGuard[ast.Call]:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and len(node.args) == 1
        and not isinstance(node.args[0], ast.Starred)
        and not node.keywords
    )


def _attribute(node: ast.Attribute) -> Iterator[Offence]:
    own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls") and not _dunder(node.attr)
    if not own:
        yield from _word(node.lineno, node.attr)


def _class_pattern(node: ast.MatchClass, bound: frozenset[str]) -> Iterator[Offence]:
    """A positional pattern reads the attribute that the class names, which no reading of the source can tell."""
    for attribute in node.kwd_attrs:
        yield from _word(node.lineno, attribute)
    plain = isinstance(node.cls, ast.Name) and node.cls.id in _SELF_MATCHING - bound
    if node.patterns and not plain:
        yield node.lineno, "pattern", "class patterns must name their attributes, as in `case Spot(x=1)`."


def _word(line: int, attribute: str) -> Iterator[Offence]:
    if _dunder(attribute):
        yield line, "dunder", f"the attribute `{attribute}` may not be used."
    elif attribute in _INNARDS or (attribute.startswith("_") and attribute not in _PUBLIC_UNDERSCORED):
        yield line, "private", f"the attribute `{attribute}` is private; use the public interface only."


def _name(node: ast.Name, bound: frozenset[str]) -> Iterator[Offence]:
    if _dunder(node.id):
        yield node.lineno, "dunder", f"the name `{node.id}` may not be used."
    elif node.id not in bound and node.id not in BUILTINS:
        known = hasattr(builtins, node.id)
        why = "is not available to a drafted module" if known else "is not defined anywhere in the module"
        yield node.lineno, "builtin" if known else "name", f"`{node.id}` {why}."


def _binding(node: ast.AST) -> Iterator[Offence]:
    name = getattr(node, "arg", None) or getattr(node, "asname", None) or getattr(node, "name", None)
    if isinstance(name, str) and _dunder(name):
        line = getattr(node, "lineno", 0)
        yield line, "dunder", f"the name `{name}` may not be bound."


def _bound(tree: ast.Module) -> frozenset[str]:
    """Every name that is bound somewhere in the module, whatever its scope."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            if isinstance(node.ctx, ast.Store):
                names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add(node.asname or node.name.partition(".")[0])
        else:
            for field in ("name", "arg", "rest"):
                value = getattr(node, field, None)
                if isinstance(value, str) and not isinstance(node, ast.keyword):
                    names.add(value)
    return frozenset(names)


def _dunder(name: str) -> bool:
    return name.startswith("__")


def _fault(kind: str, evidence: str) -> Finding:
    return Finding(stage=Stage.SCREEN, kind=kind, evidence=evidence)
