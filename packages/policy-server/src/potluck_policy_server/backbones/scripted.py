"""The backbone `scripted`: the game's own greedy heuristic, a partner that needs no learning."""

from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.backbones.fixed import FixedBackbone, scripted_logprobs


def load(options: BackboneOptions) -> FixedBackbone:
    """Entry point."""
    return FixedBackbone(options.name, scripted_logprobs)
