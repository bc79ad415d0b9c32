"""The crowd as a fixture (test files cannot import each other under importlib mode)."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def crowd() -> ModuleType:
    name = "potluck_optionlib_tests_crowd"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("crowd.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
