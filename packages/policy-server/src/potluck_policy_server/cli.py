"""The command `potluck-policy`: serve a backbone, describe a server, or check what a server promises."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from potluck.rpc.console import output_may_end
from potluck.rpc.errors import PotluckError
from potluck_policy_server.config import ServeConfig
from potluck_policy_server.errors import InvalidRequest
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
    _before_torch(config.threads)
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


def conform(
    server: Annotated[str, tyro.conf.Positional],
    adapters: tuple[Path, ...] = (),
    decisions: int = 12,
    patience: float = 120.0,
) -> None:
    """Ask the policy server at host:port for everything that a policy server promises; exit 1 if one promise is broken.

    Args:
        server: host:port of any program that speaks potluck.policy.v1.
        adapters: two adapter folders in PEFT's format, for servers whose base cannot be downloaded.
        decisions: how many decisions most checks ask for.
        patience: seconds to wait for one answer.
    """
    from potluck_policy_server.conformance import Plan, runner

    plan = Plan(decisions=decisions, patience_s=patience, adapters=adapters)
    results = asyncio.run(runner.check(server, plan))
    print(runner.table(server, results))
    raise SystemExit(0 if all(result.kept for result in results) else 1)


def probe(
    backbone: Annotated[str, tyro.conf.Positional],
    questions: int = 8,
    steps: int = 40,
    rate: float = 1e-3,
    largest: int = 26,
    seed: int = 0,
    threads: int = 1,
    dtype: Literal["float32", "bfloat16", "float16"] = "float32",
    device: str = "cpu",
    as_json: bool = False,
) -> None:
    """Measure whether a backbone can bind labels to options, and recommend a label scheme.

    Held-out questions over menus of 2 to 26 items, frozen and after a short LoRA fit: share of right answers, favoured
    place, full-vocabulary probability of the labels, decisions per second.

    Args:
        backbone: a name, a folder, a hub id, or openai:MODEL.
        questions: questions per menu size and scheme.
        steps: batches of 8 questions of the fit; 0 = frozen only.
        rate: learning rate of the fit; 1e-3 suits tiny bases, 2e-4 larger ones.
        largest: largest menu that is asked.
        seed: of the questions and the fit.
        threads: threads of matrix products.
        dtype: type of the frozen base.
        device: where the model runs.
        as_json: print one JSON object instead of the table.
    """
    _before_torch(threads)
    from potluck_policy_server.backbones.base import BackboneOptions
    from potluck_policy_server.probe import report

    if questions < 1 or steps < 0 or rate <= 0:
        raise InvalidRequest("questions, steps, rate", "questions must be at least 1, steps 0, and rate above 0")
    options = BackboneOptions(backbone, threads=threads, dtype=dtype, device=device)
    result = report.probe(options, questions, steps, rate, seed, largest)
    print(json.dumps(result, indent=2) if as_json else report.table(result))


def _before_torch(threads: int) -> None:
    """Before torch is imported: its threads, and those of the tokenizers, are fixed at start."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")


def main() -> None:
    """Entry point."""
    try:
        with output_may_end():
            tyro.extras.subcommand_cli_from_dict(
                {"serve": serve, "describe": describe, "conform": conform, "probe": probe},
                prog="potluck-policy",
                description=__doc__,
                registry=registry(),
            )
    except PotluckError as error:
        print(f"potluck-policy: {error}", file=sys.stderr)
        raise SystemExit(1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None


if __name__ == "__main__":
    main()
