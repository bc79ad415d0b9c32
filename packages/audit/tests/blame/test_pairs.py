"""Contrast pairs: TRL's columns, the very prompts that policies score, and only sure differences."""

import json

import pyarrow.parquet as pq
import pytest
from google.protobuf.json_format import Parse

from potluck.common.v1 import common_pb2 as common_pb
from potluck_audit.blame import LocateSettings, locate
from potluck_audit.blame.pairs import chat, pairs_of, schema, sure, text, write_pairs
from potluck_audit.blame.results import Gain
from potluck_audit.blame.trace import walk

from .conftest import SCRIPTED, SOUPS


@pytest.fixture(scope="module")
def located(at_table, faults):
    """A located error with its trace."""
    settings = LocateSettings(SOUPS, continuations=8, most=16, checkpoints=5)

    async def go(envs, policy):
        case = faults[0].case
        return await locate(case, envs, policy, settings), await walk(case, envs)

    return at_table(go)


@pytest.mark.parametrize("form", ["text", "chat"])
def test_an_error_becomes_a_pair_that_datasets_load(located, faults, form, tmp_path):
    found, trace = located
    [pair] = pairs_of(found, trace, SCRIPTED, form)
    fault = faults[0]
    assert (pair.kind, pair.agent, pair.decision) == ("error", fault.agent, fault.decision)
    assert pair.rejected_option == f"{fault.injected.option} {fault.injected.target}".strip()
    assert pair.gain > 2 * pair.gain_se
    prompt = Parse(pair.prompt_message, common_pb.Prompt())
    assert prompt.items[pair.rejected_index].option == fault.injected.option
    lines, table = write_pairs([pair], tmp_path, form)
    [row] = [json.loads(line) for line in lines.read_text().splitlines()]
    assert set(row) == set(pq.read_schema(table).names) == set(schema(form).names)
    assert pq.read_table(table).to_pylist() == [row]
    if form == "text":
        assert row["prompt"].endswith("\nanswer")
        assert row["chosen"] != row["rejected"]
        assert row["chosen"].startswith(" ")
    else:
        assert [turn["role"] for turn in row["prompt"]] == ["system", "user"]
        assert row["chosen"][0]["role"] == "assistant"


def test_no_pair_makes_empty_files_with_all_columns(tmp_path):
    lines, table = write_pairs([], tmp_path, "text")
    assert lines.read_text() == ""
    assert pq.read_table(table).num_rows == 0
    assert {"prompt", "chosen", "rejected"} <= set(pq.read_schema(table).names)


def test_prompts_are_those_that_the_policy_server_renders(located):
    """Goes red when the policy server's templates change."""
    prompts = pytest.importorskip("potluck_policy_server.lm.prompts")
    for moment in located[1].moments:
        for decision in moment.decisions:
            prompt = decision.prompt
            words = prompts.words_template()
            assert text(prompt) == "".join(words.render(prompt))
            assert words.label_lead + words.label(prompt.items[0]) == f" {prompt.items[0].word}"
            letters = prompts.letters_template(None)
            system, user = (turn["content"] for turn in chat(prompt))
            assert "".join(letters.render(prompt)) == f"{letters.before}{system}{letters.between}{user}{letters.after}"


def test_only_sure_differences_become_pairs():
    assert sure(Gain(0.5, 0.1, 1.0, 0.1, 16))
    assert not sure(Gain(0.1, 0.1, 1.0, 0.1, 16))
    assert not sure(Gain(0.5, None, 1.0, None, 1))
    assert not sure(Gain(-0.5, 0.1, 1.0, 0.1, 16))


def test_the_hub_library_loads_them(located, tmp_path):
    datasets = pytest.importorskip("datasets")
    found, trace = located
    lines, table = write_pairs(pairs_of(found, trace, SCRIPTED, "chat"), tmp_path, "chat")
    for kind, file in (("json", lines), ("parquet", table)):
        loaded = datasets.load_dataset(kind, data_files=str(file), split="train", cache_dir=str(tmp_path / "cache"))
        assert {"prompt", "chosen", "rejected"} <= set(loaded.column_names)
        assert loaded[0]["chosen"][0]["role"] == "assistant"
