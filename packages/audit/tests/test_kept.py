"""What gate and blame left in a run folder comes into its report, or says that it is missing; never something else."""

import json
import re
from dataclasses import replace

import pytest

from potluck_audit.blame.files import write_blame
from potluck_audit.blame.results import (
    Agreement,
    BlameResults,
    Choice,
    CurvePoint,
    DecisionShare,
    Error,
    Gain,
    Located,
    Repair,
    Share,
    Spent,
)
from potluck_audit.credit import Credit
from potluck_audit.crediting import write_credit
from potluck_audit.errors import CorruptRecords, NewerSchema
from potluck_audit.facts import run_facts
from potluck_audit.intervals import Estimate, Intervals
from potluck_audit.kept import found_before, other_credits, swaps, told_of
from potluck_audit.metrics.metric import Metric
from potluck_audit.recorded import measure
from potluck_audit.records import load_run
from potluck_audit.report.page import render
from potluck_audit.report.replay_data import ReplayedEpisode
from potluck_audit.report.replays import picks
from potluck_audit.verdict.saved import write_verdict
from potluck_audit.verdict.verdict import CheckpointVerdict, Comparison, Decoupling, Outcome, Verdict

SHARE = {"p": 0.75, "low": 0.5, "high": 0.9, "plays": 16}
GAIN = {"success": 0.5, "success_se": 0.1, "returns": 1.25, "returns_se": None, "plays": 16}


def choice(option, target="(1,0)"):
    return {"letter": "A", "option": option, "target": target, "text": option}


def located(episode_id, **changes):
    error = {
        "agent": "agent_1", "decision": 3, "boundary": 5, "step": 9, "taken": choice("drop_held"),
        "better": choice("place_in_pot", "(3,0)"), "gain": GAIN, "redecided": None, "before": SHARE,
        "after": SHARE | {"p": 0.25, "low": 0.1, "high": 0.5}, "certainty": 0.875, "repaired_at": None,
    }  # fmt: skip
    repair = error | {"agent": "agent_0", "step": 4, "taken": choice("plate_soup"), "worse": None}
    curve = [{"boundary": b, "step": 2 * b, "share": SHARE | {"p": 1 - b / 10}} for b in range(9)]
    return {
        "set": "eval/trained", "episode_id": episode_id, "game": "overcooked/forced_coordination", "seed": 1,
        "unit": "soups", "team_return": 1.0, "threshold": 2.0, "tau": 0.5, "continuation": "own", "scan": "binary",
        "monotone": True, "error": error, "undecided": None, "why": "", "repaired": [], "repairs": [repair],
        "curve": curve, "spent": {"branches": 64, "decisions": 900, "steps": 4000}, "confidence": 0.95,
    } | changes  # fmt: skip


def share(episode_id, agent, decision, step, credit, judge="counterfactual (uniform)"):
    return {
        "set": "eval/trained", "episode_id": episode_id, "agent": agent, "decision": decision, "boundary": decision,
        "step": step, "option": "plate_soup", "target": "(3,0)", "judge": judge, "label": credit, "label_se": None,
        "share": credit, "credit": 1.0,
    }  # fmt: skip


def blame(*episodes):
    shares = [share(e, a, d, 6 * d, v) for e in episodes for a, d, v in
              (("agent_0", 0, 1.5), ("agent_0", 1, -0.5), ("agent_1", 0, -0.25))]  # fmt: skip
    agreement = {"first": "counterfactual (uniform)", "second": "greedy", "measure": "kendall_tau", "value": None,
                 "low": None, "high": None, "decisions": 3, "episodes": 1}  # fmt: skip
    undecided = located(episodes[-1], error=None, undecided="from_the_start", why="success was never likely", curve=[])
    return {"schema_version": 1, "run": "demo", "baseline": "noop", "located": [located(episodes[0]), undecided],
            "shares": shares, "agreement": [agreement], "judges": {}, "notes": []}  # fmt: skip


@pytest.fixture(scope="module")
def results(tmp_path_factory, write_run, episode, tape, at):
    def play(soups):
        one = tape()
        for _ in range(20):
            one.step(at(1, 1, "MOVE"), at(3, 1, "WAIT"))
        for number in range(soups):
            one.soup(number, "agent_0", "agent_1")
        for agent in one.agents:
            one.option(agent, "pick_onion", 10)
        return one

    episodes = [episode(play(1 + i % 3), seed=10000 + i, member=i) for i in range(5)]
    run = load_run(write_run(tmp_path_factory.mktemp("runs") / "demo", episodes))
    return measure(run, Intervals(resamples=200), lambda *_: None)


def section(html, name):
    return re.search(rf'<section id="{name}".*?</section>', html, re.DOTALL).group(0)


def metric(name, value, key="", agent=""):
    return Metric(name, "checkpoint/8", Estimate(value, value - 0.5, value + 0.5, 8), agent, key, "soups")


def test_errors_are_told_with_agent_step_and_a_better_choice(results, replay):
    first, second = results.sets[0].episodes[:2]
    found = replace(results, blame=blame(first.episode_id, second.episode_id))
    html = section(render(found, [ReplayedEpisode("trained", first, replay())]), "errors")
    assert "agent_1, decision 3 at step 9: drop held (1,0)" in html
    assert "place in pot (3,0)" in html
    assert "+50 % ± 10 % success, +1.25 (no error) soups" in html
    assert "In 1 of 2 failed episodes" in html
    assert "undecided: from the start" in html
    assert "success was never likely" in html
    assert f'data-episode="{first.episode_id}" data-step="9"' in html
    assert 'class="place error"' in html
    without = section(render(found, []), "errors")
    assert "data-step" not in without, "no button leads to an episode that is not shown"
    assert "not among the replays" in without


def test_shares_make_curves_that_end_at_the_agents_credit(results, replay):
    first, second = results.sets[0].episodes[:2]
    found = replace(results, blame=blame(first.episode_id, second.episode_id))
    page = render(found, [ReplayedEpisode("trained", first, replay())])
    html = section(page, "decisions")
    assert "Judge: counterfactual (uniform)." in html
    assert "mean of 2 episodes" in html
    assert html.index("+1.500") < html.index("\N{MINUS SIGN}0.500"), "the most credit stands first"
    assert "undefined" in html, "judges of too few decisions do not agree by a number"
    menus = json.loads(re.search(r'id="replay-data">(.*?)</script>', page, re.DOTALL).group(1))["episodes"][0]["menus"]
    assert {m["credit"] for m in menus} == {None}, "menus whose decision was not recorded have no credit"


def test_a_verdict_stands_first(results, tmp_path):
    checkpoints = [
        CheckpointVerdict(0, Verdict.UNDECIDED, "nothing is earned", [metric("return", 0.25)], 8),
        CheckpointVerdict(
            8, Verdict.FREE_RIDING, "agent_1 <idles>", [metric("return", 3.0), metric("synergy_share", 0.0)], 8
        ),
    ]
    change = Comparison(0, "synergy_share", metric("return", 2.75), metric("synergy_share", -0.5), 0.002, None)
    gate = Decoupling(Outcome.DECOUPLED, "reward rose while synergy_share fell", checkpoints, [change],
                      [metric("return", 0.5, "frozen")], unit="soups")  # fmt: skip
    write_verdict(gate, tmp_path)
    html = section(render(replace(results, decoupling=found_before(tmp_path)[0]), []), "verdict")
    assert re.search(r'<p class="verdict bad"><b>Free-riding</b> <span>For agent_1 &lt;idles&gt;', html)
    assert re.search(r'<p class="gate bad">.*decoupled', html)
    rows = [html.index(f'scope="row">{name}') for name in ("round 0", "round 8", "frozen team")]
    assert rows == sorted(rows)
    assert "0.002" in html


def test_nothing_left_is_nothing_shown(results, tmp_path):
    assert found_before(tmp_path) == (None, None)
    assert told_of(None) == []
    html = render(results, [])
    for name, command in (("verdict", "gate"), ("decisions", "blame"), ("errors", "blame")):
        assert f"<code>potluck-audit {command}" in section(html, name)


@pytest.mark.parametrize(
    ("spoil", "error"),
    [
        (lambda data: "{", CorruptRecords),
        (lambda data: json.dumps({**data, "schema_version": 99}), NewerSchema),
        (lambda data: json.dumps({**data, "located": None}), CorruptRecords),
        (lambda data: json.dumps([]), CorruptRecords),
    ],
)
def test_what_cannot_be_read_is_an_error(tmp_path, spoil, error):
    folder = tmp_path / "audit" / "blame"
    folder.mkdir(parents=True)
    (folder / "blame.json").write_text(json.dumps(blame("a", "b")))
    assert found_before(tmp_path)[1] == blame("a", "b")
    (folder / "blame.json").write_text(spoil(blame("a", "b")))
    with pytest.raises(error):
        found_before(tmp_path)


def test_episodes_of_which_something_is_told_are_replayed(results):
    worst = min(results.sets[0].episodes, key=lambda e: (e.team_return, -e.seed))
    assert told_of(blame(worst.episode_id, "other")) == [worst.episode_id, "other"]
    chosen = picks(results.sets, [worst.episode_id])
    assert chosen[0][1] is worst
    assert len({e.episode_id for _, e in chosen}) == len(chosen), "each once"


def test_seeds_far_apart_are_named_and_not_counted_up(episode, write_run, tmp_path):
    seeds = (5, 2**40, 2**63)
    training = [episode(set="train", round=r, seed=s, member=r) for r, s in enumerate(seeds)]
    facts = run_facts(load_run(write_run(tmp_path / "demo", training)))
    assert facts["Training seeds"] == ", ".join(map(str, seeds))


def test_swapped_partners_come_into_the_report(results, tmp_path):
    assert swaps(tmp_path) == []
    same = {"set": "swap", "low": None, "high": None, "episodes": 4, "unit": "soups"}
    told = [("self_play", "", "", 3.0), ("cross_play_gap", "", "", 0.25)]
    told += [("partner", "agent_0", "demo@8 with uniform", 1.5)]
    rows = [{"name": name, "agent": agent, "key": key, "value": value, **same} for name, agent, key, value in told]
    (tmp_path / "audit").mkdir()
    file = tmp_path / "audit" / "swap.json"
    file.write_text(json.dumps({"schema_version": 1, "teams": {}, "metrics": rows}))
    html = section(render(replace(results, metrics=[*results.metrics, *swaps(tmp_path)]), []), "worth")
    assert "agent_0 of demo@8 with uniform" in html
    assert "25.0 % " in html
    assert "potluck-audit swap RUN" in section(render(results, []), "worth")
    file.write_text(json.dumps({"schema_version": 1, "metrics": [{"name": "self_play"}]}))
    with pytest.raises(CorruptRecords):
        swaps(tmp_path)


def test_credit_against_other_baselines_stands_beside_the_first(results, tmp_path):
    """What `potluck-audit credit` writes; a baseline that the audit played itself is not told twice."""
    assert other_credits(results, tmp_path) == []
    team = results.find("return", "eval/trained").estimate.value
    first = Metric("credit", "eval/trained", Estimate(0.5, 0.25, 0.75, 5), "agent_0", "noop", "soups")
    played = replace(results, metrics=[*results.metrics, first], notes=[])

    def credit(baseline, empty, team=team):
        shares = {"agent_0": team - empty + 0.5, "agent_1": -0.5}
        rows = [Metric("credit", "eval/trained", Estimate(v, v - 0.5, v + 0.5, 5), a, baseline, "soups")
                for a, v in shares.items()]  # fmt: skip
        pair = Metric("interaction", "eval/trained", Estimate(1.0, 0.5, 1.5, 5), "agent_0+agent_1", baseline, "soups")
        return Credit(rows, empty, team, baseline, interactions=[pair])

    write_credit([credit("noop", 0.0), credit("uniform", 0.25)], "eval/trained", tmp_path)
    found = other_credits(played, tmp_path)
    assert {m.key for m in found} == {"uniform"}
    html = section(render(replace(played, metrics=[*played.metrics, *found]), []), "worth")
    assert f"Baseline uniform: the credits sum to {team - 0.25:.2f}" in html
    assert "v(∅) = 0.25" in html
    assert "agent 0, uniform" in html
    assert "agent 0, noop" in html

    write_credit([credit("uniform", 0.25, team + 1)], "eval/trained", tmp_path)
    assert other_credits(played, tmp_path) == []
    assert "for other episodes" in played.notes[-1]
    (tmp_path / "audit" / "credit.json").write_text('{"schema_version": 1, "baselines": [{"baseline": "x"}]}')
    with pytest.raises(CorruptRecords):
        other_credits(played, tmp_path)


def test_what_blame_writes_is_what_the_report_reads(results, replay, tmp_path):
    """The very dataclasses of blame, through its own file."""
    first = results.sets[0].episodes[0]
    probable, unlikely = Share(0.75, 0.5, 0.9, 16), Share(0.25, 0.1, 0.5, 16)
    taken, better = Choice("A", "drop_held", "(1,0)"), Choice("B", "place_in_pot", "(3,0)")
    gain = Gain(0.5, 0.1, 1.25, None, 16)
    error = Error("agent_1", 3, 5, 9, taken, better, gain, gain, probable, unlikely, 0.875)
    repair = Repair("agent_0", 2, 3, 4, better, taken, gain, None, unlikely, probable, 0.9)
    curve = tuple(CurvePoint(b, 2 * b, Share(1 - b / 10, None, None, 8)) for b in range(5))
    same = (first.set, first.episode_id, first.game, first.seed, "soups", 1.0, 2.0, 0.5, "own", "linear", False)
    found = Located(*same, error, None, "", (error,), (repair,), curve, Spent(64, 900, 4000))
    place = (first.set, first.episode_id, "agent_0", 0, 0, 0, "wait", "")
    credited = [DecisionShare(*place, "greedy", 1.0, None, 0.5, 0.5)]
    agreed = [Agreement("greedy", "prompted (m)", "cohen_kappa", 0.5, 0.25, 0.75, 9, 3)]
    write_blame(BlameResults("demo", "noop", [found], credited, agreed), [], tmp_path, "conversational")
    kept = found_before(tmp_path)[1]
    page = render(replace(results, blame=kept), [ReplayedEpisode("trained", first, replay())])
    assert "agent_1, decision 3 at step 9: drop held (1,0)" in section(page, "errors")
    assert "repaired error at step 9" in section(page, "errors")
    assert "success falls and rises" in section(page, "errors")
    assert "0.50 [0.25, 0.75]" in section(page, "decisions")
