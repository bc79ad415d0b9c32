"""The command `potluck-policy`: serve a backbone, or describe a server or a backbone."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Annotated

import tyro

from potluck.rpc.console import output_may_end
from potluck.rpc.errors import PotluckError
from potluck_policy_server.config import ServeConfig
from potluck_policy_server.flags import checked, registry


def serve(config: Annotated[ServeConfig, tyro.conf.arg(name="")]) -> None:
    """Serve a backbone over gRPC until SIGTERM or Ctrl-C.

    Prints one line, `ready potluck-policy on host:port`, once clients may connect. TLS and the bearer token come from
    POTLUCK_TLS_CERT, POTLUCK_TLS_KEY, POTLUCK_TLS_CA and POTLUCK_TOKEN; a bind beyond loopback needs both.

    Examples:
        potluck-policy serve
        potluck-policy serve --backbone tabular --bind 127.0.0.1:7002
        potluck-policy serve --backbone Qwen/Qwen3-4B-Instruct-2507 --device cuda --dtype bfloat16
    """
    config = checked(config)
    # Before torch is imported: its threads, and those of the tokenizers, are fixed at start.
    os.environ["OMP_NUM_THREADS"] = str(config.threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from potluck_policy_server import serving

    asyncio.run(serving.run(config))


def describe(server: Annotated[str, tyro.conf.Positional] = "") -> None:
    """Describe the server at host:port, or list the installed backbones.

    Args:
        server: host:port of a running policy server; without it, the names that `serve --backbone` takes.
    """
    if not server:
        from potluck_policy_server.backbones import registry

        print("\n".join(registry.known()))
        return
    from potluck_policy_server import serving

    print(json.dumps(asyncio.run(serving.ask(server)), indent=2))


def main() -> None:
    """Entry point."""
    try:
        with output_may_end():
            tyro.extras.subcommand_cli_from_dict(
                {"serve": serve, "describe": describe}, prog="potluck-policy", description=__doc__, registry=registry()
            )
    except PotluckError as error:
        print(f"potluck-policy: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
