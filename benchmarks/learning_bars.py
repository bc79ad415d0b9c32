"""Do the tables reach their bars through the real services? Learning runs over seeds, with the bars beside.

Each line of the table is a config, its seeds, the best mean over ten rounds within the allowed rounds, and the round at
which the bar was reached. A run stops early once it is over the bar (`--full` plays on). Runs are ordinary run folders
and are resumed when the script is started again.

    python benchmarks/learning_bars.py fc-tabular aa-tabular --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
WINDOW = 10


class Bar(NamedTuple):
    """Soups to reach (mean of ten rounds), within this many rounds."""

    soups: float
    rounds: int


BARS = {
    "fc-tabular": Bar(7, 400),
    "aa-tabular": Bar(16, 400),
    "cramped-tabular": Bar(8, 800),
    "ring-tabular": Bar(6, 800),
    "circuit-tabular": Bar(4, 800),
    "fc-tiny": Bar(5, 150),
    "aa-tiny": Bar(9, 150),
}


def returns(run: Path) -> list[float]:
    """Mean return of each round so far."""
    file = run / "metrics.jsonl"
    return [json.loads(line)["return_mean"] for line in file.read_text().splitlines()] if file.exists() else []


def smooth(curve: list[float]) -> np.ndarray:
    """Means of ten successive rounds; entry i ends with round i + 10."""
    return np.convolve(curve, np.full(WINDOW, 1 / WINDOW), "valid") if len(curve) >= WINDOW else np.zeros(0)


def train(config: str, seed: int, bar: Bar, options: argparse.Namespace) -> list[float]:
    """Trains in stretches until the bar is reached (or to the end); returns the learning curve."""
    run = options.out / f"{config}-s{seed}"
    rounds = min(options.rounds or bar.rounds, bar.rounds)
    while len(curve := returns(run)) < rounds and (options.full or not (smooth(curve) >= bar.soups).any()):
        goal = str(min(rounds, len(curve) + options.stretch))
        fresh = [f"@{ROOT}/configs/{config}.toml", "--seed", str(seed), "--out", str(options.out), "--name", run.name]
        target = ["--resume", str(run)] if curve else fresh
        subprocess.run([Path(sys.executable).parent / "potluck", "train", *target, "--rounds", goal], check=True)
    return curve


def line(config: str, curves: dict[int, list[float]], bar: Bar) -> str:
    """One row of the table."""
    best = [float(smooth(c).max(initial=0.0)) for c in curves.values()]
    reached = [
        int(np.argmax(smooth(c) >= bar.soups)) + WINDOW if (smooth(c) >= bar.soups).any() else None
        for c in curves.values()
    ]
    verdict = "reached" if np.mean(best) >= bar.soups else "NOT reached"
    first = np.mean([c[0] for c in curves.values()])
    played = [len(c) for c in curves.values()]
    return (
        f"{config:18} bar {bar.soups:4.1f}  mean best {np.mean(best):5.2f} {verdict:11}  "
        f"per seed {[round(b, 2) for b in best]}  at round {reached} of {played}  round 1: {first:.2f}"
    )


def main() -> None:
    """Runs what is asked for, one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("configs", nargs="+", choices=sorted(BARS))
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=0, help="play fewer rounds than the bar allows")
    parser.add_argument("--stretch", type=int, default=50, help="rounds between looks at the bar")
    parser.add_argument("--full", action="store_true", help="play all rounds even when the bar is reached")
    parser.add_argument("--out", type=Path, default=Path("runs/bars"))
    options = parser.parse_args()
    for config in options.configs:
        curves = {seed: train(config, seed, BARS[config], options) for seed in options.seeds}
        print(line(config, curves, BARS[config]), flush=True)


if __name__ == "__main__":
    main()
