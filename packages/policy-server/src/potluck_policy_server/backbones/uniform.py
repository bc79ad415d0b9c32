"""The backbone `uniform`: every item of the menu with the same probability."""

from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.backbones.fixed import FixedBackbone, uniform_logprobs


def load(options: BackboneOptions) -> FixedBackbone:
    """Entry point."""
    return FixedBackbone(options.name, uniform_logprobs)
