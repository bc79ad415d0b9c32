"""An episode's decisions as a log of the Who&When format, so that prompted judges and baselines can answer it too.

A message is a decision: its speaker the agent, its content what it saw (the last lines of its observation) and chose.
Steps of the log count decisions of the whole episode, by time and seat.
"""

from __future__ import annotations

from potluck_audit.blame.case import Case
from potluck_audit.blame.trace import Trace
from potluck_audit.foreign.log import FailureLog, Message

NOBODY = ""


def failure_log(case: Case, trace: Trace, threshold: float, agent: str = NOBODY, step: int = 0) -> FailureLog:
    """`agent` and `step` are the label, where it is known."""
    history = []
    for moment in trace.moments:
        for decision in moment.decisions:
            item = decision.item
            saw = "; ".join(line for line in decision.prompt.observation.splitlines() if line.strip())
            history.append(
                Message(decision.agent, f"at environment step {moment.step} saw [{saw}] and chose {item.text}")
            )
    earned = ", ".join(f"{reward:g} at step {at}" for at, reward in trace.rewards) or "nothing"
    question = (
        f"{case.game}: reach a team return of {threshold:g} {case.unit} within {trace.steps} steps. "
        f"The team earned {case.team_return:g} ({earned})."
    )
    return FailureLog(case.episode_id, "", question, "", history, agent, step)
