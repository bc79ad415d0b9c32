"""Questions about a made-up game: a goal line for the state, and the set of offered labels that answer it.

A goal is `choose` and a key: a label, a family, a distance, `hold` (what is held), `mate`, a state such as `ready`,
`last` (the first entry of that line), `nearest`; or cases such as `when hold lamp pick forge when hold none pick rope`.
Every question is answered by labels; where several are right, all of them are. `Kind.NONE` asks nothing: every
offered label is equally right, which is what keeps the frozen model near the uniform policy on a game without a goal.
"""

import random
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

from pretrain.games import NONE, STATES, WAIT, Game


class Kind(StrEnum):
    """What a goal line asks."""

    NONE = "none"
    LABEL = "label"
    STEM = "stem"
    WAIT = "wait"
    STEPS = "steps"
    NEAREST = "nearest"
    FARTHEST = "farthest"
    NEAREST_STEM = "nearest-stem"
    HELD = "held"
    MATE = "mate"
    TOOL = "tool"
    COUNT = "count"
    REPEAT = "repeat"
    WHEN_HELD = "when-held"
    WHEN_TOOL = "when-tool"


class Question(NamedTuple):
    """A goal line (empty for none) and the labels that answer it."""

    kind: Kind
    goal: list[str]
    right: list[str]


WEIGHTS = {
    Kind.NONE: 30, Kind.LABEL: 2, Kind.STEM: 3, Kind.WAIT: 1, Kind.STEPS: 9, Kind.NEAREST: 7, Kind.FARTHEST: 6,
    Kind.NEAREST_STEM: 6, Kind.HELD: 16, Kind.MATE: 8, Kind.TOOL: 12, Kind.COUNT: 6, Kind.REPEAT: 8,
    Kind.WHEN_HELD: 12, Kind.WHEN_TOOL: 9,
}  # fmt: skip
KEYS = {"mate", "hand", *STATES}
Answer = tuple[list[str], list[str]] | None


def _label(game: Game, rng: random.Random) -> Answer:
    label = rng.choice(game.labels)
    return ["choose", label], [label]


def _stem(game: Game, rng: random.Random) -> Answer:
    stem = rng.choice(game.stems())
    if stem in KEYS:  # `choose mate` asks for what the mate holds
        return None
    return ["choose", stem], game.of_stem(stem)


def _wait(game: Game, rng: random.Random) -> Answer:
    return (["choose", WAIT], [WAIT]) if WAIT in game.labels else None


def _steps(game: Game, rng: random.Random) -> Answer:
    steps = rng.choice(game.menu)[0]
    return ["choose", str(steps)], [name for far, name in game.menu if far == steps]


def _nearest(game: Game, rng: random.Random) -> Answer:
    best = min(game.menu)[0]
    return ["choose", "nearest"], [name for far, name in game.menu if far == best]


def _farthest(game: Game, rng: random.Random) -> Answer:
    best = max(game.menu)[0]
    return ["choose", "farthest"], [name for far, name in game.menu if far == best]


def _nearest_stem(game: Game, rng: random.Random) -> Answer:
    stem = rng.choice(game.stems())
    family = set(game.of_stem(stem))
    best = min(far for far, name in game.menu if name in family)
    return ["choose", "nearest", stem], [name for far, name in game.menu if far == best and name in family]


def _held(game: Game, rng: random.Random) -> Answer:
    if not game.held or not game.of_stem(game.held):
        return None
    return ["choose", game.own_key], game.of_stem(game.held)


def _mate(game: Game, rng: random.Random) -> Answer:
    if not game.mate_held or not game.of_stem(game.mate_held):
        return None
    return ["choose", "mate"], game.of_stem(game.mate_held)


def _tool(game: Game, rng: random.Random) -> Answer:
    offered = [tool for tool in game.tools if tool in game.labels]
    if not offered:
        return None
    state = game.tools[rng.choice(offered)]
    if state in game.stems():
        return None
    return ["choose", state], [tool for tool in offered if game.tools[tool] == state]


def _count(game: Game, rng: random.Random) -> Answer:
    things = [thing for thing in game.placed if game.of_stem(thing)]
    if not things:
        return None
    count = game.placed[rng.choice(things)]
    right = [label for thing in things if game.placed[thing] == count for label in game.of_stem(thing)]
    return ["choose", "count", str(count)], right


def _repeat(game: Game, rng: random.Random) -> Answer:
    if not game.memory or game.memory[0][0] not in game.labels:
        return None
    return ["choose", "last"], [game.memory[0][0]]


def _when_held(game: Game, rng: random.Random) -> Answer:
    stems = game.stems()
    if not game.held or len(stems) < 2:
        return None
    others = [thing for thing in (NONE, *stems, *game.placed) if thing != game.held]
    cases = [game.held, *rng.sample(others, min(len(others), rng.randint(1, 3)))]
    picks = [rng.choice(stems) for _ in cases]
    order = rng.sample(range(len(cases)), len(cases))
    goal = [word for i in order for word in ("when", game.own_key, cases[i], "pick", picks[i])]
    return goal, game.of_stem(picks[0])


def _when_tool(game: Game, rng: random.Random) -> Answer:
    if not game.tools or len(game.stems()) < 2:
        return None
    tool = rng.choice(list(game.tools))
    states = [game.tools[tool], *rng.sample([s for s in STATES if s != game.tools[tool]], rng.randint(1, 2))]
    picks = [rng.choice(game.stems()) for _ in states]
    order = rng.sample(range(len(states)), len(states))
    goal = [word for i in order for word in ("when", tool, states[i], "pick", picks[i])]
    return goal, game.of_stem(picks[0])


ASK: dict[Kind, Callable[[Game, random.Random], Answer]] = {
    Kind.LABEL: _label, Kind.STEM: _stem, Kind.WAIT: _wait, Kind.STEPS: _steps, Kind.NEAREST: _nearest,
    Kind.FARTHEST: _farthest, Kind.NEAREST_STEM: _nearest_stem, Kind.HELD: _held, Kind.MATE: _mate,
    Kind.TOOL: _tool, Kind.COUNT: _count, Kind.REPEAT: _repeat, Kind.WHEN_HELD: _when_held,
    Kind.WHEN_TOOL: _when_tool,
}  # fmt: skip


def ask(game: Game, rng: random.Random, kind: Kind | None = None) -> Question:
    """A question this game can answer; without a kind, one drawn by weight. Falls back to none."""
    for _ in range(4):
        wanted = kind or rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        answer = ASK[wanted](game, rng) if wanted is not Kind.NONE else None
        if answer is not None:
            return Question(wanted, ["goal", *answer[0]], answer[1])
        if wanted is Kind.NONE:
            break
    return Question(Kind.NONE, [], game.labels)
