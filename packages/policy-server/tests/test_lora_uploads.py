"""Adapters that would silently leave the base in charge, or mean something else, are refused by name."""

import json

import pytest
import torch
from safetensors.torch import load, save

from potluck_policy_server.errors import CorruptUpload, InvalidRequest

Q = "base_model.model.model.layers.0.self_attn.q_proj.lora_{}.weight"


def changed(kit, files, config=None, **tensors):
    """The files with settings or tensors replaced; None removes a tensor."""
    settings = {**json.loads(files.config_json), **(config or {})}
    state = load(files.data)
    for name, value in tensors.items():
        key = Q.format(name) if name in "AB" else name
        if value is None:
            state.pop(key)
        else:
            state[key] = value
    return kit.files(kit.canonical(settings), save(state))


@pytest.fixture
def files(adapter_files):
    return adapter_files[0]


def test_the_unchanged_adapter_is_accepted(kit, backbone, files):
    adapter = backbone.read_adapter(kit.upload(backbone, changed(kit, files)))
    assert len(adapter.payload.pairs) == 21
    assert adapter.size == sum(t.numel() * 4 for t in load(files.data).values())


@pytest.mark.parametrize(
    ("config", "tensors", "says"),
    [
        ({}, {"A": None}, "lora_A.weight is missing"),
        ({}, {"A": None, "B": None}, "its tensors are missing"),
        ({}, {"A": torch.zeros(4, 63)}, "has shape (4, 63)"),
        ({}, {"B": torch.zeros(64, 5)}, "has shape (64, 5)"),
        ({}, {"A": torch.full((4, 64), float("nan"))}, "not finite"),
        ({}, {"something.else": torch.zeros(1)}, "unexpected tensor 'something.else'"),
        ({}, {Q.format("A").replace("layers.0", "layers.7"): torch.zeros(4, 64)}, "no linear layer"),
        ({"r": 8}, {}, "has shape"),
        ({"r": "many"}, {}, "must be numbers"),
        ({"peft_type": "IA3"}, {}, "only LORA"),
        ({"use_dora": True}, {}, "use_dora"),
        ({"bias": "all"}, {}, "bias"),
        ({"modules_to_save": ["lm_head"]}, {}, "modules_to_save"),
        ({"rank_pattern": {"q_proj": 8}}, {}, "rank_pattern"),
        ({"target_modules": ["q_proj"]}, {}, "which the config does not target"),
        ({"layers_to_transform": [0]}, {}, "which the config does not target"),
    ],
)
def test_what_does_not_fit_is_refused(kit, backbone, files, config, tensors, says):
    with pytest.raises(InvalidRequest) as caught:
        backbone.read_adapter(kit.upload(backbone, changed(kit, files, config, **tensors)))
    assert says in caught.value.message


def test_an_adapter_without_tensors_is_refused(kit, backbone, files):
    with pytest.raises(InvalidRequest, match="no tensors"):
        backbone.read_adapter(kit.upload(backbone, kit.files(files.config_json, save({}))))


@pytest.mark.parametrize("data", [b"", b"\x00" * 8, b"\xff" * 64, b"{}"])
def test_bytes_that_are_no_safetensors_are_refused(kit, backbone, files, data):
    with pytest.raises(CorruptUpload):
        backbone.read_adapter(kit.upload(backbone, kit.files(files.config_json, data)))


def test_rank_stabilised_scaling(kit, backbone, files):
    plain = backbone.read_adapter(kit.upload(backbone, files))
    scaled = backbone.read_adapter(kit.upload(backbone, changed(kit, files, {"use_rslora": True})))
    name = "model.layers.0.self_attn.q_proj"
    # alpha / sqrt(r) = 8 / 2 against alpha / r = 8 / 4
    torch.testing.assert_close(scaled.payload.pairs[name].b, plain.payload.pairs[name].b * 2)
