"""Pre-train `tiny`: next tokens, recall, probes, and questions answered by label.

The answer's loss is the cross-entropy of the whole vocabulary against the uniform distribution over the right labels;
without a goal that is the uniform distribution over the menu.
"""

import argparse
import json
import math
import time
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from pretrain.corpus import ABSENT, Batch, batches
from pretrain.evaluate import score
from pretrain.games import Split
from pretrain.model import Pupil, Shape
from pretrain.report import say
from pretrain.vocabulary import build_tokenizer, load

EVEN_WEIGHT, EVERYWHERE, OWN_WEIGHT = 0.5, 0.3, 2.0
NEXT_WEIGHT, PROBE_WEIGHT = 0.05, 0.1
EVALUATE_EVERY, VALIDATION_SEED = 150.0, 339_573
FULL_LENGTH_AT, LOG_EVERY = 0.25, 100


def losses(pupil: Pupil, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
    """The losses; and for the questions in own prompts and beside each other, how many were right."""
    hidden, table, entering = pupil(batch.rows)
    at_answers = hidden[batch.answers[:, 0], batch.answers[:, 1]]
    absent = batch.offered == ABSENT
    logits = torch.einsum("ah,anh->an", at_answers, functional.embedding(batch.offered.clamp(min=0), table))
    logits = logits.masked_fill(absent, -1e9)
    right = (batch.offered[:, :, None] == batch.right[:, None, :]).any(-1) & ~absent
    each = logits.logsumexp(-1) - logits.masked_fill(~right, 0).sum(-1) / right.sum(-1)
    hit = right.gather(1, logits.argmax(-1, keepdim=True))[:, 0].float()
    real = right.sum(-1) < (~absent).sum(-1)
    counts = [part.sum() for kind in (1, 2) for part in (hit[(batch.asked == kind) & real], real[batch.asked == kind])]
    unasked = batch.asked == 0
    ceiling = each[unasked] - (~absent[unasked]).sum(-1).log()
    everywhere = at_answers[unasked] @ table[pupil.labels_from :].T
    even = ceiling.sum() + EVERYWHERE * (everywhere.logsumexp(-1) - everywhere.mean(-1)).sub(pupil.log_labels).sum()
    own, beside = each[batch.asked == 1], each[batch.asked == 2]
    asked = (OWN_WEIGHT * own.sum() + beside.sum()) / (OWN_WEIGHT * len(own) + len(beside) + 1e-6)
    guesses = hidden[batch.spots[:, 0], batch.spots[:, 1]]
    readings = torch.stack([probe(entering[:, 0]) for probe in pupil.probes], dim=1)
    parts = {
        "asked": asked,
        "even": even / unasked.sum().clamp(min=1),
        "next": among(guesses, batch.next_ids, table),
        "probes": among(readings.flatten(0, 1), batch.probes.flatten(), table),
    }
    return parts, torch.stack(counts).float()


def among(states: Tensor, targets: Tensor, table: Tensor) -> Tensor:
    """Cross-entropy among the tokens that are somebody's target; the full vocabulary would cost more and teach less."""
    known = targets != ABSENT
    tokens, places = torch.unique(targets[known], return_inverse=True)
    return functional.cross_entropy(states[known] @ functional.embedding(tokens, table).T, places)


def rate(done: float, peak: float) -> float:
    """Warm up over the first 2 %, then a cosine down to 2 % of the peak."""
    return peak * min(1.0, done / 0.02 + 1e-3) * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * min(1.0, done))))


def progress(step: int, seconds: float, options: argparse.Namespace) -> float:
    """Share of the run that is over: by steps, or by minutes where a limit is given and comes first."""
    over: float = max(step / options.steps, seconds / (60 * options.minutes))
    return over


def optimiser(pupil: Pupil) -> torch.optim.Optimizer:
    """AdamW; decay pulls a label's own part towards its family, and matrices a little."""
    matrices = [w for w in [*pupil.body(), *pupil.probes.parameters()] if w.dim() == 2]
    gains = [w for w in pupil.body() if w.dim() == 1]
    shared = [pupil.embedding.words, pupil.embedding.ordinals]
    groups = [
        {"params": matrices, "weight_decay": 0.02},
        {"params": [*gains, *shared], "weight_decay": 0.0},
        {"params": [pupil.embedding.own], "weight_decay": 0.3},
    ]
    return torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.98))


COUNTS = ("own_right", "own", "beside_right", "beside")


class Run:
    """One training run: its pupil, its data, its log."""

    def __init__(self, options: argparse.Namespace) -> None:
        torch.manual_seed(options.seed)
        torch.set_num_threads(options.threads)
        self.options, self.vocabulary, self.done = options, load(), 0.0
        self.pupil = Pupil(self.vocabulary, Shape(*(getattr(options, name) for name in Shape._fields)))
        if options.resume:
            self.pupil.load_state_dict(torch.load(options.resume))
        self.adam = optimiser(self.pupil)
        self.stream = batches(self.vocabulary, options.seed, options.tokens, self.growth)
        self.log: list[dict[str, object]] = []
        self.note(event="start", **{name: str(value) for name, value in vars(options).items() if name != "out"})
        self.note(event="model", body=sum(w.numel() for w in self.pupil.body()), tokens=len(self.vocabulary.tokens))

    def note(self, **row: object) -> None:
        """Log a row and say it."""
        self.log.append(row)
        say(row)

    def growth(self) -> float:
        """How long prompts may be: short at the start of a fresh run, then of any length."""
        start = 1.0 if self.options.resume else 0.3
        return min(1.0, start + self.done / FULL_LENGTH_AT)

    def step(self) -> dict[str, float]:
        """One update; returns its losses and the questions answered."""
        for group in self.adam.param_groups:
            group["lr"] = rate(self.done, self.options.lr)
        parts, counts = losses(self.pupil, next(self.stream))
        loss = parts["asked"] + EVEN_WEIGHT * parts["even"]
        loss = loss + NEXT_WEIGHT * parts["next"] + PROBE_WEIGHT * parts["probes"]
        self.adam.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.pupil.parameters(), 1.0)
        self.adam.step()
        figures = {name: value.item() for name, value in parts.items()}
        return figures | dict(zip(COUNTS, counts.tolist(), strict=True))

    def evaluate(self, step: int) -> None:
        """Score held-out questions, then write weights, tokenizer, log and the state to resume from."""
        out: Path = self.options.out
        out.mkdir(parents=True, exist_ok=True)
        self.pupil.export(out)
        result = score(self.pupil.causal, self.vocabulary, VALIDATION_SEED, Split.HELD_OUT, 600)
        self.note(event="evaluate", step=step, **result.summary())
        build_tokenizer(self.vocabulary).save_pretrained(out)
        (out / "training_log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in self.log))
        torch.save(self.pupil.state_dict(), out.with_suffix(".pt"))

    def train(self) -> None:
        """Run the schedule to its end."""
        begun = evaluated = time.monotonic()
        sums: dict[str, float] = {}
        step = 0
        while (spent := progress(step, time.monotonic() - begun, self.options)) < 1:
            self.done, step = spent, step + 1
            sums = {name: sums.get(name, 0.0) + value for name, value in self.step().items()}
            if step % LOG_EVERY == 0:
                means = {name: round(sums[name] / LOG_EVERY, 4) for name in sums if name not in COUNTS}
                shares = {name: round(sums[f"{name}_right"] / sums[name], 4) for name in ("own", "beside")}
                self.note(step=step, seconds=round(time.monotonic() - begun), **means, **shares)
                sums = {}
            if time.monotonic() - evaluated > EVALUATE_EVERY:
                self.evaluate(step)
                evaluated = time.monotonic()
        self.evaluate(step)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--minutes", type=float, default=math.inf, help="shorten the schedule to this much time")
    parser.add_argument("--seed", type=int, default=20)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--tokens", type=int, default=3072, help="tokens per batch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--resume", type=Path, default=None, help="state of an earlier run to start from")
    for name, value in Shape()._asdict().items():
        parser.add_argument(f"--{name}", type=int, default=value)
    Run(parser.parse_args()).train()


if __name__ == "__main__":
    main()
