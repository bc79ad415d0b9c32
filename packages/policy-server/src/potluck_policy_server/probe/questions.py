"""Questions with one right answer: the observation names a thing, one item of the menu is about it.

Things of the fit never appear in the test, so a right answer is a look-up and no memory. The right item stands at every
place equally often, so a fixed place or label is right at chance.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from potluck.common.v1 import common_pb2

SIZES = (2, 3, 4, 6, 8, 12, 18, 26)
_RULES = "You look after a house .\nTake the thing that is wanted ."
_TEST = (
    "lamp", "chair", "bottle", "window", "carpet", "mirror", "basket", "candle", "pillow", "kettle", "hammer", "ladder",
    "bucket", "broom", "clock", "radio", "guitar", "drum", "violin", "trumpet", "camera", "wallet", "scarf", "jacket",
    "helmet", "boot", "glove", "ring", "coin", "stamp", "brush", "spade",
)  # fmt: skip
_FIT = (
    "apple", "pear", "cherry", "lemon", "melon", "grape", "carrot", "potato", "cabbage", "bean", "pepper", "garlic",
    "bread", "cheese", "butter", "honey", "sugar", "salt", "flour", "rice", "horse", "sheep", "goat", "rabbit",
    "duck", "goose", "tiger", "camel", "whale", "shark", "eagle", "snake",
)  # fmt: skip


class Question(NamedTuple):
    """A prompt and the place of its right item."""

    prompt: common_pb2.Prompt
    right: int


def ask(rng: random.Random, items: int, place: int, things: tuple[str, ...]) -> Question:
    """One question with a menu of `items`."""
    names = rng.sample(things, items)
    menu = [
        common_pb2.Item(
            letter=chr(65 + i), word=name, option="take", target=name, text=f"take the {name}", steps=rng.randint(1, 9)
        )
        for i, name in enumerate(names)
    ]
    prompt = common_pb2.Prompt(rules=_RULES, observation=f"wanted {names[place]}", items=menu)
    return Question(prompt, place)


def held_out(seed: int, per_size: int, sizes: tuple[int, ...] = SIZES) -> dict[int, list[Question]]:
    """Questions by menu size; places go round."""
    rng = random.Random(f"test {seed}")
    starts = {n: rng.randrange(n) for n in sizes}
    return {n: [ask(rng, n, (starts[n] + k) % n, _TEST) for k in range(per_size)] for n in sizes}


def fit_batch(seed: int, step: int, size: int, sizes: tuple[int, ...] = SIZES) -> list[Question]:
    """A batch for the fit: things that the test never names, menus of all sizes up to 12."""
    rng = random.Random(f"fit {seed} {step}")
    small = [n for n in sizes if n <= 12] or [min(sizes)]
    counts = [rng.choice(small) for _ in range(size)]
    return [ask(rng, n, rng.randrange(n), _FIT) for n in counts]
