"""Local services as child processes: started where no address is given, stopped with the command that started them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from potluck_trainer.config import RunConfig
from potluck_trainer.errors import ServiceError
from potluck_trainer.session import check_envs, check_policy

READY = re.compile(r"^ready (\S+) on (\S+:\d+)\s*$")
STOP_S = 20.0


@dataclass(frozen=True, slots=True)
class Command:
    """A service's console command, the package that has it, and its arguments."""

    program: str
    package: str
    args: tuple[str, ...]

    def argv(self) -> list[str]:
        """From this environment, from PATH, or through uv from the workspace."""
        here = Path(sys.executable).parent / self.program
        found = str(here) if here.exists() else shutil.which(self.program)
        if found:
            return [found, *self.args]
        uv = shutil.which("uv")
        if uv:
            return [uv, "run", "--package", self.package, self.program, *self.args]
        raise ServiceError(
            f"{self.program} is not installed here and there is no uv; install {self.package}, "
            "or start the service elsewhere and pass its address"
        )


def env_server(config: RunConfig) -> Command:
    workers, timeout = config.services.env_workers, config.services.env_timeout_s
    args = ("serve", "--workers", str(workers), "--timeout", f"{timeout:g}")
    return Command("potluck-envs", "potluck-envs", args)


def policy_server(config: RunConfig) -> Command:
    args = ("serve", "--backbone", config.backbone, "--threads", str(config.services.threads))
    return Command("potluck-policy", "potluck-policy-server", args)


def audit_server() -> Command:
    return Command("potluck-audit", "potluck-audit", ("serve",))


@dataclass
class Service:
    """A running service."""

    command: Command
    process: asyncio.subprocess.Process
    log: Path
    address: str = ""
    drain: asyncio.Task[None] | None = field(default=None, repr=False)

    async def wait_ready(self, timeout_s: float) -> None:
        """Waits for the line that says where it listens."""
        try:
            async with asyncio.timeout(timeout_s):
                self.address = await self._ready_line()
        except TimeoutError:
            raise ServiceError(
                f"{self.command.program} was not ready within {timeout_s:g} s; look into its log, or allow more with "
                "--services.start-timeout-s",
                self.log,
            ) from None
        self.drain = asyncio.create_task(self._drain())

    async def _ready_line(self) -> str:
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            if found := READY.match(line.decode(errors="replace")):
                return found.group(2)
        code = await self.process.wait()
        what = f"{self.command.program} ended with code {code} before it was ready"
        raise ServiceError(f"{what}: {self.last_words()}", self.log)

    async def _drain(self) -> None:
        assert self.process.stdout is not None
        while await self.process.stdout.readline():
            pass

    def last_words(self) -> str:
        """The end of its log."""
        lines = [line for line in self.log.read_text(errors="replace").splitlines() if line.strip()]
        return lines[-1][-500:] if lines else "it said nothing"

    async def stop(self) -> None:
        """SIGTERM, a grace, then SIGKILL to the whole session."""
        if self.process.stdin is not None:
            self.process.stdin.close()
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await self.process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            await self.process.wait()
        if self.drain is not None:
            self.drain.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self.drain


OnReady = Callable[[Service], Awaitable[None]]


async def start(command: Command, logs: Path, threads: int = 1) -> Service:
    """Starts a service on a leash; its log goes to a file."""
    logs.mkdir(parents=True, exist_ok=True)
    log = logs / f"{command.program}.log"
    environment = {"OMP_NUM_THREADS": str(threads)} | os.environ | {"PYTHONUNBUFFERED": "1"}
    with log.open("ab") as sink:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "potluck_trainer.leash",
            *command.argv(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=sink,
            env=environment,
            start_new_session=True,
        )
    return Service(command, process, log)


@asynccontextmanager
async def running(
    commands: Sequence[Command], logs: Path, timeout_s: float, threads: int = 1, on_ready: OnReady | None = None
) -> AsyncIterator[list[Service]]:
    """Starts services together, waits until all are ready, and stops them at the end. What `on_ready` finds wrong with
    one ends the others while they still load."""
    services: list[Service] = []

    async def ready(service: Service) -> None:
        await service.wait_ready(timeout_s)
        if on_ready is not None:
            await on_ready(service)

    try:
        for command in commands:
            services.append(await start(command, logs, threads))
        waits = [asyncio.create_task(ready(service)) for service in services]
        try:
            await asyncio.gather(*waits)
        finally:
            for wait in waits:
                wait.cancel()
        yield services
    finally:
        await asyncio.shield(asyncio.gather(*(service.stop() for service in services)))


@asynccontextmanager
async def with_services(config: RunConfig, logs: Path) -> AsyncIterator[RunConfig]:
    """The config with the addresses of services that were started for it; those it names are left alone, and asked
    first whether they have what it wants."""
    commands = [] if config.envs else [env_server(config)]
    commands += [] if config.policy else [policy_server(config)]
    if not commands:
        yield config
        return
    if config.envs:
        await check_envs(config.env_addresses, config)
    if config.policy:
        await check_policy(config.policy, config)

    async def on_ready(service: Service) -> None:
        if service.command.program == "potluck-envs":
            await check_envs([service.address], config)

    timeout_s, threads = config.services.start_timeout_s, config.services.threads
    async with running(commands, logs, timeout_s, threads, on_ready) as services:
        found = {service.command.program: service.address for service in services}
        yield config.model_copy(
            update={
                "envs": config.envs or found["potluck-envs"],
                "policy": config.policy or found["potluck-policy"],
            }
        )
