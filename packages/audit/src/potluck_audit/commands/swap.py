"""`potluck-audit swap`."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import tyro

from potluck_audit.commands.console import say, tell
from potluck_audit.errors import InvalidRequest

if TYPE_CHECKING:
    from potluck_audit.counterfactual.setting import Setting
    from potluck_audit.counterfactual.swaps import Team
    from potluck_audit.metrics.metric import Metric

SWAP_VERSION = 1


@dataclass(frozen=True)
class SwapCommand:
    """Play agents of one team beside those of another.

    Teams are the last checkpoints of the named runs, or with --rounds those checkpoints of each. Prints every pairing,
    (self-play - cross-play) / self-play, and each agent beside a uniform and a greedy partner, and writes
    audit/swap.json into the first run. Runs of another game, library, base or horizon are refused. What was played is
    kept. Exit status: 0, 1 for an error.
    """

    folders: tyro.conf.Positional[tuple[Path, ...]]
    """Run folders, such as runs/seed0 runs/seed1."""
    envs: str = ""
    """Env servers, host:port, comma-separated."""
    policy: str = ""
    """Policy server, host:port."""
    rounds: tuple[int, ...] = ()
    """Checkpoints after these rounds; by default the last."""
    episodes: int = 12
    """Of each pairing."""
    confidence: float = 0.95
    """Of intervals."""

    def run(self) -> int:
        return asyncio.run(self._run())

    async def _run(self) -> int:
        from potluck.play.policy_client import PolicyClient
        from potluck.play.pool import EnvPool
        from potluck_audit.counterfactual.playing import Players
        from potluck_audit.counterfactual.swaps import play_swaps, swap_rows
        from potluck_audit.intervals import Intervals
        from potluck_audit.results import write_file

        teams, setting, runs = self._teams()
        addresses = [part.strip() for part in self.envs.split(",") if part.strip()]
        if not self.policy:
            raise InvalidRequest("policy", "partners are swapped by playing", "name --envs and --policy")
        async with EnvPool(addresses) as envs, PolicyClient(self.policy) as policy:
            players = Players(envs, policy, runs[0], other_runs=tuple(runs[1:]))
            found = await play_swaps(teams, setting, players, lambda name, done, total: tell(f"{name} {done}/{total}"))
        rows = swap_rows(found, Intervals(self.confidence))
        for row in rows:
            say(_line(row))
        file = runs[0] / "audit" / "swap.json"
        say(f"swaps {write_file(file, json.dumps(_json(teams, rows), allow_nan=False, indent=1) + chr(10))}")
        return 0

    def _teams(self) -> tuple[list[Team], Setting, list[Path]]:
        from potluck_audit.counterfactual.setting import require_same
        from potluck_audit.counterfactual.swaps import Team
        from potluck_audit.records import load_run
        from potluck_audit.records.run import TRAIN
        from potluck_audit.verdict.checkpoints import pick, read_checkpoints
        from potluck_audit.verdict.evaluation import run_setting

        if not self.folders:
            raise InvalidRequest("folders", "there is no run to take teams from", "name at least one run")
        runs = [load_run(folder, [TRAIN]) for folder in self.folders]
        settings = [run_setting(run, self.episodes) for run in runs]
        for run, setting in zip(runs[1:], settings[1:], strict=True):
            require_same(settings[0], setting, f"{runs[0].name} and {run.name}", "runs")
        teams = []
        for run in runs:
            saved = read_checkpoints(run.path)
            for one in pick(saved, self.rounds) if self.rounds else saved[-1:]:
                teams.append(Team(f"{run.name}@{one.round}", one.adapters))
        return teams, settings[0], [run.path for run in runs]


def _line(row: Metric) -> str:
    number = row.estimate.text()
    return f"{row.name:14}  {row.agent:10}  {row.key:40}  {number} {row.unit}".replace("  " * 20, "  ")


def _json(teams: Sequence[Team], rows: Sequence[Metric]) -> dict[str, object]:
    return {
        "schema_version": SWAP_VERSION,
        "teams": {team.label: dict(team.own) for team in teams},
        "metrics": [
            {"name": m.name, "set": m.set, "agent": m.agent, "key": m.key, **m.estimate._asdict(), "unit": m.unit}
            for m in rows
        ],
    }
