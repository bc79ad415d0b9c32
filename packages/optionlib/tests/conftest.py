"""The toy game and made-up records as fixtures (test files cannot import each other under importlib mode)."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from potluck_optionlib.burnin import Burnin, BurninPlan, Row
from potluck_optionlib.burnin.records import Ledger
from potluck_optionlib.game import Instance


@pytest.fixture(scope="session")
def toy() -> ModuleType:
    name = "potluck_optionlib_tests_toy"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("toy.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def toy_module() -> Iterator[ModuleType]:
    """The toy by a name that processes started afresh can import."""
    folder = str(Path(__file__).parent)
    sys.path.insert(0, folder)
    try:
        yield importlib.import_module("toy")
    finally:
        sys.path.remove(folder)
        sys.modules.pop("toy", None)


@pytest.fixture(scope="session")
def recorded() -> Callable[..., Burnin]:
    """Makes a burn-in of rows (option, outcome, features, solo, own_changed, changed), all in one episode of a kind."""

    def make(*rows: tuple, solo_only: tuple[str, ...] = (), digest: str = "d", seed: int = 0) -> Burnin:
        ledger = Ledger()
        for episode, solo in enumerate((True, False)):
            played = [row for row in rows if (row[3] if len(row) > 3 else True) is solo]
            ledger.add(episode, solo, [Row(0, 0, Instance(r[0]), r[2], r[1], *_changes(r)) for r in played])
        return Burnin("toy/hands", digest, solo_only, BurninPlan(1, 1, seed, 20), ledger.table())

    return make


def _changes(row: tuple) -> tuple[bool | None, bool | None]:
    return (row[4], row[5]) if len(row) > 4 else (None, None)
