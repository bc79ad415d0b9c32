"""`potluck dpo`: agents' adapters trained on contrast pairs."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from potluck_trainer.commands.eval import chosen
from potluck_trainer.dpo import DpoConfig, own_rows, read_pairs, train_dpo, write_adapter
from potluck_trainer.errors import ConfigError
from potluck_trainer.progress import Reporter
from potluck_trainer.run_folder import RunFolder

if TYPE_CHECKING:
    from potluck_trainer.arguments import DpoArgs


async def dpo(args: DpoArgs, reporter: Reporter) -> None:
    """Trains every agent that has pairs; the others' adapters are put beside theirs as they are."""
    run = RunFolder.open(args.run)
    checkpoint = chosen(run, args.checkpoint)
    rows = read_pairs(args.pairs or args.run / "audit" / "blame" / "pairs.jsonl")
    agents = args.agents or tuple(sorted({row["agent"] for row in rows}))
    if not agents:
        raise ConfigError("there are no pairs to learn from; blame more failed episodes, or with a lower --threshold")
    out = args.out or args.run / "dpo"
    config = DpoConfig(
        beta=args.beta, lr=args.lr, epochs=args.epochs, batch=args.batch, seed=args.seed, device=args.device
    )
    for agent, digest in checkpoint.adapters.items():
        start = run.checkpoints.load_adapter(agent, digest, checkpoint.base_digest)
        if agent not in agents:
            write_adapter(start, out / agent / digest)
            continue
        own = own_rows(rows, agent, digest)
        report = await asyncio.to_thread(train_dpo, args.base, start, own, config, out)
        reporter.say(
            f"{agent}: {report.pairs} pairs, {report.steps} steps, loss {report.loss_first:.4f} -> "
            f"{report.loss_last:.4f}, adapter {report.adapter[:16]}…"
        )
    reporter.say(f"play them with: potluck eval {args.run} --teams trained adapters:{out}")
