"""What a reader must know before comparing a run's numbers with another's."""

from __future__ import annotations

from collections.abc import Iterable

from potluck_audit.records import Episode, RunRecords
from potluck_audit.records.run import TRAIN


def run_facts(run: RunRecords) -> dict[str, str]:
    """Empty facts are left out."""
    evaluated = [e for e in run.episodes if e.set != TRAIN] or list(run.episodes)
    trained = [e for e in run.episodes if e.set == TRAIN]
    seeds = sorted({e.seed for e in evaluated})
    adapters = {
        agent: policy
        for e in evaluated
        if e.set == "eval/trained"
        for agent, policy in e.policies.items()
        if len(policy) == 64
    }
    found = {
        "Game": _one(e.game for e in evaluated),
        "Dynamics": _one(e.dynamics for e in evaluated),
        "Horizon": _one(f"{e.horizon} steps" for e in evaluated),
        "Reward unit": _one(e.reward_unit for e in evaluated),
        "Backbone": _one(e.backbone for e in evaluated),
        "Labels": _one(e.label_scheme for e in evaluated),
        "Temperature": _one(_number(e) for e in evaluated),
        "Evaluation seeds" if any(e.set != TRAIN for e in run.episodes) else "Training seeds": _span(seeds),
        "Training": f"{len({e.round for e in trained})} rounds, {len(trained)} episodes" if trained else "",
        "Run seed": str(run.config.get("seed", "")),
        "Option library": _one(e.library_digest for e in evaluated),
        "Frozen base": _one(e.base_digest for e in evaluated),
        **{f"Adapter of {agent}": digest for agent, digest in sorted(adapters.items())},
        "Versions": _versions(run),
    }
    return {name: value for name, value in found.items() if value}


def _one(values: Iterable[str]) -> str:
    """The value, or all of them where they differ: a reader must see that."""
    return " | ".join(dict.fromkeys(v for v in values if v))


def _number(episode: Episode) -> str:
    if episode.temperature is None:
        return ""
    return f"{episode.temperature:g}" if episode.temperature else "0 (most probable item)"


def _span(seeds: list[int]) -> str:
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:  # each once, in order; they may be 64 bits apart
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds[:8])) + (f" and {len(seeds) - 8} more" if len(seeds) > 8 else "")


def _versions(run: RunRecords) -> str:
    pairs = {str(k): v for k, v in run.versions.items() if isinstance(v, str)}
    packages = run.versions.get("packages")
    if isinstance(packages, dict):
        pairs |= {str(k): str(v) for k, v in packages.items()}
    wanted = sorted(k for k in pairs if k.startswith("potluck") or k in ("python", "torch", "git", "git_commit"))
    return ", ".join(f"{k} {pairs[k]}" for k in wanted)
