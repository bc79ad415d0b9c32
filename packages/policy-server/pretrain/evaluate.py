"""Score a model on questions it has not seen: right answers by kind of question, and evenness without a goal."""

import argparse
import math
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from pretrain.corpus import ABSENT, MOST, Prompt, padded, prompts
from pretrain.games import Split
from pretrain.questions import Kind
from pretrain.report import say
from pretrain.vocabulary import Vocabulary, load


@dataclass
class Score:
    """Counts by kind, the chance of a uniform guess, and the evenness of answers to no question."""

    right: dict[Kind, list[float]] = field(default_factory=dict)
    chance: list[float] = field(default_factory=list)
    evenness: list[float] = field(default_factory=list)
    mass: list[float] = field(default_factory=list)

    @property
    def accuracy(self) -> float:
        """Share of questions answered by a right label."""
        values = [value for kind in self.right.values() for value in kind]
        return sum(values) / len(values)

    def summary(self) -> dict[str, Any]:
        """Rounded figures."""

        def mean(values: list[float]) -> float:
            return round(sum(values) / max(1, len(values)), 4)

        return {
            "accuracy": round(self.accuracy, 4),
            "chance": mean(self.chance),
            "evenness": mean(self.evenness),
            "evenness_worst": round(min(self.evenness, default=0.0), 4),
            "label_mass": mean(self.mass),
            "kinds": {str(kind): mean(values) for kind, values in sorted(self.right.items())},
        }


@torch.no_grad()
def answer_logits(model: Any, batch: list[Prompt], vocabulary: Vocabulary) -> Tensor:
    """Full-vocabulary logits after `answer`."""
    rows = [[vocabulary.ids[token] for token in prompt.tokens] for prompt in batch]
    hidden = model.model(input_ids=padded(rows).clamp(min=0), use_cache=False).last_hidden_state
    last = torch.tensor([len(row) - 1 for row in rows])
    logits: Tensor = hidden[torch.arange(len(rows)), last] @ model.get_output_embeddings().weight.T
    return logits


def add(result: Score, batch: list[Prompt], logits: Tensor, vocabulary: Vocabulary) -> None:
    """Count one batch."""
    offered = padded([[vocabulary.ids[label] for label in prompt.labels] for prompt in batch], MOST)
    absent = offered == ABSENT
    chances = logits.softmax(-1).gather(1, offered.clamp(min=0)).masked_fill(absent, 0)
    policy = logits.gather(1, offered.clamp(min=0)).masked_fill(absent, -1e9).softmax(-1)
    entropy = torch.special.entr(policy).sum(-1)
    result.mass += chances.sum(-1).tolist()
    for i, prompt in enumerate(batch):
        kind, size = prompt.question.kind, len(prompt.labels)
        if kind is Kind.NONE:
            result.evenness.append(entropy[i].item() / math.log(size))
        elif len(prompt.question.right) < size:
            chosen = prompt.labels[int(policy[i].argmax())]
            result.right.setdefault(kind, []).append(float(chosen in prompt.question.right))
            result.chance.append(len(prompt.question.right) / size)


def score(model: Any, vocabulary: Vocabulary, seed: int, split: Split, count: int, kind: Kind | None = None) -> Score:
    """Score `count` fresh prompts."""
    stream, result = prompts(vocabulary, seed, split, kind), Score()
    waiting = sorted(islice(stream, count), key=lambda prompt: len(prompt.tokens))
    for start in range(0, count, 32):
        batch = waiting[start : start + 32]
        add(result, batch, answer_logits(model, batch, vocabulary), vocabulary)
    return result


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1_000_003)
    options = parser.parse_args()
    loaded: Any = AutoModelForCausalLM.from_pretrained(options.folder, dtype=torch.float32)
    model = loaded.eval()
    for split in (Split.HELD_OUT, Split.TRAIN, Split.ANY):
        result = score(model, load(), options.seed, split, options.count)
        say({"split": split, **result.summary()})


if __name__ == "__main__":
    main()
