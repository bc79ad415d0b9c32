"""`potluck up`: the local services in the foreground."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from potluck_trainer.config import RunConfig, ServicesConfig
from potluck_trainer.errors import ServiceError
from potluck_trainer.progress import Reporter
from potluck_trainer.services import Service, audit_server, env_server, policy_server, running

if TYPE_CHECKING:
    from potluck_trainer.arguments import UpArgs


async def up(args: UpArgs, reporter: Reporter) -> None:
    """Runs until Ctrl-C, or until a service ends by itself."""
    services = ServicesConfig(env_workers=args.env_workers, env_timeout_s=args.env_timeout_s)
    config = RunConfig(backbone=args.backbone, services=services)
    commands = [env_server(config), policy_server(config), audit_server()]
    async with running(commands, args.logs, config.services.start_timeout_s) as started:
        env, policy, audit = (service.address for service in started)
        for service in started:
            reporter.say(f"{service.command.program:15} {service.address}   log {service.log}")
        reporter.say(f"\npotluck train --backbone {args.backbone} --envs {env} --policy {policy}")
        reporter.say(f"audit server: {audit}. Ctrl-C stops all.")
        await _first_end(started)


async def _first_end(services: list[Service]) -> None:
    waits = {asyncio.create_task(service.process.wait()): service for service in services}
    try:
        done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    service = waits[done.pop()]
    raise ServiceError(f"{service.command.program} ended by itself: {service.last_words()}", service.log)
