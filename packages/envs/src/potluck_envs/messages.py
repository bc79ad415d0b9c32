"""Menus, steps and events of a game as the wire's messages."""

from __future__ import annotations

from collections.abc import Sequence

from potluck.common.v1.common_pb2 import Item, Prompt
from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.seat import Seat
from potluck_optionlib.game import Activity, AgentStep, Event, Observation, Step
from potluck_optionlib.menus import Menu

ACTIVITIES = {
    Activity.MOVE: pb.ACTIVITY_MOVE,
    Activity.INTERACT: pb.ACTIVITY_INTERACT,
    Activity.WAIT: pb.ACTIVITY_WAIT,
    Activity.BLOCKED: pb.ACTIVITY_BLOCKED,
    Activity.NOOP: pb.ACTIVITY_NOOP,
}


def items(menu: Menu) -> list[Item]:
    """A menu's items in letter order."""
    prompt = Prompt()
    _fill(prompt, menu)
    return list(prompt.items)


def _fill(prompt: Prompt, menu: Menu) -> None:
    add = prompt.items.add
    for letter, word, instance, view in zip(menu.letters, menu.words, menu.instances, menu.views, strict=True):
        add(
            letter=letter,
            word=word,
            option=instance.option,
            target=instance.target,
            text=view.text,
            steps=view.steps,
            action_key=view.action_key,
            greedy=view.greedy,
        )


def fill_point(point: pb.DecisionPoint, seat: Seat, menu: Menu, observation: Observation) -> None:
    """Fills in what one agent is told at a boundary; messages inside others are built in place, as copies cost."""
    point.agent, point.decision = seat.name, seat.decisions
    point.menu_digest, point.cut = menu.digest, menu.cut
    prompt = point.prompt
    prompt.rules, prompt.observation, prompt.state_key = seat.rules, observation.text, observation.state_key
    prompt.memory.extend(seat.memory)
    _fill(prompt, menu)


def step_record(number: int, step: Step, names: Sequence[str], positions: bool) -> pb.StepRecord:
    """The record of a step, with every agent's position where asked."""
    return pb.StepRecord(
        step=number,
        reward=step.reward,
        agents=[_agent(agent) for agent in step.agents] if positions else None,
        events=[_event(event, names) for event in step.events],
    )


def _agent(agent: AgentStep) -> pb.AgentStep:
    return pb.AgentStep(
        x=agent.x,
        y=agent.y,
        facing=agent.facing,
        primitive=agent.primitive,
        held=agent.held,
        activity=ACTIVITIES[agent.activity],
    )


def _event(event: Event, names: Sequence[str]) -> pb.Event:
    return pb.Event(
        kind=event.kind,
        agent=names[event.agent] if event.agent >= 0 else "",
        object=event.object,
        place=event.place,
        x=event.x,
        y=event.y,
        from_agent=names[event.from_agent] if event.from_agent >= 0 else "",
        parts=event.parts,
        reward=event.reward,
    )
