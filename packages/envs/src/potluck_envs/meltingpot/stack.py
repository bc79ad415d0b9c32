"""Melting Pot's configurations and dmlab2d, imported without what the package's front door brings along.

`import meltingpot` loads TensorFlow and JAX for its bots. An empty package of that name in `sys.modules` lets its
submodules be imported alone. The rest of this package gets the engine's modules from here.
"""

from __future__ import annotations

import importlib
import platform
import sys
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from potluck.rpc.errors import Reason
from potluck_envs.errors import GameUnavailable

GLIBC = (2, 35)


class EngineUnavailable(GameUnavailable):
    """Melting Pot's engine is not installed, or cannot be here."""

    def __init__(self, why: str, cure: str) -> None:
        super().__init__(Reason.UNSUPPORTED, f"Melting Pot's engine cannot be loaded: {why}", cure)


def check_glibc(libc: str, version: str) -> None:
    """Raises EngineUnavailable where the C library is too old for dmlab2d's wheels."""
    if libc != "glibc":
        return
    if tuple(int(part) for part in version.split(".")[:2]) < GLIBC:
        needed = ".".join(map(str, GLIBC))
        cure = f"use a system with glibc {needed} or newer: Debian 12, Ubuntu 22.04; other games play here"
        raise EngineUnavailable(f"this machine has glibc {version}, dmlab2d needs {needed}", cure)


@lru_cache(maxsize=1)
def package_folder() -> Path:
    """Where the package meltingpot lies. Makes its submodules importable. Raises EngineUnavailable."""
    check_glibc(*platform.libc_ver())
    for name in ("dmlab2d", "meltingpot"):
        spec = None if name in sys.modules else find_spec(name)
        if spec is None and name not in sys.modules:
            cure = "run `make setup`, or install it as docs/engines.md says"
            raise EngineUnavailable(f"the package {name} is not installed", cure)
        if name == "meltingpot" and spec is not None:
            package = ModuleType(name)
            package.__path__ = list(spec.submodule_search_locations or ())
            package.__spec__ = spec
            sys.modules[name] = package
    return Path(sys.modules["meltingpot"].__path__[0])


def config(substrate: str) -> ModuleType:
    """The module with a substrate's map, actions and build function."""
    package_folder()
    return importlib.import_module(f"meltingpot.configs.substrates.{substrate}")


def builder() -> Any:
    """The module that makes engine settings out of a configuration."""
    package_folder()
    return importlib.import_module("meltingpot.utils.substrates.builder")


def lab2d() -> Any:
    """The module dmlab2d. Raises EngineUnavailable where its library does not load."""
    package_folder()
    try:
        return importlib.import_module("dmlab2d")
    except ImportError as error:
        raise EngineUnavailable(f"dmlab2d: {error}", "reinstall it for this Python and system") from error


def lab2d_is_there() -> None:
    """Raises EngineUnavailable where dmlab2d is not installed or cannot run; loads nothing."""
    package_folder()
