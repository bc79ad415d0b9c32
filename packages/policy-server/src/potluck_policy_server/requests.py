"""What is checked in a Choose request before anything is computed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from potluck.common.v1 import common_pb2
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.adapters import AdapterStore
from potluck_policy_server.backbones.base import MAX_ITEMS, MAX_LABEL, Query
from potluck_policy_server.backbones.fixed import Rule, scripted_logprobs, uniform_logprobs
from potluck_policy_server.errors import InvalidRequest

RULES: dict[int, Rule] = {
    pb.BUILTIN_POLICY_UNIFORM: uniform_logprobs,
    pb.BUILTIN_POLICY_SCRIPTED: scripted_logprobs,
}


class Asked(NamedTuple):
    """One checked decision: a query for the backbone, or a rule that needs none."""

    query: Query
    rule: Rule | None


def check(request: pb.ChooseRequest, store: AdapterStore, max_batch: int) -> list[Asked]:
    """All decisions of a request, or the first thing that is wrong with it."""
    if len(request.decisions) > max_batch:
        cure = f"split the request; Describe says max_batch = {max_batch}"
        raise InvalidRequest("decisions", f"{len(request.decisions)} decisions in one request", cure)
    if request.label_scheme not in common_pb2.LabelScheme.values():
        raise InvalidRequest("label_scheme", f"{request.label_scheme} is no label scheme")
    return [_decision(number, decision, request, store) for number, decision in enumerate(request.decisions)]


def _decision(number: int, decision: pb.Decision, request: pb.ChooseRequest, store: AdapterStore) -> Asked:
    field = f"decisions[{number}]"
    if not (math.isfinite(decision.temperature) and decision.temperature > 0):
        raise InvalidRequest(f"{field}.temperature", f"{decision.temperature} is not a number above 0")
    _check_items(f"{field}.prompt.items", decision.prompt.items)
    policy, adapter, rule = decision.policy, None, None
    match policy.WhichOneof("kind"):
        case "adapter":
            adapter = store.get(policy.adapter)
        case "builtin" if policy.builtin in RULES:
            rule = RULES[policy.builtin]
        case "builtin" if policy.builtin == pb.BUILTIN_POLICY_FROZEN:
            pass
        case _:
            raise InvalidRequest(f"{field}.policy", "names neither an adapter nor a builtin policy")
    query = Query(decision.prompt, adapter, decision.temperature, request.label_scheme, request.tokens)
    return Asked(query, rule)


def _check_items(field: str, items: Sequence[common_pb2.Item]) -> None:
    if not 1 <= len(items) <= MAX_ITEMS:
        raise InvalidRequest(field, f"a menu has 1 to {MAX_ITEMS} items, not {len(items)}", "`wait` is always feasible")
    for place, item in enumerate(items):
        if (size := max(len(item.letter), len(item.word))) > MAX_LABEL:
            raise InvalidRequest(f"{field}[{place}]", f"a label of {size} characters", f"at most {MAX_LABEL}")
    letters = [item.letter for item in items]
    if "" in letters or len(set(letters)) != len(letters):
        raise InvalidRequest(field, f"letters must be distinct and not empty, not {','.join(letters)}")
    if not all(math.isfinite(item.greedy) for item in items):
        raise InvalidRequest(field, "a greedy value is not a finite number")
