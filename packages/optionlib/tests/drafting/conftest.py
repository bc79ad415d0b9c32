"""The lighthouse plug-in on the path (for child processes, too), the scripted endpoint, and drafts of libraries."""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

SUPPORT = Path(__file__).parent / "support"


@pytest.fixture(scope="session")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Installs the lighthouse: its module on the path and its entry points beside it."""
    site = tmp_path_factory.mktemp("site")
    info = site / "lighthouse-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lighthouse\nVersion: 1\n")
    points = "[potluck.games]\nlighthouse = lighthouse:provider\nclosed = lighthouse:closed\n"
    (info / "entry_points.txt").write_text(points)
    added = [str(site), str(SUPPORT)]
    sys.path[:0] = added
    yield
    for path in added:
        sys.path.remove(path)


@pytest.fixture(scope="session")
def endpoint_module() -> ModuleType:
    name = "potluck_optionlib_tests_endpoint"
    spec = importlib.util.spec_from_file_location(name, SUPPORT / "endpoint.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def good() -> str:
    """The library of the prompt's own example."""
    from potluck_optionlib.drafting.conversation import rules

    text = rules().split("# An example")[1]
    return text.split("```python\n")[1].split("```")[0]


@pytest.fixture(scope="session")
def changed(good: str) -> Callable[..., str]:
    """The good library with passages replaced, each of which must be there once."""

    def change(*pairs: tuple[str, str]) -> str:
        source = good
        for old, new in pairs:
            assert source.count(old) == 1, old
            source = source.replace(old, new)
        return source

    return change
