"""Shared advantage against Shapley advantage: curves and cost over seeds, through the real services.

Both arms have the same settings but the advantage (`episode` for the shared one), the same seeds and therefore the same
first round. Cost counts what each arm played: the Shapley arm plays 2^n - 1 coalitions for every episode. Runs are
ordinary run folders and are resumed when the script is started again.

    python benchmarks/credit_training.py --seeds 0 1 2 --rounds 30
    python benchmarks/credit_training.py --seeds 0 --rounds 2 --episodes 2 --horizon 60
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
WINDOW = 10
VERSION = 1


class Arm(NamedTuple):
    """What differs."""

    name: str
    flags: tuple[str, ...]


def arms(baselines: list[str]) -> list[Arm]:
    """The shared advantage, and Shapley's with each baseline."""
    flags = ("--algorithm.name", "shapley_advantage", "--algorithm.baseline")
    shapley = [Arm(f"shapley-{baseline}", (*flags, baseline)) for baseline in baselines]
    return [Arm("shared", ("--algorithm.name", "episode")), *shapley]


def lines(run: Path) -> list[dict[str, Any]]:
    """One object a round so far."""
    file = run / "metrics.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def train(arm: Arm, seed: int, options: argparse.Namespace) -> Path:
    """Trains, or goes on."""
    run: Path = options.out / f"{arm.name}-s{seed}"
    program = str(Path(sys.executable).parent / "potluck")
    goal = str(options.rounds)
    if len(lines(run)) >= options.rounds:
        return run
    if lines(run):
        command = [program, "train", "--resume", str(run), "--rounds", goal]
    else:
        command = [program, "train", f"@{options.config}", "--seed", str(seed), "--out", str(options.out)]
        command += ["--name", run.name, "--rounds", goal, *arm.flags]
        command += ["--episodes-per-round", str(options.episodes)] if options.episodes else []
        command += ["--horizon", str(options.horizon)] if options.horizon else []
    subprocess.run(command, check=True)
    return run


def summary(run: Path) -> dict[str, Any]:
    """Curve and cost of one run."""
    rounds = lines(run)
    curve = [line["return_mean"] for line in rounds]
    extra = [line.get("coalitions") or {} for line in rounds]
    last = curve[-WINDOW:]
    return {
        "run": run.name,
        "curve": curve,
        "last": float(np.mean(last)) if last else None,
        "episodes": sum(line["episodes"] for line in rounds) + sum(one.get("episodes", 0) for one in extra),
        "decisions": sum(line["decisions"] for line in rounds) + sum(one.get("decisions", 0) for one in extra),
        "seconds": sum(line["acting_s"] + line["learning_s"] for line in rounds),
        "skipped": sum(line["skipped"] is not None for line in rounds),
    }


def main() -> None:
    """Trains what is missing, prints the table, writes the curves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", type=Path, default=ROOT / "configs" / "fc-tiny-shapley.toml")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--episodes", type=int, default=0, help="episodes a round; 0 = the config's")
    parser.add_argument("--horizon", type=int, default=0, help="steps an episode; 0 = the config's")
    parser.add_argument("--baselines", nargs="+", default=["uniform"], help="who acts for agents outside a coalition")
    parser.add_argument("--out", type=Path, default=Path("runs/credit"))
    options = parser.parse_args()
    table: dict[str, list[dict[str, Any]]] = {}
    for arm in arms(options.baselines):
        table[arm.name] = [summary(train(arm, seed, options)) for seed in options.seeds]
    for name, runs in table.items():
        last = [run["last"] for run in runs]
        spread = f" ± {np.std(last, ddof=1):.2f}" if len(last) > 1 else ""
        print(
            f"{name:18} last {WINDOW} rounds {np.mean(last):5.2f}{spread} soups  "
            f"per seed {[round(v, 2) for v in last]}  "
            f"{np.mean([run['episodes'] for run in runs]):.0f} episodes, "
            f"{np.mean([run['decisions'] for run in runs]):.0f} decisions, "
            f"{np.mean([run['seconds'] for run in runs]):.0f} s a run"
        )
    for name, runs in table.items():
        if name != "shared":
            pairs = [own["last"] - base["last"] for own, base in zip(runs, table["shared"], strict=True)]
            print(f"{name} - shared, seed by seed: {[round(p, 2) for p in pairs]}")
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "curves.json").write_text(json.dumps({"version": VERSION, "arms": table}, indent=1) + "\n")


if __name__ == "__main__":
    main()
