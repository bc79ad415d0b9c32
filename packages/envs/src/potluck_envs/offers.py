"""What an agent is offered at a decision and how its answer is read, by interface.

MENU and NATIVE answers are letters; JSON answers are text naming an option and a target. An answer that cannot be
carried out under JSON is no error of the client: the agent waits, and the outcome says why. Guards do not apply to
JSON: what a menu leaves out, free text may still try.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.errors import InvalidField, LetterNotOffered
from potluck_envs.native import NativeGame
from potluck_envs.registry import agent_name
from potluck_envs.seeds import passing
from potluck_optionlib.game import Instance, ItemView, SymbolicGame
from potluck_optionlib.guards import GuardLibrary
from potluck_optionlib.menus import WAIT, Menu, build_menu

UNPARSABLE = "explicit:unparsable"
UNKNOWN_OPTION = "explicit:unknown_option"
COMPASS = {"N": "north", "S": "south", "E": "east", "W": "west"}
_BRACE = re.compile(r"\{")


@dataclass(frozen=True, slots=True)
class Answer:
    """What an agent's choice comes to."""

    instance: Instance
    letter: str
    word: str
    outcome: str = ""
    """Overrides the execution's outcome where the answer itself failed."""


class JsonChoice(BaseModel):
    """The answer under INTERFACE_JSON."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)
    option: str
    target: str = ""

    @field_validator("target", mode="before")
    @classmethod
    def _canonical(cls, value: Any) -> Any:
        if value is None:
            return ""
        if isinstance(value, list):
            return f"({','.join(str(part) for part in value)})"
        return value.replace(" ", "") if isinstance(value, str) else value


def offer(game: SymbolicGame, guards: GuardLibrary, interface: int, agent: int, source: str, decision: int) -> Menu:
    """The menu of one decision under the interface."""
    if interface == pb.INTERFACE_NATIVE:
        return native_menu(game, agent)
    if interface == pb.INTERFACE_JSON:
        return Menu(agent, (), (), (), 0)
    return build_menu(game, agent, guards, passing("menu", source, agent, decision))


def native_menu(game: SymbolicGame, agent: int) -> Menu:
    """All primitives, always in the same order."""
    assert isinstance(game, NativeGame)
    instances = tuple(game.primitives(agent))
    words = tuple(COMPASS.get(i.target, i.target.lower()) for i in instances)
    views = tuple(ItemView(word, word, 1, f"primitive/{word}", 0.0) for word in words)
    return Menu(agent, instances, views, words, 0)


def json_rules(game: SymbolicGame, agent: int) -> str:
    """The part of the rules that says how to answer under JSON, with all there is to name."""
    targets: dict[str, list[str]] = {}
    for instance in game.candidates(agent):
        targets.setdefault(instance.option, []).append(instance.target)
    lines = [f"{option}: {' '.join(filter(None, places)) or 'no target'}" for option, places in targets.items()]
    form = 'Answer with one JSON object such as {"option": "NAME", "target": "(x,y)"}. Options and targets:'
    return "\n".join([form, *lines])


def by_letter(menu: Menu, letter: str) -> Answer:
    """The item that a letter names."""
    index = menu.find(letter)
    if index is None:
        raise LetterNotOffered(agent_name(menu.agent), letter, menu.letters)
    return Answer(menu.instances[index], letter, menu.words[index])


def by_text(game: SymbolicGame, agent: int, text: str) -> Answer:
    """What a JSON answer names, or `wait` with the reason why not."""
    choice = _parse(text)
    if choice is None:
        return Answer(Instance(WAIT), "", WAIT, UNPARSABLE)
    wanted = Instance(choice.option, choice.target)
    if wanted not in game.candidates(agent):
        return Answer(Instance(WAIT), "", WAIT, UNKNOWN_OPTION)
    reason = game.explicit(agent, wanted) if wanted.option != WAIT else None
    if reason is not None:
        return Answer(Instance(WAIT), "", WAIT, f"explicit:{reason}")
    return Answer(wanted, "", f"{wanted.option} {wanted.target}".rstrip())


def check_form(interface: int, choice: pb.Choice) -> None:
    """Refuses an answer of the other kind."""
    if interface == pb.INTERFACE_JSON and choice.letter:
        raise InvalidField("choose.choices.letter", "this episode is answered in JSON", "send the raw answer as text")
    if interface != pb.INTERFACE_JSON and choice.text:
        raise InvalidField("choose.choices.text", "this episode is answered by letters", "send a letter of the menu")


def _parse(text: str) -> JsonChoice | None:
    decoder = json.JSONDecoder()
    for brace in _BRACE.finditer(text):
        try:
            value, _ = decoder.raw_decode(text, brace.start())
            return JsonChoice.model_validate(value)
        except (ValueError, ValidationError, RecursionError):
            continue
    return None
