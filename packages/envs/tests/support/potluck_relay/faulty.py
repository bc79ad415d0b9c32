"""Relay games with one fault each, named by what they do wrong."""

from __future__ import annotations

import itertools
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

from potluck_envs import patience
from potluck_optionlib.game import Ended, Instance, Observation, Step
from potluck_relay.game import Relay, World

_COUNTER = itertools.count()


class DivergesAtStep3(Relay):
    """A row that no seed explains, from step 3 on."""

    def step(self) -> Step:
        if self.steps == 3:
            self.world.agents[0].y = next(_COUNTER) // 2 % 2
        return super().step()


class DependsOnHashOrder(Relay):
    """Uses the hash of a text, which differs between processes."""

    def step(self) -> Step:
        self.world.agents[0].y = hash(f"step {self.steps}") % 2
        return super().step()


class IgnoresTheSeed(Relay):
    """Slips at the same steps in every episode."""

    def reset(self, seed: int) -> None:
        super().reset(0)


class IgnoresReseed(Relay):
    """Slips on as before after a reseed."""

    def reseed(self, seed: int) -> None:
        pass


class ReseedsByTheClock(Relay):
    """Two reseeds with one number are two different ones."""

    def reseed(self, seed: int) -> None:
        super().reseed(seed + next(_COUNTER) * 1000)


class ForgetsRandomness(Relay):
    """Its snapshots leave the generator out."""

    def restore(self, snapshot: object) -> None:
        super().restore(snapshot)
        self.world.rng = random.Random(1)


class LeaksThroughFork(Relay):
    """A fork plays on in the original's world."""

    def snapshot(self) -> object:
        return self.world

    def restore(self, snapshot: object) -> None:
        assert isinstance(snapshot, World)
        self.world = snapshot


class StateIsAnAddress(Relay):
    """Its state bytes name the object, not the state."""

    def __init__(self) -> None:
        super().__init__()
        self.number = next(_COUNTER)

    def state_bytes(self) -> bytes:
        return b"%d" % self.number


class OffersNoWait(Relay):
    """Its candidates end without `wait`."""

    def candidates(self, agent: int) -> Sequence[Instance]:
        return super().candidates(agent)[:-1]


class EmptyMenu(Relay):
    """Offers nothing at all."""

    def candidates(self, agent: int) -> Sequence[Instance]:
        return []


class GuardsSeeOldFeatures(Relay):
    """Features lag one call behind, so a guard that holds is not applied."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[tuple[int, Instance], Mapping[str, str]] = {}

    def features(self, agent: int, instance: Instance) -> Mapping[str, str]:
        now = super().features(agent, instance)
        before = self.seen.get((agent, instance), now)
        self.seen[agent, instance] = now
        return before


class LookingDrawsRandomness(Relay):
    """Being observed moves the generator on."""

    def observe(self, agent: int) -> Observation:
        self.world.rng.random()
        return super().observe(agent)


class BeginsAnything(Relay):
    """Takes unknown options and busy agents."""

    def begin(self, agent: int, instance: Instance) -> None:
        self.world.agents[agent].option = None
        if instance in self.candidates(agent):
            super().begin(agent, instance)


class HorizonOffByOne(Relay):
    """Counts its steps from one."""

    @property
    def steps(self) -> int:
        return self.world.steps + 1


class LosesTheTeamReward(Relay):
    """Pays the agent and not the team."""

    def step(self) -> Step:
        return replace(super().step(), reward=0.0)


class DurationOffByOne(Relay):
    """Books one step too many."""

    def _end(self, i: int, outcome: str) -> Ended:
        ended = super()._end(i, outcome)
        return replace(ended, duration=ended.duration + 1)


class PrimitivesTakeTwoSteps(Relay):
    """Native play that is not per step."""

    def step(self) -> Step:
        options = [agent.option for agent in self.world.agents]
        starts = [agent.start for agent in self.world.agents]
        step = super().step()
        for agent, option, start in zip(self.world.agents, options, starts, strict=True):
            if option and option.option == "primitive" and start == self.steps - 1:
                agent.option, agent.start = option, start
        kept = [e for e in step.ended if e.instance.option != "primitive" or e.duration > 1]
        return replace(step, ended=tuple(kept))


class Raises(Relay):
    """An engine with a bug that an unlucky seed meets."""

    def step(self) -> Step:
        if self.steps == 3 and self._unlucky:
            raise RuntimeError("a secret path")
        return super().step()

    def reset(self, seed: int) -> None:
        super().reset(seed)
        self._unlucky = seed == 13


class Exits(Raises):
    """An engine that takes its process down."""

    def step(self) -> Step:
        if self.steps == 3 and self._unlucky:
            os._exit(7)
        return super().step()


class Hangs(Raises):
    """An engine that never answers."""

    def step(self) -> Step:
        if self.steps == 3 and self._unlucky:
            time.sleep(3600)
        return super().step()


class Slow(Relay):
    """An engine that takes its time, but answers."""

    def step(self) -> Step:
        time.sleep(0.05)
        return super().step()


class SaysSo(Raises):
    """An engine that takes long and says meanwhile that this is no hang."""

    def step(self) -> Step:
        if self.steps == 3 and self._unlucky:
            for _ in range(12):
                time.sleep(0.5)
                patience.still_busy()
        self._unlucky = False
        return super().step()


FAULTY: dict[str, type[Relay]] = {
    "faulty/diverges_at_step_3": DivergesAtStep3,
    "faulty/depends_on_hash_order": DependsOnHashOrder,
    "faulty/ignores_the_seed": IgnoresTheSeed,
    "faulty/ignores_reseed": IgnoresReseed,
    "faulty/reseeds_by_the_clock": ReseedsByTheClock,
    "faulty/forgets_randomness": ForgetsRandomness,
    "faulty/leaks_through_fork": LeaksThroughFork,
    "faulty/state_is_an_address": StateIsAnAddress,
    "faulty/offers_no_wait": OffersNoWait,
    "faulty/empty_menu": EmptyMenu,
    "faulty/guards_see_old_features": GuardsSeeOldFeatures,
    "faulty/looking_draws_randomness": LookingDrawsRandomness,
    "faulty/begins_anything": BeginsAnything,
    "faulty/horizon_off_by_one": HorizonOffByOne,
    "faulty/loses_the_team_reward": LosesTheTeamReward,
    "faulty/duration_off_by_one": DurationOffByOne,
    "faulty/primitives_take_two_steps": PrimitivesTakeTwoSteps,
    "faulty/raises": Raises,
    "faulty/exits": Exits,
    "faulty/hangs": Hangs,
    "faulty/slow": Slow,
    "faulty/says_so": SaysSo,
}
