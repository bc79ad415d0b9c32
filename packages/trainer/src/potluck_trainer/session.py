"""What a command works with: env servers, the policy server, what they serve, and a team that fits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from potluck.common.v1.common_pb2 import LabelScheme
from potluck.env.v1.env_service_pb2 import GameInfo, Interface
from potluck.play import EnvPool, PlayOptions, PolicyClient
from potluck.policy.v1.policy_service_pb2 import BackboneKind, DescribeResponse
from potluck_trainer.backbone_cache import fetch_backbone
from potluck_trainer.config import RunConfig
from potluck_trainer.errors import ConfigError
from potluck_trainer.learners.base import Team
from potluck_trainer.learners.table import TableTeam

INTERFACES = {"menu": Interface.INTERFACE_MENU, "native": Interface.INTERFACE_NATIVE}
SCHEMES = {
    "default": LabelScheme.LABEL_SCHEME_UNSPECIFIED,
    "letters": LabelScheme.LABEL_SCHEME_LETTERS,
    "words": LabelScheme.LABEL_SCHEME_WORDS,
}


@dataclass(frozen=True, slots=True)
class Session:
    """Open channels and what was said over them."""

    config: RunConfig
    envs: EnvPool
    policy: PolicyClient
    game: GameInfo
    served: DescribeResponse

    @property
    def agents(self) -> tuple[str, ...]:
        return tuple(self.game.agents)

    @property
    def interface(self) -> Interface.ValueType:
        """What agents choose from."""
        return INTERFACES[self.config.interface]

    @property
    def label_scheme(self) -> str:
        """The scheme in use, resolved."""
        if self.config.label_scheme != "default":
            return self.config.label_scheme
        return LabelScheme.Name(self.served.label_scheme).removeprefix("LABEL_SCHEME_").lower()

    def play_options(self, *, tokens: bool, temperature: float, greedy: bool = False) -> PlayOptions:
        return PlayOptions(
            temperature=temperature,
            greedy=greedy,
            label_scheme=SCHEMES[self.config.label_scheme],
            tokens=tokens,
            max_attempts=self.config.services.max_attempts,
        )


@asynccontextmanager
async def open_session(config: RunConfig) -> AsyncIterator[Session]:
    """Connects to the config's addresses; both must be given (see services.py for starting local ones)."""
    if not config.env_addresses or not config.policy:
        raise ConfigError("no servers given; pass --envs host:port and --policy host:port, or neither to start them")
    async with EnvPool(config.env_addresses) as envs, PolicyClient(config.policy) as policy:
        await envs.wait_ready()
        await policy.wait_ready()
        games = await envs.games()
        if config.game not in games:
            raise ConfigError(f'no env server offers "{config.game}"; known: {", ".join(sorted(games))}')
        if INTERFACES[config.interface] not in games[config.game].interfaces:
            raise ConfigError(
                f"{config.game} cannot be played by its {config.interface} interface; set --interface menu"
            )
        served = await policy.describe()
        if served.backbone != config.backbone:
            raise ConfigError(
                f'{config.policy} serves backbone "{served.backbone}", the run wants "{config.backbone}"; '
                f"set --backbone {served.backbone} or start another policy server"
            )
        yield Session(config, envs, policy, games[config.game], served)


async def make_team(session: Session) -> Team:
    """The learner that fits the served backbone."""
    config, served = session.config.resolved(), session.served
    if served.kind == BackboneKind.BACKBONE_KIND_TABLE:
        return TableTeam(session.agents, served.base_digest, config.learner, config.temperature, config.seed)
    if served.kind == BackboneKind.BACKBONE_KIND_CAUSAL_LM:
        folder = await fetch_backbone(session.policy, served.base_digest)
        return _lora(folder, session, config)
    raise ConfigError(f'backbone "{served.backbone}" has nothing to train; use a language model or tabular')


def _lora(folder: Path, session: Session, config: RunConfig) -> Team:
    from potluck_trainer.learners.lora import LoraTeam  # torch takes seconds to import; tables do without

    return LoraTeam(folder, session.agents, session.served.base_digest, config.learner, config.temperature, config.seed)
