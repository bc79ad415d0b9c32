"""Messages of LocateError and of blame jobs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from potluck.audit.v1 import audit_service_pb2 as pb
from potluck_audit.blame.investigation import BlameRequest, Services
from potluck_audit.blame.results import Choice, Located
from potluck_audit.blame.settings import OWN, LocateSettings
from potluck_audit.errors import InvalidRequest


def one_of(request: pb.LocateErrorRequest) -> BlameRequest:
    """A single episode's. Raises InvalidRequest for a field that cannot be acted on."""
    if not request.episode_id:
        raise InvalidRequest("episode_id", "it is empty", "name a failed episode of an evaluation set")
    return _request(request)


def many_of(request: pb.StartBlameRequest) -> BlameRequest:
    """A job's. Raises InvalidRequest for a field that cannot be acted on."""
    asked = _request(request.locate)
    limit, baseline = request.limit or asked.limit, request.baseline or asked.baseline
    return replace(asked, limit=limit, judges=tuple(request.judges), baseline=baseline)


def services_of(services: pb.Services) -> Services:
    """Where it is played."""
    return Services(tuple(services.envs), services.policy)


def _request(request: pb.LocateErrorRequest) -> BlameRequest:
    if not request.services.envs:
        raise InvalidRequest("services.envs", "an error is found by playing branches", "name an env server")
    settings = LocateSettings(0.0, continuation=request.continuation or OWN)
    if request.continuations:
        most = max(settings.most, request.continuations)
        settings = replace(settings, continuations=request.continuations, most=most)
    if request.budget:
        settings = replace(settings, budget=request.budget)
    return BlameRequest(
        run=Path(request.run),
        set=request.set,
        episodes=(request.episode_id,) if request.episode_id else (),
        threshold=request.threshold if request.HasField("threshold") else None,
        settings=settings,
    )


def located_message(located: Located) -> pb.LocateErrorResponse:
    """What is undefined stays absent."""
    reply = pb.LocateErrorResponse(
        episode_id=located.episode_id,
        undecided=located.undecided.value if located.undecided else "",
        why=located.why,
        threshold=located.threshold,
        scan=located.scan,
        monotone=located.monotone,
        branches=located.spent.branches,
        decisions_played=located.spent.decisions,
    )
    for repair in located.repairs:
        reply.repairs.add(
            agent=repair.agent,
            decision=repair.decision,
            step=repair.step,
            boundary=repair.boundary,
            success_gain=repair.redecided.success if repair.redecided else None,
        )
    error = located.error
    if error is None:
        return reply
    reply.agent, reply.decision, reply.step, reply.boundary = error.agent, error.decision, error.step, error.boundary
    reply.taken.CopyFrom(_item(error.taken))
    reply.success_before, reply.success_after = error.before.p, error.after.p
    reply.certainty = error.certainty
    if error.better is not None:
        reply.better.CopyFrom(_item(error.better))
    if error.gain is not None:
        reply.gain, reply.success_gain = error.gain.returns, error.gain.success
        if error.gain.returns_se is not None:
            reply.gain_error = error.gain.returns_se
    return reply


def _item(choice: Choice) -> pb.ChosenItem:
    return pb.ChosenItem(letter=choice.letter, option=choice.option, target=choice.target, text=choice.text)
