"""Episodes without a server: boundaries, records, memory, interfaces, baselines."""

import random
from collections import Counter

import pytest

from potluck.env.v1 import env_service_pb2 as pb
from potluck.rpc.errors import from_status
from potluck_envs.local import Table

RELAY = "relay/two_rooms"
NOOP, UNIFORM, GREEDY = pb.BASELINE_NOOP, pb.BASELINE_UNIFORM, pb.BASELINE_GREEDY


@pytest.fixture
def table():
    return Table()


def begin(table, episode="e", game=RELAY, seed=1, baselines=None, **fields):
    seats = [pb.SeatBaseline(agent=agent, baseline=baseline) for agent, baseline in (baselines or {}).items()]
    return table.send(pb.Command(episode_id=episode, start=pb.Start(game=game, seed=seed, baselines=seats, **fields)))


def answer(table, update, pick):
    choices = [pb.Choice(agent=p.agent, letter=pick(p)) for p in update.menus.decisions]
    choose = pb.Choose(boundary=update.menus.boundary, choices=choices)
    return table.send(pb.Command(episode_id=update.episode_id, choose=choose))


def by_option(*wanted):
    """Picks the first of these options that is on offer."""

    def pick(point):
        offered = {item.option: item.letter for item in reversed(point.prompt.items)}
        return next(offered[option] for option in (*wanted, "wait") if option in offered)

    return pick


def at_random(seed):
    rng = random.Random(seed)
    return lambda point: rng.choice(point.prompt.items).letter


def play(table, update, pick):
    """-> every menus message and the end."""
    seen = []
    while update.HasField("menus"):
        seen.append(update.menus)
        update = answer(table, update, pick)
    assert update.HasField("finished"), update
    return seen, update.finished


def collect(seen, finished, what):
    found = [record for menus in seen for record in getattr(menus.progress, what)]
    return found + list(getattr(finished.progress, what))


def test_a_boundary_asks_idle_agents_only_and_options_are_never_interrupted(table):
    seen, finished = play(table, begin(table), by_option("put", "fetch", "hand_in", "take"))
    assert seen[0].boundary == 0
    assert [menus.boundary for menus in seen] == list(range(len(seen)))
    assert any(len(menus.decisions) == 1 for menus in seen)
    options = collect(seen, finished, "options")
    for agent in ("agent_0", "agent_1"):
        mine = [option for option in options if option.agent == agent]
        decided = [menus.step for menus in seen for point in menus.decisions if point.agent == agent]
        assert [option.start_step for option in mine] == decided
        assert [option.decision for option in mine] == list(range(len(mine)))


def test_a_team_mates_decision_leaves_an_option_under_way_alone(table):
    """bsk_rl#248: agent_0 carries for three steps and more while agent_1 decides to wait every two."""
    seen, finished = play(table, begin(table, horizon=20), by_option("put", "fetch"))
    options = collect(seen, finished, "options")
    long = [o for o in options if o.agent == "agent_0" and o.duration > 2]
    asked = {menus.step for menus in seen if any(p.agent == "agent_1" for p in menus.decisions)}
    assert long
    assert any(o.start_step < step < o.start_step + o.duration for o in long for step in asked)
    by_step = {step.step: step.reward for step in collect(seen, finished, "steps")}
    for option in options:
        steps = range(option.start_step, option.start_step + option.duration)
        assert option.reward == sum(by_step.get(step, 0.0) for step in steps)


def test_the_last_step_counts_and_the_end_is_a_truncation(table):
    """verifiers#465 and PettingZoo#881."""
    team = {"agent_0": GREEDY, "agent_1": GREEDY}
    whole = begin(table, "whole", seed=3, baselines=team, detail=pb.DETAIL_STEPS).finished
    paid = next(step.step for step in whole.progress.steps if step.reward)
    short = begin(table, "short", seed=3, baselines=team, horizon=paid).finished
    exact = begin(table, "exact", seed=3, baselines=team, horizon=paid + 1).finished
    assert (short.team_return, exact.team_return) == (0.0, 1.0)
    assert exact.steps == paid + 1
    assert exact.truncated
    assert exact.progress.options[-1].outcome == "truncated" or exact.progress.options[-1].outcome == "success"
    assert "truncated" in {option.outcome for option in short.progress.options}


def test_reward_follows_the_deliverer(table):
    """overcooked_ai#131: whoever hands in gets the reward, in every episode."""
    for seed in range(50):
        done = begin(table, f"e{seed}", seed=seed, baselines={"agent_0": GREEDY, "agent_1": GREEDY}).finished
        assert done.agent_returns[0] == 0.0
        assert done.agent_returns[1] == done.team_return > 0


def test_with_every_action_masked_the_menu_still_holds_wait(table):
    """entity-neural-network/incubator#186: agent_1 has nothing to take and nothing to hand in."""
    update = begin(table)
    [lonely] = [point for point in update.menus.decisions if point.agent == "agent_1"]
    assert [item.option for item in lonely.prompt.items] == ["wait"]
    assert lonely.prompt.items[0].letter == "A"


def test_memory_holds_the_last_five_options_with_their_outcomes(table):
    seen, _ = play(table, begin(table), by_option("put", "fetch", "hand_in", "take"))
    memories = [list(p.prompt.memory) for menus in seen for p in menus.decisions if p.agent == "agent_0"]
    assert memories[:2] == [[], ["fetch2 done"]]
    assert memories[-1][:4] == memories[-2][1:]
    assert all(len(memory) <= 5 for memory in memories)


def test_menu_order_is_drawn_per_seed_agent_and_decision(table):
    first, again, other = begin(table, "a", seed=1), begin(table, "b", seed=1), begin(table, "c", seed=2)
    assert first.menus.decisions == again.menus.decisions
    orders = Counter()
    for seed in range(60):
        update = begin(table, f"e{seed}", seed=seed)
        orders[tuple(item.word for item in update.menus.decisions[0].prompt.items)] += 1
    assert len(orders) == 6, "three items come in every order"
    assert other.menus.decisions[0].prompt.rules == first.menus.decisions[0].prompt.rules


def test_detail_decides_which_steps_are_recorded(table):
    team = {"agent_0": GREEDY, "agent_1": GREEDY}
    lean = begin(table, "lean", baselines=team).finished
    full = begin(table, "full", baselines=team, detail=pb.DETAIL_STEPS).finished
    assert [step.step for step in full.progress.steps] == list(range(60))
    assert all(len(step.agents) == 2 for step in full.progress.steps)
    assert [s.step for s in lean.progress.steps] == [s.step for s in full.progress.steps if s.events or s.reward]
    assert not any(step.agents for step in lean.progress.steps)
    assert lean.recording.digest == full.recording.digest
    deliver = next(event for step in full.progress.steps for event in step.events if event.kind == "deliver")
    assert (deliver.agent, deliver.from_agent, deliver.reward) == ("agent_1", "agent_0", 1.0)


def test_a_noop_seat_stands_still_and_is_never_asked(table):
    seen, finished = play(table, begin(table, baselines={"agent_1": NOOP}, detail=pb.DETAIL_STEPS), at_random(1))
    assert {p.agent for menus in seen for p in menus.decisions} == {"agent_0"}
    steps = collect(seen, finished, "steps")
    assert {step.agents[1].activity for step in steps} == {pb.ACTIVITY_NOOP}
    assert {option.agent for option in collect(seen, finished, "options")} == {"agent_0"}


def test_a_uniform_seat_plays_like_a_policy_that_makes_its_choices(table):
    """The same game whether a seat's choices come from the server or over the stream."""
    baseline = begin(table, "whole", baselines={"agent_0": GREEDY, "agent_1": GREEDY}, detail=pb.DETAIL_STEPS).finished

    def greedy(point):
        return max(point.prompt.items, key=lambda item: item.greedy).letter

    seen, streamed = play(table, begin(table, "streamed", detail=pb.DETAIL_STEPS), greedy)
    assert collect(seen, streamed, "steps") == list(baseline.progress.steps)


def test_uniform_is_uniform(table):
    chosen = Counter()
    for seed in range(200):
        done = begin(table, f"e{seed}", seed=seed, horizon=1, baselines={"agent_0": UNIFORM, "agent_1": NOOP}).finished
        chosen[done.progress.options[0].option, done.progress.options[0].target] += 1
    assert len(chosen) == 3
    assert all(45 <= count <= 90 for count in chosen.values())


def test_stop_ends_an_episode_with_what_was_played(table):
    update = answer(table, begin(table), by_option("fetch"))
    finished = table.send(pb.Command(episode_id="e", stop=pb.Stop())).finished
    assert finished.steps == update.menus.step
    assert finished.truncated
    assert table.replay(finished.recording).digest == finished.recording.digest


def test_native_offers_the_primitives_at_every_step(table):
    update = begin(table, interface=pb.INTERFACE_NATIVE, horizon=5)
    words = [item.word for item in update.menus.decisions[0].prompt.items]
    assert words == ["north", "south", "east", "west", "stay", "interact"]
    seen, finished = play(table, update, at_random(0))
    assert [menus.step for menus in seen] == [0, 1, 2, 3, 4]
    assert table.replay(finished.recording).digest == finished.recording.digest


def say(table, update, *texts):
    choices = [pb.Choice(agent=p.agent, text=text) for p, text in zip(update.menus.decisions, texts, strict=True)]
    choose = pb.Choose(boundary=update.menus.boundary, choices=choices)
    return table.send(pb.Command(episode_id=update.episode_id, choose=choose))


JSON_ANSWERS = [
    ('{"option": "fetch", "target": "(0,1)"}', "fetch", "success"),
    ('Sure! ```json\n{"option": "fetch", "target": "(0, 1)"}\n```', "fetch", "success"),
    ('{"option": "fetch", "target": [0, 1], "why": "near"}', "fetch", "success"),
    ("fetch (0,1)", "wait", "explicit:unparsable"),
    ('{"option": 3}', "wait", "explicit:unparsable"),
    ("{" * 5000, "wait", "explicit:unparsable"),
    ("", "wait", "explicit:unparsable"),
    ('{"option": "fetch", "target": "(9,9)"}', "wait", "explicit:unknown_option"),
    ('{"option": "put", "target": "(3,0)"}', "wait", "explicit:HandsEmpty"),
    ('{"option": "wait"}', "wait", "success"),
]


@pytest.mark.parametrize(("text", "option", "outcome"), JSON_ANSWERS)
def test_json_answers_are_read_or_become_a_typed_outcome(table, text, option, outcome):
    update = begin(table, interface=pb.INTERFACE_JSON, baselines={"agent_1": NOOP}, seed=2)
    [point] = update.menus.decisions
    assert not point.prompt.items
    assert "fetch: (0,0) (0,1)" in point.prompt.rules
    update = say(table, update, text)
    [record] = update.menus.progress.options
    assert (record.option, record.outcome) == (option, outcome)
    memory = update.menus.decisions[0].prompt.memory[0]
    assert memory.endswith({"success": "done"}.get(outcome, outcome.removeprefix("explicit:").lower()))
    done = table.send(pb.Command(episode_id="e", stop=pb.Stop())).finished
    assert table.replay(done.recording).digest == done.recording.digest


def test_letters_and_texts_are_not_mixed_up(table):
    update = begin(table, "letters")
    refused = say(table, update, "A", "A")
    assert "choose.choices.text" in from_status(refused.refused.status).message
    update = begin(table, "json", interface=pb.INTERFACE_JSON)
    refused = answer(table, update, lambda point: "A")
    assert "choose.choices.letter" in from_status(refused.refused.status).message
