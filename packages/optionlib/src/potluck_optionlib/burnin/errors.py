"""What can be wrong with a burn-in."""

from __future__ import annotations

from potluck_optionlib.errors import BurninFormatError, OptionlibError


class BurninPlanError(OptionlibError):
    """A plan that cannot be played."""


class BurninMismatchError(OptionlibError):
    """A folder holds another burn-in than the one asked for."""


class BurninIncompleteError(BurninFormatError):
    """A folder's burn-in has not been played to its end."""


class BurninBusyError(OptionlibError):
    """Another process is at work in the folder."""


class BurninStorageError(OptionlibError):
    """Records could not be written; what was sealed before is kept."""


class BurninWorkerError(OptionlibError):
    """A worker process died; what was sealed before is kept."""


class EmptyBurninError(OptionlibError):
    """A burn-in without a single record."""


class SameEpisodesError(OptionlibError):
    """Burn-ins that share episodes cannot be pooled: what they show would count twice."""


class SupportError(OptionlibError):
    """A support that no guard can be mined by."""


class FeatureError(OptionlibError):
    """A game gave a feature that is no string, or left one out."""


class TooManyInstancesError(OptionlibError):
    """A contract's instantiation yields more targets than any menu could hold."""


class GameFaultError(OptionlibError):
    """A game failed outside of any option's execution."""
