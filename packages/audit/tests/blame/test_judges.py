"""Judges of decisions: exact by replay, cheap by heuristic, prompted over real sockets; shares and agreement."""

import asyncio
import json
import math

import pytest

from potluck.policy.v1 import policy_service_pb2 as policy_pb
from potluck.policy.v1.policy_service_pb2_grpc import PolicyServiceServicer, add_PolicyServiceServicer_to_server
from potluck.rpc.server import serve
from potluck_audit.blame.agreement import agreements, cohen_kappa, kendall_tau
from potluck_audit.blame.credit import decision_shares
from potluck_audit.blame.errors import NeverActed
from potluck_audit.blame.judges import Bench, Judged, Label, Subject, judge, registry
from potluck_audit.blame.judges.prompted import read
from potluck_audit.blame.results import DecisionShare
from potluck_audit.blame.trace import walk
from potluck_audit.errors import InvalidRequest
from potluck_audit.foreign.models import OpenAIModel, PolicyModel

from ..foreign.chat import served


@pytest.fixture(scope="module")
def subject(at_table, faults):
    """The guilty agent of a failure."""
    fault = faults[0]
    trace = at_table(lambda envs, policy: walk(fault.case, envs))
    return Subject(fault.case, trace, fault.agent)


def judged(at_table, subject, name, **bench):
    return at_table(lambda envs, policy: judge(name, Bench(envs, policy, **bench)).judge(subject))


def test_replay_finds_the_injected_decision_harmful_and_the_replaced_ones_not(at_table, subject, faults):
    found = judged(at_table, subject, "counterfactual", baseline="scripted", continuations=2)
    labels = [label.value for label in found.labels]
    assert len(labels) == len(subject.decisions)
    assert labels[faults[0].decision] == min(labels) == -1.0
    others = [label for place, label in enumerate(labels) if place != faults[0].decision]
    assert set(others) == {0.0}, "what the scripted policy did itself cannot differ from what it would do"
    assert all(label.se == 0.0 for label in found.labels)
    assert found.cost["branches"] > 0


def test_noop_stands_still_and_uniform_draws(at_table, subject):
    one = Subject(subject.case, subject.trace, subject.agent)
    still = judged(at_table, one, "counterfactual", baseline="noop", continuations=2)
    assert [label.value is None for label in still.labels] == [False] * len(still.labels)
    assert max(label.value for label in still.labels) > 0, "some decision was better than waiting"
    for wrong in ("greedy", "nonsense"):
        with pytest.raises(InvalidRequest, match="cannot replace a single decision"):
            judge("counterfactual", Bench(None, baseline=wrong))
    with pytest.raises(InvalidRequest, match="decides at a policy server"):
        judge("counterfactual", Bench(None, baseline="frozen"))


def test_the_heuristic_judge_sees_the_injected_decision(at_table, subject, faults):
    labels = [label.value for label in judged(at_table, subject, "greedy").labels]
    assert labels[faults[0].decision] == min(labels) < 0


def test_an_unknown_judge_is_refused_and_a_plug_in_is_found(monkeypatch):
    with pytest.raises(InvalidRequest, match="there is no judge 'oracle'"):
        judge("oracle", Bench(None))

    class Point:
        name = "oracle"

        def load(self):
            return lambda bench: ("made", bench.baseline)

    monkeypatch.setattr(registry, "entry_points", lambda group: [Point()] if group == "potluck.judges" else [])
    assert judge("oracle", Bench(None, baseline="uniform")) == ("made", "uniform")
    assert "oracle" in registry.known()


# ---- prompted


async def prompted(subject, answer):
    with served(answer) as (url, got):
        async with OpenAIModel("made-up", url) as model:
            found = await judge("prompted", Bench(None, model=model)).judge(subject)
    return found, got


def test_a_prompted_judge_speaks_to_a_real_endpoint(monkeypatch, subject):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up")
    said = json.dumps({"reason": "…", "helped": [0, 2], "hurt": [1]})
    found, got = asyncio.run(prompted(subject, lambda prompt: f"```json\n{said}\n```"))
    assert [label.value for label in found.labels][:4] == [1.0, -1.0, 1.0, 0.0]
    assert found.cost["calls"] == len(got) == 1
    shown = got[0]["messages"][-1]["content"]
    assert f"The decisions of {subject.agent}:" in shown
    assert f"{len(subject.decisions) - 1}. Step" in shown


@pytest.mark.parametrize(
    "reply",
    ["the first one", "[]", '{"helped": [0]}', '{"helped": [0], "hurt": [0]}', '{"helped": [true], "hurt": []}',
     '{"helped": [999], "hurt": []}', '{"helped": ["0"], "hurt": []}'],
)  # fmt: skip
def test_replies_of_another_form_label_nothing(monkeypatch, subject, reply):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-made-up")
    found, _ = asyncio.run(prompted(subject, lambda prompt: reply))
    assert all(label.value is None for label in found.labels)
    assert "unparsable" in found.note


def test_the_form_of_a_reply():
    assert read({"helped": [0], "hurt": [2]}, 3) == [1, 0, -1]
    assert read({"helped": [3], "hurt": []}, 3) is None


def test_a_policy_server_may_judge(subject):
    class Writer(PolicyServiceServicer):
        async def Generate(self, request, context):
            assert "decision" in request.prompt
            text = '{"reason": "", "helped": [], "hurt": [0]}'
            return policy_pb.GenerateResponse(text=text, finish_reason="stop", prompt_tokens=9, output_tokens=3)

    async def go():
        server = await serve(
            lambda s: add_PolicyServiceServicer_to_server(Writer(), s),
            services=["potluck.policy.v1.PolicyService"], bind="127.0.0.1:0",
        )  # fmt: skip
        try:
            async with PolicyModel(server.address) as model:
                return await judge("prompted", Bench(None, model=model)).judge(subject)
        finally:
            await server.stop()

    found = asyncio.run(go())
    assert [label.value for label in found.labels][:2] == [-1.0, 0.0]
    assert found.cost["prompt_tokens"] == 9


def test_a_prompted_judge_needs_a_model():
    with pytest.raises(InvalidRequest, match="has no model to ask"):
        judge("prompted", Bench(None))


# ---- shares


class Fixed:
    def __init__(self, name, labels):
        self.name, self._labels = name, labels

    async def judge(self, subject):
        return Judged(tuple(Label(label) for label in self._labels))


def test_shares_add_up_to_the_agents_credit_for_every_judge(subject):
    count = len(subject.decisions)
    judges = [Fixed("up", [1] * count), Fixed("mixed", [1, -1] + [0] * (count - 2)), Fixed("mute", [None] * count)]
    rows, _ = asyncio.run(decision_shares(subject, -0.7, judges))
    for name in ("up", "mixed"):
        own = [row.share for row in rows if row.judge == name]
        assert math.fsum(own) == -0.7
    assert {row.share for row in rows if row.judge == "mute"} == {None}
    assert len(rows) == 3 * count


def test_an_agent_that_never_acted_is_refused(subject):
    with pytest.raises(NeverActed, match="made no decision"):
        asyncio.run(decision_shares(Subject(subject.case, subject.trace, "agent_9"), 1.0, [Fixed("up", [])]))


# ---- agreement


def shares(judge_name, labels, episodes=4):
    return [
        DecisionShare(
            "s", f"e{n % episodes}", "agent_0", n // episodes, n, n, "o", "", judge_name, label, None, None, 0.0
        )
        for n, label in enumerate(labels)
    ]


def test_agreement_of_two_judges_with_intervals_over_episodes():
    first = [1.0, -2.0, 0.5, 0.0, 3.0, -1.0, 0.2, 0.0] * 4
    same = {a.measure: a for a in agreements([*shares("a", first), *shares("b", [2 * x for x in first])])}
    assert same["kendall_tau"].value == pytest.approx(1.0)
    assert same["cohen_kappa"].value == pytest.approx(1.0)
    assert (same["cohen_kappa"].decisions, same["cohen_kappa"].episodes) == (32, 4)
    opposed = {a.measure: a for a in agreements([*shares("a", first), *shares("b", [-x for x in first])])}
    assert opposed["kendall_tau"].value < -0.9
    assert opposed["cohen_kappa"].low <= opposed["cohen_kappa"].value < 0
    assert opposed["cohen_kappa"].high < same["cohen_kappa"].low


def test_agreement_that_is_undefined_stays_so():
    flat = {a.measure: a for a in agreements([*shares("a", [1.0] * 8), *shares("b", [2.0] * 8)])}
    assert (flat["kendall_tau"].value, flat["cohen_kappa"].value) == (None, None)
    alone = agreements([*shares("a", [1.0, -1.0, 0.0], 1), *shares("b", [1.0, -1.0, 1.0], 1)])
    assert all(a.low is None for a in alone)
    apart = agreements([*shares("a", [1.0, None]), *shares("b", [None, 1.0])])
    assert all((a.value, a.decisions) == (None, 0) for a in apart)


def test_the_measures_against_known_values():
    import numpy as np

    one, other = np.array([1.0, 2, 3, 4]), np.array([1.0, 3, 2, 4])
    assert kendall_tau(one, other) == pytest.approx(4 / 6)
    signs, more = np.array([1.0, 1, -1, -1, 0, 1, -1, 0, 1, -1]), np.array([1.0, -1, -1, -1, 0, 1, 1, 0, 1, 0])
    assert cohen_kappa(signs, more) == pytest.approx((0.7 - 0.34) / 0.66)
