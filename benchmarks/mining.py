"""Seconds to mine the guards of a burn-in, beside what a user would write first, in one run on the same records.

    python benchmarks/mining.py                                  # plays a small burn-in first
    python benchmarks/mining.py --burnin FOLDER_OR_FILE

Three ways to the same guards: `mine` (tallies, then bits); one pass over the records that counts every conjunction that
a record's features meet, in dictionaries; and the definition itself, every conjunction counted over all records (on a
share of them, scaled up: it is linear in the records). The results are compared before any time is shown.
"""

import argparse
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations
from pathlib import Path
from typing import TypeVar

os.environ.setdefault("OMP_NUM_THREADS", "1")

from potluck_optionlib.burnin import Burnin, BurninPlan, Record, load, run
from potluck_optionlib.games import make_game
from potluck_optionlib.guards import Channel
from potluck_optionlib.mining import MIN_SUPPORT, mine

Key = tuple[str, tuple[tuple[str, str], ...]]
T = TypeVar("T")
SHARE = 20
"""The definition sees one record in so many."""


def evidence(records: Sequence[Record], solo_only: Sequence[str]) -> list[Record]:
    """Records that say something about effects."""
    ends = ("success", "effect_fail", "timeout")
    return [r for r in records if r.outcome in ends and (r.solo or r.option not in solo_only)]


def adopted(wins: Counter[Key], fails: Counter[Key]) -> dict[Key, int]:
    """The adoption rule over counts."""
    good = {key: n for key, n in fails.items() if n >= MIN_SUPPORT and not wins[key]}
    return {(o, c): n for (o, c), n in good.items() if len(c) == 1 or not any((o, (one,)) in good for one in c)}


def one_pass(records: Sequence[Record], solo_only: Sequence[str]) -> dict[Key, int]:
    """Row by row, every conjunction of its own features."""
    wins: Counter[Key] = Counter()
    fails: Counter[Key] = Counter()
    for record in evidence(records, solo_only):
        literals = sorted(record.features.items())
        counts = wins if record.outcome == "success" else fails
        for size in (1, 2):
            for chosen in combinations(literals, size):
                counts[record.option, chosen] += 1
    return adopted(wins, fails)


def by_definition(records: Sequence[Record], solo_only: Sequence[str]) -> dict[Key, int]:
    """Every conjunction over every record."""
    by_option: dict[str, list[Record]] = defaultdict(list)
    for record in evidence(records, solo_only):
        by_option[record.option].append(record)
    wins: Counter[Key] = Counter()
    fails: Counter[Key] = Counter()
    for option, rows in by_option.items():
        literals = sorted({item for row in rows for item in row.features.items()})
        for size in (1, 2):
            for chosen in combinations(literals, size):
                under = [r for r in rows if all(r.features.get(name) == value for name, value in chosen)]
                wins[option, chosen] = sum(r.outcome == "success" for r in under)
                fails[option, chosen] = len(under) - wins[option, chosen]
    return adopted(wins, fails)


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """The result and CPU seconds of this process."""
    began = time.process_time()
    result = work()
    return result, time.process_time() - began


def inferred(burnin: Burnin) -> dict[Key, int]:
    """The library's own way."""
    guards = mine([burnin]).guards
    return {(g.option, tuple(sorted(g.when.items()))): g.support for g in guards if g.channel is Channel.INFERRED}


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--burnin", type=Path, help="a burn-in that is there already")
    parser.add_argument("--game", default="overcooked/asymmetric_advantages")
    parser.add_argument("--episodes", type=int, default=200, help="solo, and as many team episodes")
    options = parser.parse_args()
    plan = BurninPlan(options.episodes, options.episodes)
    burnin = load(options.burnin) if options.burnin else run(make_game(options.game), plan)
    fresh = Burnin(burnin.game, burnin.contracts_digest, burnin.solo_only, burnin.plan, burnin.table)
    _, hashing = timed(lambda: fresh.digest)
    ours, quick = timed(lambda: inferred(fresh))
    records = list(burnin.rows())
    passed, pass_s = timed(lambda: one_pass(records, burnin.solo_only))
    part = records[::SHARE]
    defined, part_s = timed(lambda: by_definition(part, burnin.solo_only))
    if ours != passed or defined != one_pass(part, burnin.solo_only):
        raise SystemExit("the ways disagree")
    print(f"{burnin.game}: {burnin.records} records, {len(burnin.tallies())} tallies, {len(ours)} inferred guards")
    for name, seconds in (
        ("mine (digest known)", quick),
        ("one pass, row by row", pass_s),
        (f"definition (one record in {SHARE}, scaled)", part_s * SHARE),
    ):
        print(f"{name:<44}{seconds:>9.3f} s {seconds / quick:>8.1f} x")
    print(f"the digest of the records takes {hashing:.3f} s once")


if __name__ == "__main__":
    main()
