"""The exact judge: this one decision replaced by the baseline's, everything after it played on under the same noise.

    label = mean over noise of  R(recorded choice) - R(baseline's choice)

Both arms begin at the decision's boundary, with the others' recorded choices there, and their agents go on with their
own policies; each noise number gives one pair, so the standard error is that of the mean of paired differences. The
baseline's choice is `wait` for noop, a draw from the menu for uniform, and what the policy answers to the very prompt
for frozen, scripted or an adapter.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from potluck.common.v1 import common_pb2 as common_pb
from potluck.play.scoring import decision_seed
from potluck.play.specs import DecisionRecord, Given, builtin
from potluck.play.specs import adapter as adapter_policy
from potluck.policy.v1 import policy_service_pb2 as policy_pb
from potluck_audit.blame.branches import Branch, Branches, noise_seed
from potluck_audit.blame.case import Case
from potluck_audit.blame.judges.base import Bench, Judged, Label, Subject
from potluck_audit.counterfactual.seats import BUILTINS, is_adapter
from potluck_audit.errors import InvalidRequest

STANDING = (("wait", ""), ("primitive", "stay"), ("primitive", "NOOP"), ("primitive", "noop"))
"""What doing nothing is called, by game and interface."""


class Counterfactual:
    """See the module."""

    def __init__(self, bench: Bench) -> None:
        baseline = bench.baseline
        if not (baseline in ("noop", "uniform", *BUILTINS) or is_adapter(baseline)):
            raise InvalidRequest(
                "baseline",
                f"{baseline!r} cannot replace a single decision",
                "use noop, uniform, frozen, scripted or an adapter digest",
            )
        if baseline not in ("noop", "uniform") and bench.policy is None:
            raise InvalidRequest("services.policy", f"{baseline} decides at a policy server", "name one")
        if bench.continuations < 1:
            raise InvalidRequest("continuations", f"{bench.continuations} pairs are none", "give at least 1")
        self.name = f"counterfactual ({baseline})"
        self._bench = bench

    async def judge(self, subject: Subject) -> Judged:
        case, bench = subject.case, self._bench
        branches = Branches(case, bench.envs, bench.policy, budget=bench.budget)
        noises = range(bench.continuations)
        pairs: list[tuple[int, Branch, Branch]] = []
        standing_still = 0
        for place, decision in enumerate(subject.decisions):
            taken = dict(subject.trace.at(decision.boundary).taken)
            replaced = await self._replaced(case, decision, noises)
            standing_still += replaced is None
            for noise, item in zip(noises, replaced or (), strict=False):
                other = {**taken, subject.agent: item}
                pairs.append((place, Branch(decision.boundary, noise, taken), Branch(decision.boundary, noise, other)))
        returns = await branches.returns([branch for _, first, second in pairs for branch in (first, second)])
        differences: list[list[float]] = [[] for _ in subject.decisions]
        for number, (place, _, _) in enumerate(pairs):
            differences[place].append(returns[2 * number] - returns[2 * number + 1])
        note = f"{standing_still} menus without a way to stand still have no label" if standing_still else ""
        cost = {"branches": branches.cost.branches, "decisions": branches.cost.decisions}
        return Judged(tuple(_label(found) for found in differences), cost, note)

    async def _replaced(self, case: Case, decision: DecisionRecord, noises: Sequence[int]) -> list[Given] | None:
        """The baseline's choice for each noise number, or None where the menu has none."""
        items = [(item.option, item.target) for item in decision.prompt.items]
        if self._bench.baseline == "noop":
            still = next((item for item in STANDING if item in items), None)
            return None if still is None else [still] * len(noises)
        if self._bench.baseline == "uniform":
            seeds = [decision_seed(noise_seed(case, "judge", n), decision.agent, decision.decision) for n in noises]
            return [items[random.Random(seed).randrange(len(items))] for seed in seeds]
        return [items[place] for place in await self._asked(case, decision, noises)]

    async def _asked(self, case: Case, decision: DecisionRecord, noises: Sequence[int]) -> list[int]:
        assert self._bench.policy is not None
        baseline = self._bench.baseline
        policy = adapter_policy(baseline) if is_adapter(baseline) else builtin(BUILTINS[baseline])
        options = case.options()
        request = policy_pb.ChooseRequest(
            request_id=f"judge-{decision.agent}-{decision.decision}", label_scheme=options.label_scheme
        )
        for noise in noises:
            request.decisions.add(
                policy=policy,
                prompt=_copy(decision.prompt),
                temperature=options.temperature,
                seed=decision_seed(noise_seed(case, "judge", noise), decision.agent, decision.decision),
                greedy=options.greedy,
            )
        reply = await self._bench.policy.choose(request)
        return [choice.index for choice in reply.choices]


def _copy(prompt: common_pb.Prompt) -> common_pb.Prompt:
    copied = common_pb.Prompt()
    copied.CopyFrom(prompt)
    return copied


def _label(differences: Sequence[float]) -> Label:
    if not differences:
        return Label(None)
    values = np.asarray(differences, float)
    se = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else None
    return Label(float(values.mean()), se)
