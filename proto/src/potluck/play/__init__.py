"""The client side of a game: episodes played in lockstep waves through env servers and one policy server.

async with EnvPool(["127.0.0.1:7001"]) as envs, PolicyClient("127.0.0.1:7002") as policy:
    policies = {"agent_0": adapter(digest), "agent_1": builtin(BuiltinPolicy.BUILTIN_POLICY_FROZEN)}
    specs = [EpisodeSpec("e0", "overcooked/forced_coordination", seed=7, policies=policies)]
    results = await play(specs, envs, policy, PlayOptions(temperature=0.9))
    await envs.replay(results[0].finished.recording, frames=True)
"""

from potluck.play.choice_stream import ChoiceStream
from potluck.play.driver import play
from potluck.play.errors import DigestMismatch, EpisodeLost
from potluck.play.policy_client import PolicyClient, adapter_digest
from potluck.play.pool import EnvPool, EnvServer
from potluck.play.scoring import decision_seed
from potluck.play.specs import (
    DecisionRecord,
    EpisodeResult,
    EpisodeSpec,
    ForkSpec,
    Given,
    OnWave,
    PlayOptions,
    Spoken,
    Wave,
    adapter,
    builtin,
)

__all__ = [
    "ChoiceStream",
    "DecisionRecord",
    "DigestMismatch",
    "EnvPool",
    "EnvServer",
    "EpisodeLost",
    "EpisodeResult",
    "EpisodeSpec",
    "ForkSpec",
    "Given",
    "OnWave",
    "PlayOptions",
    "PolicyClient",
    "Spoken",
    "Wave",
    "adapter",
    "adapter_digest",
    "builtin",
    "decision_seed",
    "play",
]
