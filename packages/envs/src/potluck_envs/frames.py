"""Pictures of a re-execution: the fixed scene and one frame per step, with what each agent was offered and chose."""

from __future__ import annotations

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.episode import Episode
from potluck_envs.messages import items
from potluck_envs.recording import replay
from potluck_envs.seat import Seat


def replay_with_frames(episode: Episode, recording: pb.Recording, frames: bool) -> pb.ReplayResponse:
    """Replays an episode that stands at its start."""
    response = pb.ReplayResponse()
    if frames:
        scene = episode.game.scene()
        response.scene.CopyFrom(pb.Scene(width=scene.width, height=scene.height, tiles=scene.tiles))
        response.frames.append(_frame(episode))
        episode.on_step = lambda: response.frames.append(_frame(episode))
    replay(episode, recording)
    response.digest = recording.digest
    response.steps = recording.steps
    response.team_return = episode.team_return
    return response


def _frame(episode: Episode) -> pb.Frame:
    sprites = [
        pb.Sprite(kind=s.kind, x=s.x, y=s.y, facing=s.facing, seat=s.seat, held=s.held, label=s.label)
        for s in episode.game.sprites()
    ]
    return pb.Frame(
        step=episode.game.steps,
        sprites=sprites,
        agents=[_view(seat) for seat in episode.seats],
        team_return=episode.team_return,
    )


def _view(seat: Seat) -> pb.AgentView:
    shown = seat.instance or (seat.answer and seat.answer.instance)
    return pb.AgentView(
        agent=seat.name,
        option=shown.option if shown else "",
        target=shown.target if shown else "",
        items=items(seat.menu) if seat.menu else None,
        letter=seat.answer.letter if seat.answer else "",
        decided_at=seat.decided_at,
    )
