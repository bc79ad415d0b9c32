"""Division of labour: mutual information between agent and option (Gorelick et al. 2004, Am. Nat. 164:677).

From the team's agent x option matrix, normalised to 1 as a whole (an agent that chose more weighs more):

    I            I(agent; option) in bits
    I/H(option)  1 where the agent tells the option: agents specialise
    I/H(agent)   1 where the option tells the agent: options are exclusive

With equal amounts per agent I is the Jensen-Shannon divergence. A share of a zero entropy is undefined, and so is all
of it while an agent has chosen nothing.

Bias: finite records make I positive even for interchangeable agents. The baseline is I after the agents' histograms
were dealt to the seats at random within every episode; it holds the same bias, so that the excess over it is what
speaks for a division of labour that lasts over episodes. Roles that change seats from episode to episode cancel in I.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from potluck_audit.intervals import Floats, Intervals
from potluck_audit.metrics.metric import EpisodeSet, Metric
from potluck_audit.metrics.options import WEIGHTINGS, entropy, option_counts, option_names
from potluck_audit.statistics import baseline, draws_of, exceedance, jackknife

FORMS = ("", "per_option", "per_agent")
"""I, I/H(option), I/H(agent)."""


def information(counts: Any, form: str = "") -> Any:
    """Of weights whose last axes are agent and option; NaN where undefined."""
    weights = np.asarray(counts, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        joint = weights / weights.sum(axis=(-2, -1), keepdims=True)
        by_agent, by_option = joint.sum(axis=-1), joint.sum(axis=-2)
        shared = (
            entropy(by_agent)
            + entropy(by_option)
            - entropy(joint.reshape(*joint.shape[:-2], joint.shape[-2] * joint.shape[-1]))
        )
        shared = np.where((by_agent > 0).all(axis=-1), np.maximum(shared, 0.0), np.nan)
        if form == "":
            return shared
        whole = entropy(by_option if form == "per_option" else by_agent)
        return np.where(whole > 0, shared / whole, np.nan)


def labour(episodes: EpisodeSet, intervals: Intervals) -> tuple[list[Metric], dict[str, float | None]]:
    """`option_information_*` by weighting and form with their baselines, and p-values of I by weighting."""
    agents, names = episodes.agents, option_names(episodes)
    if len(agents) < 2:
        return [], {}
    metrics: list[Metric] = []
    p_values: dict[str, float | None] = {}
    for weighting in WEIGHTINGS:
        counts = option_counts(episodes, names, weighting)
        dealt = _dealt(counts, intervals)
        name = f"option_information_{weighting}"
        for form in FORMS:
            unit = "share" if form else "bits"
            estimate, null = jackknife(partial(information, form=form), counts, intervals), information(dealt, form)
            chance = baseline(null, intervals, len(counts))
            metrics.append(Metric(name, episodes.name, estimate, key=form, unit=unit))
            metrics.append(Metric(f"{name}_baseline", episodes.name, chance, key=form, unit=unit))
            if form == "":
                p_values[name] = exceedance(estimate.value, null)
    return metrics, p_values


def _dealt(counts: Floats, intervals: Intervals) -> Floats:
    """Sums over episodes, (draw, agent, option), after dealing. One episode dealt anew is the same team: no draws."""
    draws = draws_of(intervals) if len(counts) > 1 else 0
    generator = np.random.default_rng(intervals.seed)
    sums = np.zeros((draws, *counts.shape[1:]))
    for episode in counts:
        sums += episode[generator.random((draws, len(episode))).argsort(axis=1)]
    return sums
