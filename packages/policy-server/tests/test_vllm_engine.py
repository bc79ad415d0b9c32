"""vLLM against our own engine; skipped where vLLM is not installed, and it says so."""

import importlib.util

import numpy as np
import pytest

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import LETTERS, WORDS, BackboneOptions
from potluck_policy_server.errors import InvalidRequest, PromptTooLong, UnknownBackbone
from potluck_policy_server.folder import linear_shapes

HERE = importlib.util.find_spec("vllm") is not None


@pytest.mark.skipif(HERE, reason="vLLM is installed")
def test_without_vllm_the_backbone_is_refused_by_name(folder):
    with pytest.raises(UnknownBackbone, match="vLLM is not installed"):
        registry.load(BackboneOptions(f"vllm:{folder}"))
    with pytest.raises(UnknownBackbone, match="name the model too"):
        registry.load(BackboneOptions("vllm:"))


def test_the_files_name_the_linear_layers_that_the_model_has(folder, backbone):
    """What an adapter for vLLM is checked against."""
    assert linear_shapes(folder) == backbone._linears


@pytest.mark.skipif(not HERE, reason="vLLM is not installed: its parity with the torch engine was not tested")
def test_vllm_answers_as_the_torch_engine(kit, tmp_path):
    """Frozen and with two adapters, letters and words, mixed; vLLM's float32 kernels round otherwise. Heads of 64, as
    vLLM has no kernel for those of the other tests."""
    base = kit.random_base(tmp_path, hidden_size=128, head_dim=64, intermediate_size=128)
    backbone, served = kit.load(base), registry.load(BackboneOptions(f"vllm:{base}", context=512))
    assert served.description.base_digest == backbone.description.base_digest
    uploads = [kit.upload(backbone, kit.peft_files(base, seed)) for seed in (1, 2)]
    ours, theirs = ([one.read_adapter(upload) for upload in uploads] for one in (backbone, served))
    for scheme in (LETTERS, WORDS):
        asked = [
            [kit.query(kit.prompt(s, 3 + s), [None, *held][s % 3], 0.8, scheme) for s in range(6)]
            for held in (ours, theirs)
        ]
        for a, b in zip(kit.scores(backbone, asked[0]), kit.scores(served, asked[1]), strict=True):
            np.testing.assert_allclose(a.logprobs, b.logprobs, atol=5e-3)
            assert a.adapter_digest == b.adapter_digest
    for mine, its in zip([None, *ours], [None, *theirs], strict=True):
        greedy = pb.GenerateRequest(prompt="state hold onion menu", system="serve", max_tokens=8)
        one, two = backbone.generate(greedy, mine), served.generate(greedy, its)
        assert one == two
        drawn = pb.GenerateRequest(prompt="state hold onion menu", max_tokens=8, temperature=1.5, seed=7)
        assert served.generate(drawn, its) == served.generate(drawn, its)
        other = pb.GenerateRequest(prompt="state hold onion menu", max_tokens=8, temperature=1.5, seed=8)
        assert served.generate(drawn, its).text != served.generate(other, its).text
    for temperature in (0.001, 2.5):
        with pytest.raises(InvalidRequest, match="where vLLM samples"):
            served.generate(pb.GenerateRequest(prompt="go", max_tokens=1, temperature=temperature), None)
    with pytest.raises(PromptTooLong):
        served.generate(pb.GenerateRequest(prompt="go " * 400, max_tokens=200), None)
    served.forget(uploads[0].digest)
    again = kit.scores(served, [kit.query(kit.prompt(1, 4), theirs[0], 0.8, LETTERS)])[0]
    expected = kit.scores(backbone, [kit.query(kit.prompt(1, 4), ours[0], 0.8, LETTERS)])[0]
    np.testing.assert_allclose(again.logprobs, expected.logprobs, atol=5e-3)
