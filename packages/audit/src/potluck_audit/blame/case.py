"""A recorded episode with what it takes to play on from its middle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from potluck.common.v1 import common_pb2 as common_pb
from potluck.env.v1 import env_service_pb2 as env_pb
from potluck.play.specs import PlayOptions
from potluck_audit.blame.errors import NoReturn
from potluck_audit.blame.settings import OWN
from potluck_audit.counterfactual.seats import Seats, seats
from potluck_audit.errors import Diverged, InvalidRequest, Unsupported
from potluck_audit.records import Episode

MAX_LIVE = 256
_SCHEMES = {"letters": common_pb.LABEL_SCHEME_LETTERS, "words": common_pb.LABEL_SCHEME_WORDS}


@dataclass(frozen=True)
class Case:
    """An episode under investigation. `policies` names each agent's policy as records do, in seat order."""

    episode_id: str
    recording: env_pb.Recording = field(repr=False)
    team_return: float
    policies: Mapping[str, str]
    sample_seed: int
    temperature: float = 1.0
    """0 = the most probable item was taken."""
    label_scheme: str = ""
    unit: str = "reward"
    set: str = ""

    @property
    def game(self) -> str:
        return self.recording.game

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(self.policies)

    def lineup(self, continuation: str) -> Seats:
        """Who plays on; seats that the env server played stay so. Raises InvalidRequest for an unknown policy."""
        own = seats(self.policies, frozenset(self.policies), "noop")
        if continuation == OWN:
            return own
        plan = seats(dict.fromkeys(own.policies, continuation), frozenset(own.policies), "noop")
        if plan.baselines:
            raise InvalidRequest(
                "continuation",
                f"{continuation!r} is played by the env server, which cannot be given single choices",
                "use own, scripted, uniform, frozen or an adapter digest",
            )
        return Seats(plan.policies, own.baselines)

    def options(self) -> PlayOptions:
        return PlayOptions(
            temperature=self.temperature or 1.0,
            greedy=self.temperature == 0.0,
            label_scheme=_SCHEMES.get(self.label_scheme, common_pb.LABEL_SCHEME_UNSPECIFIED),
            max_live=MAX_LIVE,
        )


def case_of(episode: Episode) -> Case:
    """Raises NoReturn or Unsupported where the record does not hold enough, Diverged where it contradicts itself."""
    if episode.team_return is None:
        raise NoReturn(episode.episode_id)
    if not episode.recording:
        raise Unsupported(
            f"episode {episode.episode_id} has no recording here (training episodes come without)",
            "choose an episode of an evaluation set",
        )
    if episode.interface == env_pb.INTERFACE_JSON:
        raise Unsupported(
            f"episode {episode.episode_id} was answered in free text, which has no menu of other choices",
            "choose an episode of the menu or native interface",
        )
    recording = env_pb.Recording.FromString(episode.recording)
    if episode.digest != recording.digest:
        raise Diverged(
            f"episode {episode.episode_id}: its row and its recording tell different digests",
            "evaluate the team again; nobody is blamed on a record that was changed",
        )
    return Case(
        episode_id=episode.episode_id,
        recording=recording,
        team_return=episode.team_return,
        policies={agent: episode.policies[agent] for agent in episode.agents},
        sample_seed=episode.sample_seed,
        temperature=1.0 if episode.temperature is None else episode.temperature,
        label_scheme=episode.label_scheme,
        unit=episode.reward_unit,
        set=episode.set,
    )
