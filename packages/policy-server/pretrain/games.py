"""Made-up games: random nouns as things, tools and places, random rules, states, histories and menus.

Nothing here knows a real game. Kitchen and orchard words are drawn like every other noun, without their usual roles.
One in eight (word, role) pairs is kept for evaluation: training never shows that word in that role.
"""

import math
import random
import zlib
from dataclasses import dataclass, field
from enum import StrEnum

from pretrain.vocabulary import ORDINALS, Vocabulary

NONE, WAIT = "none", "wait"
FEW, FEW_SHARE = 12, 0.3
STATES = (
    "empty", "full", "ready", "cooking", "cook", "open", "closed", "locked", "broken", "busy", "idle", "hot",
    "cold", "wet", "dry", "dirty", "raw", "burnt", "free", "active", "asleep", "awake", "ripe", "rotten",
    "filling", "heavy", "safe", "red", "green", "blue", "loud", "quiet",
)  # fmt: skip
OUTCOMES = ["done", "ok", "failed", "interrupted", "blocked", "succeeded", "started", "lost"]
OWN_KEYS = ("hold", "hold", "hold", "hold", "carry", "hand")
PLACE_KEYS = (
    "shared", "private", "counter", "floor", "shelf", "store", "near", "far", "left", "right", "north", "south",
    "stock", "field",
)  # fmt: skip
FACT_KEYS = (
    "at", "time", "step", "score", "orders", "facing", "zone", "level", "team", "timer", "light", "wind",
    "turn", "here", "next",
)  # fmt: skip


class Role(StrEnum):
    """What a word stands for in a game; one in eight pairs of word and role is held out."""

    HELD = "held"
    TOOL = "tool"
    OPTION = "option"
    PLACED = "placed"


class Split(StrEnum):
    """Which pairs of word and role may be drawn; held-out words name things and tools, any word names options."""

    TRAIN = "train"
    HELD_OUT = "held-out"
    ANY = "any"


def held_out(word: str, role: Role) -> bool:
    """Whether training never shows this word in this role."""
    return zlib.crc32(f"{role}:{word}".encode()) % 8 == 0


@dataclass
class Game:
    """One decision of a made-up game; lines are lists of tokens."""

    rules: list[list[str]] = field(default_factory=list)
    state: list[list[str]] = field(default_factory=list)
    memory: list[list[str]] = field(default_factory=list)
    menu: list[tuple[int, str]] = field(default_factory=list)
    own_key: str = "hold"
    held: str | None = None
    mate_held: str | None = None
    tools: dict[str, str] = field(default_factory=dict)
    placed: dict[str, int] = field(default_factory=dict)

    @property
    def labels(self) -> list[str]:
        """The offered labels in menu order."""
        return [label for _, label in self.menu]

    def of_stem(self, stem: str) -> list[str]:
        """The offered labels of one family (`wait` is a family of its own)."""
        return [label for label in self.labels if label.rstrip("0123456789") == stem]

    def stems(self) -> list[str]:
        """The families offered, without repetition."""
        return list(dict.fromkeys(label.rstrip("0123456789") for label in self.labels))


class GameMaker:
    """Draws games with one random generator; `growth` below 1 makes them short, for the start of training."""

    def __init__(self, vocabulary: Vocabulary, rng: random.Random, split: Split = Split.TRAIN) -> None:
        self.rng, self.growth = rng, 1.0
        self.nouns, self.verbs, self.others = vocabulary.nouns, vocabulary.verbs, vocabulary.others
        self.pools = {role: _allowed(vocabulary.stems, role, split) for role in Role}
        if split is Split.HELD_OUT:  # a held-out thing can only be asked for where its namesake is an option
            self.pools[Role.OPTION] = list(vocabulary.stems)
        self.things = {role: _allowed(vocabulary.nouns, role, split) for role in Role}
        self.split, self.tools = split, self.pools[Role.TOOL]

    def draw(self, size: int | None = None) -> Game:
        """A game with `size` options, or a number between 2 and 26 that favours short menus.

        Held-out words are few, so their games often have tools of one family; some games in training draw from a few
        words too.
        """
        if self.split is Split.TRAIN:
            few = self.rng.random() < FEW_SHARE
            self.pools[Role.TOOL] = self.rng.sample(self.tools, FEW) if few else self.tools
        game = Game(menu=self._menu(size or self._size()))
        self._fill_state(game)
        game.rules = self._rules(game)
        game.memory = [self._entry(game) for _ in range(self.rng.choice((0, 0, 1, 2, 3, 4, 5)))]
        return game

    def _size(self) -> int:
        return int(math.exp(self.rng.uniform(math.log(2), math.log(5 + 22 * self.growth))))

    def steps(self) -> int:
        """A distance: mostly small, at most 99."""
        if self.rng.random() < 0.15:
            return self.rng.randrange(100)
        return min(99, int(self.rng.expovariate(1 / 8)))

    def _menu(self, size: int) -> list[tuple[int, str]]:
        rng = self.rng
        labels = [WAIT] if rng.random() < 0.7 else []
        stems = rng.sample(self.pools[Role.OPTION], min(len(self.pools[Role.OPTION]), rng.randint(1, 7)))
        while len(labels) < size:
            stem = stems.pop() if stems else rng.choice(self.pools[Role.OPTION])
            most = min(size - len(labels), rng.choice((1, 1, 1, 2, 2, 3, 4, 6, 9)))
            ordinals = range(1, most + 1) if rng.random() < 0.7 else rng.sample(ORDINALS, most)
            labels += [label for label in (f"{stem}{n}" for n in ordinals) if label not in labels]
        rng.shuffle(labels)
        return [(self.steps(), label) for label in labels[:size]]

    def _rules(self, game: Game) -> list[list[str]]:
        band = self.rng.random()
        named = self._named(game) if self.rng.random() < 0.7 else []
        if self.rng.random() > self.growth:
            return []
        count = (
            self.rng.randint(0, 1)
            if band < 0.55
            else self.rng.randint(2, 4)
            if band < 0.93
            else self.rng.randint(5, 12)
        )
        return [self._sentence(named) for _ in range(count)]

    def _named(self, game: Game) -> list[str]:
        """What the rules may speak of: families on the menu, things and tools of the state."""
        tools = [tool.rstrip("0123456789") for tool in game.tools]
        words = [*game.stems(), *game.stems(), *tools, *game.placed, game.held, game.mate_held]
        return [word for word in words if word and word not in (NONE, WAIT)]

    def _sentence(self, named: list[str]) -> list[str]:
        rng = self.rng
        words = [
            rng.choice(rng.choices((named or self.nouns, self.nouns, self.verbs, self.others), (3, 2, 2, 4))[0])
            for _ in range(rng.randint(3, 9))
        ]
        if rng.random() < 0.2:
            words.insert(rng.randrange(len(words)), str(rng.randrange(100)))
        if rng.random() < 0.1:
            words.insert(rng.randrange(len(words)), rng.choice("abcdefghijklmnopqrstuvwxyz(),:;-'/\""))
        return [*words, rng.choice((".", ".", ".", ",", ";"))]

    def _thing(self, game: Game, role: Role) -> str:
        """A thing that is often the namesake of an offered family."""
        rng = self.rng
        if rng.random() < 0.6:
            allowed = set(self.things[role])
            named = [stem for stem in game.stems() if stem in allowed]
            if named:
                return rng.choice(named)
        return rng.choice(self.things[role])

    def _fill_state(self, game: Game) -> None:
        rng, lines = self.rng, []
        game.own_key = rng.choice(OWN_KEYS)
        if rng.random() < 0.95:
            game.held = NONE if rng.random() < 0.25 else self._thing(game, Role.HELD)
            lines.append([game.own_key, game.held])
        if rng.random() < 0.55:
            game.mate_held = NONE if rng.random() < 0.25 else self._thing(game, Role.HELD)
            lines.append(["mate", "hold", game.mate_held])
        for _ in range(rng.choice((0, 1, 1, 2, 2, 3, 4))):
            lines.append(self._tool_line(game))
        if rng.random() < 0.4:
            lines += self._place_lines(game)
        for _ in range(rng.choice((0, 0, 0, 1, 2))):
            lines.append([rng.choice(FACT_KEYS), *(str(rng.randrange(100)) for _ in range(rng.randint(1, 2)))])
        if rng.random() < 0.6:
            rng.shuffle(lines)
        game.state = lines

    def _tool_line(self, game: Game) -> list[str]:
        rng = self.rng
        allowed = set(self.pools[Role.TOOL])
        offered = [label for label in game.labels if label.rstrip("0123456789") in allowed and label not in game.tools]
        if offered and rng.random() < 0.8:
            tool = rng.choice(offered)
        else:
            tool = f"{rng.choice(self.pools[Role.TOOL])}{rng.choice((1, 2, rng.randint(1, 26)))}"
        if tool in game.tools:
            return [rng.choice(FACT_KEYS), str(rng.randrange(100))]
        if rng.random() < 0.15 and (thing := self._thing(game, Role.PLACED)) not in game.placed:
            game.placed[thing] = rng.randrange(7)
            return [tool, thing, str(game.placed[thing])]
        game.tools[tool] = state = rng.choice(STATES)
        return [tool, state, *([str(rng.randrange(30))] if rng.random() < 0.35 else [])]

    def _place_lines(self, game: Game) -> list[list[str]]:
        rng, lines = self.rng, []
        for key in rng.sample(PLACE_KEYS, rng.randint(1, 2)):
            line = [key]
            for _ in range(rng.randint(1, 3)):
                thing, count = self._thing(game, Role.PLACED), rng.randrange(7)
                if thing not in game.placed:
                    game.placed[thing] = count
                    line += [thing, str(count)]
            lines.append(line)
        return lines

    def _entry(self, game: Game) -> list[str]:
        rng = self.rng
        label = (
            rng.choice(game.labels)
            if rng.random() < 0.7
            else f"{rng.choice(self.pools[Role.OPTION])}{rng.choice(ORDINALS)}"
        )
        tail = rng.choice(([], [rng.choice(OUTCOMES)], [rng.choice(OUTCOMES), str(rng.randrange(40))]))
        return [label, *tail]


def _allowed(words: tuple[str, ...], role: Role, split: Split) -> list[str]:
    if split is Split.ANY:
        return list(words)
    return [word for word in words if held_out(word, role) == (split is Split.HELD_OUT)]
