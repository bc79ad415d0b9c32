"""The fields of start and fork commands, checked: every refusal names the field."""

from __future__ import annotations

from collections.abc import Iterable

from potluck.env.v1 import env_service_pb2 as pb
from potluck_envs.baselines import Baseline, plugins
from potluck_envs.episode import Settings
from potluck_envs.errors import InvalidField
from potluck_envs.registry import Library

MAX_HORIZON = 100_000


def start_settings(library: Library, start: pb.Start) -> tuple[Settings, dict[int, Baseline]]:
    """Settings and baselines of a start."""
    interface = check_interface(library, start.interface, "start.interface")
    horizon = start.horizon or library.info.default_horizon
    if horizon > MAX_HORIZON:
        raise InvalidField("start.horizon", f"{horizon} steps", f"ask for at most {MAX_HORIZON}")
    detail = check_detail(start.detail, "start.detail")
    return Settings(start.seed, horizon, interface, detail), baselines_by_seat(
        library, start.baselines, "start.baselines"
    )


def check_interface(library: Library, interface: int, field: str) -> int:
    """The interface that the game is played through."""
    interface = interface or pb.INTERFACE_MENU
    if interface not in library.info.interfaces:
        names = ", ".join(pb.Interface.Name(known) for known in library.info.interfaces)
        raise InvalidField(field, f"{library.name} cannot be played through {interface}", f"use one of {names}")
    return interface


def check_detail(detail: int, field: str) -> int:
    """The detail of updates."""
    if detail not in pb.Detail.values():
        raise InvalidField(field, f"{detail} is no detail", f"use one of {', '.join(pb.Detail.keys())}")
    return detail or pb.DETAIL_DECISIONS


def baselines_by_seat(library: Library, seats: Iterable[pb.SeatBaseline], field: str) -> dict[int, Baseline]:
    """Baselines by seat number; UNSPECIFIED leaves a seat to the stream."""
    agents = list(library.info.agents)
    found: dict[int, Baseline] = {}
    for seat in seats:
        if seat.agent not in agents:
            raise InvalidField(f"{field}.agent", f"no agent {seat.agent!r}", f"use one of {', '.join(agents)}")
        if seat.baseline not in pb.Baseline.values():
            known = ", ".join(pb.Baseline.keys())
            raise InvalidField(f"{field}.baseline", f"{seat.baseline} is no baseline", f"use one of {known}")
        if agents.index(seat.agent) in found:
            raise InvalidField(f"{field}.agent", f"{seat.agent} is named twice", "name each agent once")
        if seat.baseline:
            found[agents.index(seat.agent)] = _baseline(seat, field)
    return found


def _baseline(seat: pb.SeatBaseline, field: str) -> Baseline:
    if seat.baseline != pb.BASELINE_PLUGIN:
        return seat.baseline
    if seat.plugin not in plugins():
        known = ", ".join(plugins()) or "none is installed"
        cure = f"use one of the entry-point group potluck.baselines in the env server's environment: {known}"
        raise InvalidField(f"{field}.plugin", f"there is no baseline {seat.plugin!r}", cure)
    return seat.plugin
