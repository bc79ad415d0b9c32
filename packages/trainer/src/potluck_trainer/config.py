"""One run's settings: frozen, complete, and recorded as `config.json`.

The defaults are the paper's for Overcooked; those marked (ours) are where the paper is silent. Imports without torch.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, field_validator, model_validator

LORA_LR = 2e-5
TABLE_LR = 0.05

Seed = Annotated[int, Field(ge=0, lt=2**63)]


class Frozen(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


class AlgorithmConfig(Frozen):
    """How returns become advantages."""

    name: str = "episode"
    """`episode` (the paper's), `return_to_go`, `keyed_return_to_go`, `shapley_advantage`, `shapley_shares` (ours), or a
    plug-in of potluck.algorithms."""
    window: int = Field(default=60, ge=1)
    """return_to_go, keyed_return_to_go, shapley_shares: steps after a decision whose rewards count."""
    baseline: Literal["frozen", "noop", "uniform", "greedy", "scripted"] = "uniform"
    """shapley_*: who acts in place of agents outside a coalition. `frozen` is refused: adapters begin as the frozen
    base, and credit against it is 0 from the first round on. (ours)"""
    event_rewards: dict[str, FiniteFloat] = Field(default_factory=dict)
    """return_to_go, keyed_return_to_go: what an event of a kind (`pot`, `plate`, ...) adds to its step's reward, in the
    game's unit, for the advantage alone: returns, evaluation and audit stay the game's. Changes what is optimal unless
    it is potential-based; for games whose reward a beginner does not find. (ours)"""
    std_floor: float = Field(default=1e-5, ge=0)
    """A standard deviation below this share of the largest return counts as zero: no update. (ours)"""

    @model_validator(mode="after")
    def _events_reach_the_advantage(self) -> AlgorithmConfig:
        if self.event_rewards and self.name not in ("return_to_go", "keyed_return_to_go"):
            raise ValueError(f"{self.name} does not read event_rewards; use return_to_go or keyed_return_to_go")
        return self


class LearnerConfig(Frozen):
    """How advantages become weights."""

    rank: int = Field(default=16, ge=1)
    """LoRA rank."""
    alpha: int = Field(default=0, ge=0)
    """LoRA alpha; 0 = twice the rank. (ours)"""
    targets: str = "all-linear"
    """LoRA target modules, comma-separated. (ours)"""
    top_layers: int = Field(default=0, ge=0)
    """Adapters on the upper n layers only; 0 = on all. What lies below is then computed once a round. (ours)"""
    lr: float | None = Field(default=None, ge=0)
    """Learning rate; by default 2e-5 for LoRA and .05 for tables (ours)."""
    epochs: int = Field(default=2, ge=1)
    """Passes over a round's decisions."""
    clip: float = Field(default=0.2, gt=0)
    """Epsilon of the clipped ratio."""
    beta: float = Field(default=0.05, ge=0)
    """Weight of KL(policy || frozen base), exact over the menu."""
    entropy: float = Field(default=0.0, ge=0)
    """Weight of an entropy bonus. (ours)"""
    max_grad_norm: float = Field(default=1.0, gt=0)
    """Gradient norms above it are scaled down."""
    weight_decay: float = Field(default=0.0, ge=0)
    """AdamW's. (ours)"""
    reduction: Literal["decision", "episode"] = "decision"
    """`decision`: mean over the agent's decisions; `episode`: mean over episodes of their means. (ours)"""
    minibatch: int = Field(default=0, ge=0)
    """Decisions an optimiser step; 0 = all of the round. (ours)"""
    microbatch: int = Field(default=64, ge=1)
    """Most decisions of an agent a forward pass; changes speed and memory, not the update."""
    pass_memory: int = Field(default=1024, ge=1)
    """MiB, as estimated, that a forward pass may keep for its backward; more decisions make more passes. Agents that
    learn in threads take as much each."""
    agreement: float = Field(default=1e-3, gt=0)
    """Largest allowed difference between sampled and recomputed log-probabilities; beyond it training stops."""
    threads: int = Field(default=1, ge=1)
    """CPU threads of the learner."""
    parallel: bool = True
    """Agents learn at the same time, each in its own thread; changes speed, not the result."""
    joint: bool | None = None
    """All agents' decisions in the same passes, instead of a thread each; by default on a CUDA device. Sums are rounded
    in another order, nothing else changes. (ours)"""
    device: str = "cpu"
    """Where the learner computes: `cpu` or a CUDA device."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """Type of the frozen base; LoRA weights stay float32."""


class EvaluationConfig(Frozen):
    """When and on what teams are judged."""

    seeds: tuple[Seed, ...] = tuple(range(10000, 10020))
    """Test seeds; never used for choosing anything."""
    validation_seeds: tuple[Seed, ...] = tuple(range(20000, 20006))
    """Seeds on which checkpoints are chosen. (ours)"""
    every: int = Field(default=0, ge=0)
    """Validate after every n rounds and keep the best checkpoint's name; 0 = use the last one. (ours)"""
    temperature: float | None = Field(default=None, gt=0)
    """Sampling temperature of evaluation; by default training's."""
    greedy: bool = False
    """Take the most probable item instead of a sample."""
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """Of the intervals."""


class ServicesConfig(Frozen):
    """Local services, started where no address is given."""

    env_workers: int = Field(default=2, ge=1)
    """Worker processes of the local env server."""
    env_timeout_s: float = Field(default=30.0, gt=0)
    """Seconds that the local env server gives one command in an engine; more where the machine is crowded."""
    start_timeout_s: float = Field(default=180.0, gt=0)
    """How long a local service may take to get ready."""
    threads: int = Field(default=1, ge=1)
    """OMP_NUM_THREADS of the local services."""
    max_attempts: int = Field(default=3, ge=1)
    """Plays of an episode before it counts as lost."""


class RunConfig(Frozen):
    """Train a team."""

    game: str = "overcooked/forced_coordination"
    """Which game."""
    backbone: str = "tiny"
    """Which frozen model (or `tabular`) a locally started policy server loads; a running one must serve it."""
    seed: Seed = 0
    """Adapter initialisation, environment starts, sampling and minibatch order all derive from it."""
    rounds: int = Field(default=150, ge=0)
    """Rounds of training."""
    episodes_per_round: int = Field(default=6, ge=1)
    """K: joint episodes with the same weights before an update."""
    horizon: int = Field(default=400, ge=0)
    """Primitive steps of an episode; 0 = the game's default."""
    temperature: float = Field(default=0.9, gt=0)
    """Softmax temperature of the menu policy."""
    interface: Literal["menu", "native", "json"] = "menu"
    """Menus of options, or the engine's own primitive actions at every step (an ablation). Free text (`json`) cannot
    be trained, only evaluated: `potluck eval RUN --interface json`."""
    label_scheme: Literal["default", "letters", "words"] = "default"
    """How items are named to the model; `default` = the backbone's."""
    algorithm: AlgorithmConfig = AlgorithmConfig()
    learner: LearnerConfig = LearnerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    services: ServicesConfig = ServicesConfig()
    envs: str = ""
    """Env servers, host:port, comma-separated; empty = start one."""
    policy: str = ""
    """Policy server, host:port; empty = start one."""
    out: Path = Path("runs")
    """Folder of run folders."""
    name: str = ""
    """Name of the run folder; empty = game, backbone and seed."""

    @field_validator("game")
    @classmethod
    def _game_has_a_family(cls, value: str) -> str:
        if "/" not in value:
            raise ValueError(f'"{value}" names no game; write family/layout, e.g. overcooked/forced_coordination')
        return value

    @field_validator("name")
    @classmethod
    def _name_is_one_folder(cls, value: str) -> str:
        if value and (Path(value).name != value or value in (".", "..")):
            raise ValueError(f'"{value}" is no folder name; leave slashes out, --out says where run folders go')
        return value

    @field_validator("interface")
    @classmethod
    def _interface_has_probabilities(cls, value: str) -> str:
        if value == "json":
            raise ValueError(
                "free text has no exact probability over a menu, which the update needs, so json is not trained; train "
                "with menu or native and play json with `potluck eval RUN --interface json`"
            )
        return value

    @model_validator(mode="after")
    def _seeds_are_apart(self) -> RunConfig:
        both = set(self.evaluation.seeds) & set(self.evaluation.validation_seeds)
        if both:
            raise ValueError(f"seeds {sorted(both)} are both test and validation seeds; keep them apart")
        return self

    @property
    def env_addresses(self) -> tuple[str, ...]:
        return tuple(part.strip() for part in self.envs.split(",") if part.strip())

    @property
    def run_name(self) -> str:
        return self.name or f"{self.game.replace('/', '-')}-{self.backbone.replace('/', '-')}-s{self.seed}"

    @property
    def run_dir(self) -> Path:
        return self.out / self.run_name

    def resolved(self) -> RunConfig:
        """Fills what depends on other settings, so that `config.json` says everything."""
        learner = self.learner.model_copy(
            update={
                "lr": self.learner.lr
                if self.learner.lr is not None
                else (TABLE_LR if self.backbone == "tabular" else LORA_LR),
                "alpha": self.learner.alpha or 2 * self.learner.rank,
            }
        )
        evaluation = self.evaluation.model_copy(update={"temperature": self.evaluation.temperature or self.temperature})
        return self.model_copy(update={"learner": learner, "evaluation": evaluation, "name": self.run_name})


def training_identity(config: RunConfig) -> dict[str, object]:
    """The settings that a resumed run must share with the interrupted one."""
    data = config.resolved().model_dump(mode="json")
    for key in ("name", "rounds", "envs", "policy", "out", "services", "evaluation"):
        data.pop(key)
    return data
