"""What to play and what came of it.

An `EpisodeSpec` says everything that decides an episode: game, seed, who plays each seat, and the seed of the policies'
samples. The same specs, libraries, adapters and backbone give the same results. Protobuf messages stay protobuf
messages: nothing of an episode is copied into other shapes before somebody needs it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from potluck.common.v1.common_pb2 import Item, LabelScheme, Prompt
from potluck.env.v1.env_service_pb2 import Baseline, Detail, Finished, Interface, OptionRecord, Recording, StepRecord
from potluck.policy.v1.policy_service_pb2 import BuiltinPolicy, Policy, Tokens

Given = str | tuple[str, str]
"""A choice that is given: a letter (under the JSON interface the text), or the (option, target) of the item. A reseed
draws letters anew."""


def adapter(digest: str) -> Policy:
    """The policy of an adapter."""
    return Policy(adapter=digest)


def builtin(kind: "BuiltinPolicy.ValueType") -> Policy:
    """A policy that every server has: frozen, uniform or scripted."""
    return Policy(builtin=kind)


@dataclass(frozen=True, slots=True)
class ForkSpec:
    """Begin at a decision boundary of a recording. `reseed` None keeps the recording's randomness."""

    recording: Recording
    boundary: int
    reseed: int | None = None


@dataclass(frozen=True, slots=True)
class EpisodeSpec:
    """One episode. Every agent of the game is either in `policies` (asked at the policy server, in this order) or in
    `baselines` (played by the env server). Under a fork, `baselines` replaces the recording's and `game`, `seed` and
    `horizon` are the recording's."""

    episode_id: str
    game: str
    seed: int
    horizon: int = 0
    policies: Mapping[str, Policy] = field(default_factory=dict)
    baselines: Mapping[str, "Baseline.ValueType | str"] = field(default_factory=dict)
    """A text names a plug-in baseline of the env server."""
    detail: "Detail.ValueType" = Detail.DETAIL_DECISIONS
    interface: "Interface.ValueType" = Interface.INTERFACE_MENU
    sample_seed: int = 0
    fork: ForkSpec | None = None
    given: Mapping[int, Mapping[str, Given]] = field(default_factory=dict)
    """Boundary -> agent -> the choice that it makes there instead of being asked. Such a decision's record has no
    probabilities, and NaN for its log-probability."""

    @property
    def in_json(self) -> bool:
        """Whether agents answer in free text; a fork keeps the interface of its recording."""
        return (self.fork.recording if self.fork else self).interface == Interface.INTERFACE_JSON


@dataclass(frozen=True, slots=True)
class PlayOptions:
    """How to play. Times are seconds; each is a deadline with a typed error, never a silent wait."""

    temperature: float = 1.0
    temperatures: Mapping[str, float] = field(default_factory=dict)
    """Per agent; the others take `temperature`."""
    greedy: bool = False
    label_scheme: "LabelScheme.ValueType" = LabelScheme.LABEL_SCHEME_UNSPECIFIED
    tokens: bool = False
    """Also bring the token ids that were scored."""
    max_tokens: int = 64
    """Longest answer under the JSON interface."""
    max_attempts: int = 3
    """Starts of one episode before it is lost for good."""
    max_live: int = 0
    """Episodes in play at once; 0 = all."""
    wave_timeout_s: float = 120.0
    """Longest wait for an env server to answer a wave; a server that takes longer is treated as lost."""
    choose_timeout_s: float = 300.0
    """Deadline of one Choose."""
    reconnect_timeout_s: float = 30.0
    """Longest wait for any env server when none is reachable."""


class Spoken(NamedTuple):
    """An answer under the JSON interface, and the option that it came to: `wait` where it could not be read or done."""

    text: str
    option: str
    target: str


@dataclass(frozen=True, slots=True)
class DecisionRecord:
    """One decision, as offered, scored and carried out. `outcome`, `duration` and `reward` come from the option's
    record: empty and zero when the episode ended before the option did and the game recorded nothing. Under the JSON
    interface there is no menu: `spoken` has the answer, `letter` and `probabilities` are empty, `logprob` is NaN."""

    agent: str
    decision: int
    boundary: int
    step: int
    prompt: Prompt
    letter: str
    index: int
    logprob: float
    probabilities: tuple[float, ...]
    label_mass: float
    adapter_digest: str
    builtin: int
    prompt_digest: str
    prompt_tokens: int
    tokens: Tokens | None
    menu_digest: str
    cut: int
    outcome: str
    duration: int
    reward: float
    spoken: Spoken | None = None

    @property
    def item(self) -> Item:
        """The chosen menu item; under the JSON interface the option that the answer came to."""
        if self.spoken is not None:
            return Item(option=self.spoken.option, target=self.spoken.target)
        return self.prompt.items[self.index]


@dataclass(frozen=True, slots=True)
class EpisodeResult:
    """One finished episode. `attempts` counts its starts; `env` is the server that finished it."""

    spec: EpisodeSpec
    finished: Finished
    decisions: list[DecisionRecord]
    steps: list[StepRecord]
    options: list[OptionRecord]
    attempts: int
    env: str
    base_digest: str
    tokenizer_digest: str
    trace_id: str

    @property
    def digest(self) -> str:
        """The trajectory's sha256."""
        return self.finished.recording.digest


@dataclass(frozen=True, slots=True)
class Wave:
    """Progress after one wave: what `on_wave` is told."""

    number: int
    live: int
    done: int
    total: int
    decisions: int
    """Decisions scored in this wave."""
    steps: int
    """Highest step among the live episodes."""
    reruns: int
    """Episodes begun again so far."""
    env_s: float
    choose_s: float


OnWave = Callable[[Wave], None]
