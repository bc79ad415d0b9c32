"""Prompts in the policy server's `words` template, and batches of them for training.

A training row is either a prompt with a goal, or a prompt without one after which many goals about the same game stand
beside each other, each with an `answer` of its own and hidden from the others. So one prompt gives many look-ups for a
few tokens more, and the lesson that without a goal all labels are alike.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

from pretrain.games import Game, GameMaker, Split
from pretrain.questions import Kind, Question, ask
from pretrain.vocabulary import Vocabulary

MOST = 26
PROBES = ("held", "mate", "tool-a", "tool-b", "last", "count")
ABSENT = -1
SAMPLED, BESIDE, BARE = 0.015, 24, 0.45


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
    """Write a game and its question in the `words` template; the goal is the last line of the state."""
    observation = list(game.state)
    if question.goal:
        observation.append(question.goal)
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


def probes(game: Game) -> list[str | None]:
    """What the probes must read off the hidden state at `answer`, whatever the question was."""
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


class Rows(NamedTuple):
    """Padded rows: tokens, their positions, who sees whom, and the columns whose final states are wanted."""

    ids: torch.Tensor
    positions: torch.Tensor
    mask: torch.Tensor
    picked: torch.Tensor


class Batch(NamedTuple):
    """Rows and what they teach.

    `answers` lists the (row, place among the picked) of every `answer`; `right`, `offered` and `asked` go with it, the
    last telling no question (0), a question in a prompt of its own (1) and one of many beside each other (2).
    `spots` lists the places whose next token is a target. Probes read at the first picked column of each row.
    """

    rows: Rows
    answers: torch.Tensor
    right: torch.Tensor
    offered: torch.Tensor
    asked: torch.Tensor
    spots: torch.Tensor
    next_ids: torch.Tensor
    probes: torch.Tensor


def padded(rows: Sequence[Sequence[int]], width: int = 0) -> torch.Tensor:
    """Rows as one tensor, filled up with -1."""
    out = np.full((len(rows), max(width, *map(len, rows))), ABSENT, dtype=np.int64)
    for i, row in enumerate(rows):
        out[i, : len(row)] = row
    return torch.from_numpy(out)


HEAD, TAIL, FIRST_BLOCK = 0, 1, 2


class _Row:
    """One training row while it grows: head (rules and state), tail (last, menu, answer), blocks of goal and answer."""

    def __init__(self, prompt: Prompt, ids: dict[str, int], rng: random.Random) -> None:
        self.prompt, self.ids, self.rng = prompt, ids, rng
        self.tokens = [ids[token] for token in prompt.tokens]
        size, head = len(self.tokens), sum(len(line) for line in prompt.lines[:-3])
        none = prompt.question.kind is Kind.NONE
        gap = rng.choice((0, 0, 3, 4, 5, 10)) if none and head else 0
        self.head, self.start = head, rng.choice((0, 0, 0, rng.randrange(200)))
        self.positions = [*range(head), *range(head + gap, size + gap)]
        self.segments = [HEAD] * head + [TAIL] * (size - head)
        self.last = [False] * size
        self.answers = [(size - 1, prompt.question, 0 if none else 1)]
        self.spots = [c for c in range(size - 1) if rng.random() < SAMPLED]

    def ask_beside(self, block: int) -> None:
        """Append a goal about the same game as if it stood at the end of the state, and its `answer`."""
        question = ask(self.prompt.game, self.rng)
        if not question.goal:
            return
        tokens = [self.ids[word] for word in question.goal]
        self.tokens += [*tokens, self.ids["answer"]]
        self.positions += [*range(self.head, self.head + len(tokens)), self.positions[self.answers[0][0]]]
        self.segments += [FIRST_BLOCK + block] * (len(tokens) + 1)
        self.last += [False] * len(tokens) + [True]
        self.answers.append((len(self.tokens) - 1, question, 2))

    @property
    def picked(self) -> list[int]:
        """Columns of answers, then of spots."""
        return [column for column, _, _ in self.answers] + self.spots


def visible(segments: torch.Tensor, last: torch.Tensor) -> torch.Tensor:
    """Who sees whom: the head is seen by all, a tail by itself and by the answers of blocks, a block by itself."""
    asking, seen = segments[:, :, None], segments[:, None, :]
    order = torch.ones(segments.shape[1], segments.shape[1], dtype=torch.bool).tril()
    return order & ((seen == HEAD) | (asking == seen) | ((seen == TAIL) & last[:, :, None].bool()))


def collate(batch: list[Prompt], vocabulary: Vocabulary, rng: random.Random) -> Batch:
    """Turn prompts into one training batch."""
    ids, rows = vocabulary.ids, []
    for prompt in batch:
        rows.append(row := _Row(prompt, ids, rng))
        for block in range(BESIDE if prompt.question.kind is Kind.NONE else 0):
            row.ask_beside(block)
    matrix, picked = padded([row.tokens for row in rows]), padded([row.picked for row in rows])
    segments, last = padded([row.segments for row in rows]), padded([row.last for row in rows])
    positions = padded([[row.start + at for at in row.positions] for row in rows])
    answers = [(i, place, *answer[1:]) for i, row in enumerate(rows) for place, answer in enumerate(row.answers)]
    spots = [(i, len(row.answers) + n, column) for i, row in enumerate(rows) for n, column in enumerate(row.spots)]
    where = torch.tensor(spots or [(0, 0, 0)])
    return Batch(
        rows=Rows(matrix.clamp(min=0), positions.clamp(min=0), visible(segments, last > 0), picked.clamp(min=0)),
        answers=torch.tensor([answer[:2] for answer in answers]),
        right=padded([[ids[label] for label in question.right] for _, _, question, _ in answers], MOST),
        offered=padded([[ids[label] for label in batch[i].labels] for i, *_ in answers], MOST),
        asked=torch.tensor([asked for *_, asked in answers]),
        spots=where[:, :2],
        next_ids=matrix[where[:, 0], where[:, 2] + 1].clamp(min=0),
        probes=torch.tensor([[ids[w] if w else ABSENT for w in probes(prompt.game)] for prompt in batch]),
    )


def batches(
    vocabulary: Vocabulary, seed: int, tokens: int, growth: Callable[[], float] = lambda: 1.0, pool: int = 512
) -> Iterator[Batch]:
    """Endless training batches of about `tokens` tokens each, rows of like length together."""
    rng, stream = random.Random(seed + 1), prompts(vocabulary, seed, Split.TRAIN, growth=growth)
    single = {False: 0, True: BESIDE * 5}
    while True:
        drawn = (bare(next(stream), rng) if rng.random() < BARE else next(stream) for _ in range(pool))
        waiting = sorted(drawn, key=lambda p: size_of(p, single))
        groups: list[list[Prompt]] = [[]]
        for prompt in waiting:
            if (len(groups[-1]) + 1) * size_of(prompt, single) > tokens:
                groups.append([])
            groups[-1].append(prompt)
        rng.shuffle(groups)
        for group in groups:
            if group:
                yield collate(group, vocabulary, rng)


def bare(prompt: Prompt, rng: random.Random) -> Prompt:
    """The same game without a question."""
    return render(prompt.game, Question(Kind.NONE, [], prompt.labels), rng)


def size_of(prompt: Prompt, extra: dict[bool, int]) -> int:
    """Tokens that a prompt's row will take, about."""
    return len(prompt.tokens) + extra[prompt.question.kind is Kind.NONE]
