"""What a command works with: env servers, the policy server, what they serve, and a team that fits."""

from __future__ import annotations

import difflib
import re
from collections.abc import AsyncIterator, Mapping, Sequence
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

INTERFACES = {
    "menu": Interface.INTERFACE_MENU,
    "native": Interface.INTERFACE_NATIVE,
    "json": Interface.INTERFACE_JSON,
}
ADDRESS = re.compile(r"unix:.+|(\[[0-9a-fA-F:]+\]|[^:\s]+):(\d{1,5})")
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
        game = _offered(await envs.games(), config)
        served = await policy.describe()
        _check_served(served, config)
        yield Session(config, envs, policy, game, served)


def check_addresses(config: RunConfig) -> None:
    """Refuses what is no address before anything waits for it."""
    for flag, addresses in (("--envs", config.env_addresses), ("--policy", (config.policy,) if config.policy else ())):
        for address in addresses:
            found = ADDRESS.fullmatch(address)
            if not found or int(found.group(2) or 1) not in range(1, 65536):
                raise ConfigError(f'{flag}: "{address}" is no address; give host:port, such as 127.0.0.1:7001')


async def check_envs(addresses: Sequence[str], config: RunConfig) -> None:
    """Refuses env servers that do not offer what the config wants to play."""
    async with EnvPool(addresses) as envs:
        await envs.wait_ready()
        _offered(await envs.games(), config)


async def check_policy(address: str, config: RunConfig) -> None:
    """Refuses a policy server that serves another backbone, or one that cannot answer."""
    async with PolicyClient(address) as policy:
        await policy.wait_ready()
        _check_served(await policy.describe(), config)


def _offered(games: Mapping[str, GameInfo], config: RunConfig) -> GameInfo:
    name = config.game
    if name not in games:
        near = difflib.get_close_matches(name, games, n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(near)}? " if near else ""
        raise ConfigError(f'no env server offers "{name}"; {hint}`potluck-envs list` shows all {len(games)} games')
    if INTERFACES[config.interface] not in games[name].interfaces:
        raise ConfigError(f"{name} cannot be played by its {config.interface} interface; set --interface menu")
    return games[name]


def _check_served(served: DescribeResponse, config: RunConfig) -> None:
    if served.backbone != config.backbone:
        raise ConfigError(
            f'{config.policy} serves backbone "{served.backbone}", the run wants "{config.backbone}"; '
            f"set --backbone {served.backbone} or start another policy server"
        )
    if config.interface == "json" and not served.generates:
        raise ConfigError(
            f'backbone "{served.backbone}" writes no text, so it cannot answer the json interface; '
            "evaluate a run of a language model, or leave --interface out"
        )
    scheme = SCHEMES[config.label_scheme]
    if scheme and served.label_schemes and scheme not in served.label_schemes:
        known = ", ".join(LabelScheme.Name(one).removeprefix("LABEL_SCHEME_").lower() for one in served.label_schemes)
        raise ConfigError(
            f'backbone "{served.backbone}" does not read the label scheme {config.label_scheme}; '
            f"set --label-scheme to one of {known}, or leave it out"
        )


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
