"""Model folders that are not whole are refused by name before anything is served."""

import json
import shutil

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from potluck_policy_server.backbones.base import LETTERS, WORDS
from potluck_policy_server.errors import BrokenBase, LabelsUnsupported, UnknownBackbone


@pytest.fixture
def shards(folder, tmp_path):
    """The random base, saved in several files."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.save_pretrained(tmp_path, max_shard_size="150KB")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    return tmp_path


@pytest.fixture
def copy(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return tmp_path


def test_shards_name_the_same_base_as_one_file(kit, backbone, shards):
    assert kit.load(shards).description.base_digest == backbone.description.base_digest


@pytest.mark.parametrize("index", [True, False], ids=["index", "no index"])
def test_a_missing_shard(kit, shards, index):
    sorted(shards.glob("model-*.safetensors"))[0].unlink()
    if not index:
        (shards / "model.safetensors.index.json").unlink()
    with pytest.raises(BrokenBase, match=r"1 of its files are missing: model-00001-of"):
        kit.load(shards)


def edit(folder, change):
    path = folder / "model.safetensors"
    state = load_file(path)
    change(state)
    save_file(state, path, metadata={"format": "pt"})


FAULTS = {
    "a lost tensor": (lambda s: s.pop("model.layers.1.mlp.up_proj.weight"), "missing keys: .*layers.1.mlp.up_proj"),
    "another shape": (
        lambda s: s.update({"model.layers.1.mlp.up_proj.weight": torch.ones(3, 3)}),
        "mismatched keys|cannot read it",
    ),
    "integers": (
        lambda s: s.update({"model.norm.weight": torch.ones(64, dtype=torch.int8)}),
        "has the type I8: serve weights in one of F64, F32, F16, BF16",
    ),
    "not a number": (
        lambda s: s["model.norm.weight"].fill_(float("nan")),
        "model.norm.weight holds a value that is not finite",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_tensors_that_are_lost_or_wrong(kit, copy, fault):
    change, says = FAULTS[fault]
    edit(copy, change)
    with pytest.raises(BrokenBase, match=says):
        kit.load(copy)


def test_a_file_that_ends_early(kit, copy):
    path = copy / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BrokenBase, match=r"ends before its last tensor"):
        kit.load(copy)


@pytest.mark.parametrize("data", [b"", b"\xff" * 40, b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n"])
def test_a_file_that_is_something_else(kit, copy, data):
    """The last one is what a clone without Git LFS leaves."""
    (copy / "model.safetensors").write_bytes(data)
    with pytest.raises(BrokenBase, match="is no safetensors file"):
        kit.load(copy)


def test_an_unknown_architecture_and_a_lost_tokenizer(kit, copy):
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps({**config, "model_type": "abacus"}))
    with pytest.raises(BrokenBase, match=r"transformers cannot read it|its tokenizer cannot be read"):
        kit.load(copy)
    (copy / "config.json").write_text(json.dumps(config))
    kit.load(copy)
    for path in copy.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(BrokenBase, match="tokenizer"):
        kit.load(copy)


def test_a_gguf_file_that_is_something_else(kit, tmp_path, monkeypatch):
    monkeypatch.setenv("POTLUCK_CACHE", str(tmp_path / "cache"))
    (tmp_path / "model.gguf").write_bytes(b"GGUF" + b"\x00" * 60)
    with pytest.raises(BrokenBase, match="its GGUF file cannot be read"):
        kit.load(tmp_path / "model.gguf")
    assert not list((tmp_path / "cache").glob("*"))


def test_a_folder_without_weights(kit, tmp_path):
    with pytest.raises(UnknownBackbone, match=r"no config\.json"):
        kit.load(tmp_path)


def test_a_tokenizer_whose_letters_are_not_single_tokens_still_reads_words(kit, copy):
    """Letters spelt as two tokens: the server says so in Describe, and refuses the scheme."""
    raw = json.loads((copy / "tokenizer.json").read_text())
    raw["normalizer"] = {"type": "Replace", "pattern": {"String": "Q"}, "content": "qq"}
    (copy / "tokenizer.json").write_text(json.dumps(raw))
    backbone = kit.load(copy)
    assert backbone.description.label_schemes == (WORDS,)
    assert backbone.description.letters == ()
    with pytest.raises(LabelsUnsupported, match="does not read this label scheme"):
        backbone.prepare(kit.query(kit.prompt(0), scheme=LETTERS))
    assert kit.scores(backbone, [kit.query(kit.prompt(0))])
