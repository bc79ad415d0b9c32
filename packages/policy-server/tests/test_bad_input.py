"""What goes wrong in daily use, line by line, on a real server: a typed refusal, no crash, and nothing left behind."""

import asyncio
import json
import math
import subprocess
import sys

import pytest
import torch
from safetensors.torch import load, load_file, save, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from potluck.common.v1 import common_pb2
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, from_status, typed_errors
from potluck_policy_server import cli, serving
from potluck_policy_server.backbones.base import LETTERS, WORDS


@pytest.fixture
async def world(kit, backbone):
    """A server; afterwards it must answer to the bit as before and hold nothing."""
    probe = [kit.decision(kit.prompt(seed), seed=seed) for seed in range(3)]
    async with kit.server(backbone) as (client, service, server):
        before = (await client.choose(probe)).SerializeToString(deterministic=True)
        yield client, service, server
        assert (await client.choose(probe)).SerializeToString(deterministic=True) == before
        assert service.batcher.waiting == 0
        assert not service.store._pins
        assert not service._streams
        assert service.store.infos() == []


def items(decision, count):
    del decision.prompt.items[:]
    for number in range(count):
        decision.prompt.items.add(letter=f"L{number}", word=f"word{number}", text="go")


REQUESTS = {
    "30 items for 26 letters": (lambda d: items(d, 30), 1, "INVALID_ARGUMENT", "1 to 26 items, not 30"),
    "no items": (lambda d: items(d, 0), 1, "INVALID_ARGUMENT", "not 0"),
    "a word without end": (
        lambda d: setattr(d.prompt.items[0], "word", "onion" * 60), 1, "INVALID_ARGUMENT", "a label of 300 characters",
    ),
    "temperature 0": (lambda d: setattr(d, "temperature", 0.0), 1, "INVALID_ARGUMENT", "is not a number above 0"),
    "a negative temperature": (lambda d: setattr(d, "temperature", -0.7), 1, "INVALID_ARGUMENT", "above 0"),
    "temperature NaN": (lambda d: setattr(d, "temperature", math.nan), 1, "INVALID_ARGUMENT", "above 0"),
    "a prompt beyond the context": (
        lambda d: setattr(d.prompt, "observation", "hold onion\n" * 300), 1, "PROMPT_TOO_LONG", "the context holds 512",
    ),
    "a batch of 10,000": (lambda d: items(d, 2), 10_000, "INVALID_ARGUMENT", "10000 decisions in one request"),
}  # fmt: skip


@pytest.mark.parametrize("fault", REQUESTS)
@pytest.mark.parametrize("streamed", [False, True], ids=["call", "stream"])
async def test_a_request(kit, world, fault, streamed):
    change, count, reason, says = REQUESTS[fault]
    client, service, _ = world
    computed = service.batcher.stats.decisions
    wrong = kit.decision(kit.prompt(0))
    change(wrong)
    request = pb.ChooseRequest(request_id="bad", decisions=[wrong] * count)
    if streamed:
        call = client.stub.ChooseStream(timeout=60)
        await call.write(pb.ChooseStreamRequest(choose=request))
        error = from_status((await call.read()).failed)
        await call.done_writing()
        await call.read()
    else:
        with pytest.raises(PotluckError) as caught, typed_errors():
            await client.stub.Choose(request)
        error = caught.value
    assert error.reason == reason
    assert says in error.message
    assert reason == "PROMPT_TOO_LONG" or service.batcher.stats.decisions == computed


async def test_an_empty_batch(world):
    client, service, _ = world
    computed = service.batcher.stats.decisions
    reply = await client.choose([])
    assert (list(reply.choices), len(reply.base_digest)) == ([], 64)
    assert service.batcher.stats.decisions == computed


@pytest.mark.parametrize("value", [math.nan, math.inf])
async def test_an_adapter_with_weights_that_are_no_numbers(kit, world, adapter_files, value):
    state = load(adapter_files[0].data)
    next(iter(state.values()))[0, 0] = value
    with pytest.raises(PotluckError, match="not finite") as caught, typed_errors():
        await world[0].publish(kit.files(adapter_files[0].config_json, save(state)))
    assert caught.value.reason == "INVALID_ARGUMENT"


def spoil_shard(folder):
    sorted(folder.glob("model-*.safetensors"))[0].unlink()


def spoil_type(folder):
    path = sorted(folder.glob("model-*.safetensors"))[-1]
    state = {name: value.to(torch.int32) for name, value in load_file(path).items()}
    save_file(state, path, metadata={"format": "pt"})


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (spoil_shard, "1 of its files are missing: model-00001-of"),
        (spoil_type, "has the type I32: serve weights in one of F64, F32, F16, BF16"),
    ],
    ids=["a missing shard", "the wrong type"],
)
def test_a_model_folder(folder, tmp_path, monkeypatch, capsys, spoil, says):
    """The command says it in one line and exits with 1; nothing listens."""
    AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).save_pretrained(tmp_path, max_shard_size="150KB")
    AutoTokenizer.from_pretrained(folder).save_pretrained(tmp_path)
    spoil(tmp_path)
    monkeypatch.setattr(serving, "configure_logs", lambda *_: None)
    monkeypatch.setattr(sys, "argv", ["potluck-policy", "serve", "--backbone", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    out, err = capsys.readouterr()
    told = [line for line in err.splitlines() if line.startswith("potluck-policy: ")]
    assert (ended.value.code, len(told), "ready" in out) == (1, 1, False)
    assert says in told[0]


async def test_a_tokenizer_whose_letters_are_several_tokens(kit, folder, tmp_path):
    for path in folder.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    raw = json.loads((tmp_path / "tokenizer.json").read_text())
    raw["normalizer"] = {"type": "Replace", "pattern": {"String": "Q"}, "content": "qq"}
    (tmp_path / "tokenizer.json").write_text(json.dumps(raw))
    async with kit.server(kit.load(tmp_path)) as (client, _, _):
        described = await client.stub.Describe(pb.DescribeRequest())
        assert (list(described.label_schemes), list(described.letters)) == ([WORDS], [])
        with pytest.raises(PotluckError) as caught, typed_errors():
            await client.choose([kit.decision(kit.prompt(0))], label_scheme=LETTERS)
        assert caught.value.reason == "LABELS_UNSUPPORTED"
        words = await client.choose([kit.decision(kit.prompt(0))], label_scheme=common_pb2.LABEL_SCHEME_WORDS)
        assert words.choices


VANISHING = """
import asyncio, sys
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.policy.v1.policy_service_pb2_grpc import PolicyServiceStub
from potluck.rpc.channel import connect

async def main():
    stub = PolicyServiceStub(connect(sys.argv[1]))
    request = pb.ChooseRequest.FromString(open(sys.argv[2], "rb").read())
    calls = [stub.Choose(request) for _ in range(4)]
    stream = stub.ChooseStream(timeout=60)
    for number in range(4):
        request.request_id = str(number)
        await stream.write(pb.ChooseStreamRequest(choose=request))
    await asyncio.gather(*calls)

asyncio.run(main())
"""


async def test_a_client_that_vanishes(kit, world, tmp_path):
    """Its process is killed while its calls and its stream wait; their places are free before anything is computed."""
    client, service, server = world
    held = asyncio.get_running_loop().create_future()
    service._thread.submit(lambda: asyncio.run_coroutine_threadsafe(_wait(held), held.get_loop()).result(60))
    request = pb.ChooseRequest(decisions=[kit.decision(kit.prompt(seed)) for seed in range(9)])
    (tmp_path / "request").write_bytes(request.SerializeToString())
    process = subprocess.Popen([sys.executable, "-c", VANISHING, server.address, str(tmp_path / "request")])
    try:
        # The first batch is out of the queue: it waits for the scoring thread.
        await _until(lambda: service.batcher.waiting == 7 * 9)
        process.kill()
        await _until(lambda: service.batcher.waiting == 0 and not service._streams)
    finally:
        process.kill()
        process.wait()
        held.set_result(None)
    assert (await client.choose([kit.decision(kit.prompt(0))])).choices
    assert service.batcher.stats.withdrawn == 7


async def _wait(held):
    await held


async def _until(condition):
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("never happened")
