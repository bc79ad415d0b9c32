"""The JSON interface: texts asked for one by one, handed on as they are, held to adapter and base."""

import hashlib
import json
import math

import pytest

from potluck.env.v1 import env_service_pb2 as pb
from potluck.env.v1.env_service_pb2 import Interface
from potluck.play import EpisodeSpec, ForkSpec, PlayOptions, builtin, decision_seed
from potluck.policy.v1 import policy_service_pb2 as pp
from potluck.policy.v1.policy_service_pb2 import BuiltinPolicy
from potluck.rpc.errors import PotluckError, Reason

from .conftest import ADAPTERS, specs, table
from .counting import BASE, TOKENIZER, CountingEnv, CountingPolicy

JSON = Interface.INTERFACE_JSON


class SpeakingEnv(CountingEnv):
    """Takes texts: the option they name, or `wait`."""

    def outcome(self, command, counts):
        if command.HasField("choose"):
            count = counts[command.episode_id]
            for choice in command.choose.choices:
                assert not choice.letter
                self.heard.append(choice.text)
                letters = {item.option: item.letter for item in count.items(choice.agent)}
                choice.letter = letters.get(_option(choice.text), letters["wait"])
        outcome = super().outcome(command, counts)
        if "finished" in outcome:
            outcome["finished"].recording.interface = JSON
        for point in outcome["menus"].decisions if "menus" in outcome else ():
            del point.prompt.items[:]
        return outcome

    def __init__(self):
        super().__init__()
        self.heard = []


def _option(text):
    try:
        return json.loads(text)["option"]
    except ValueError:
        return ""


class WritingPolicy(CountingPolicy):
    """Writes `two` for agent a's adapter and chatter for b's."""

    generates = True
    base = BASE

    def __init__(self):
        super().__init__()
        self.asked = []

    async def Describe(self, request, context):
        return pp.DescribeResponse(
            base_digest=BASE, tokenizer_digest=TOKENIZER, max_batch=64, generates=self.generates, backbone="writer"
        )

    async def Generate(self, request, context):
        self.asked.append(request)
        text = '{"option": "two"}' if request.policy.adapter == ADAPTERS["a"] else "I think"
        return pp.GenerateResponse(text=text, adapter_digest=request.policy.adapter, base_digest=self.base)


class RestartedWriter(WritingPolicy):
    """Came back with another base."""

    base = "0" * 64


class RulePolicy(WritingPolicy):
    """Serves a backbone without text."""

    generates = False


async def test_texts_are_asked_for_with_seed_and_temperature_and_handed_on():
    env, policy = SpeakingEnv(), WritingPolicy()
    async with table(env, policy=policy) as t:
        (result,) = await t.play(specs(1, interface=JSON), PlayOptions(temperature=0.5, max_tokens=9))
    assert set(env.heard) == {'{"option": "two"}', "I think"}
    assert not policy.requests, "nothing is scored"
    asked = policy.asked[0]
    assert (asked.system, asked.max_tokens, asked.temperature) == ("add", 9, 0.5)
    assert asked.seed == decision_seed(0, "a", 0)
    assert "total 0" in asked.prompt
    by_agent = {record.agent: record for record in result.decisions}
    assert by_agent["a"].spoken.text == '{"option": "two"}'
    assert by_agent["a"].item.option == by_agent["a"].spoken.option == "two"
    assert by_agent["b"].item.option == "wait"
    for record in result.decisions:
        assert record.adapter_digest == ADAPTERS[record.agent]
        assert math.isnan(record.logprob)
        assert (record.letter, record.probabilities) == ("", ())
        sent = "\n\n".join(next((a.system, a.prompt) for a in policy.asked if f"total {_total(record)}\n" in a.prompt))
        assert record.prompt_digest == hashlib.sha256(sent.encode()).hexdigest()
    assert result.finished.team_return == 2 * 6


def _total(record):
    return record.prompt.observation.removeprefix("total ")


async def test_a_fork_of_a_spoken_episode_is_spoken():
    env, policy = SpeakingEnv(), WritingPolicy()
    async with table(env, policy=policy) as t:
        (base,) = await t.play(specs(1, interface=JSON))
        fork = EpisodeSpec("fork", base.spec.game, 0, policies=base.spec.policies, fork=ForkSpec(_recording(base), 3))
        (again,) = await t.play([fork])
    assert again.finished.team_return == base.finished.team_return
    assert all(record.spoken for record in again.decisions)


def _recording(result):
    """The recording as the env server of this test replays it: with the letters that the texts came to."""
    recording = pb.Recording()
    recording.CopyFrom(result.finished.recording)
    return recording


async def test_greedy_answers_have_temperature_zero():
    policy = WritingPolicy()
    async with table(SpeakingEnv(), policy=policy) as t:
        await t.play(specs(1, interface=JSON), PlayOptions(greedy=True))
    assert {asked.temperature for asked in policy.asked} == {0.0}


@pytest.mark.parametrize("kind", [BuiltinPolicy.BUILTIN_POLICY_UNIFORM, BuiltinPolicy.BUILTIN_POLICY_SCRIPTED])
async def test_a_rule_over_menus_cannot_speak(kind):
    async with table(SpeakingEnv(), policy=WritingPolicy()) as t:
        with pytest.raises(PotluckError, match="a rule over menus") as refused:
            await t.play(specs(1, interface=JSON, policies={"a": builtin(kind), "b": builtin(kind)}))
    assert refused.value.reason == Reason.UNSUPPORTED


async def test_a_backbone_without_text_is_refused():
    async with table(SpeakingEnv(), policy=RulePolicy()) as t:
        with pytest.raises(PotluckError, match="'writer' writes no text") as refused:
            await t.play(specs(1, interface=JSON))
    assert refused.value.reason == Reason.UNSUPPORTED


async def test_a_text_of_another_base_is_never_used():
    env = SpeakingEnv()
    async with table(env, policy=RestartedWriter()) as t:
        with pytest.raises(PotluckError) as refused:
            await t.play(specs(1, interface=JSON))
    assert refused.value.reason == Reason.DIGEST_MISMATCH
    assert env.heard == []
