"""Says precisely what is wrong with a game's contracts: `check` reads them and plays a little.

Static rules read the contracts; dynamic ones watch short random play for the mistakes that only show there.
"""

from potluck_optionlib.validation.check import check
from potluck_optionlib.validation.faults import Fault, Rule

__all__ = ["Fault", "Rule", "check"]
