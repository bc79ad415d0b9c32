"""Playing: order, lockstep, records, forks."""

import math

import pytest

from potluck.common.v1.common_pb2 import LabelScheme
from potluck.env.v1.env_service_pb2 import Baseline, Detail, Interface
from potluck.play import EpisodeSpec, ForkSpec, PlayOptions, builtin, decision_seed, play
from potluck.policy.v1.policy_service_pb2 import BuiltinPolicy
from potluck.rpc.errors import PotluckError, Reason

from .conftest import ADAPTERS, specs, table
from .counting import GAME, CountingEnv, CountingPolicy


class _SmallBatchPolicy(CountingPolicy):
    max_batch = 5


def _digests(results):
    return [result.digest for result in results]


async def test_results_follow_the_specs_and_hold_everything():
    async with table() as t:
        results = await t.play(specs(4), PlayOptions(tokens=True))
    assert [result.spec.episode_id for result in results] == ["e0", "e1", "e2", "e3"]
    for result in results:
        assert result.attempts == 1
        assert result.env == t.envs.servers[0].address
        made = [f"{d.agent}{d.decision}@{d.boundary}" for d in result.decisions]
        assert made == ["a0@0", "b0@0", "a1@1", "a2@2", "b1@2", "a3@3", "a4@4", "b2@4", "a5@5"]
        assert sum(step.reward for step in result.steps) == result.finished.team_return
        assert [step.step for step in result.steps] == list(range(6))
        assert len(result.options) == len(result.decisions)
        for decision in result.decisions:
            assert decision.outcome == "success"
            assert decision.duration == 1
            assert decision.item.letter == decision.letter
            assert math.isclose(sum(decision.probabilities), 1)
            assert decision.adapter_digest == ADAPTERS[decision.agent]
            assert decision.tokens is not None
            assert list(decision.tokens.suffix) == [2]


async def test_the_same_specs_give_the_same_results_on_any_number_of_servers():
    async with table() as one, table(CountingEnv(), CountingEnv(), CountingEnv()) as three:
        first, again, spread = await one.play(specs(7)), await one.play(specs(7)), await three.play(specs(7))
        other = await one.play([EpisodeSpec("x", GAME, 0, policies=specs(1)[0].policies, sample_seed=99)])
    assert _digests(first) == _digests(again) == _digests(spread)
    assert len(set(_digests(first))) > 3
    assert other[0].digest not in _digests(first)
    assert len({result.env for result in spread}) == 3


async def test_one_request_a_wave_and_server_and_one_batch_in_the_order_of_the_specs():
    env, policy = CountingEnv(), CountingPolicy()
    async with table(env, policy=policy) as t:
        waves = []
        await t.play(specs(3), on_wave=waves.append)
    assert env.requests == [["e0", "e1", "e2"]] * 7
    assert [len(batch) for batch in policy.batches] == [6, 3, 6, 3, 6, 3]
    seeds = [seed for _, seed in policy.batches[0]]
    assert seeds == [decision_seed(n, agent, 0) for n in range(3) for agent in ("a", "b")]
    assert [wave.decisions for wave in waves] == [6, 3, 6, 3, 6, 3, 0]
    assert (waves[0].live, waves[-1].done, waves[-1].total, waves[-1].reruns) == (3, 3, 3, 0)


async def test_batches_are_cut_by_size_alone():
    policy = _SmallBatchPolicy()
    async with table(policy=policy) as small, table() as large:
        cut, whole = await small.play(specs(3)), await large.play(specs(3))
    assert [len(batch) for batch in policy.batches] == [5, 1, 3, 5, 1, 3, 5, 1, 3]
    assert _digests(cut) == _digests(whole)


async def test_episodes_are_spread_when_they_begin():
    first, second = CountingEnv(), CountingEnv()
    async with table(first, second) as t:
        await t.play(specs(7))
    assert (len(first.starts), len(second.starts)) == (4, 3)


async def test_no_more_episodes_than_allowed_are_in_play():
    async with table() as t:
        waves = []
        results = await t.play(specs(5), PlayOptions(max_live=2), waves.append)
        whole = await t.play(specs(5))
    assert max(wave.live for wave in waves) == 2
    assert _digests(results) == _digests(whole)


async def test_temperature_greed_scheme_and_builtins_reach_the_server():
    policy = CountingPolicy()
    frozen = builtin(BuiltinPolicy.BUILTIN_POLICY_FROZEN)
    options = PlayOptions(
        temperature=0.5, temperatures={"b": 2.0}, greedy=True, label_scheme=LabelScheme.LABEL_SCHEME_WORDS
    )
    async with table(policy=policy) as t:
        results = await t.play(specs(1, policies={"b": frozen, "a": frozen}), options)
    request = policy.requests[0]
    assert [(d.temperature, d.greedy) for d in request.decisions] == [(2.0, True), (0.5, True)]
    assert request.label_scheme == LabelScheme.LABEL_SCHEME_WORDS
    assert [d.agent for d in results[0].decisions[:2]] == ["b", "a"], "the order of the spec's policies"
    assert results[0].decisions[0].builtin == BuiltinPolicy.BUILTIN_POLICY_FROZEN


async def test_a_fork_without_reseed_continues_as_recorded_and_with_one_differs():
    async with table() as t:
        base = (await t.play(specs(1)))[0]
        recording = base.finished.recording
        forks = [
            EpisodeSpec("same", GAME, 0, policies=base.spec.policies, sample_seed=0, fork=ForkSpec(recording, 3)),
            EpisodeSpec("other", GAME, 0, policies=base.spec.policies, sample_seed=0, fork=ForkSpec(recording, 3, 5)),
        ]
        same, other = await t.play(forks)
    assert same.finished.team_return == base.finished.team_return
    assert list(same.finished.recording.choices) == list(recording.choices)
    assert [d.boundary for d in same.decisions] == [3, 4, 4, 5]
    assert list(other.finished.recording.choices) != list(recording.choices)


async def test_given_choices_are_made_and_the_policy_goes_on_after_them():
    policy = CountingPolicy()
    async with table(policy=policy) as t:
        base = (await t.play(specs(1)))[0]
        recording, policies = base.finished.recording, base.spec.policies
        asked = len(policy.batches)
        forks = [
            EpisodeSpec(
                "told", GAME, 0, policies=policies, fork=ForkSpec(recording, 2), given={2: {"a": ("two", "")}}
            ),
            EpisodeSpec(
                "same", GAME, 0, policies=policies, fork=ForkSpec(recording, 2),
                given={2: {c.agent: c.letter for c in recording.choices[2].choices}},
            ),
        ]  # fmt: skip
        told, same = await t.play(forks)
    first = next(d for d in told.decisions if d.agent == "a")
    assert (first.item.option, first.boundary, first.probabilities) == ("two", 2, ())
    assert [d.probabilities != () for d in told.decisions[1:]] == [True] * (len(told.decisions) - 1)
    assert list(same.finished.recording.choices) == list(recording.choices)
    assert len(policy.batches[asked]) == 1, "only the agent without a given choice is asked"


async def test_an_episode_whose_choices_are_all_given_needs_no_policy_server():
    async with table() as t:
        base = (await t.play(specs(1)))[0]
        recording = base.finished.recording
        given = {c.boundary: {one.agent: one.letter for one in c.choices} for c in recording.choices}
        spec = EpisodeSpec("walk", GAME, 0, policies=base.spec.policies, fork=ForkSpec(recording, 0), given=given)
        [walked] = await play([spec], t.envs, None)
    assert list(walked.finished.recording.choices) == list(recording.choices)
    assert [d.letter for d in walked.decisions] == [d.letter for d in base.decisions]


@pytest.mark.parametrize("item", ["Z", ("three", "")])
async def test_a_given_choice_that_is_not_offered_is_refused(item):
    async with table() as t:
        with pytest.raises(PotluckError, match="a was not offered") as refused:
            await t.play(specs(1, given={1: {"a": item}}))
    assert refused.value.reason == Reason.LETTER_NOT_OFFERED


async def test_seats_played_by_the_server_need_no_policy_server():
    baselines = {"a": Baseline.BASELINE_NOOP, "b": Baseline.BASELINE_UNIFORM}
    async with table() as t:
        results = await play(specs(2, policies={}, baselines=baselines), t.envs, None)
    assert [result.decisions for result in results] == [[], []]


async def test_the_whole_spec_reaches_the_server():
    env = CountingEnv()
    asked = {"horizon": 3, "interface": Interface.INTERFACE_NATIVE, "detail": Detail.DETAIL_STEPS}
    async with table(env) as t:
        await t.play(specs(1, baselines={"b": Baseline.BASELINE_GREEDY}, **asked))
    start = env.begun[0]
    assert {name: getattr(start, name) for name in asked} == asked
    assert [(seat.agent, seat.baseline) for seat in start.baselines] == [("b", Baseline.BASELINE_GREEDY)]
    assert (start.game, start.seed) == (GAME, 0)


async def test_an_agent_without_policy_or_baseline_is_named():
    async with table() as t:
        with pytest.raises(PotluckError, match="b must decide") as caught:
            await t.play(specs(1, policies={"a": specs(1)[0].policies["a"]}))
    assert caught.value.reason == Reason.WRONG_AGENT


async def test_specs_that_cannot_be_played_are_refused_before_anything_starts():
    env = CountingEnv()
    twice = [*specs(1), *specs(1)]
    rules = {agent: builtin(BuiltinPolicy.BUILTIN_POLICY_UNIFORM) for agent in ("a", "b")}
    async with table(env) as t:
        for what, options, reason in (
            (twice, None, Reason.INVALID_ARGUMENT),
            (specs(1), PlayOptions(temperature=0.0), Reason.INVALID_ARGUMENT),
            (specs(1), PlayOptions(temperatures={"a": math.nan}), Reason.INVALID_ARGUMENT),
            (specs(1), PlayOptions(max_attempts=0), Reason.INVALID_ARGUMENT),
            (specs(1), PlayOptions(max_tokens=0), Reason.INVALID_ARGUMENT),
            (specs(1, policies=rules, interface=Interface.INTERFACE_JSON), None, Reason.UNSUPPORTED),
        ):
            with pytest.raises(PotluckError) as caught:
                await t.play(what, options)
            assert caught.value.reason == reason
        assert env.starts == []
        assert len(await t.play(specs(1))) == 1


async def test_nothing_to_play_is_no_result():
    async with table() as t:
        assert await t.play([]) == []
