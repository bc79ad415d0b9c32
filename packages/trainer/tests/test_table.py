"""The table learner by hand, its isolation, its growth and its bytes."""

import hashlib
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from safetensors.numpy import load

from potluck_trainer.config import LearnerConfig
from potluck_trainer.errors import AgreementError, CheckpointError, NonFiniteError
from potluck_trainer.learners.base import Sample
from potluck_trainer.learners.table import CONFIG_JSON, TableTeam, table_keys

BASE = "b" * 64


def team(**changes):
    return TableTeam(("a", "b"), BASE, LearnerConfig(**({"lr": 0.05, "beta": 0.0, "epochs": 1} | changes)), 1.0, 0)


def sample(index, advantage, state="s", keys=("x", "y"), logprob=None):
    return Sample(0, index, -np.log(len(keys)) if logprob is None else logprob, advantage, state, keys)


def test_first_adam_step_moves_by_lr_towards_what_paid():
    table = team()
    table.update("a", [sample(0, 1.0)], 0)
    rows, columns = table_keys(table.export("a").weights)
    logits = load(table.export("a").weights)["logits"]
    assert (rows, columns) == (["s"], ["x", "y"])
    assert logits == pytest.approx(np.array([[0.05, -0.05]]), abs=1e-6)


def test_gradient_is_that_of_the_policy():
    """One decision, A = 1: d(-log p_x)/d logits = p - onehot; clipping to norm 1 leaves it."""
    report = team().update("a", [sample(0, 1.0)], 0)
    assert report.grad_norm == pytest.approx(np.hypot(0.5, 0.5))
    assert report.first.loss == pytest.approx(-1.0)
    assert report.first.entropy == pytest.approx(np.log(2))


def test_items_of_one_class_share_their_logit():
    table = team()
    table.update("a", [sample(0, 1.0, keys=("x", "x", "y"))], 0)
    logits = load(table.export("a").weights)["logits"]
    assert logits.shape == (1, 2)
    assert logits[0, 0] > 0 > logits[0, 1]


def test_rows_and_columns_grow_and_keep_their_values():
    table = team()
    table.update("a", [sample(0, 1.0, state="z")], 0)
    before = load(table.export("a").weights)["logits"]
    table.update("a", [sample(0, 0.0, state="c", keys=("w", "x"), logprob=-np.log(2))], 1)
    rows, columns = table_keys(table.export("a").weights)
    assert (rows, columns) == (["z", "c"], ["x", "y", "w"])
    after = load(table.export("a").weights)["logits"]
    assert np.sign(after[0, :2]).tolist() == np.sign(before[0]).tolist()


def test_another_agent_does_not_move():
    table = team()
    table.update("b", [sample(0, 1.0)], 0)
    adapter, optimiser = table.export("b"), table.optimiser_state("b")
    table.update("a", [sample(1, 1.0)], 0)
    assert table.export("b").weights == adapter.weights
    assert table.optimiser_state("b") == optimiser
    assert table.export("a").digest != adapter.digest


def test_the_reference_is_the_base_whatever_the_start():
    """KL before any update is that of the starting adapter to the frozen base (uniform), not 0 by definition."""
    table = team(beta=0.05, epochs=1)
    table.update("a", [sample(0, 1.0)], 0)
    adapter = table.export("a")
    again = team(beta=0.05, epochs=1)
    assert again.update("b", [sample(0, 1.0)], 0).first.kl == 0.0
    again.load_adapter("a", adapter.config_json, adapter.weights)
    logits = np.array([0.05, -0.05])
    p = np.exp(logits) / np.exp(logits).sum()
    report = again.update("a", [sample(0, 1.0, logprob=float(np.log(p[0])))], 1)
    assert report.first.kl == pytest.approx(float((p * np.log(p / 0.5)).sum()), rel=1e-4)


def test_beta_pulls_back_to_the_base():
    table = team(beta=10.0, epochs=40, lr=0.02)
    table.update("a", [sample(0, 1.0)], 0)
    strong = load(table.export("a").weights)["logits"][0, 0]
    free = team(beta=0.0, epochs=40, lr=0.02)
    free.update("a", [sample(0, 1.0)], 0)
    assert strong < load(free.export("a").weights)["logits"][0, 0] / 2


def test_wrong_logprobs_stop_before_the_step():
    table = team()
    with pytest.raises(AgreementError, match="temperature"):
        table.update("a", [sample(0, 1.0, logprob=-0.5)], 0)
    assert not load(table.export("a").weights)["logits"].any()


def test_nan_advantage_is_an_error():
    with pytest.raises(NonFiniteError):
        team().update("a", [sample(0, float("nan"))], 0)


def test_state_round_trip_continues_bit_for_bit():
    samples = [sample(0, 1.0), sample(1, -1.0, state="t", keys=("y", "z", "w"))]
    one = team(epochs=2)
    one.update("a", samples, 0)
    two = team(epochs=2)
    adapter = one.export("a")
    two.load_adapter("a", adapter.config_json, adapter.weights)
    two.load_optimiser_state("a", one.optimiser_state("a"))
    later = [replace(s, logprob=float("nan")) for s in samples]
    for table in (one, two):
        logp = {}
        for s in later:
            grown = table._tables["a"]
            logp[s.state_key] = grown.logp(*grown.places([s]), 1.0)[0, s.index]
        table.update("a", [replace(s, logprob=float(logp[s.state_key])) for s in later], 1)
    assert one.export("a").digest == two.export("a").digest
    assert one.optimiser_state("a") == two.optimiser_state("a")


def test_a_foreign_adapter_is_refused():
    with pytest.raises(CheckpointError, match="no table"):
        team().load_adapter("a", '{"peft_type":"LORA"}', b"")


def test_the_same_table_has_the_same_digest_in_every_process():
    code = (
        "from potluck_trainer.learners.table import *\n"
        "from potluck_trainer.learners.base import Sample\n"
        "t = TableTeam(('a',), 'b' * 64, LearnerConfig(lr=.05, beta=0.), 1.0, 0)\n"
        "t.update('a', [Sample(0, 0, -np.log(2), 1.0, 's', ('x', 'y'))], 0)\n"
        "print(t.export('a').digest)\n"
    )
    digests = {subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout for _ in range(2)}
    assert len(digests) == 1
    assert len(digests.pop().strip()) == 64


def test_the_digest_is_that_of_the_wire_contract():
    adapter = team().export("a")
    weights = hashlib.sha256(adapter.weights).hexdigest()
    assert adapter.config_json == CONFIG_JSON == '{"kind":"table"}'
    expected = hashlib.sha256(f"{BASE}\n{CONFIG_JSON}\n{weights}\n".encode()).hexdigest()
    assert adapter.digest == expected
