"""`potluck replay`: recorded episodes re-executed, digests compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from potluck.env.v1.env_service_pb2 import Recording
from potluck.play import EnvPool
from potluck.rpc.errors import PotluckError, Reason
from potluck_trainer.errors import RecordError
from potluck_trainer.progress import Reporter
from potluck_trainer.records.reader import find_episode, parts, read_part
from potluck_trainer.run_folder import RunFolder
from potluck_trainer.services import env_server, running

if TYPE_CHECKING:
    from potluck_trainer.arguments import ReplayArgs

SHOWN = ["episode_id", "set", "round", "team_return", "steps", "digest"]


async def replay(args: ReplayArgs, reporter: Reporter) -> int:
    """0 if every episode re-executes to its digest."""
    run = RunFolder.open(args.run)
    if args.listed:
        for path in parts(run.path, "episodes"):
            for row in read_part(path).select(SHOWN).to_pylist():
                reporter.say("  ".join(str(row[name]) for name in SHOWN))
        return 0
    rows = [find_episode(run.path, name) for name in args.episodes] or _default(run)
    if args.envs:
        return await _compare(args.envs.split(","), rows, reporter)
    config = run.config()
    timeout_s = config.services.start_timeout_s
    async with running([env_server(config)], run.path / "logs", timeout_s) as services:
        return await _compare([services[0].address], rows, reporter)


async def _compare(addresses: list[str], rows: list[dict[str, Any]], reporter: Reporter) -> int:
    failures = 0
    async with EnvPool(addresses) as envs:
        await envs.wait_ready()
        for row in rows:
            recording = Recording.FromString(row["recording"])
            try:
                reply = await envs.replay(recording)
            except PotluckError as error:
                if error.reason != Reason.REPLAY_DIVERGED:
                    raise
                failures += 1
                reporter.say(f"DIFFERS {row['episode_id']}: {error}")
            else:
                reporter.say(f"same    {row['episode_id']}: {reply.steps} steps, return {reply.team_return:g}")
    reporter.say(f"{len(rows) - failures} of {len(rows)} episodes re-execute to their digest")
    return 1 if failures else 0


def _default(run: RunFolder) -> list[dict[str, Any]]:
    paths = parts(run.path, "episodes")
    if not paths:
        raise RecordError(f"{run.path} holds no episodes yet; train or evaluate first")
    evaluated = [path for path in paths if path.stem.startswith("eval-")]
    return [row for path in evaluated or paths[-1:] for row in read_part(path).to_pylist()]
