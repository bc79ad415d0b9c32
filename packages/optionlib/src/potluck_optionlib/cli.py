"""The command `potluck-optionlib`: burn-in, mining, verification and a report of guard libraries.

Games come from installed packages through the entry points of the group `potluck.games`. Each subcommand is a file
of `commands`.
"""

from __future__ import annotations

import sys
from typing import Annotated, Protocol

import tyro

from potluck_optionlib.commands.burnin import BurninCommand
from potluck_optionlib.commands.check import CheckCommand
from potluck_optionlib.commands.console import ERRORS, output_may_end
from potluck_optionlib.commands.draft import DraftCommand
from potluck_optionlib.commands.heldout import HeldOutCommand
from potluck_optionlib.commands.mine import MineCommand
from potluck_optionlib.commands.remine import RemineCommand
from potluck_optionlib.commands.report import ReportCommand
from potluck_optionlib.commands.suspect import SuspectCommand
from potluck_optionlib.commands.verify import VerifyCommand
from potluck_optionlib.errors import OptionlibError

Command = (
    Annotated[CheckCommand, tyro.conf.subcommand("check")]
    | Annotated[BurninCommand, tyro.conf.subcommand("burnin")]
    | Annotated[MineCommand, tyro.conf.subcommand("mine")]
    | Annotated[VerifyCommand, tyro.conf.subcommand("verify")]
    | Annotated[HeldOutCommand, tyro.conf.subcommand("heldout")]
    | Annotated[RemineCommand, tyro.conf.subcommand("remine")]
    | Annotated[SuspectCommand, tyro.conf.subcommand("suspect")]
    | Annotated[ReportCommand, tyro.conf.subcommand("report")]
    | Annotated[DraftCommand, tyro.conf.subcommand("draft")]
)


class Runs(Protocol):
    """A command with its settings."""

    def run(self) -> None: ...


def main(args: list[str] | None = None) -> None:
    """Entry point."""
    try:
        with output_may_end():
            command: Runs = tyro.cli(Command, args=args, prog="potluck-optionlib", description=__doc__)
            command.run()
    except (OptionlibError, OSError) as error:
        ERRORS.print(f"potluck-optionlib: {_said(error)}", highlight=False, soft_wrap=True)
        sys.exit(2)


def _said(error: Exception) -> str:
    """The message; of a file that cannot be read or written, its name and why."""
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror.lower()}; check the path and its rights"
    return str(error)
