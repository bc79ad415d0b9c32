"""A random Qwen3 backbone, adapters, menus and a running server, all built here without a download."""

import contextlib
import hashlib
import json
import os
import random
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import grpc
import pytest
import torch
from peft import LoraConfig, get_peft_model, get_peft_model_state_dict
from safetensors.torch import save
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM

from potluck.common.v1 import common_pb2
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.policy.v1 import policy_service_pb2_grpc as rpc
from potluck.rpc.channel import connect
from potluck.rpc.limits import CLIENT_OPTIONS
from potluck_policy_server.backbones import causal_lm
from potluck_policy_server.backbones.base import Adapter, BackboneOptions, Query, Upload
from potluck_policy_server.serving import started

CHATML = (
    "{% for m in messages %}{{'<|im_start|>'+m['role']+'\n'+m['content']+'<|im_end|>\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{'<|im_start|>assistant\n'}}{% endif %}"
)
WORDS = ["onion1", "onion2", "onion10", "pot1", "pot2", "dish1", "counter3", "serve1", "wait"]


class AdapterFiles(NamedTuple):
    """An adapter as PEFT saves it."""

    config_json: str
    data: bytes

    @property
    def sha256(self):
        return hashlib.sha256(self.data).hexdigest()


def canonical(value):
    return json.dumps(value, sort_keys=True, separators=(",", ":"), default=list)


def tokenizer(corpus):
    t = Tokenizer(models.BPE())
    t.decoder = decoders.ByteLevel()
    digits = pre_tokenizers.Digits(individual_digits=True)
    t.pre_tokenizer = pre_tokenizers.Sequence([digits, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    t.train_from_iterator(
        corpus,
        trainers.BpeTrainer(vocab_size=600, special_tokens=special, initial_alphabet=alphabet, show_progress=False),
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=CHATML
    )


def random_base(folder, seed=0, **changes):
    torch.manual_seed(seed)
    corpus = ["state hold onion pot1 cook 12 last onion1 success menu 3 onion1 , 4 pot2 , 0 wait answer"] * 50
    tok = tokenizer(corpus)
    config = {
        "vocab_size": len(tok), "hidden_size": 64, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "max_position_embeddings": 512,
        "tie_word_embeddings": True, "pad_token_id": 0, "eos_token_id": 2, "bos_token_id": None,
    }  # fmt: skip
    model = Qwen3ForCausalLM(Qwen3Config(**{**config, **changes}))
    with torch.no_grad():
        for name, p in model.named_parameters():
            # A fresh model is almost uniform and would hide mistakes.
            p.copy_(1 + torch.randn_like(p) * 0.2 if "norm" in name else torch.randn_like(p) * 0.15)
    model.save_pretrained(folder)
    tok.save_pretrained(folder)
    return folder


def peft_files(folder, seed, targets="all-linear", layers=None, rank=4, scale=0.2):
    """A random adapter, saved through PEFT."""
    torch.manual_seed(seed)
    base = Qwen3ForCausalLM.from_pretrained(folder)
    config = LoraConfig(r=rank, lora_alpha=2 * rank, target_modules=targets, layers_to_transform=layers)
    model = get_peft_model(base, config)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "lora_" in name:
                p.copy_(torch.randn(p.shape) * scale)
    settings = model.peft_config["default"].to_dict()
    state = {key: value.contiguous() for key, value in get_peft_model_state_dict(model).items()}
    return AdapterFiles(canonical(settings), save(state))


def a_prompt(seed, items=5, rules="you are a cook .\nserve soups ."):
    """A made-up prompt with a menu of `items`."""
    r = random.Random(seed)
    words = [*r.sample(WORDS[:-1], min(items - 1, len(WORDS) - 1)), "wait"]
    menu = [
        common_pb2.Item(
            letter=chr(65 + i), word=word, option=word.rstrip("0123456789"), text=f"go to {word}",
            steps=r.randint(-1, 12), action_key=word.rstrip("0123456789"), greedy=r.random(),
        )
        for i, word in enumerate(words)
    ]  # fmt: skip
    observation = (
        f"hold {r.choice(['none', 'onion', 'dish'])}\npot1 cook {r.randint(0, 20)}" + "\npot2 none" * r.randint(0, 4)
    )
    memory = [f"{r.choice(WORDS)} success {r.randint(1, 9)}" for _ in range(r.randint(0, 5))]
    state = f"hold={r.choice(['none', 'onion'])}"
    return common_pb2.Prompt(rules=rules, observation=observation, memory=memory, items=menu, state_key=state)


def upload_of(backbone, files, agent="agent_0"):
    base = backbone.description.base_digest
    digest = hashlib.sha256(f"{base}\n{files.config_json}\n{files.sha256}\n".encode()).hexdigest()
    return Upload(digest, agent, json.loads(files.config_json), files.data)


class Client:
    """The RPCs, in few words."""

    def __init__(self, address, apart=False):
        """`apart`: over a connection of its own, as from another process."""
        own = [*CLIENT_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.aio.insecure_channel(address, own) if apart else connect(address)
        self.stub = rpc.PolicyServiceStub(self.channel)

    async def publish(self, files, agent="agent_0", base=None, sha256=None, size=None, chunk=1 << 20):
        base = base or (await self.stub.Describe(pb.DescribeRequest())).base_digest
        size = len(files.data) if size is None else size
        sha256 = sha256 or files.sha256
        header = pb.AdapterHeader(
            agent=agent, config_json=files.config_json, base_digest=base, size=size, sha256=sha256
        )

        async def parts():
            yield pb.PublishAdapterRequest(header=header)
            for start in range(0, len(files.data), chunk):
                yield pb.PublishAdapterRequest(chunk=files.data[start : start + chunk])

        return await self.stub.PublishAdapter(parts())

    async def choose(self, decisions, **fields):
        return await self.stub.Choose(pb.ChooseRequest(decisions=decisions, **fields))


def a_decision(prompt, adapter=None, builtin=None, temperature=1.0, seed=0, greedy=False):
    policy = pb.Policy(adapter=adapter) if adapter else pb.Policy(builtin=builtin or pb.BUILTIN_POLICY_FROZEN)
    return pb.Decision(policy=policy, prompt=prompt, temperature=temperature, seed=seed, greedy=greedy)


@contextlib.asynccontextmanager
async def a_server(backbone, options=None):
    async with started(backbone, options) as (server, service):
        client = Client(server.address)
        try:
            yield client, service, server
        finally:
            await client.channel.close()


class Kit(NamedTuple):
    """Builders that tests use; importlib mode lets no test import this file."""

    prompt: object = staticmethod(a_prompt)
    decision: object = staticmethod(a_decision)
    peft_files: object = staticmethod(peft_files)
    upload: object = staticmethod(upload_of)
    server: object = staticmethod(a_server)
    client: object = Client
    random_base: object = staticmethod(random_base)
    files: object = AdapterFiles
    canonical: object = staticmethod(canonical)

    def load(self, folder, **options):
        return causal_lm.load(BackboneOptions(str(folder), **options))

    def query(self, prompt, adapter: Adapter | None = None, temperature=1.0, scheme=0, tokens=False):
        return Query(prompt, adapter, temperature, scheme, tokens)

    def scores(self, backbone, queries):
        return backbone.score([backbone.prepare(query) for query in queries])


@pytest.fixture(scope="session")
def kit():
    return Kit()


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    """A random Qwen3 on disk."""
    return random_base(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def backbone(folder, kit):
    """It, loaded."""
    return kit.load(folder)


@pytest.fixture(scope="session")
def adapters(folder, backbone, kit):
    """Three adapters of it: all layers, all layers, top layer only."""
    files = [peft_files(folder, 1), peft_files(folder, 2), peft_files(folder, 3, ["q_proj", "down_proj"], [2])]
    return [backbone.read_adapter(upload_of(backbone, one)) for one in files]


@pytest.fixture(scope="session")
def adapter_files(folder):
    """The first two as files."""
    return [peft_files(folder, 1), peft_files(folder, 2)]
