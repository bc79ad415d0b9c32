"""Tiny random models of every tested family, as they come: tied or untied heads, sliding windows, other norms, chat
templates of several kinds or none. Each is served by its folder's path and answers as a plain transformers forward."""

import numpy as np
import pytest
import torch
from tokenizers import processors
from transformers import AutoModelForCausalLM, AutoTokenizer

from potluck_policy_server.backbones.base import LETTERS, WORDS
from potluck_policy_server.lm.engine import PackedEngine
from potluck_policy_server.lm.peft_engine import PeftEngine

SIZES = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4, "num_key_value_heads": 2}
USER_ONLY = (
    "{{ bos_token }}{% for m in messages %}{% if m['role'] == 'system' %}{{ raise_exception('no system role') }}"
    "{% endif %}{{ '<|im_start|>' + m['role'] + '\n' + m['content'] | trim + '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>model\n' }}{% endif %}"
)
# name: (class of configuration, settings, chat template: "chatml" | "user only" | "", begin mark, the engine)
FAMILIES = {
    "smollm2": ("LlamaConfig", {"tie_word_embeddings": True, "num_hidden_layers": 3}, "chatml", False, PackedEngine),
    "llama3": (
        "LlamaConfig",
        {"tie_word_embeddings": False, "num_hidden_layers": 2, "rope_parameters": {
            "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
            "high_freq_factor": 4.0, "original_max_position_embeddings": 64}},
        "", True, PackedEngine,
    ),
    "qwen2": ("Qwen2Config", {"tie_word_embeddings": True, "num_hidden_layers": 2}, "chatml", False, PackedEngine),
    "qwen2-windows": (
        "Qwen2Config",
        {"num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1},
        "", False, PeftEngine,
    ),
    "qwen3": (
        "Qwen3Config", {"tie_word_embeddings": False, "num_hidden_layers": 2, "head_dim": 16},
        "chatml", False, PackedEngine,
    ),
    "gemma3": (
        "Gemma3TextConfig",
        {"num_hidden_layers": 3, "head_dim": 8, "sliding_window": 16, "final_logit_softcapping": 5.0,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention"]},
        "user only", True, PeftEngine,
    ),
    "qwen3.5": (
        "Qwen3_5TextConfig",
        {"num_hidden_layers": 4, "head_dim": 16, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
         "linear_num_key_heads": 2, "linear_num_value_heads": 4,
         "layer_types": ["linear_attention", "linear_attention", "full_attention", "linear_attention"]},
        "chatml", False, PeftEngine,
    ),
    "gemma4": (
        "Gemma4TextConfig",
        {"num_hidden_layers": 4, "head_dim": 8, "sliding_window": 16, "hidden_size_per_layer_input": 8,
         "num_kv_shared_layers": 1, "final_logit_softcapping": 5.0,
         "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]},
        "chatml", True, PeftEngine,
    ),
    "smollm3": (
        "SmolLM3Config", {"num_hidden_layers": 4, "no_rope_layer_interval": 2}, "chatml", False, PeftEngine,
    ),
}  # fmt: skip


@pytest.fixture(scope="module", params=FAMILIES)
def family(request, kit, folder, tmp_path_factory):
    """(name, folder, loaded backbone)."""
    import transformers

    kind, settings, template, begin, _ = FAMILIES[request.param]
    tok = AutoTokenizer.from_pretrained(folder)
    tok.chat_template = {"chatml": tok.chat_template, "user only": USER_ONLY, "": None}[template]
    tok.padding_side = "left" if begin else "right"
    if begin:
        tok.bos_token = "<|endoftext|>"
        mark = ("<|endoftext|>", tok.convert_tokens_to_ids("<|endoftext|>"))
        tok.backend_tokenizer.post_processor = processors.Sequence(
            [processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[mark])]
        )
    torch.manual_seed(11)
    common = {**SIZES, "vocab_size": len(tok), "max_position_embeddings": 512, "pad_token_id": 0, "bos_token_id": 0}
    if kind == "Gemma4TextConfig":
        common["vocab_size_per_layer_input"] = len(tok)
    config = getattr(transformers, kind)(**{**common, "eos_token_id": 2, **settings})
    model = AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.add_(torch.randn_like(p) * (0.1 if "norm" in name else 0.15))
    target = tmp_path_factory.mktemp(request.param)
    model.save_pretrained(target)
    tok.save_pretrained(target)
    return request.param, target, kit.load(target)


@torch.inference_mode()
def plain(model, decision, temperature):
    """Label log-probabilities by one plain forward per node of the trie."""
    paths, prompt = decision.paths, decision.job.prefix + decision.job.suffix

    def conditional(stem, token):
        children = sorted({path[len(stem)] for path in paths if path[: len(stem)] == stem and len(path) > len(stem)})
        logits = model(input_ids=torch.tensor([prompt + stem])).logits[0, -1].double()[children] / temperature
        return float(logits.log_softmax(-1)[children.index(token)])

    return np.array([sum(conditional(path[:d], path[d]) for d in range(len(path))) for path in paths])


def test_answers_are_transformers_own(kit, family):
    """Prompts of unlike lengths in one batch, so that padding and windows matter; letters and words."""
    name, folder, backbone = family
    assert isinstance(backbone._engine, FAMILIES[name][4])
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    queries = [kit.query(kit.prompt(s, 2 + 2 * s), None, 0.8, [LETTERS, WORDS][s % 2]) for s in range(4)]
    decisions = [backbone.prepare(query) for query in queries]
    assert len({decision.prompt_tokens for decision in decisions}) > 1
    for decision, scores in zip(decisions, backbone.score(decisions), strict=True):
        np.testing.assert_allclose(scores.logprobs, plain(model, decision, 0.8), atol=1e-4)
        assert np.ptp(scores.logprobs) > 0.01  # a uniform answer would hide mistakes


def test_letters_are_single_tokens_after_the_template(kit, family):
    name, folder, backbone = family
    assert len({token for _, token in backbone.description.letters}) == 26
    decision = backbone.prepare(kit.query(kit.prompt(1, 4), scheme=LETTERS))
    tok = AutoTokenizer.from_pretrained(folder)
    text = tok.decode(decision.job.prefix + decision.job.suffix)
    template, begin = FAMILIES[name][2:4]
    assert ("<|im_start|>user" in text) == bool(template)
    assert ("<|im_start|>system" in text) == (template == "chatml")
    assert decision.job.prefix.count(0) == int(begin)  # one begin mark, never two
    for item, path in zip(kit.prompt(1, 4).items, decision.paths, strict=True):
        assert tok.decode(path) == item.letter


def test_lora_on_every_linear_layer(kit, family):
    """PEFT's "all-linear", saved by PEFT, mixed with the frozen base."""
    from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
    from safetensors.torch import save

    _, folder, backbone = family
    wrapped = get_peft_model(
        AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        LoraConfig(r=3, lora_alpha=6, target_modules="all-linear"),
    )
    torch.manual_seed(4)
    with torch.no_grad():
        for name, p in wrapped.named_parameters():
            if "lora_" in name:
                p.copy_(torch.randn(p.shape) * 0.2)
    state = {key: value.contiguous() for key, value in get_peft_model_state_dict(wrapped).items()}
    files = kit.files(kit.canonical(wrapped.peft_config["default"].to_dict()), save(state))
    adapter = backbone.read_adapter(kit.upload(backbone, files))
    decisions = [backbone.prepare(kit.query(kit.prompt(s, 4), one)) for s, one in ((1, adapter), (2, None))]
    scores = backbone.score(decisions)
    wrapped.eval()
    np.testing.assert_allclose(scores[0].logprobs, plain(wrapped, decisions[0], 1.0), atol=1e-4)
    with wrapped.disable_adapter():
        np.testing.assert_allclose(scores[1].logprobs, plain(wrapped, decisions[1], 1.0), atol=1e-4)
    assert [one.adapter_digest for one in scores] == [adapter.digest, ""]
