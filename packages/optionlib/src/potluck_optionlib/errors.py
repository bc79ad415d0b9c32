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


class ContractError(OptionlibError):
    """A contract or a world does not keep its form."""


class GuardEditedError(GuardFormatError):
    """A mined guard library is not as it was written."""


class RecordError(OptionlibError):
    """A record says something that mining does not know."""


class BurninReusedError(OptionlibError):
    """A library is held against the burn-in that it was mined from."""


class NotDraftableError(OptionlibError):
    """A game's provider cannot play contracts that are not its own."""


class NoCertificateError(OptionlibError):
    """A guard library says nothing about where it came from."""
