"""The checks as a test class: subclass it and name your game."""

from __future__ import annotations

from typing import ClassVar

from potluck_envs.conformance import books, branches, menus, seeds
from potluck_envs.conformance.plan import Plan, Player


class GameConformance:
    """Every promise of a game, one test each."""

    game: ClassVar[str]
    """Full name, e.g. "overcooked/cramped_room"."""
    plan: ClassVar[Plan] = Plan()
    """How much to play."""

    def player(self) -> Player:
        """A player of its own for every test."""
        return Player(self.game, self.plan)

    def test_same_seed_same_trajectory(self) -> None:
        seeds.same_seed_same_trajectory(self.player())

    def test_same_seed_same_trajectory_elsewhere(self) -> None:
        seeds.same_seed_same_trajectory_elsewhere(self.player())

    def test_different_seeds_differ(self) -> None:
        seeds.different_seeds_differ(self.player())

    def test_fork_repeats_the_original(self) -> None:
        branches.fork_repeats_the_original(self.player())

    def test_fork_leaves_the_original_alone(self) -> None:
        branches.fork_leaves_the_original_alone(self.player())

    def test_reseeded_forks_diverge(self) -> None:
        branches.reseeded_forks_diverge(self.player())

    def test_replay_repeats_the_digest(self) -> None:
        branches.replay_repeats_the_digest(self.player())

    def test_menus_hold(self) -> None:
        menus.menus_hold(self.player())

    def test_looking_changes_nothing(self) -> None:
        menus.looking_changes_nothing(self.player())

    def test_refusals(self) -> None:
        menus.refusals(self.player())

    def test_protocol_is_strict(self) -> None:
        menus.protocol_is_strict(self.player())

    def test_horizon_is_exact(self) -> None:
        books.horizon_is_exact(self.player())

    def test_rewards_add_up(self) -> None:
        books.rewards_add_up(self.player())

    def test_options_leave_no_gap(self) -> None:
        books.options_leave_no_gap(self.player())

    def test_native_steps(self) -> None:
        books.native_steps(self.player())
