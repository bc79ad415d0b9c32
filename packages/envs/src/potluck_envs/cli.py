"""The `potluck-envs` command: serve games, list them, check them."""

from __future__ import annotations

import asyncio
import sys
from typing import Annotated, Literal

import tyro

from potluck.rpc.console import output_may_end
from potluck.rpc.errors import PotluckError
from potluck.rpc.logs import configure_logs
from potluck_envs.errors import GameUnavailable, InvalidField
from potluck_envs.registry import Registry

PROG = "potluck-envs"
LogLevel = Literal["DEBUG", "INFO", "WARNING", "ERROR"]
app = tyro.extras.SubcommandApp()


@app.command
def serve(
    bind: str = "127.0.0.1:0",
    workers: int = 0,
    timeout: float = 30.0,
    build_timeout: float = 300.0,
    log: LogLevel = "INFO",
) -> None:
    """Serves all installed games over gRPC until SIGTERM or Ctrl-C.

    Prints "ready potluck-envs on HOST:PORT" once it can be used. Engines run in worker processes: one that crashes or
    hangs loses its own episodes with a typed error, and is replaced. Addresses beyond this machine need
    POTLUCK_TLS_CERT, POTLUCK_TLS_KEY and POTLUCK_TOKEN.

    Args:
        bind: Address to listen on, HOST:PORT. Port 0 takes any free one.
        workers: Processes that run games; 0 = one per core. Episodes are spread over them.
        timeout: Seconds that one command may take in the engine before its worker is ended.
        build_timeout: Seconds that an engine may take to be built, before the first episode of a game begins.
        log: Lowest level of log lines on standard error.
    """
    if workers < 0:
        raise InvalidField("--workers", f"{workers} processes", "give 1 or more, or 0 for one per core")
    for flag, seconds in (("--timeout", timeout), ("--build-timeout", build_timeout)):
        if not seconds > 0:
            raise InvalidField(flag, f"{seconds:g} seconds", "give more than 0")
    from potluck.rpc.server import run_until_signal
    from potluck.telemetry import setup
    from potluck_envs.server import env_server

    configure_logs(PROG, log)
    setup.configure(PROG)

    async def run() -> None:
        async with env_server(bind, workers, timeout, build_timeout=build_timeout) as server:
            await run_until_signal(server, PROG)

    asyncio.run(run())


@app.command(name="list")
def list_games(verbose: bool = False) -> None:
    """Lists the installed games, one a line.

    Args:
        verbose: Also engine, dynamics, horizon, reward unit and library digest.
    """
    configure_logs(PROG, "WARNING")
    registry = Registry()
    for name in registry.names():
        print(f"{name:<44} {_facts(registry, name)}" if verbose else name)


@app.command
def conform(
    games: Annotated[tyro.conf.Positional[list[str]], tyro.conf.arg(metavar="GAME ...")],
    episodes: int = 3,
    horizon: int = 0,
    seed: int = 0,
) -> None:
    """Checks that games keep what every game promises; exits with 1 where one does not.

    Same seed same trajectory, exact forks and replays, menus that hold, typed refusals, exact horizons. A game of your
    own is checked the same way once its plug-in is installed.

    Args:
        games: Names as `potluck-envs list` shows them.
        episodes: Episodes per check.
        horizon: Steps per episode; 0 = the game's own.
        seed: First seed.
    """
    if not games:
        sys.exit(f"{PROG}: name at least one game; `{PROG} list` shows them")
    for flag, value, least in (("--episodes", episodes, 1), ("--horizon", horizon, 0), ("--seed", seed, 0)):
        if value < least:
            raise InvalidField(flag, f"is {value}", f"give {least} or more")
    from potluck_envs.conformance.plan import Plan
    from potluck_envs.conformance.runner import check, table

    configure_logs(PROG, "ERROR")
    kept = True
    for game in games:
        results = check(game, Plan(episodes=episodes, horizon=horizon, first_seed=seed))
        print(table(game, results))
        kept = kept and all(result.kept for result in results)
    sys.exit(0 if kept else 1)


@app.command
def guards(args: Annotated[tyro.conf.Positional[list[str]], tyro.conf.arg(metavar="ARGS ...")]) -> None:
    """Burn-in and guard mining: the same as `potluck-optionlib ARGS`, e.g. `potluck-envs guards mine --help`."""
    from potluck_optionlib.cli import main as optionlib

    optionlib(args)


def main(args: list[str] | None = None) -> None:
    """Entry point."""
    args = sys.argv[1:] if args is None else args
    try:
        with output_may_end():
            if args[:1] == ["guards"] and len(args) > 1:
                guards(args[1:])
            else:
                app.cli(prog=PROG, args=args, description=__doc__)
    except PotluckError as error:
        sys.exit(f"{PROG}: {error.message}")


def _facts(registry: Registry, name: str) -> str:
    try:
        info = registry.library(name).info
    except GameUnavailable as error:
        return f"not here: {error.message}"
    except PotluckError as error:
        return f"broken: {error.message}"
    library = f"library {info.library_digest[:12]}"
    return "  ".join((info.engine, info.dynamics, f"{info.default_horizon} steps", info.reward_unit, library))


if __name__ == "__main__":
    main()
