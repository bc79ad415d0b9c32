"""The `potluck` command.

potluck train @configs/fc-tiny.toml --learner.lr 1e-4     settings from a file, flags on top
potluck train --resume runs/NAME                          goes on after the last finished round
potluck eval runs/NAME --teams trained frozen uniform     teams on the test seeds, with intervals
potluck replay runs/NAME --list                           re-executes recorded episodes
potluck dpo runs/NAME --base FOLDER                       adapters on the audit's contrast pairs
potluck up                                                local services until Ctrl-C
potluck demo                                              trains, evaluates and audits a small team
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from potluck.rpc.console import output_may_end
from potluck.rpc.errors import PotluckError
from potluck.telemetry.setup import configure, shutdown
from potluck_trainer.arguments import COMMANDS, parse
from potluck_trainer.errors import ConfigError, TrainerError

INTERRUPTED = 130

HELP = """usage: potluck COMMAND [@CONFIG.toml] [FLAGS]

Trains small frozen language models as teams in spatial games, and shows who brought what.

commands:
{commands}

`potluck COMMAND --help` explains each. Settings come from @CONFIG.toml, flags override them.
Servers are started on this machine unless --envs host:port[,host:port] and --policy host:port name running ones.
"""


def main(argv: Sequence[str] | None = None) -> int:
    with output_may_end():
        return _main(list(sys.argv[1:] if argv is None else argv))


def _main(args: list[str]) -> int:
    if not args or args[0] in ("-h", "--help"):
        listed = "\n".join(f"  {name:8} {command.about}" for name, command in COMMANDS.items())
        print(HELP.format(commands=listed))
        return 0 if args else 2
    try:
        job = parse(args)
        return 0 if job is None else run(job)
    except ConfigError as error:
        print(f"potluck: {error}", file=sys.stderr)
        return 2
    except TrainerError as error:
        print(f"potluck: {error}", file=sys.stderr)
        return 1


def run(job: Callable[[], Coroutine[Any, Any, int]]) -> int:
    """Runs a command's coroutine; Ctrl-C and SIGTERM end it cleanly, a second one at once."""
    try:
        configure("potluck-trainer")
        return asyncio.run(_interruptible(job()))
    except PotluckError as error:
        print("; ".join([f"potluck: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 1
    finally:
        shutdown()


async def _interruptible(job: Awaitable[int]) -> int:
    task = asyncio.ensure_future(job)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        print("potluck: stopping; services are being ended (again to stop at once)", file=sys.stderr, flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)
        task.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        return await task
    except asyncio.CancelledError:
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
