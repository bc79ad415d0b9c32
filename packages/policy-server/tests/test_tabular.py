"""Tables and rules against their formulas."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import save

from potluck.common.v1 import common_pb2
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions, Query
from potluck_policy_server.errors import CorruptUpload, InvalidRequest, UnknownBackbone, Unsupported

ROWS, COLUMNS = ["s0", "s1"], ["pick", "drop/shared", "wait"]


def table_bytes(logits, rows=ROWS, columns=COLUMNS):
    return save(
        {"logits": torch.tensor(logits, dtype=torch.float64)},
        {"rows": json.dumps(rows), "columns": json.dumps(columns)},
    )


@pytest.fixture(scope="module")
def tabular():
    return registry.load(BackboneOptions("tabular"))


def menu(*actions, state="s0"):
    items = [common_pb2.Item(letter=chr(65 + i), word=f"w{i}", action_key=a, greedy=-i) for i, a in enumerate(actions)]
    return common_pb2.Prompt(items=items, state_key=state)


def read(kit, tabular, data, config='{"kind":"table"}'):
    return tabular.read_adapter(kit.upload(tabular, kit.files(config, data)))


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_table_is_a_softmax_over_the_offered_items(kit, tabular, temperature):
    logits = np.array([[1.0, -0.5, 0.25], [0.0, 2.0, -1.0]])
    adapter = read(kit, tabular, table_bytes(logits))
    prompt = menu("pick", "pick", "drop/shared", "wait", "never seen", state="s1")
    scores = tabular.score([tabular.prepare(Query(prompt, adapter, temperature, 0))])[0]
    z = np.array([0.0, 0.0, 2.0, -1.0, 0.0]) / temperature
    np.testing.assert_allclose(np.exp(scores.logprobs), np.exp(z) / np.exp(z).sum(), rtol=1e-14)
    assert np.isnan(scores.label_mass)


@pytest.mark.parametrize("which", ["frozen", "unseen state"])
def test_what_the_table_does_not_know_is_uniform(kit, tabular, which):
    adapter = None if which == "frozen" else read(kit, tabular, table_bytes([[9.0, 0, 0], [0, 9, 0]]))
    prompt = menu("pick", "drop/shared", "wait", state="s7")
    scores = tabular.score([tabular.prepare(Query(prompt, adapter, 1.0, 0))])[0]
    np.testing.assert_allclose(np.exp(scores.logprobs), 1 / 3)


@pytest.mark.parametrize(
    ("data", "config", "error"),
    [
        (table_bytes([[1.0, 2, 3]]), '{"kind":"table"}', InvalidRequest),
        (table_bytes([[1.0, 2, np.nan], [0, 0, 0]]), '{"kind":"table"}', InvalidRequest),
        (table_bytes(np.zeros((2, 3)), rows=["s0", "s0"]), '{"kind":"table"}', InvalidRequest),
        (table_bytes(np.zeros((2, 3))), '{"kind":"lora"}', InvalidRequest),
        (save({"other": torch.zeros(2, 3)}), '{"kind":"table"}', InvalidRequest),
        (save({"logits": torch.zeros(2, 3, dtype=torch.float64)}), '{"kind":"table"}', CorruptUpload),
        (b"not safetensors at all", '{"kind":"table"}', CorruptUpload),
        (table_bytes(np.zeros((2, 3)))[:-8], '{"kind":"table"}', CorruptUpload),
    ],
)
def test_bad_tables_are_refused(kit, tabular, data, config, error):
    with pytest.raises(error):
        read(kit, tabular, data, config)


def test_uniform_and_scripted(kit):
    prompt = menu("a", "b", "c")
    prompt.items[1].greedy = prompt.items[2].greedy = 5
    one = registry.load(BackboneOptions("uniform"))
    np.testing.assert_allclose(np.exp(one.score([one.prepare(kit.query(prompt))])[0].logprobs), 1 / 3)
    two = registry.load(BackboneOptions("scripted"))
    assert np.exp(two.score([two.prepare(kit.query(prompt))])[0].logprobs).tolist() == [0, 1, 0]
    for backbone in (one, two):
        with pytest.raises(Unsupported, match="adapters"):
            backbone.read_adapter(kit.upload(backbone, kit.files("{}", b"")))
        with pytest.raises(Unsupported):
            backbone.files()


@pytest.mark.parametrize("name", ["no-such-thing", "tabluar", "/nowhere/at/all"])
def test_an_unknown_backbone_lists_the_known_ones(name):
    with pytest.raises(UnknownBackbone) as caught:
        registry.load(BackboneOptions(name))
    assert caught.value.reason == "UNKNOWN_BACKBONE"
    assert caught.value.metadata["known"] == "openai, scripted, smollm2-135m, tabular, tiny, uniform, vllm"
    assert "name one of" in caught.value.message


def test_a_folder_without_weights_is_no_backbone(tmp_path):
    with pytest.raises(UnknownBackbone, match="and safetensors files"):
        registry.load(BackboneOptions(str(tmp_path)))
