"""Judges over a real socket, from the command and from Python."""

import json
import sys

import pytest

from potluck.policy.v1 import policy_service_pb2 as policy_pb
from potluck.policy.v1.policy_service_pb2_grpc import PolicyServiceServicer, add_PolicyServiceServicer_to_server
from potluck.rpc.errors import PotluckError, Reason
from potluck.rpc.server import serve
from potluck_audit.cli import main
from potluck_audit.foreign.errors import JudgeUnavailable, RequestRefused
from potluck_audit.foreign.judges import JUDGES, Outcome, cost, judge_logs
from potluck_audit.foreign.models import OpenAIModel, PolicyModel, Reply, Sampling
from potluck_audit.foreign.prompts import parsed
from potluck_audit.foreign.score import score

from .chat import contrary, oracle, served

KEY = "sk-made-up-key"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


class Scripted:
    """A model in this process."""

    name = "scripted"

    def __init__(self, answer):
        self.answer, self.prompts = answer, []

    async def ask(self, system, prompt):
        self.prompts.append(prompt)
        said = self.answer(prompt)
        return said if isinstance(said, Reply) else Reply(said, False, 10, 2)


def command(*args):
    with pytest.raises(SystemExit) as ended:
        main([str(a) for a in args])
    return ended.value.code


def whowhen(folder, out, base_url, *more):
    judges = ("--judge", *JUDGES)
    return command("whowhen", folder, *judges, "--model", "made-up", "--base-url", base_url, "--out", out, *more)


def judged_rows(out):
    found = json.loads(out.read_text())
    return [(g["name"], r) for g in found["groups"] for r in g["rows"] if "made-up" in r["method"]]


def test_an_oracle_scores_one_over_the_wire(folder, logs, tmp_path, capsys):
    with served(oracle(logs)) as (url, got):
        assert whowhen(folder, tmp_path / "out.json", url) == 0
    rows = judged_rows(tmp_path / "out.json")
    assert len(rows) == 6
    for _, row in rows:
        assert (row["agent"]["value"], row["step"]["value"]) == (1.0, 1.0), row
        assert row["step"]["low"] < 1.0
        assert row["unparsable"] == {"agent": 0, "step": 0}
    assert sum(row["cost"]["calls"] for _, row in rows) == len(got)
    assert sum(row["cost"]["output_tokens"] for _, row in rows) == 5 * len(got)
    said = capsys.readouterr().out
    assert "Hand-Crafted: 2 logs, 9.0 steps on average" in said
    assert "all-at-once (made-up)" in said
    assert "uniform random" in said
    assert all(g["path"] == "/v1/chat/completions" and g["key"] == f"Bearer {KEY}" for g in got)
    assert KEY not in (tmp_path / "out.json").read_text() + said


def test_a_contrary_judge_scores_nothing(folder, logs, tmp_path):
    with served(contrary(logs)) as (url, _):
        assert whowhen(folder, tmp_path / "out.json", url) == 0
    for _, row in judged_rows(tmp_path / "out.json"):
        assert row["step"]["value"] == 0.0, row
        if "all-at-once" in row["method"] or "step-by-step" in row["method"]:
            assert row["agent"]["value"] == 0.0
            assert row["step_within"]["5"]["value"] == 0.0


async def test_prompts_hold_the_log_and_never_the_label(logs):
    model = Scripted(oracle(logs))
    for judge in JUDGES.values():
        await judge_logs(judge, logs, model)
    assert all("made up" not in p and "Right answer" not in p and "mistake_" not in p for p in model.prompts)
    assert "Step 3, Web Surfer: words 3 of q4" in model.prompts[3]
    told = Scripted(oracle(logs))
    await judge_logs(JUDGES["all-at-once"], logs, told, ground_truth=True)
    assert all("Right answer: 42" in p for p in told.prompts[:4])


async def test_calls_are_those_of_each_method(logs):
    for name, calls in {"all-at-once": 1, "step-by-step": 2, "binary": 2}.items():
        [first, *_] = await judge_logs(JUDGES[name], logs[:1], Scripted(oracle(logs)))
        assert (first.calls, first.prompt_tokens, first.output_tokens) == (calls, 10 * calls, 2 * calls)


@pytest.mark.parametrize("name", list(JUDGES))
async def test_unparsable_replies_are_wrong_counted_and_never_guessed(logs, name):
    judged = await judge_logs(JUDGES[name], logs, Scripted(lambda prompt: 'I think {"agent": "Coder", "step": 1}'))
    assert {j.outcome for j in judged} == {Outcome.UNPARSABLE}
    assert cost(judged)["unparsable"] == cost(judged)["calls"] == 5
    row = score(name, logs, {j.log: j.answer for j in judged})
    assert (row.agent.value, row.step.value, row.unparsable_agents, row.unparsable_steps) == (0.0, 0.0, 5, 5)


async def test_half_an_answer_counts_for_its_half(logs):
    [judged] = await judge_logs(JUDGES["all-at-once"], logs[:1], Scripted(lambda p: '{"agent": "Coder", "step": "1?"}'))
    row = score("m", logs[:1], {judged.log: judged.answer})
    assert (row.agent.value, row.step.value, row.unparsable_agents, row.unparsable_steps) == (1.0, 0.0, 0, 1)


async def test_a_judge_that_finds_no_mistake_gives_no_answer(logs):
    judged = await judge_logs(JUDGES["step-by-step"], logs, Scripted(lambda prompt: '{"mistake": false}'))
    assert {j.outcome for j in judged} == {Outcome.NO_MISTAKE}
    assert [j.calls for j in judged] == [len(log.agent_steps) for log in logs]


async def test_one_refused_request_is_counted_and_the_others_go_on(logs):
    right = oracle(logs)

    def answer(prompt):
        if prompt.startswith("Task: q2"):
            raise RequestRefused("too long")
        return right(prompt)

    judged = await judge_logs(JUDGES["all-at-once"], logs, Scripted(answer))
    assert [j.outcome for j in judged].count(Outcome.REFUSED) == 1
    assert score("m", logs, {j.log: j.answer for j in judged}).step.value == 0.8


async def test_tokens_that_are_not_told_are_unknown(logs):
    judged = await judge_logs(
        JUDGES["all-at-once"], logs, Scripted(lambda p: Reply(oracle(logs)(p)) if "q2" in p else oracle(logs)(p))
    )
    assert (cost(judged)["prompt_tokens"], cost(judged)["output_tokens"]) == (None, None)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('{"step": 1}', {"step": 1}),
        ('<think>{"step": 9}</think>\n```json\n{"step": 1}\n```', {"step": 1}),
        ('Sure: {"step": 1}', None),
        ('{"step": 1} {"step": 2}', None),
        ('["step", 1]', None),
        ("", None),
    ],
)
def test_replies_are_one_object(text, found):
    assert parsed(text) == found


@pytest.mark.parametrize(
    ("status", "reason", "says"),
    [
        (401, "INVALID_ARGUMENT", "refuses the key"),
        (404, "INVALID_ARGUMENT", "is unknown there"),
        (500, "UNREACHABLE", "no reply"),
    ],
)
async def test_an_endpoint_that_serves_nobody_ends_the_whole(logs, status, reason, says):
    with served(None, status=status) as (url, _):
        async with OpenAIModel("made-up", url, Sampling(retries=0)) as model:
            with pytest.raises(JudgeUnavailable, match=says) as failed:
                await judge_logs(JUDGES["all-at-once"], logs, model)
    assert failed.value.reason == reason
    assert KEY not in failed.value.message


async def test_a_bad_request_is_refused_for_its_log_alone(logs):
    with served(None, status=400) as (url, _):
        async with OpenAIModel("made-up", url, Sampling(retries=0)) as model:
            judged = await judge_logs(JUDGES["all-at-once"], logs, model)
    assert {j.outcome for j in judged} == {Outcome.REFUSED}


def test_without_a_key_or_a_library_nothing_is_sent(monkeypatch, folder, capsys):
    monkeypatch.delenv("OPENAI_API_KEY")
    assert command("whowhen", folder, "--judge", "binary", "--model", "m") == 1
    assert "OPENAI_API_KEY is not set" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "openai", None)
    assert command("whowhen", folder, "--judge", "binary", "--model", "m") == 1
    assert "`openai` client library is missing" in capsys.readouterr().err


def test_a_judge_needs_one_model(folder, capsys):
    for models in ((), ("--model", "m", "--policy", "127.0.0.1:1")):
        assert command("whowhen", folder, "--judge", "binary", *models) == 1
        assert "one model to ask" in capsys.readouterr().err


def test_predictions_made_elsewhere_are_scored(folder, tmp_path, capsys):
    mine = tmp_path / "mine.json"
    mine.write_text(json.dumps({"Hand-Crafted/2.json": {"agent": "orchestrator", "step": "10"}}))
    assert command("whowhen", folder, "--predictions", mine, "--out", tmp_path / "out.json") == 0
    [row] = [r for g in json.loads((tmp_path / "out.json").read_text())["groups"][1:] for r in g["rows"][-1:]]
    assert (row["method"], row["agent"]["value"], row["step"]["value"]) == ("mine", 0.5, 0.0)
    mine.write_text(json.dumps({"nowhere.json": {"agent": "x", "step": 1}}))
    assert command("whowhen", folder, "--predictions", mine, "--out", tmp_path / "out.json") == 1
    assert "'nowhere.json'" in capsys.readouterr().err


class Writer(PolicyServiceServicer):
    """A policy server that answers as scripted; prompts about q2 are too long for it."""

    def __init__(self, answer):
        self.answer, self.requests = answer, []

    async def Generate(self, request, context):
        self.requests.append(request)
        if request.prompt.startswith("Task: q2"):
            raise PotluckError(Reason.PROMPT_TOO_LONG, "the prompt has 900 tokens", "shorten it")
        return policy_pb.GenerateResponse(
            text=self.answer(request.prompt), finish_reason="stop", prompt_tokens=7, output_tokens=3
        )


async def test_a_policy_server_judges(logs):
    writer = Writer(oracle(logs))
    server = await serve(
        lambda s: add_PolicyServiceServicer_to_server(writer, s),
        services=["potluck.policy.v1.PolicyService"],
        bind="127.0.0.1:0",
    )
    try:
        async with PolicyModel(server.address) as model:
            judged = await judge_logs(JUDGES["all-at-once"], logs, model)
    finally:
        await server.stop()
    assert [j.outcome for j in judged].count(Outcome.REFUSED) == 1
    assert score("m", logs, {j.log: j.answer for j in judged}).agent.value == 0.8
    assert all(r.policy.builtin == policy_pb.BUILTIN_POLICY_FROZEN and r.system for r in writer.requests)
    assert cost(judged)["prompt_tokens"] == 28


def test_a_command_that_broke_off_pays_for_nothing_twice(folder, logs, tmp_path, capsys):
    out = tmp_path / "out.json"
    with served(oracle(logs)) as (url, got):
        assert whowhen(folder, out, url) == 0
        first, journal = out.read_text(), out.with_suffix(".judgements.jsonl")
        whole, asked = journal.read_text(), len(got)
        assert whowhen(folder, out, url) == 0
        assert (out.read_text(), len(got)) == (first, asked)
        assert "binary: 5 of 5 judgements were there already" in capsys.readouterr().err
        # Cut off in the midst of the last line: that one alone is asked again (binary, two or three calls).
        journal.write_text(whole.rstrip()[:-9])
        assert whowhen(folder, out, url) == 0
        assert asked < len(got) <= asked + 4
        assert out.read_text() == first
        # Another setting is another answer.
        again = len(got)
        assert whowhen(folder, out, url, "--ground-truth") == 0
        assert len(got) == again + asked
    assert KEY not in journal.read_text()
