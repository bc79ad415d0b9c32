"""`potluck-audit serve`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from potluck.rpc.logs import configure_logs
from potluck.rpc.server import run_until_signal
from potluck.telemetry import setup
from potluck_audit.commands.console import SERVICE


@dataclass(frozen=True)
class ServeCommand:
    """Serve audits over gRPC.

    Prints "ready potluck-audit on host:port" when it can be used and logs to stderr. It reads run folders of this
    machine. Addresses other than loopback need TLS and a token (POTLUCK_TLS_CERT, POTLUCK_TLS_KEY, POTLUCK_TOKEN).
    """

    bind: str = "127.0.0.1:0"
    """host:port to listen on; port 0 takes a free one."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""

    def run(self) -> int:
        return asyncio.run(self._serve())

    async def _serve(self) -> int:
        from potluck_audit.service import start_server

        configure_logs(SERVICE, self.log_level)
        setup.configure(SERVICE)
        await run_until_signal(await start_server(self.bind), SERVICE)
        return 0
