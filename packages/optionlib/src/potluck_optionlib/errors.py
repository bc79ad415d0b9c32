"""The error tree of the option library."""

from __future__ import annotations


class OptionlibError(Exception):
    """Base of everything that this package raises on purpose."""


class GuardFormatError(OptionlibError):
    """A guard library is not readable as one."""


class ContractMismatchError(OptionlibError):
    """A guard library was mined against other option contracts."""


class UnknownGameError(OptionlibError):
    """No installed package offers a game of this name."""


class BurninFormatError(OptionlibError):
    """A burn-in file cannot be read or was changed after it was written."""
