"""The command `potluck-audit`. Each subcommand is a file of `commands`."""

from __future__ import annotations

import sys
from typing import Annotated, Protocol

import tyro

from potluck.rpc.console import output_may_end
from potluck.rpc.errors import PotluckError
from potluck_audit.commands.blame import BlameCommand
from potluck_audit.commands.console import SERVICE, tell
from potluck_audit.commands.credit import CreditCommand
from potluck_audit.commands.figures import FiguresCommand
from potluck_audit.commands.gate import GateCommand
from potluck_audit.commands.paper import PaperCommand
from potluck_audit.commands.run import RunCommand
from potluck_audit.commands.serve import ServeCommand
from potluck_audit.commands.swap import SwapCommand
from potluck_audit.commands.table import TableCommand
from potluck_audit.commands.whowhen import WhoWhenCommand

Command = (
    Annotated[ServeCommand, tyro.conf.subcommand("serve")]
    | Annotated[RunCommand, tyro.conf.subcommand("run")]
    | Annotated[CreditCommand, tyro.conf.subcommand("credit")]
    | Annotated[GateCommand, tyro.conf.subcommand("gate")]
    | Annotated[SwapCommand, tyro.conf.subcommand("swap")]
    | Annotated[TableCommand, tyro.conf.subcommand("table")]
    | Annotated[FiguresCommand, tyro.conf.subcommand("figures")]
    | Annotated[PaperCommand, tyro.conf.subcommand("paper")]
    | Annotated[BlameCommand, tyro.conf.subcommand("blame")]
    | Annotated[WhoWhenCommand, tyro.conf.subcommand("whowhen")]
)


class Runs(Protocol):
    """A command with its settings."""

    def run(self) -> int:
        """Does it; gives the exit status."""
        ...


def main(args: list[str] | None = None) -> None:
    """Behaviour metrics, credit and reports of trained teams."""
    try:
        with output_may_end():
            command: Runs = tyro.cli(Command, args=args, prog=SERVICE, description=main.__doc__)
            sys.exit(command.run())
    except PotluckError as error:
        tell(f"{SERVICE}: {error.message} [{error.reason}]")
        sys.exit(1)
    except KeyboardInterrupt:
        sys.exit(130)
