"""Menu decisions per second: the policy server's scoring beside what one would write with PEFT.

    python benchmarks/policy_scoring.py                                     tiny, batches 1 to 64
    python benchmarks/policy_scoring.py --backbone smollm2-135m --batches 1 7 --profile
    python benchmarks/policy_scoring.py --adapt top-third --game meltingpot/clean_up --dtype bfloat16

All run in one process, on the same prompts of played episodes (menus of more than one item: the others are certain,
ours computes nothing for them), adapters (rank 16, one per seat), type and thread:

    loop    `set_adapter`, then `generate` on the whole prompt, one agent at a time
    mixed   one left-padded batch through PEFT's `adapter_names`
    ours    the backbone that the server serves, rendering and tokenizing included, its caches warm

Both rivals sample as many tokens as the longest label on offer has; ours answers with all probabilities, exactly.
Rates are per CPU second, which on one thread of an idle machine is wall time, over the same decisions for mixed and
ours. "of limit" is what the needed floating-point operations (scoring_flops.py) would take at the measured rate of
matrix products on the base's own shapes, 512 rows at a time, as a share of the time they took; "base" counts the base's
own products alone. The last columns switch the deterministic mode off: its rate, and the largest change of a
log-probability.
"""

import argparse
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from game_prompts import GAMES, Asked, played
from peft_rivals import Rivals, random_adapter
from scoring_flops import Counter, Needed, pairs_of
from scoring_profile import Profile

from potluck.decoder.matrix import Matrix
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import LETTERS, WORDS, BackboneOptions, Query, Upload
from potluck_policy_server.folder import base_digest

SCHEMES = {"words": WORDS, "letters": LETTERS}


def seconds(calls: Sequence[Callable[[], object]], repeats: int, before: Callable[[], object] | None = None) -> float:
    """CPU seconds of all calls; of each the best of some repeats, so that what else the machine does counts little."""
    best = np.full(len(calls), np.inf)
    for _ in range(repeats):
        if before is not None:
            before()
        for number, call in enumerate(calls):
            start = time.process_time()
            call()
            best[number] = min(best[number], time.process_time() - start)
    return float(best.sum())


def product_rate(shapes: list[tuple[int, int]], rows: int, dtype: torch.dtype) -> float:
    """Floating-point operations per second of the base's own matrix products, in the faster of two layouts."""
    work, rates = sum(2 * rows * out * inner for out, inner in shapes), []
    for pack in (False, True):
        pairs = [
            (torch.randn(rows, inner).to(dtype), Matrix(torch.randn(out, inner).to(dtype), pack=pack))
            for out, inner in shapes
        ]
        rates.append(work / seconds([lambda pairs=pairs: [matrix.product(x) for x, matrix in pairs]], 4))
    return max(rates)


class Bench:
    """Ours and the rivals on one backbone."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.dtype, self.scheme = getattr(torch, args.dtype), SCHEMES[args.scheme]
        reuse = args.reuse << 20
        self.ours: Any = registry.load(BackboneOptions(args.backbone, threads=1, dtype=args.dtype, reuse_bytes=reuse))
        self.engine = self.ours._engine
        linears, decoder = self.ours._linears, self.engine.model.decoder
        self.layers = None
        if args.adapt == "top-third":
            self.layers = list(range(len(decoder.layers) - len(decoder.layers) // 3, len(decoder.layers)))
        files = [random_adapter(linears, self.layers, seed) for seed in range(args.agents)]
        uploads = [Upload(hashlib.sha256(data).hexdigest(), "agent", config, data) for config, data in files]
        self.adapters = [self.ours.read_adapter(upload) for upload in uploads]
        folder = self.ours.files()[0].parent
        self.base = base_digest(folder)
        self.rivals = None if args.ours_only else Rivals(str(folder), files, self.dtype, self.layers)
        self.flops = sum(2 * out * inner for out, inner in linears.values())
        shapes = {tuple(one.weight.shape) for one in decoder.linears}
        self.peak = product_rate(sorted(shapes), 512, self.dtype)
        head = decoder.embed.numel() if self.ours._options.label_mass else 0
        self.counter = Counter(self.engine.model, pairs_of(self.adapters), head)

    def prepared(self, asked: list[Asked]) -> list[Any]:
        """Rendered and tokenized."""
        return [
            self.ours.prepare(Query(one.prompt, self.adapters[one.seat % len(self.adapters)], 1.0, self.scheme))
            for one in asked
        ]

    def score(self, asked: list[Asked]) -> list[Any]:
        """The menu policies."""
        return list(self.ours.score(self.prepared(asked)))

    def rival(self, name: str, asked: list[Asked]) -> Callable[[], None]:
        """A call that makes the same decisions by PEFT, rendering and tokenizing included."""
        agents = [one.seat % len(self.adapters) for one in asked]
        lengths = [max(map(len, one.paths)) for one in self.prepared(asked)]

        def run() -> None:
            texts = [self.ours._reading.text(one.prompt, self.scheme) for one in asked]
            getattr(self.rivals, name)(agents, texts, lengths)

        return run

    def forget(self) -> None:
        """Drops what was reused so far."""
        for adapter in self.adapters:
            self.engine.beginnings.forget(adapter.digest)


class Run:
    """A call that scores a batch, with what came out of it last."""

    def __init__(self, bench: Bench, batch: list[Asked]) -> None:
        self._bench, self._batch = bench, batch
        self.answers: list[Any] = []
        self.needed = Needed()

    def __call__(self) -> None:
        self._bench.counter.taken()
        self.answers = self._bench.score(self._batch)
        self.needed = self._bench.counter.taken()


def show_tokens(bench: Bench, stream: dict[str, list[Asked]]) -> None:
    """Tokens per decision and game."""
    print(f"{'tokens per decision':<36} {'rules':>6} {'state':>6} {'labels':>6} {'longest':>8}")
    for game, asked in stream.items():
        jobs = [one.job for one in bench.prepared(asked)]
        rules, state, labels = (
            np.mean([len(part) for part in parts])
            for parts in zip(*((job.prefix, job.suffix, job.trie.tokens) for job in jobs), strict=True)
        )
        longest = max(len(job.prefix) + len(job.suffix) for job in jobs)
        print(f"{game:<36} {rules:>6.0f} {state:>6.0f} {labels:>6.1f} {longest:>8}")


def measure(bench: Bench, game: str, asked: list[Asked], args: argparse.Namespace) -> None:
    """One game's table: after a warm start each batch size on decisions that follow one another."""
    asked = [one for one in asked if len(one.prompt.items) > 1]
    warm = asked[: len(asked) // 2]
    rest = asked[len(warm) :]

    def warmed() -> None:
        bench.forget()
        bench.score(warm[-args.warm :])

    few, loop = rest[: args.loop], 0.0
    if bench.rivals is not None:
        bench.rival("one_by_one", rest[:1])()
        loop = len(few) / seconds([bench.rival("one_by_one", [one]) for one in few], args.repeats)
    columns = ("batch", "loop/s", "mixed/s", "ours/s", "x loop", "x mixed", "computed", "of limit", "base")
    print(f"\n{game}\n" + " ".join(f"{name:>8}" for name in (*columns, "fast/s", "change")))
    for size in args.batches:
        batches = [rest[at * size :][:size] for at in range(max(min(args.decisions, len(rest)) // size, 1))]
        count, mixed = sum(map(len, batches)), 0.0
        if bench.rivals is not None:
            mixed = count / seconds([bench.rival("mixed", batch) for batch in batches], args.repeats)
        rates, scores, needed = {}, {}, Needed()
        for exact in (True, False):
            bench.engine.model.exact = exact
            runs = [Run(bench, batch) for batch in batches]
            rates[exact] = count / seconds(runs, args.repeats, warmed)
            scores[exact] = [one for run in runs for one in run.answers]
            needed = sum((run.needed for run in runs), Needed())
        bench.engine.model.exact = True
        change = max(
            float(np.abs(a.logprobs - b.logprobs).max()) for a, b in zip(scores[True], scores[False], strict=True)
        )
        ratios = [rates[True] / rival if rival else float("nan") for rival in (loop, mixed)]
        shares = [rates[True] * flops / count / bench.peak for flops in (needed.flops, needed.base)]
        print(
            f"{size:>8} {loop:>8.2f} {mixed:>8.2f} {rates[True]:>8.2f} {ratios[0]:>8.1f} {ratios[1]:>8.1f} "
            f"{needed.tokens / count:>8.1f} {shares[0]:>8.0%} {shares[1]:>8.0%} {rates[False]:>8.2f} {change:>8.1e}",
            flush=True,
        )
    if args.profile:
        warmed()
        with Profile() as profile:
            preparing, began = profile.timed(bench.prepared, "rendering and tokenizing"), time.process_time()
            for at in range(max(args.decisions // args.batches[-1], 1)):
                bench.ours.score(preparing(rest[at * args.batches[-1] :][: args.batches[-1]]))
            spent = time.process_time() - began
        print(f"where {spent:.2f} CPU s of batch {args.batches[-1]} go\n{profile.table(spent)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backbone", default="tiny")
    parser.add_argument("--game", choices=GAMES, nargs="+", default=[GAMES[0], GAMES[2]])
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 7, 16, 64])
    parser.add_argument("--agents", type=int, default=2, help="adapters; seats beyond them share")
    parser.add_argument("--adapt", choices=["all", "top-third"], default="all", help="layers with adapters")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    parser.add_argument("--scheme", default="words", choices=sorted(SCHEMES))
    parser.add_argument("--decisions", type=int, default=32, help="decisions per measurement, at least one batch")
    parser.add_argument("--repeats", type=int, default=3, help="of each measurement; the best of each batch counts")
    parser.add_argument("--loop", type=int, default=16, help="decisions that the loop is measured on")
    parser.add_argument("--warm", type=int, default=48, help="decisions of the round that were asked before")
    parser.add_argument("--reuse", type=int, default=256, help="MiB for states that were read already")
    parser.add_argument("--ours-only", action="store_true")
    parser.add_argument("--profile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    bench = Bench(args)
    one = bench.ours.description
    print(f"{args.backbone} {args.dtype}, {one.parameters / 1e6:.2f} M parameters, base {bench.base[:12]}")
    print(f"matrix products: {bench.peak / 1e9:.1f} GFLOP/s, {bench.flops / 1e6:.2f} MFLOP a token\n")
    stream = {game: played(game, 6, 40) for game in GAMES}
    show_tokens(bench, stream)
    for game in args.game:
        measure(bench, game, stream[game], args)


if __name__ == "__main__":
    main()
