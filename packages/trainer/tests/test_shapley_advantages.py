"""Per-agent credit in place of the shared return: formulas, estimators, and rounds with coalitions."""

import io
from dataclasses import replace

import numpy as np
import pytest

from potluck_trainer.algorithms import episode, registry, shapley_advantage, shapley_shares
from potluck_trainer.algorithms.base import EpisodeReturns, RoundReturns, Skip, needs_coalitions
from potluck_trainer.algorithms.credit import shapley, two_pool
from potluck_trainer.commands.train import train_with
from potluck_trainer.config import AlgorithmConfig
from potluck_trainer.errors import ConfigError, NonFiniteError, TrainerError
from potluck_trainer.progress import Reporter

CONFIG = AlgorithmConfig()


def members(credits, returns=None):
    """One episode per row of agents' credits."""
    made = []
    for k, row in enumerate(credits):
        rewards = np.zeros(12)
        rewards[5] = 1.0
        steps = {"a": (0, 4, 8), "b": (2,)}
        keys = {"a": ("x", "y", "x"), "b": ("z",)}
        total = sum(row) if returns is None else returns[k]
        made.append(EpisodeReturns(k, total, rewards, steps, keys, dict(zip("ab", row, strict=True))))
    return RoundReturns(tuple(made))


def test_published_games():
    glove = {mask: float(bool(mask & 4) and bool(mask & 3)) for mask in range(8)}
    assert shapley(3, glove).tolist() == pytest.approx([1 / 6, 1 / 6, 2 / 3], abs=1e-12)
    airport = {m: float(max([c for i, c in enumerate((8, 11, 13, 18)) if m >> i & 1], default=0)) for m in range(16)}
    assert shapley(4, airport).tolist() == pytest.approx([2, 3, 4, 9], abs=1e-12)
    value = {0: 0.4, 1: 1.0, 2: -2.0, 3: 5.0}
    assert shapley(2, value)[0] == pytest.approx((1.0 - 0.4 + 5.0 + 2.0) / 2)
    assert shapley(2, value).sum() == pytest.approx(5.0 - 0.4)
    with pytest.raises(KeyError):
        shapley(2, {0: 0.0, 3: 1.0})


def test_two_pool_weights_sum_to_one_where_labels_cancel():
    assert two_pool(np.array([1.0, 1, -1, 0]), 1.0).tolist() == [0.75, 0.75, -0.5, 0.0]
    assert two_pool(np.array([1.0, 1, -1, 0]), -1.0).sum() == pytest.approx(1.0)
    assert two_pool(np.zeros(4), 1.0).tolist() == [0.25] * 4


def test_agents_get_their_own_advantage():
    found = shapley_advantage.estimator(members([(2.0, 0.0), (0.0, 2.0), (1.0, 1.0)]), CONFIG)
    assert found.values[0]["a"].tolist() == pytest.approx([np.sqrt(1.5)] * 3)
    assert found.values[0]["b"].tolist() == pytest.approx([-np.sqrt(1.5)])
    assert found.values[2]["a"].tolist() == [0.0] * 3
    shared = episode.estimator(members([(2.0, 0.0), (0.0, 2.0), (1.0, 1.0)]), CONFIG)
    assert shared.skip is Skip.ZERO_VARIANCE, "the shared return sees no difference where credit does"


def test_where_nobody_earns_alone_it_is_the_shared_advantage():
    """Forced Coordination with partners that stand still: phi = v(N) / 2 for both."""
    returns = [5.0, 7.0, 6.0, 9.0]
    credits = [shapley(2, {0: 0.0, 1: 0.0, 2: 0.0, 3: r}).tolist() for r in returns]
    rounds = members(credits, returns)
    own, shared = shapley_advantage.estimator(rounds, CONFIG), episode.estimator(rounds, CONFIG)
    for k in range(4):
        for agent in "ab":
            assert own.values[k][agent].tolist() == pytest.approx(shared.values[k][agent].tolist(), abs=1e-12)


def test_an_agent_without_differences_gets_zeros_and_a_round_without_any_is_skipped():
    found = shapley_advantage.estimator(members([(1.0, 3.0), (2.0, 3.0)]), CONFIG)
    assert found.values[0]["b"].tolist() == [0.0]
    assert found.values[1]["a"].tolist() == [1.0] * 3
    for estimator in (shapley_advantage.estimator, shapley_shares.estimator):
        assert estimator(members([(1.0, 3.0), (1.0, 3.0)]), CONFIG).skip is Skip.ZERO_VARIANCE
        assert estimator(members([(1.0, 3.0)]), CONFIG).skip is Skip.SINGLE_MEMBER
        assert estimator(RoundReturns(()), CONFIG).skip is Skip.EMPTY


@pytest.mark.parametrize("estimator", [shapley_advantage.estimator, shapley_shares.estimator])
def test_a_missing_or_infinite_credit_is_an_error(estimator):
    whole = members([(1.0, 3.0), (2.0, 1.0)])
    missing = RoundReturns((whole.episodes[0], replace(whole.episodes[1], credits={"a": 1.0})))
    with pytest.raises(NonFiniteError, match="b has no finite credit in episode 1"):
        estimator(missing, CONFIG)
    with pytest.raises(NonFiniteError, match="a has no finite credit in episode 0"):
        estimator(members([(np.inf, 1.0), (0.0, 1.0)]), CONFIG)


def test_shares_keep_the_agents_mean_and_the_decisions_signs():
    rounds = members([(2.0, 1.0), (0.0, 2.0)])
    own = shapley_advantage.estimator(rounds, CONFIG)
    shared_out = shapley_shares.estimator(rounds, AlgorithmConfig(window=4))
    for k in range(2):
        for agent in "ab":
            assert shared_out.values[k][agent].mean() == pytest.approx(own.values[k][agent].mean(), abs=1e-12)
    # Rewards fall at step 5: within four steps of decision 4 ("y", alone in its state), after neither 0 nor 8 ("x").
    assert len(set(np.round(shared_out.values[0]["a"], 9))) == 1, "every label is 0: equal shares"
    early = AlgorithmConfig(window=8)
    values = shapley_shares.estimator(rounds, early).values[0]["a"]
    assert values[0] > 0 > values[2], "the reward came within eight steps of decision 0 and after decision 8"


def test_they_are_found_by_name_and_ask_for_coalitions():
    for name in ("shapley_advantage", "shapley_shares"):
        assert needs_coalitions(registry.load(name))
    assert not needs_coalitions(registry.load("episode"))


async def trained(config, session, rounds=2):
    return await train_with(session(config.model_copy(update={"rounds": rounds})), False, Reporter(io.StringIO()))


@pytest.mark.parametrize("baseline", ["uniform", "noop"])
async def test_rounds_play_their_coalitions_and_say_what_they_cost(world, table_config, table_session, baseline):
    algorithm = AlgorithmConfig(name="shapley_advantage", baseline=baseline)
    config = table_config.model_copy(update={"algorithm": algorithm})
    run = await trained(config, table_session)
    for line in run.metrics():
        told = line["coalitions"]
        assert told["baseline"] == baseline
        assert told["episodes"] == 3 * config.episodes_per_round
        assert told["decisions"] > 0
        assert sum(told["credits"].values()) == pytest.approx(line["return_mean"] - told["empty_mean"])
    plain = await trained(table_config.model_copy(update={"name": "plain"}), table_session)
    assert all("coalitions" not in line for line in plain.metrics())


async def test_a_lost_coalition_ends_the_round_and_counts_nothing(world, table_config, table_session):
    config = table_config.model_copy(update={"algorithm": AlgorithmConfig(name="shapley_advantage")})
    world.lose = {"train-000000-001-agent_0"}
    with pytest.raises(TrainerError, match="a coalition's episode was lost"):
        await trained(config, table_session)


def test_an_unknown_baseline_is_refused():
    with pytest.raises(ValueError, match="baseline"):
        AlgorithmConfig(name="shapley_advantage", baseline="nobody")


async def test_eight_agents_are_too_many(world, table_config, table_session):
    from potluck_trainer.coalition_play import with_credits
    from potluck_trainer.rollouts import Collected

    session = table_session(table_config)
    session.game.agents[:] = [f"agent_{n}" for n in range(8)]
    with pytest.raises(ConfigError, match="8 agents, more than 7"):
        await with_credits(session, {}, Collected({}, ()), RoundReturns(()))


async def test_credit_against_the_frozen_base_is_refused_since_it_never_leaves_zero(world, table_config, table_session):
    algorithm = AlgorithmConfig(name="shapley_advantage", baseline="frozen")
    with pytest.raises(ConfigError, match='use "uniform"'):
        await trained(table_config.model_copy(update={"algorithm": algorithm}), table_session)
    registry.chosen(AlgorithmConfig(name="episode", baseline="frozen"))
