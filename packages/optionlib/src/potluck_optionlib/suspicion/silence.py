"""How often an agent fell silent: it began something that had not ended by the end of its episode.

Records tell finished executions only. An agent that has begun something begins nothing else before that ends, so the
steps after its last record are one execution, but for what started too late to end. Where more steps are left than any
finished execution of the burn-in can have taken, something never ended. Episodes in which something raised end early
and say nothing.
"""

from __future__ import annotations

import numpy as np

from potluck_optionlib.burnin import Burnin
from potluck_optionlib.evidence import RAISED


def silences(burnin: Burnin) -> int:
    """Agents, episode by episode, that began something and were not heard of again."""
    table, plan = burnin.table, burnin.plan
    episodes, agents, steps = (table.column(name).to_numpy().astype(np.int64) for name in ("episode", "agent", "step"))
    seats = int(agents.max(initial=-1)) + 1
    last = np.full((plan.episodes, max(seats, 1)), -1, np.int64)
    np.maximum.at(last, (episodes, agents), steps)
    longest = _longest(episodes * max(seats, 1) + agents, steps)
    quiet = plan.horizon - last > 2 * longest + 1
    solo = np.arange(plan.episodes) < plan.solo_episodes
    acts = ~solo[:, None] | (np.arange(plan.episodes)[:, None] % max(seats, 1) == np.arange(max(seats, 1))[None, :])
    outcomes = table.column("outcome").to_pylist()
    raised = {int(e) for e, outcome in zip(episodes, outcomes, strict=True) if outcome.startswith(RAISED)}
    heard = np.array([episode not in raised for episode in range(plan.episodes)], bool)
    return int((quiet & acts & heard[:, None]).sum())


def _longest(seat: np.ndarray, steps: np.ndarray) -> int:
    """The most steps from one start to the next of the same agent in the same episode."""
    order = np.lexsort((steps, seat))
    same = seat[order][1:] == seat[order][:-1]
    return int(np.diff(steps[order])[same].max(initial=0))
