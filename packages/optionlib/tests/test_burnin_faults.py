"""Games with faulty contracts: each is a typed error or a counted case, and no record is bent to fit."""

import dataclasses
import math

import pyarrow as pa
import pytest

from potluck_optionlib.burnin import MAX_INSTANCES, BurninPlan, load, play_folder, run, save
from potluck_optionlib.burnin.errors import EmptyBurninError, FeatureError, GameFaultError, TooManyInstancesError
from potluck_optionlib.game import Instance

PLAN = BurninPlan(solo_episodes=6, team_episodes=4, seed=1, horizon=20)


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (lambda features: {**features, "held": math.nan}, r"'held' is not a string \(NaN\)"),
        (lambda features: {**features, "held": None}, r"'held' is not a string \(null\)"),
        (lambda features: {**features, "held": 3}, r"'held' is not a string \(3\)"),
        (lambda features: {**features, "held": ["ball"]}, r"'held' is not a string"),
        (lambda features: {**features, "held": object}, r"'held' is not a string"),
        (lambda features: {"hour": features["hour"]}, "'held' is missing"),
    ],
)
def test_a_spoilt_feature_is_named_with_option_and_rows(toy, tmp_path, spoil, complaint) -> None:
    class Spoilt(toy.ToyGame):
        def features(self, agent, instance):
            features = super().features(agent, instance)
            return spoil(features) if instance.option == "ring" and self.steps == 7 else features

    whole = run(toy.ToyGame(), PLAN)
    rings = [row for row in whole.rows() if row.option == "ring"]
    bad = sum(row.step == 7 for row in rings)
    assert bad > 0
    expected = f"'ring'.*{complaint}.* in {bad} of {len(rings)} rows.*mend the game"
    with pytest.raises(FeatureError, match=expected):
        run(Spoilt(), PLAN)
    with pytest.raises(FeatureError, match="'ring'"):
        play_folder(Spoilt, PLAN, tmp_path, shard_episodes=20)
    assert len(list(tmp_path.glob("*.parquet"))) == 1
    with pytest.raises(FeatureError, match="'ring'"):
        play_folder(Spoilt, PLAN, tmp_path)


class Trouble(Exception):
    """Not one of ours."""


def test_an_execution_that_raises_is_recorded_and_ends_its_episode(toy) -> None:
    class Raising(toy.ToyGame):
        def _act(self, agent, instance, somebody):
            if instance.option == "toss" and self.held[agent]:
                raise Trouble("slipped")
            return super()._act(agent, instance, somebody)

    result = run(Raising(), PLAN)
    solo = [row for row in result.rows() if row.solo and row.outcome == "raised:Trouble"]
    assert solo
    assert {row.option for row in solo} == {"toss"}
    for raised in solo:
        assert raised.step == max(row.step for row in result.rows() if row.episode == raised.episode)
        assert raised.features == {}
    assert result.raised["toss", "Trouble"] >= len(solo)
    assert {row.episode for row in result.rows()} == set(range(10))
    assert run(toy.ToyGame(), PLAN).raised == {}


def test_in_a_team_all_that_may_have_raised_are_recorded(toy) -> None:
    class Raising(toy.ToyGame):
        def step(self):
            raise Trouble

    rows = list(run(Raising(), BurninPlan(0, 2, 1, 20)).rows())
    assert [(row.episode, row.agent, row.outcome) for row in rows] == [
        (episode, agent, "raised:Trouble") for episode in (0, 1) for agent in (0, 1)
    ]


def test_an_option_that_cannot_begin_is_recorded_alone(toy) -> None:
    class Raising(toy.ToyGame):
        def begin(self, agent, instance):
            if instance.option == "ring":
                raise Trouble
            super().begin(agent, instance)

    result = run(Raising(), PLAN)
    assert {option for option, _ in result.raised} == {"ring"}
    assert sum(result.raised.values()) == sum(row.option == "ring" for row in result.rows()) > 0


def test_a_game_may_say_itself_that_an_option_raised_and_go_on(toy) -> None:
    class Telling(toy.ToyGame):
        def step(self):
            step = super().step()
            ended = [
                dataclasses.replace(end, outcome="raised:KeyError") if end.instance.option == "ring" else end
                for end in step.ended
            ]
            return dataclasses.replace(step, ended=tuple(ended))

    result, plain = run(Telling(), PLAN), run(toy.ToyGame(), PLAN)
    assert result.records == plain.records
    assert result.raised == {("ring", "KeyError"): sum(row.option == "ring" for row in plain.rows())}


@pytest.mark.parametrize("count", [MAX_INSTANCES, MAX_INSTANCES + 1, 5000])
def test_thousands_of_targets_are_refused_with_option_and_count(toy, count) -> None:
    game, plan = toy.ToyGame(balls=count), BurninPlan(1, 0, 0, 2)
    if count == MAX_INSTANCES:
        assert run(game, plan).records == 2
        return
    with pytest.raises(TooManyInstancesError, match=f"'grab' has {count} instances .* at most {MAX_INSTANCES}"):
        run(game, plan)


def test_candidates_that_raise_or_are_none_are_the_games_fault(toy) -> None:
    class Raising(toy.ToyGame):
        def candidates(self, agent):
            raise Trouble("no map")

    class Empty(toy.ToyGame):
        def candidates(self, agent):
            return []

    with pytest.raises(GameFaultError, match="raised Trouble: no map"):
        run(Raising(), PLAN)
    with pytest.raises(GameFaultError, match="`wait` must always be there"):
        run(Empty(), PLAN)


@pytest.mark.parametrize("where", ["begin", "step"])
def test_a_game_cannot_end_the_program(toy, where) -> None:
    def leave(self, *args):
        raise SystemExit(0)

    rows = list(run(type("Leaving", (toy.ToyGame,), {where: leave})(), BurninPlan(0, 3, 1, 20)).rows())
    assert {row.outcome for row in rows} == {"raised:SystemExit"}
    assert {row.episode for row in rows} == {0, 1, 2}


@pytest.mark.parametrize("where", ["reset", "idle", "candidates", "burnin_rows"])
@pytest.mark.parametrize("kind", [SystemExit, Trouble])
def test_what_a_game_raises_outside_of_options_is_its_fault(toy, where, kind) -> None:
    def fail(self, *args):
        raise kind("no map")

    game = toy.ToyGame()
    game.__class__ = type("Failing", (toy.ToyGame,), {where: fail})
    with pytest.raises(GameFaultError, match=rf"toy/hands: .* raised {kind.__name__}: no map.*mend the"):
        run(game, PLAN)


@pytest.mark.parametrize("where", ["reset", "idle", "candidates", "burnin_rows", "begin", "step"])
def test_ctrl_c_ends_a_burnin_everywhere(toy, where) -> None:
    def stop(self, *args):
        raise KeyboardInterrupt

    game = toy.ToyGame()
    game.__class__ = type("Stopped", (toy.ToyGame,), {where: stop})
    with pytest.raises(KeyboardInterrupt):
        run(game, PLAN)


class Endless:
    """Mixed in: nothing ever ends."""

    def candidates(self, agent):
        return [Instance("wait")]

    def step(self):
        step = super().step()
        return dataclasses.replace(step, ended=())

    def idle(self):
        return () if self.steps else super().idle()


def test_a_burnin_without_records_is_refused_where_it_is_read(toy, tmp_path) -> None:
    class Silent(Endless, toy.ToyGame):
        def step(self):
            self.running = [Instance("wait")] * 2
            return super().step()

    result = run(Silent(), PLAN)
    assert result.records == 0
    save(result, tmp_path / "b.parquet")
    for path in (tmp_path / "b.parquet",):
        with pytest.raises(EmptyBurninError, match=r"10 episodes of 20 steps gave no record.*longer"):
            load(path)
    with pytest.raises(EmptyBurninError, match="no record"):
        play_folder(Silent, PLAN, tmp_path / "folder")


@pytest.mark.parametrize("text", ["[1]", "3", "null", '"held"'])
def test_features_that_are_no_names_and_values_are_refused_though_sealed(toy, tmp_path, text) -> None:
    whole = run(toy.ToyGame(), PLAN)
    values = pa.array([text] * whole.records).dictionary_encode().cast(whole.table.schema.field("features").type)
    odd = dataclasses.replace(whole, table=whole.table.set_column(6, "features", values))
    save(odd, tmp_path / "odd.parquet")
    with pytest.raises(FeatureError, match="'grab': features are no set of names and values"):
        load(tmp_path / "odd.parquet")
