"""Menu decisions per second: the policy server's scoring beside what one would write with PEFT.

    python benchmarks/policy_scoring.py                                     tiny, batches 1 to 64
    python benchmarks/policy_scoring.py --backbone smollm2-135m --batches 1 7 --profile
    python benchmarks/policy_scoring.py --adapt top-third --game meltingpot/clean_up --dtype bfloat16

All run in one process, on the same prompts of played episodes (menus of more than one item: the others are certain,
ours computes nothing for them), adapters (rank 16, one per seat), type and thread:

    loop    `set_adapter`, then `generate` on the whole prompt, one agent at a time
    mixed   one left-padded batch through PEFT's `adapter_names`
    ours    the backbone that the server serves, rendering and tokenizing included, its caches warm

Both rivals sample as many tokens as the longest label on offer has; ours answers with all probabilities, exactly. Rates
are per CPU second, which on one thread of an idle machine is wall time; the best of some stretches. "of limit" is the
share of the measured rate of matrix products on the base's own shapes, counting the tokens that were computed (LoRA,
attention and head not counted). The last columns switch the deterministic mode off: its rate, and the largest change of
a log-probability.
"""

import argparse
import hashlib
import os
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import numpy as np
import torch
from game_prompts import GAMES, Asked, played
from peft_rivals import Rivals, random_adapter
from scoring_profile import Profile

from potluck.decoder.matrix import Matrix
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import LETTERS, WORDS, BackboneOptions, Query, Upload
from potluck_policy_server.folder import base_digest

SCHEMES = {"words": WORDS, "letters": LETTERS}


def best(work: Callable[[int], None], size: int, calls: int) -> float:
    """Work per CPU second: the best of some calls, so that what else the machine does counts little."""
    rates = []
    for call in range(calls):
        start = time.process_time()
        work(call)
        rates.append(size / (time.process_time() - start))
    return max(rates)


def product_rate(shapes: list[tuple[int, int]], rows: int, dtype: torch.dtype) -> float:
    """Floating-point operations per second of the base's own matrix products, in the faster of two layouts."""
    work, rates = sum(2 * rows * out * inner for out, inner in shapes), []
    for pack in (False, True):
        pairs = [
            (torch.randn(rows, inner).to(dtype), Matrix(torch.randn(out, inner).to(dtype), pack=pack))
            for out, inner in shapes
        ]
        rates.append(best(lambda _, pairs=pairs: [matrix.product(x) for x, matrix in pairs], 1, 4))
    return max(rates) * work


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

    def prepared(self, asked: list[Asked]) -> list[Any]:
        """Rendered and tokenized."""
        return [
            self.ours.prepare(Query(one.prompt, self.adapters[one.seat % len(self.adapters)], 1.0, self.scheme))
            for one in asked
        ]

    def score(self, asked: list[Asked]) -> list[Any]:
        """The menu policies."""
        return list(self.ours.score(self.prepared(asked)))

    def rival(self, name: str, asked: list[Asked]) -> None:
        """The same decisions by PEFT."""
        texts = [self.ours._reading.text(one.prompt, self.scheme) for one in asked]
        lengths = [max(map(len, one.paths)) for one in self.prepared(asked)]
        getattr(self.rivals, name)([one.seat % len(self.adapters) for one in asked], texts, lengths)

    def forget(self) -> None:
        """Drops what was reused so far."""
        for adapter in self.adapters:
            self.engine.beginnings.forget(adapter.digest)

    def computed(self, asked: list[Asked], before: int) -> float:
        """Tokens computed per decision, `before` = tokens reused until then."""
        tokens = sum(len(one.job.suffix) + len(one.job.trie.tokens) for one in self.prepared(asked))
        return (tokens - self.engine.beginnings.stats.reused + before) / len(asked)


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
    loop = 0.0
    if bench.rivals is not None:
        bench.rival("one_by_one", rest[:1])
        few = rest[: args.loop]
        loop = best(lambda _: bench.rival("one_by_one", few), len(few), args.calls)
    columns = ("batch", "loop/s", "mixed/s", "ours/s", "x loop", "x mixed", "computed", "of limit", "fast/s", "change")
    print(f"\n{game}\n" + " ".join(f"{name:>8}" for name in columns))
    for size in args.batches:
        batches = [rest[at * size :][:size] for at in range(max(min(args.calls, len(rest) // size), 1))]
        mixed = 0.0
        if bench.rivals is not None:
            mixed = best(lambda at, batches=batches: bench.rival("mixed", batches[at]), size, len(batches))
        rates, scores = {}, {}
        for exact in (True, False):
            bench.engine.model.exact = exact
            bench.forget()
            bench.score(warm[-args.warm :])
            before = bench.engine.beginnings.stats.reused
            answers: list[Any] = []

            def run(at: int, batches: list[list[Asked]] = batches, answers: list[Any] = answers) -> None:
                answers.extend(bench.score(batches[at]))

            rates[exact], scores[exact] = best(run, size, len(batches)), answers
            if exact:
                tokens = bench.computed([one for batch in batches for one in batch], before)
        bench.engine.model.exact = True
        change = max(
            float(np.abs(a.logprobs - b.logprobs).max()) for a, b in zip(scores[True], scores[False], strict=True)
        )
        ratios = [rates[True] / rival if rival else float("nan") for rival in (loop, mixed)]
        print(
            f"{size:>8} {loop:>8.2f} {mixed:>8.2f} {rates[True]:>8.2f} {ratios[0]:>8.1f} {ratios[1]:>8.1f} "
            f"{tokens:>8.1f} {rates[True] * tokens * bench.flops / bench.peak:>8.0%} {rates[False]:>8.2f} "
            f"{change:>8.1e}",
            flush=True,
        )
    if args.profile:
        with Profile() as profile:
            preparing, began = profile.timed(bench.prepared, "rendering and tokenizing"), time.process_time()
            for at in range(args.calls):
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
    parser.add_argument("--calls", type=int, default=3, help="stretches per measurement; the best counts")
    parser.add_argument("--loop", type=int, default=4, help="decisions per stretch of the loop")
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
