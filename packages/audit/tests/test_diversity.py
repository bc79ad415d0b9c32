"""Policy diversity on common prompts: a fake that answers by table, and a real table server."""

import asyncio
import hashlib
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from potluck.common.v1 import common_pb2 as common_pb
from potluck_audit.errors import CorruptRecords, Diverged, Unsupported
from potluck_audit.intervals import Intervals
from potluck_audit.metrics.diversity import common_prompts, diversity, policies_of, swap_policies
from potluck_audit.metrics.options import jensen_shannon
from potluck_audit.metrics.prompts import RecordedPrompt, recorded_prompts

QUICK = Intervals(resamples=200)
FIRST, SECOND = "a" * 64, "b" * 64
"""The adapters of the two agents in the hand-made records."""
ANSWERS = {FIRST: [0.9, 0.1], SECOND: [0.2, 0.8], "frozen": [0.5, 0.5]}


def values(metrics, name):
    return {(m.agent, m.key): m.estimate.value for m in metrics if m.name == name}


def asked(agent, *options, answer=(), episode="e10000", decision=0):
    items = [common_pb.Item(letter=x, option=o, text=o, word=o) for x, o in zip("ABCDEF", options, strict=False)]
    prompt = common_pb.Prompt(rules="cook", observation=f"{episode} {decision}", items=items)
    return RecordedPrompt(episode, agent, decision, prompt, tuple(answer or (1.0,) * (len(items) == 1)))


def both(episodes=("e10000", "e10001")):
    """Each agent was asked once an episode."""
    return [
        asked(agent, "work", "wait", answer=ANSWERS[policy], episode=episode)
        for episode in episodes
        for agent, policy in (("agent_0", FIRST), ("agent_1", SECOND))
    ]


class Answering:
    """A policy server in a few lines."""

    def __init__(self, answers=ANSWERS):
        self.answers, self.asked = answers, []

    async def __call__(self, name, prompts):
        self.asked.append((name, len(prompts)))
        return [self.answers[name] for _ in prompts]


def measured(group, prompts, choose=None, **more):
    return asyncio.run(diversity(group, prompts, choose or Answering(), QUICK, **more))


def test_diversity_by_hand(team):
    found = measured(team([1.0, 2.0]), both())
    apart = float(jensen_shannon([ANSWERS[FIRST], ANSWERS[SECOND]]))
    assert values(found, "policy_diversity") == pytest.approx(
        dict.fromkeys([("", ""), ("agent_0", ""), ("agent_1", "")], apart)
    )
    away = values(found, "policy_distance")
    assert away["agent_0", "agent_1"] == pytest.approx(apart)
    assert away["agent_0", "frozen"] == pytest.approx(float(jensen_shannon([ANSWERS[FIRST], [0.5, 0.5]])))
    assert values(found, "menus_common") == {("agent_0", ""): 1.0, ("agent_1", ""): 1.0}
    assert {m.estimate.episodes for m in found} == {2}


def test_one_policy_in_both_seats_has_no_diversity(team):
    """The negative control: histograms of two such agents may differ, their policies do not."""
    same = {"agent_0": FIRST, "agent_1": FIRST}
    prompts = [asked(a, "work", "wait", answer=ANSWERS[FIRST], episode=e) for e in ("e10000", "e10001") for a in same]
    choose = Answering()
    found = measured(team([1.0, 2.0], policies=same), prompts, choose)
    assert values(found, "policy_diversity")["", ""] == 0.0
    assert choose.asked == [(FIRST, 4), ("frozen", 4)], "each policy is asked once"


def test_prompts_are_the_same_for_everybody(team):
    seen = {}

    async def choose(name, prompts):
        seen[name] = [p.prompt.SerializeToString(deterministic=True) for p in prompts]
        return [ANSWERS[name] for _ in prompts]

    measured(team([1.0, 2.0]), both(), choose, reference="")
    assert list(seen) == [FIRST, SECOND]
    assert seen[FIRST] == seen[SECOND]


def test_only_menus_that_everybody_can_meet_are_common():
    """agent_0 alone is offered the pot: its menus with the pot are not agent_1's."""
    prompts = [
        asked("agent_0", "work", "wait"), asked("agent_0", "pot", "wait", decision=1), asked("agent_1", "work", "wait"),
        asked("agent_1", "wait", decision=1),
    ]  # fmt: skip
    common = common_prompts(prompts, ("agent_0", "agent_1"), ("e10000",))
    assert [(p.agent, p.decision) for p in common.prompts] == [("agent_0", 0), ("agent_1", 0)], "one item is no choice"
    assert [[float(n[0]) for n in common.shares[a]] for a in ("agent_0", "agent_1")] == [[1, 2], [1, 1]]


def test_seats_with_different_work_are_refused():
    prompts = [asked("agent_0", "fetch", "wait"), asked("agent_1", "cook", "wait")]
    with pytest.raises(Unsupported, match=r"cannot be exchanged.*agent_0: fetch; agent_1: cook"):
        common_prompts(prompts, ("agent_0", "agent_1"), ("e10000",))


def test_an_agent_that_was_never_asked_is_refused():
    with pytest.raises(Unsupported, match="cannot be exchanged"):
        common_prompts([asked("agent_0", "work", "wait")], ("agent_0", "agent_1"), ("e10000",))


def test_another_server_than_the_one_that_played_is_refused(team):
    other = Answering(ANSWERS | {SECOND: [0.3, 0.7]})
    with pytest.raises(Diverged, match="decision 0 of agent_1"):
        measured(team([1.0, 2.0]), both(), other)


@pytest.mark.parametrize("policies", [{"agent_0": FIRST, "agent_1": "noop"}, {"agent_0": FIRST, "agent_1": "greedy"}])
def test_seats_of_the_env_server_are_refused(team, policies):
    with pytest.raises(Unsupported, match="agent_1 was played by the env server's"):
        policies_of(team([1.0], policies=policies))


def test_builtins_of_the_policy_server_can_be_asked(team):
    assert policies_of(team([1.0], policies={"agent_0": "frozen", "agent_1": FIRST}))["agent_0"] == "frozen"


def test_lone_agents_are_refused(team):
    with pytest.raises(Unsupported, match="fewer than two"):
        policies_of(team([1.0], policies={"agent_0": FIRST}))


# ---- recorded prompts


def stored(root, prompts, *, texts=True, part="eval-trained"):
    """A run folder with decisions and texts as a trainer writes them."""

    def sha(text):
        return hashlib.sha256(text.encode()).hexdigest()

    rows, known = [], {}
    for p in prompts:
        items = p.prompt.items
        known |= {sha(p.prompt.rules): p.prompt.rules, sha(p.prompt.observation): p.prompt.observation}
        rows.append({
            "set": "eval/trained", "episode_id": p.episode_id, "agent": p.agent, "decision": p.decision,
            "prompt_hash": p.prompt_hash, "probabilities": list(p.probabilities),
            "rules_hash": sha(p.prompt.rules), "observation_hash": sha(p.prompt.observation),
            "memory": list(p.prompt.memory), "state_key": p.prompt.state_key,
            "words": [i.word for i in items], "options": [i.option for i in items],
            "targets": [i.target for i in items], "item_texts": [i.text for i in items],
            "item_steps": [i.steps for i in items], "action_keys": [i.action_key for i in items],
            "item_greedy": [i.greedy for i in items],
        })  # fmt: skip
    for folder in ("decisions", "texts"):
        (root / folder).mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), root / "decisions" / f"{part}.parquet")
    if texts:
        kept = [{"hash": h, "kind": "", "text": t} for h, t in known.items()]
        pq.write_table(pa.Table.from_pylist(kept), root / "texts" / f"{part}.parquet")
    return root


def test_recorded_prompts_come_back_byte_for_byte(tmp_path):
    prompts = both()
    assert recorded_prompts(stored(tmp_path, prompts), "eval/trained") == prompts
    assert recorded_prompts(tmp_path, "eval/frozen") == []
    some = recorded_prompts(tmp_path, "eval/trained", most=3)
    assert len(some) == 3
    assert some == recorded_prompts(tmp_path, "eval/trained", most=3)


def test_prompts_without_texts_are_refused(tmp_path):
    with pytest.raises(Unsupported, match="texts of the prompts"):
        recorded_prompts(stored(tmp_path, both(), texts=False), "eval/trained")


def test_records_without_prompts_and_broken_ones_are_named(tmp_path):
    stored(tmp_path, both())
    part = tmp_path / "decisions" / "eval-trained.parquet"
    pq.write_table(pq.read_table(part).drop_columns(["rules_hash"]), part)
    with pytest.raises(Unsupported, match="lacks rules_hash"):
        recorded_prompts(tmp_path, "eval/trained")
    part.write_bytes(b"no parquet")
    with pytest.raises(CorruptRecords):
        recorded_prompts(tmp_path, "eval/trained")


# ---- a real server

ROWS, COLUMNS = ["s0", "s1"], ["work", "wait"]


def table(logits):
    """Bytes of a table adapter."""
    from safetensors.numpy import save

    return save({"logits": np.array(logits, float)}, {"rows": json.dumps(ROWS), "columns": json.dumps(COLUMNS)})


def softmax(row):
    return tuple(np.exp(row) / np.exp(row).sum())


def test_tables_swapped_at_a_real_server(team, tmp_path):
    """Two tables that agree in one state and not in the other; adapters are published from the run folder."""
    serving = pytest.importorskip("potluck_policy_server.serving")
    from potluck.play.policy_client import PolicyClient, adapter_digest
    from potluck_policy_server.backbones import registry
    from potluck_policy_server.backbones.base import BackboneOptions

    logits = {"agent_0": [[2.0, 0.0], [1.0, 0.0]], "agent_1": [[2.0, 0.0], [0.0, 3.0]]}
    backbone, config = registry.load(BackboneOptions("tabular")), '{"kind":"table"}'
    policies = {}
    for agent, own in logits.items():
        weights = table(own)  # once: safetensors orders its metadata anew each time
        sha = hashlib.sha256(weights).hexdigest()
        policies[agent] = adapter_digest(backbone.description.base_digest, config, sha)
        folder = tmp_path / "adapters" / policies[agent]
        folder.mkdir(parents=True)
        (folder / "adapter_config.json").write_text(config)
        (folder / "adapter_model.safetensors").write_bytes(weights)
    prompts = []
    for episode, state in (("e10000", 0), ("e10001", 1)):
        for agent, own in logits.items():
            one = asked(agent, "work", "wait", answer=softmax(own[state]), episode=episode)
            one.prompt.state_key = ROWS[state]
            for item in one.prompt.items:
                item.action_key = item.option
            prompts.append(one)
    stored(tmp_path, prompts)
    group = team([1.0, 2.0], policies=policies, label_scheme="")

    async def play():
        async with serving.started(backbone) as (server, _), PolicyClient(server.address) as policy:
            return await swap_policies(tmp_path, group, policy, QUICK)

    found = asyncio.run(play())
    apart = float(jensen_shannon([softmax([1.0, 0.0]), softmax([0.0, 3.0])]))
    assert values(found, "policy_diversity")["", ""] == pytest.approx(apart / 2, abs=1e-12)
    uniform = float(jensen_shannon([softmax([2.0, 0.0]), [0.5, 0.5]]))
    second = float(jensen_shannon([softmax([1.0, 0.0]), [0.5, 0.5]]))
    assert values(found, "policy_distance")["agent_0", "frozen"] == pytest.approx((uniform + second) / 2, abs=1e-12)
