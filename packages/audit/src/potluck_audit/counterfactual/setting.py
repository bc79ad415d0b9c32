"""What all line-ups that are compared have in common: game, sampling, and the seeds of every episode."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from potluck.common.v1 import common_pb2 as common_pb
from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.play.specs import PlayOptions
from potluck.rpc.errors import Reason
from potluck_audit.errors import AuditError, InvalidRequest
from potluck_audit.metrics.metric import EpisodeSet
from potluck_audit.records import Episode

MAX_LIVE = 32

SCHEMES = {
    "letters": common_pb.LABEL_SCHEME_LETTERS,
    "words": common_pb.LABEL_SCHEME_WORDS,
}


class Incomparable(AuditError):
    """Numbers of different settings."""

    def __init__(self, field: str, what: str) -> None:
        super().__init__(
            Reason.UNSUPPORTED,
            f"{what}: their numbers say nothing beside each other",
            "compare what was played in one setting",
            field=field,
        )


class Draw(NamedTuple):
    """The randomness of one episode."""

    seed: int
    """Of the environment."""
    sample_seed: int
    """Of the policies' samples."""


@dataclass(frozen=True)
class Setting:
    """Numbers are comparable within one setting and nowhere else."""

    game: str
    horizon: int
    draws: tuple[Draw, ...]
    library_digest: str = ""
    dynamics: str = ""
    interface: env_pb.Interface.ValueType = env_pb.INTERFACE_MENU
    temperature: float = 1.0
    greedy: bool = False
    """Policies take the most probable item."""
    label_scheme: str = ""
    backbone: str = ""
    base_digest: str = ""
    unit: str = "reward"

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(draw.seed for draw in self.draws)

    @property
    def options(self) -> PlayOptions:
        return PlayOptions(
            temperature=self.temperature,
            greedy=self.greedy,
            label_scheme=SCHEMES.get(self.label_scheme, common_pb.LABEL_SCHEME_UNSPECIFIED),
            max_live=MAX_LIVE,
        )

    def facts(self) -> dict[str, Any]:
        """As part of a cache's key; seeds aside."""
        return {
            "game": self.game,
            "horizon": self.horizon,
            "library": self.library_digest,
            "dynamics": self.dynamics,
            "interface": int(self.interface),
            "temperature": self.temperature,
            "greedy": self.greedy,
            "labels": self.label_scheme,
            "base": self.base_digest,
        }


def setting_of(team: EpisodeSet, greedy: bool = False) -> Setting:
    """The setting that an episode set was recorded in. Raises Incomparable where its episodes differ in it."""
    found = [_one(e, team.unit, greedy) for e in team.episodes]
    if not found:
        raise InvalidRequest("set", f"{team.name} has no episodes", "evaluate the team first")
    for other in found[1:]:
        require_same(found[0], other, f"the episodes of {team.name}", "set", seeds=False)
    draws = tuple(one.draws[0] for one in found)
    if len(set(draws)) != len(draws):
        raise InvalidRequest(
            "set", f"two episodes of {team.name} have the same seeds", "evaluate the team on seeds that differ"
        )
    first = found[0]
    return Setting(**{**_fields(first), "draws": draws})


def _fields(setting: Setting) -> Mapping[str, Any]:
    return {name: getattr(setting, name) for name in Setting.__dataclass_fields__}


def _one(episode: Episode, unit: str, greedy: bool) -> Setting:
    return Setting(
        game=episode.game,
        horizon=episode.horizon,
        draws=(Draw(episode.seed, episode.sample_seed),),
        library_digest=episode.library_digest,
        dynamics=episode.dynamics,
        interface=episode.interface,
        temperature=episode.temperature or 1.0,
        greedy=greedy or episode.temperature == 0.0,
        label_scheme=episode.label_scheme,
        backbone=episode.backbone,
        base_digest=episode.base_digest,
        unit=unit,
    )


COMPARED = {
    "game": "game",
    "library_digest": "option library",
    "dynamics": "dynamics",
    "horizon": "horizon",
    "interface": "interface",
    "temperature": "temperature",
    "greedy": "sampling",
    "label_scheme": "label scheme",
    "base_digest": "frozen base",
    "unit": "reward unit",
}


def require_same(one: Setting, other: Setting, who: str, field: str, *, seeds: bool = True) -> None:
    """Raises Incomparable, naming what differs, where numbers of two settings must not be compared."""
    names = COMPARED | ({"draws": "seeds"} if seeds else {})
    for name, words in names.items():
        ours, theirs = getattr(one, name), getattr(other, name)
        if ours != theirs:
            told = "" if name == "draws" else f" ({_short(ours)} and {_short(theirs)})"
            raise Incomparable(field, f"{who} differ in their {words}{told}")


def _short(value: Any) -> str:
    text = str(value)
    return f"{text[:12]}…" if len(text) == 64 else text or "unknown"
