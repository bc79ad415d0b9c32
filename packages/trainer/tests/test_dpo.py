"""DPO on contrast pairs: what is refused without TRL or with foreign pairs, and one real step with it."""

import json
import math

import pytest

from potluck_trainer import dpo
from potluck_trainer.dpo import DpoConfig, own_rows, read_pairs, train_dpo
from potluck_trainer.errors import ConfigError, RecordError
from potluck_trainer.learners.base import Adapter


def row(agent="agent_0", policy="a" * 64, **more):
    return {
        "prompt": "state\nhold onion\nanswer",
        "chosen": " pot1",
        "rejected": " wait",
        "agent": agent,
        "policy": policy,
    } | more


def test_pairs_are_read_and_a_broken_file_is_named(tmp_path):
    file = tmp_path / "pairs.jsonl"
    file.write_text(json.dumps(row()) + "\n\n" + json.dumps(row("agent_1")) + "\n")
    assert [one["agent"] for one in read_pairs(file)] == ["agent_0", "agent_1"]
    file.write_text("no json\n")
    with pytest.raises(RecordError, match="cannot be read as JSON lines"):
        read_pairs(file)
    file.write_text(json.dumps({"prompt": "x"}) + "\n")
    with pytest.raises(RecordError, match=r"pairs.jsonl:1 lacks one of prompt, chosen, rejected"):
        read_pairs(file)
    with pytest.raises(RecordError):
        read_pairs(tmp_path / "nowhere.jsonl")


def test_only_the_agents_own_pairs_of_this_adapter_count():
    rows = [row(), row("agent_1"), row()]
    assert own_rows(rows, "agent_0", "a" * 64) == [{k: row()[k] for k in ("prompt", "chosen", "rejected")}] * 2
    with pytest.raises(ConfigError, match="there is no pair of agent_2"):
        own_rows(rows, "agent_2", "a" * 64)
    with pytest.raises(ConfigError, match="were made by"):
        own_rows(rows, "agent_0", "b" * 64)


def test_without_the_extra_the_error_says_how_to_get_it(monkeypatch, tmp_path):
    def missing(name):
        raise ImportError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(dpo.importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"potluck-trainer\[trl\]"):
        train_dpo(tmp_path, Adapter("agent_0", "b" * 64, "{}", b""), [row()], DpoConfig(), tmp_path)


@pytest.mark.timeout(900)
def test_a_step_with_trl_moves_the_adapter_and_prefers_the_better_answer(tmp_path):
    """Real TRL on the embedded backbone: a few pairs, one adapter; the frozen base's file is not touched."""
    pytest.importorskip("trl")
    pytest.importorskip("datasets")
    folder = pytest.importorskip("potluck_policy_server.backbones.tiny")
    from importlib.resources import files
    from pathlib import Path

    from potluck_trainer.backbone_cache import folder_digest
    from potluck_trainer.config import LearnerConfig
    from potluck_trainer.learners.lora import LoraTeam

    assert folder
    base = Path(str(files("potluck_policy_server") / "tiny"))
    before = folder_digest(base)
    start = LoraTeam(base, ("agent_0",), before, LearnerConfig(rank=4, lr=1e-3), 1.0, 0).export("agent_0")
    prompt = "you are chef 0 .\nstate\nhold onion\nlast none\nmenu 2 pot1 , 0 wait\nanswer"
    pairs = [{"prompt": prompt, "chosen": " pot1", "rejected": " wait"}] * 8
    report = train_dpo(base, start, pairs, DpoConfig(lr=5e-3, epochs=6, batch=8), tmp_path / "dpo")
    assert (report.agent, report.pairs, report.steps) == ("agent_0", 8, 6)
    assert report.loss_first == pytest.approx(math.log(2), abs=1e-3), (
        "before any step nothing differs from the reference"
    )
    assert report.loss_last < 0.65
    assert report.accuracy == 1.0
    assert report.adapter != start.digest
    made = tmp_path / "dpo" / "agent_0" / report.adapter
    assert {p.name for p in made.iterdir()} == {"adapter_config.json", "adapter_model.safetensors"}
    assert (made / "adapter_config.json").read_text() == start.config_json
    assert folder_digest(base) == before
    with pytest.raises(ConfigError, match="is not the base"):
        train_dpo(base, Adapter("agent_0", "c" * 64, "{}", b""), pairs, DpoConfig(), tmp_path)
    assert dpo.COLUMNS == ("prompt", "chosen", "rejected")
