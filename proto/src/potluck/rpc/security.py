"""TLS and token of one process, by default from its environment.

`POTLUCK_TLS_CERT` and `POTLUCK_TLS_KEY` are PEM files: a server serves with them, a client shows them. `POTLUCK_TLS_CA`
is a PEM file: a client trusts only servers that it signed, and a server that has it demands a client certificate
(mutual TLS). `POTLUCK_TOKEN` is the bearer token of every call except health checks. Nothing set: plain text, which is
allowed on loopback alone.

API: `Security(cert=None, key=None, ca=None, token=None)` with PEM bytes, `Security.from_env()`, `is_loopback(address)`.
"""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import grpc

from potluck.rpc.errors import PotluckError, Reason


@dataclass(frozen=True, slots=True, repr=False)
class Security:
    """PEM bytes and the token. `Security()` is plain text without a token."""

    cert: bytes | None = None
    key: bytes | None = None
    ca: bytes | None = None
    token: str | None = None

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """What the POTLUCK_TLS_* and POTLUCK_TOKEN variables say."""
        return cls(
            cert=_read(env, "POTLUCK_TLS_CERT"),
            key=_read(env, "POTLUCK_TLS_KEY"),
            ca=_read(env, "POTLUCK_TLS_CA"),
            token=env.get("POTLUCK_TOKEN") or None,
        )

    def __post_init__(self) -> None:
        if (self.cert is None) != (self.key is None):
            raise PotluckError(
                Reason.INVALID_ARGUMENT,
                "TLS needs a certificate and its key, and only one of them is set",
                "set both POTLUCK_TLS_CERT and POTLUCK_TLS_KEY, or neither",
                field="security",
            )
        if self.token is not None and not (self.token.isascii() and self.token.isprintable()):
            raise PotluckError(
                Reason.INVALID_ARGUMENT,
                "the token has characters that no HTTP header can carry",
                "use printable ASCII in POTLUCK_TOKEN",
                field="token",
            )

    def __repr__(self) -> str:
        shown = [name for name in ("cert", "key", "ca", "token") if getattr(self, name) is not None]
        return f"Security({', '.join(shown)})"

    def server_credentials(self) -> grpc.ServerCredentials | None:
        """Credentials to listen with, or None for plain text."""
        if self.cert is None or self.key is None:
            return None
        return grpc.ssl_server_credentials([(self.key, self.cert)], self.ca, require_client_auth=self.ca is not None)

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """Credentials to connect with, or None for plain text."""
        if self.ca is None and self.cert is None:
            return None
        return grpc.ssl_channel_credentials(self.ca, self.key, self.cert)


def is_loopback(address: str) -> bool:
    """Whether a host:port (or unix: path) can only be reached from this machine."""
    if address.startswith("unix:"):
        return True
    host = address.rpartition(":")[0].strip("[]") or address
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read(env: Mapping[str, str], name: str) -> bytes | None:
    path = env.get(name)
    if not path:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise PotluckError(
            Reason.INVALID_ARGUMENT,
            f"{name} names {path}, which cannot be read ({error.strerror})",
            "point it at a PEM file",
            field=name,
        ) from error
