"""Checks of menus and answers: what is offered can be done, what is not offered cannot be had."""

from __future__ import annotations

import random
import string

from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.errors import Reason
from potluck_envs.conformance.plan import Broken, Player
from potluck_envs.episode import Episode
from potluck_envs.registry import agent_name
from potluck_optionlib.game import Instance, SymbolicGame
from potluck_optionlib.menus import WAIT


def menus_hold(player: Player) -> str:
    """Never empty, `wait` among them, letters in order, names unique, nothing that a guard or the executor forbids."""
    menus = 0
    for seed in player.plan.seeds:
        rng, update = random.Random(seed), player.start(seed)
        while update.HasField("menus"):
            episode = player.table.episode(update.episode_id)
            for point in update.menus.decisions:
                _check_items(point)
                _check_feasible(episode, point)
                menus += 1
            update = player.ok(player.choose(update, rng))
    return f"{menus} menus"


def looking_changes_nothing(player: Player) -> str:
    """Observations, menus and pictures leave the state alone."""
    looks = 0
    for seed in player.plan.seeds:
        rng, update = random.Random(seed), player.start(seed)
        while update.HasField("menus") and looks < 50 * player.plan.episodes:
            game = player.table.episode(update.episode_id).game
            before = game.state_bytes()
            _look(game)
            if game.state_bytes() != before:
                raise Broken(f"seed {seed}: looking at the game at step {game.steps} has changed it")
            looks += 1
            update = player.ok(player.choose(update, rng))
        if update.HasField("finished") and update.finished.recording.digest != player.play(seed).digest:
            raise Broken(f"seed {seed}: looking at the game has changed how it goes on")
    return f"{looks} looks"


def refusals(player: Player) -> str:
    """Wrong answers are refused with their reason, and the episode goes on as if they had not come."""
    for seed in player.plan.seeds:
        undisturbed = player.play(seed)
        rng, update = random.Random(seed), player.start(seed)
        while update.HasField("menus"):
            if update.menus.boundary < 5:
                _refuse(player, update)
            update = player.ok(player.choose(update, rng))
        if update.finished.recording.digest != undisturbed.digest:
            raise Broken(f"seed {seed}: refused commands have changed the episode")
        for command in (pb.Command(stop=pb.Stop()), pb.Command(choose=pb.Choose())):
            command.episode_id = update.episode_id
            _expect(player, command, Reason.EPISODE_FINISHED)
    return f"{player.plan.episodes} episodes"


def protocol_is_strict(player: Player) -> str:
    """The game itself refuses a busy agent, an unknown instance and a step with idle agents, by ValueError."""
    game = player.library.make()
    game.reset(player.plan.first_seed)
    _raises(lambda: game.begin(0, Instance("no_such_option", "nowhere")), "begin accepts an unknown option")
    _raises(lambda: game.begin(0, Instance(WAIT, "nowhere")), "begin accepts an unknown target")
    _raises(game.step, "step accepts idle agents")
    game.begin(0, Instance(WAIT))
    _raises(lambda: game.begin(0, Instance(WAIT)), "begin accepts a busy agent")
    if game.steps != 0:
        raise Broken("a refused call has moved the game on")
    return "5 misuses"


def _check_items(point: pb.DecisionPoint) -> None:
    items, where = point.prompt.items, f"decision {point.decision} of {point.agent}"
    if not any(item.option == WAIT for item in items):
        raise Broken(f"{where}: no `wait` in the menu")
    if "".join(item.letter for item in items) != string.ascii_uppercase[: len(items)]:
        raise Broken(f"{where}: letters are not A, B, ...")
    for what in ("word", "text"):
        if len({getattr(item, what) for item in items}) != len(items):
            raise Broken(f"{where}: two items have the same {what}")


def _check_feasible(episode: Episode, point: pb.DecisionPoint) -> None:
    game, guards = episode.game, episode.library.guards
    agent = next(seat.index for seat in episode.seats if seat.name == point.agent)
    candidates = list(game.candidates(agent))
    if candidates[-1:] != [Instance(WAIT)]:
        raise Broken(f"the last candidate of {point.agent} is not `wait`")
    for item in point.prompt.items:
        if item.option == WAIT:
            continue
        instance = Instance(item.option, item.target)
        where = f"{item.option} {item.target} was offered to {point.agent} at step {game.steps}"
        if instance not in candidates:
            raise Broken(f"{where} but is no candidate")
        if (failure := game.explicit(agent, instance)) is not None:
            raise Broken(f"{where} but the executor refuses it: {failure}")
        if guards.forbids(item.option, game.features(agent, instance)):
            raise Broken(f"{where} but a guard forbids it")


def _look(game: SymbolicGame) -> None:
    for agent in range(game.spec.agents):
        game.observe(agent)
        game.rules(agent)
        for instance in game.candidates(agent):
            game.view(agent, instance)
            game.explicit(agent, instance)
            if instance.option != WAIT:
                game.features(agent, instance)
    game.scene()
    game.sprites()
    game.snapshot()
    game.idle()


def _refuse(player: Player, update: pb.Update) -> None:
    deciding = [point.agent for point in update.menus.decisions]
    good = player.choose(update, random.Random(0)).choose
    offered = len(update.menus.decisions[0].prompt.items)

    def changed(**fields: object) -> pb.Command:
        return pb.Command(episode_id=update.episode_id, choose=pb.Choose(boundary=good.boundary, **fields))  # type: ignore[arg-type]

    for letter in filter(None, ("?", string.ascii_uppercase[offered : offered + 1], "a", "AB")):
        first = pb.Choice(agent=deciding[0], letter=letter)
        _expect(player, changed(choices=[first, *good.choices[1:]]), Reason.LETTER_NOT_OFFERED)
    stranger = next(name for i in range(100) if (name := agent_name(i)) not in deciding)
    extra = pb.Choice(agent=stranger, letter="A")
    _expect(player, changed(choices=[*good.choices, extra]), Reason.WRONG_AGENT)
    _expect(player, changed(choices=good.choices[1:]), Reason.WRONG_AGENT)
    late = pb.Choose(boundary=good.boundary + 1, choices=good.choices)
    _expect(player, pb.Command(episode_id=update.episode_id, choose=late), Reason.INVALID_ARGUMENT)


def _expect(player: Player, command: pb.Command, reason: Reason) -> None:
    found = player.reason(command)
    if found != reason:
        raise Broken(f"a command that must be refused with {reason} was answered with {found}")


def _raises(call: object, fault: str) -> None:
    try:
        call()  # type: ignore[operator]
    except ValueError:
        return
    raise Broken(fault)
