"""A small game for the option library's own tests: two hands, a box, a door that opens for one agent's key.

Option types: `grab@n` takes the ball n (fails with full hands), `toss` gives it away (fails explicitly with empty
hands), `ring` rings a bell (works only while somebody holds a ball; its effect has no private part), `wait`.
"""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Mapping, Sequence

from potluck_optionlib.game import (
    NOOP,
    Activity,
    AgentStep,
    Ended,
    GameSpec,
    Instance,
    ItemView,
    Observation,
    Scene,
    Sprite,
    Step,
)

WAIT = Instance("wait")


class ToyGame:
    """Everything takes one step."""

    solo_only = frozenset({"ring"})
    contracts_digest = "c" * 64

    def __init__(self, balls: int = 3, agents: int = 2) -> None:
        self.balls = balls
        self.spec = GameSpec("toy/hands", agents, 20, "toy 1", "plain", "points", ("grab", "toss", "ring", "wait"))
        self.reset(0)

    def reset(self, seed: int) -> None:
        self.steps = 0
        self.held = [""] * self.spec.agents
        self.running: list[Instance | None] = [None] * self.spec.agents
        self.rng = random.Random(seed)

    def reseed(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def idle(self) -> tuple[int, ...]:
        return tuple(i for i, instance in enumerate(self.running) if instance is None)

    def candidates(self, agent: int) -> Sequence[Instance]:
        grabs = [Instance("grab", f"({n % 4},{n // 4})") for n in range(self.balls)]
        return [*grabs, Instance("toss"), Instance("ring"), WAIT]

    def features(self, agent: int, instance: Instance) -> Mapping[str, str]:
        held = "ball" if self.held[agent] else "none"
        return {} if instance == WAIT else {"held": held, "hour": "even" if self.steps % 2 == 0 else "odd"}

    def explicit(self, agent: int, instance: Instance) -> str | None:
        return "NothingHeld" if instance.option == "toss" and not self.held[agent] else None

    def begin(self, agent: int, instance: Instance) -> None:
        self.running[agent] = instance

    def step(self) -> Step:
        before = [self.features(a, i or WAIT) for a, i in enumerate(self.running)]
        somebody = any(self.held)
        ended = []
        for agent, instance in enumerate(self.running):
            if instance is None:
                raise ValueError("idle")
            if instance == NOOP:
                continue
            outcome = self._act(agent, instance, somebody)
            ended.append(Ended(agent, instance, outcome, self.steps, 1, before[agent]))
            self.running[agent] = None
        self.steps += 1
        agents = tuple(AgentStep(a, 0, "N", "stay", held, Activity.WAIT) for a, held in enumerate(self.held))
        return Step(0.0, (0.0,) * len(agents), agents, (), tuple(ended))

    def _act(self, agent: int, instance: Instance, somebody: bool) -> str:
        reason = self.explicit(agent, instance)
        if reason:
            return f"explicit:{reason}"
        if instance.option == "grab":
            if self.held[agent]:
                return "effect_fail"
            self.held[agent] = "ball"
        elif instance.option == "toss":
            self.held[agent] = ""
        elif instance.option == "ring":
            return "success" if somebody else "effect_fail"
        return "success"

    def snapshot(self) -> object:
        return (self.steps, tuple(self.held), tuple(self.running), self.rng.getstate())

    def restore(self, snapshot: object) -> None:
        self.steps, held, running, state = snapshot  # type: ignore[misc]
        self.held, self.running = list(held), list(running)
        self.rng.setstate(state)

    def state_bytes(self) -> bytes:
        return repr((self.steps, self.held)).encode()

    def rules(self, agent: int) -> str:
        return "Toss balls."

    def observe(self, agent: int) -> Observation:
        return Observation(f"hold {self.held[agent] or 'none'}", self.held[agent])

    def view(self, agent: int, instance: Instance) -> ItemView:
        steps = sum(int(c) for c in instance.target if c.isdigit())
        return ItemView(instance.option, f"{instance.option} {instance.target}", steps, instance.option, 0.0)

    def scene(self) -> Scene:
        return Scene(1, 1, ("floor",))

    def sprites(self) -> Sequence[Sprite]:
        return []


class ToyProvider:
    """The entry point of the toy."""

    def names(self) -> Sequence[str]:
        return ["toy/hands"]

    def make(self, name: str) -> ToyGame:
        if name not in self.names():
            raise KeyError(f"no game {name!r}; known: toy/hands")
        return ToyGame()

    def guards(self, name: str) -> str:
        return ""


class SpoiltGame(ToyGame):
    """Reads nonsense now and then."""

    def features(self, agent: int, instance: Instance) -> Mapping[str, str]:
        features = super().features(agent, instance)
        return {**features, "hour": float("nan")} if instance.option == "ring" and self.steps == 7 else features


class DyingGame(ToyGame):
    """Takes its process along."""

    def step(self) -> Step:
        os.kill(os.getpid(), signal.SIGKILL)
        return super().step()
