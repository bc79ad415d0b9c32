"""Prompts in the policy server's `words` template, and batches of them for training.

A training row is prompt, answer, a recall block (keys that the prompt defined, such as `mate hold`, `forge1` or a
distance, each followed by its value) and a few further goals about the same game, each answered in turn. Both give
several look-ups per prompt for a few tokens more, where the answer alone gives one; neither occurs outside
pre-training.
"""

import random
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch

from pretrain.games import Game, GameMaker, Split
from pretrain.questions import Kind, Question, ask
from pretrain.vocabulary import Vocabulary

MOST = 26
PROBES = ("held", "mate", "tool-a", "tool-b", "last", "count")
ABSENT = -1
SAMPLED, RECALLED, AGAIN = 0.03, 3, 2


class Prompt(NamedTuple):
    """A rendered decision: lines of tokens, offered labels, the right ones, and the game behind it."""

    lines: list[list[str]]
    labels: list[str]
    question: Question
    game: Game

    @property
    def text(self) -> str:
        """The prompt as the policy server sends it to the tokenizer."""
        return "\n".join(" ".join(line) for line in self.lines)

    @property
    def tokens(self) -> list[str]:
        """The same prompt as tokens."""
        return [token for line in self.lines for token in line]


def render(game: Game, question: Question, rng: random.Random) -> Prompt:
    """Write a game and its question in the `words` template."""
    observation = list(game.state)
    if question.goal:
        observation.insert(len(observation) if rng.random() < 0.9 else 0, question.goal)
    memory: list[str] = ["last"]
    for entry in game.memory:
        memory += [*entry, ";"]
    memory = memory[:-1] if game.memory else ["last", "none"]
    menu = ["menu"]
    for steps, label in game.menu:
        menu += [str(steps), label, ","]
    if rng.random() < 0.9:
        menu.pop()
    return Prompt([*game.rules, ["state"], *observation, memory, menu, ["answer"]], game.labels, question, game)


def prompts(
    vocabulary: Vocabulary,
    seed: int,
    split: Split,
    kind: Kind | None = None,
    growth: Callable[[], float] = lambda: 1.0,
) -> Iterator[Prompt]:
    """An endless stream of prompts; with a kind, only questions of that kind."""
    rng = random.Random(seed)
    maker = GameMaker(vocabulary, rng, split)
    while True:
        maker.growth = growth()
        game = maker.draw()
        question = ask(game, rng, kind)
        if kind is None or question.kind is kind:
            yield render(game, question, rng)


def recall(game: Game, rng: random.Random) -> list[tuple[list[str], str]]:
    """Keys and values that the prompt defined, in random order."""
    pairs: list[tuple[list[str], str]] = []
    if game.held:
        pairs.append(([game.own_key], game.held))
    if game.mate_held:
        pairs.append((["mate", "hold"], game.mate_held))
    pairs += [([tool], state) for tool, state in game.tools.items()]
    pairs += [([thing], str(count)) for thing, count in game.placed.items()]
    steps = [far for far, _ in game.menu]
    once = [item for item in game.menu if steps.count(item[0]) == 1]
    pairs += [([str(far)], label) for far, label in rng.sample(once, min(2, len(once)))]
    return rng.sample(pairs, min(5, len(pairs)))


def probes(prompt: Prompt) -> list[str | None]:
    """What the probes must read off the hidden state at `answer`, whatever the question was."""
    game = prompt.game
    by_ordinal = {name[-1] if name[-2].isalpha() else "": state for name, state in game.tools.items()}
    first = next(iter(game.placed.items()), None)
    return [
        game.held or "none",
        game.mate_held or "none",
        by_ordinal.get("1"),
        by_ordinal.get("2"),
        game.memory[0][0] if game.memory else "none",
        str(first[1]) if first else None,
    ]


class Batch(NamedTuple):
    """Padded rows and what they teach.

    `answers` lists the (row, column) of every `answer`, the prompts' own first; `right` and `offered` go with it.
    `spots` lists (row, column) pairs whose next token is a target, with `next_ids` and `weights`.
    """

    ids: torch.Tensor
    answers: torch.Tensor
    right: torch.Tensor
    offered: torch.Tensor
    spots: torch.Tensor
    next_ids: torch.Tensor
    weights: torch.Tensor
    probes: torch.Tensor


def padded(rows: list[list[int]], width: int = 0) -> torch.Tensor:
    """Rows as one tensor, filled up with -1."""
    out = np.full((len(rows), max(width, *map(len, rows))), ABSENT, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


class _Row:
    """One training row while it grows."""

    def __init__(self, prompt: Prompt, ids: dict[str, int], rng: random.Random) -> None:
        self.prompt, self.ids, self.rng = prompt, ids, rng
        self.tokens = [ids[token] for token in prompt.tokens]
        self.spots = [(c, 0.3) for c in range(len(self.tokens) - 1) if rng.random() < SAMPLED]
        self.answers = [(len(self.tokens) - 1, prompt.question)]
        self.tokens.append(ids[rng.choice(prompt.question.right)])

    def recall(self, most: int) -> None:
        """Append keys and values; every value is a target."""
        self.tokens.append(self.ids["<eos>"])
        for key, value in recall(self.prompt.game, self.rng)[:most]:
            self.tokens += [self.ids[word] for word in key]
            self.spots.append((len(self.tokens) - 1, 1.0))
            self.tokens.append(self.ids[value])

    def _between(self) -> list[str]:
        """Part of the menu, so that a goal is never found by looking a fixed number of tokens back."""
        menu = self.prompt.game.menu
        items = [w for steps, label in self.rng.sample(menu, min(len(menu), 3)) for w in (str(steps), label, ",")]
        lead = self.rng.choice((["last", "none", "menu"], ["menu"]))
        return [*lead, *items[: self.rng.choice((2, 5, 8))]]

    def ask_again(self) -> None:
        """Append another goal about the same game, and its answer."""
        question = ask(self.prompt.game, self.rng)
        if question.goal:
            self.tokens += [self.ids[word] for word in ("<eos>", *question.goal, *self._between(), "answer")]
            self.answers.append((len(self.tokens) - 1, question))
            self.tokens.append(self.ids[self.rng.choice(question.right)])


def collate(batch: list[Prompt], vocabulary: Vocabulary, rng: random.Random) -> Batch:
    """Turn prompts into one training batch."""
    ids, rows = vocabulary.ids, []
    for prompt in batch:
        rows.append(row := _Row(prompt, ids, rng))
        row.recall(RECALLED)
        for _ in range(AGAIN):
            row.ask_again()
    own = [(i, *row.answers[0]) for i, row in enumerate(rows)]
    answers = own + [(i, *answer) for i, row in enumerate(rows) for answer in row.answers[1:]]
    where = torch.tensor([(i, column) for i, row in enumerate(rows) for column, _ in row.spots])
    matrix = padded([row.tokens for row in rows])
    return Batch(
        ids=matrix.clamp(min=0),
        answers=torch.tensor([(i, column) for i, column, _ in answers]),
        right=padded([[ids[label] for label in question.right] for _, _, question in answers], MOST),
        offered=padded([[ids[label] for label in batch[i].labels] for i, _, _ in answers], MOST),
        spots=where,
        next_ids=matrix[where[:, 0], where[:, 1] + 1],
        weights=torch.tensor([weight for row in rows for _, weight in row.spots]),
        probes=torch.tensor([[ids[w] if w else ABSENT for w in probes(prompt)] for prompt in batch]),
    )


def batches(
    vocabulary: Vocabulary, seed: int, tokens: int, growth: Callable[[], float] = lambda: 1.0, pool: int = 1024
) -> Iterator[Batch]:
    """Endless training batches of about `tokens` tokens each, rows of like length together."""
    rng, stream = random.Random(seed + 1), prompts(vocabulary, seed, Split.TRAIN, growth=growth)
    while True:
        waiting = sorted((next(stream) for _ in range(pool)), key=lambda prompt: len(prompt.tokens))
        groups: list[list[Prompt]] = [[]]
        for prompt in waiting:
            if (len(groups[-1]) + 1) * (len(prompt.tokens) + 36) > tokens:
                groups.append([])
            groups[-1].append(prompt)
        rng.shuffle(groups)
        for group in groups:
            yield collate(group, vocabulary, rng)
