"""The weights that answer are the ones that were asked for: one fault after another is put into the server, the guard
that is there for it refuses, and with the guard removed the wrong answer comes through."""

import asyncio
import dataclasses
import hashlib

import numpy as np
import pytest
from safetensors.torch import load, save

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, typed_errors
from potluck_policy_server import proof, uploads
from potluck_policy_server.adapters import AdapterStore
from potluck_policy_server.lm import engine, packed
from potluck_policy_server.lm import proof as lm_proof
from potluck_policy_server.lm.engine import PrefixCache

GUARDED = pytest.mark.parametrize("guarded", [True, False], ids=["guarded", "guard removed"])
KNOWN = pytest.mark.parametrize("engine_name", ["packed", "peft"])


@pytest.fixture
def remove(monkeypatch):
    """Removes guards by name."""

    def do(module, *names):
        for name in names:
            monkeypatch.setattr(module, name, lambda *_, **__: None)

    return do


async def answer(kit, client, digest, seed=3, **fields):
    """One decision's probabilities and the digest that the reply carries."""
    decision = kit.decision(kit.prompt(seed, 6), digest, **fields)
    (choice,) = (await client.choose([decision])).choices
    return np.array(choice.probabilities), choice.adapter_digest


async def refused(awaitable, reason="DIGEST_MISMATCH"):
    with pytest.raises(PotluckError) as caught, typed_errors():
        await awaitable
    assert caught.value.reason == reason, caught.value.message
    return caught.value.message


@pytest.fixture(scope="module")
def truth(kit, backbone, adapter_files):
    """What each of the two adapters, and none, answers on a server without faults."""
    read = [backbone.read_adapter(kit.upload(backbone, files)) for files in adapter_files]
    prompt = kit.prompt(3, 6)
    return [np.exp(kit.scores(backbone, [kit.query(prompt, one)])[0].logprobs) for one in [*read, None]]


@GUARDED
async def test_a_publish_that_keeps_the_old_tensors(kit, folder, adapter_files, truth, monkeypatch, remove, guarded):
    """The second upload is acknowledged under its own digest, but the reader hands out the first one's tensors."""
    backbone = kit.load(folder)
    honest, first = backbone.read_adapter, []

    def stuck(upload):
        first.append(honest(upload))
        return dataclasses.replace(first[0], digest=upload.digest)

    monkeypatch.setattr(backbone, "read_adapter", stuck)
    async with kit.server(backbone) as (client, service, _):
        await client.publish(adapter_files[0])
        if guarded:
            assert "did not arrive" in await refused(client.publish(adapter_files[1]))
            assert len(service.store.infos()) == 1
            return
        remove(proof, "check_read")
        remove(lm_proof, "check_attached")
        found, _ = await answer(kit, client, (await client.publish(adapter_files[1])).digest)
        np.testing.assert_allclose(found, truth[0], atol=1e-5)
        assert np.abs(found - truth[1]).max() > 1e-3


@GUARDED
async def test_an_engine_that_attaches_nothing(kit, folder, adapter_files, truth, monkeypatch, remove, guarded):
    def lazy(decoder, digest, lora, merge):
        return packed.Weights(digest=digest)

    monkeypatch.setattr(engine, "attach", lazy)
    if not guarded:
        remove(lm_proof, "check_attached")
    async with kit.server(kit.load(folder)) as (client, _, _):
        digest = (await client.publish(adapter_files[0])).digest
        if guarded:
            assert "does not act on" in await refused(answer(kit, client, digest))
            found, served = await answer(kit, client, None)  # the others go on
        else:
            found, served = await answer(kit, client, digest)
            assert served == digest
            assert np.abs(found - truth[0]).max() > 1e-3
        np.testing.assert_allclose(found, truth[2], atol=1e-5)


@GUARDED
async def test_a_peft_that_loads_nothing(kit, folder, adapter_files, truth, monkeypatch, remove, guarded):
    import peft

    monkeypatch.setattr(peft, "set_peft_model_state_dict", lambda *_, **__: None)
    if not guarded:
        remove(lm_proof, "check_loaded")
    async with kit.server(kit.load(folder, engine="peft")) as (client, _, _):
        digest = (await client.publish(adapter_files[0])).digest
        if guarded:
            assert "PEFT holds something else" in await refused(answer(kit, client, digest))
            return
        found, _ = await answer(kit, client, digest)
        assert np.abs(found - truth[0]).max() > 1e-3


class NewestOfTheAgent(engine.PackedEngine):
    """Forgets which version a decision named, and takes the agent's newest."""

    newest = None

    def ready(self, adapter):
        if adapter is not None:
            NewestOfTheAgent.newest = adapter

    def _attached(self, adapter):
        return super()._attached(adapter and NewestOfTheAgent.newest)


@GUARDED
async def test_a_swap_in_mid_flight(kit, folder, adapter_files, truth, monkeypatch, remove, guarded):
    """A request for the first version waits while the second one of the same agent goes up and is used."""
    monkeypatch.setattr("potluck_policy_server.backbones.causal_lm.PackedEngine", NewestOfTheAgent)
    if not guarded:
        remove(proof, "check_answer")
        remove(lm_proof, "check_prefix")
    async with kit.server(kit.load(folder)) as (client, _, _):
        old, new = [(await client.publish(files)).digest for files in adapter_files]
        both = [kit.decision(kit.prompt(3, 6), digest) for digest in (old, new)]
        if guarded:
            await refused(client.choose(both))
            return
        first = (await client.choose(both)).choices[0]
        np.testing.assert_allclose(first.probabilities, truth[1], atol=1e-5)
        assert first.adapter_digest == new != old  # even unguarded, the reply names the weights that were at work


async def test_publishing_while_a_request_waits_changes_nothing(kit, folder, adapter_files, truth):
    """The control of the swap: nothing is injected, and every answer in flight is the old version's."""
    async with kit.server(kit.load(folder)) as (client, _, _):
        old = (await client.publish(adapter_files[0])).digest
        pending = [asyncio.ensure_future(answer(kit, client, old)) for _ in range(6)]
        new = (await client.publish(adapter_files[1])).digest
        for found, served in await asyncio.gather(*pending):
            assert served == old
            np.testing.assert_allclose(found, truth[0], atol=1e-5)
        np.testing.assert_allclose((await answer(kit, client, new))[0], truth[1], atol=1e-5)


class OnlyTheRules(PrefixCache):
    """Keys by the rules alone, so that a new version reads the old one's keys and values."""

    def get(self, digest, ids, compute):
        return super().get("", ids, compute)


@GUARDED
async def test_a_stale_prefix_cache(kit, folder, adapter_files, truth, monkeypatch, remove, guarded):
    monkeypatch.setattr(engine, "PrefixCache", OnlyTheRules)
    if not guarded:
        remove(lm_proof, "check_prefix")
    async with kit.server(kit.load(folder)) as (client, _, _):
        old, new = [(await client.publish(files)).digest for files in adapter_files]
        np.testing.assert_allclose((await answer(kit, client, old))[0], truth[0], atol=1e-5)
        if guarded:
            assert "cached prefix" in await refused(answer(kit, client, new))
            return
        found, served = await answer(kit, client, new)
        assert served == new
        assert np.abs(found - truth[1]).max() > 1e-3


@pytest.fixture(scope="module")
def unlike(folder, kit, adapter_files):
    """Another rank, other modules, other layers."""
    return kit.peft_files(folder, 7, ["v_proj", "gate_proj"], [1], rank=9)


@GUARDED
@pytest.mark.parametrize("merge", [0, 64 << 20], ids=["apart", "merged"])
async def test_unlike_adapters_in_one_batch(
    kit, folder, adapter_files, unlike, truth, monkeypatch, remove, guarded, merge
):
    """Ranks 4 and 9, all layers and one: right when mixed; a batch that takes its first row's weights for all is
    refused."""
    backbone = kit.load(folder, merge_bytes=merge)
    async with kit.server(backbone) as (client, _, _):
        a, b = [(await client.publish(files)).digest for files in (adapter_files[0], unlike)]
        mixed = [kit.decision(kit.prompt(3, 6), digest) for digest in (a, b, a, b, "")]
        alone = (await answer(kit, client, b))[0]
        replies = [np.array(choice.probabilities) for choice in (await client.choose(mixed)).choices]
        for reply, expected in zip(replies, (truth[0], alone, truth[0], alone, truth[2]), strict=True):
            np.testing.assert_allclose(reply, expected, atol=1e-5)

        def careless(rows, starts):
            return (packed.Group(rows[0].weights, 0, int(starts[-1])),)

        monkeypatch.setattr(packed, "_groups", careless)
        if guarded:
            await refused(client.choose(mixed))
            return
        remove(proof, "check_answer")
        wrong = [np.array(choice.probabilities) for choice in (await client.choose(mixed)).choices]
        assert max(np.abs(x - y).max() for x, y in zip(wrong, replies, strict=True)) > 1e-3


@GUARDED
async def test_an_adapter_of_another_base(kit, world, tmp_path, adapter_files, remove, guarded):
    """Same architecture, same shapes, other weights: nothing but the digest can tell."""
    client, service = world
    other = kit.load(kit.random_base(tmp_path, seed=9)).description.base_digest
    if guarded:
        assert other in await refused(client.publish(adapter_files[0], base=other), "WRONG_BASE")
        assert service.store.infos() == []
        return
    remove(uploads, "check_base")
    assert (await client.publish(adapter_files[0], base=other)).digest


@GUARDED
async def test_an_unknown_adapter(kit, world, truth, monkeypatch, guarded):
    client, service = world
    if guarded:
        await refused(answer(kit, client, "f" * 64), "UNKNOWN_ADAPTER")
        assert service.batcher.stats.decisions == 0
        return
    monkeypatch.setattr(AdapterStore, "get", lambda self, digest: None)
    found, served = await answer(kit, client, "f" * 64)
    np.testing.assert_allclose(found, truth[2], atol=1e-5)  # the base has answered
    assert served == ""


@GUARDED
async def test_a_corrupt_upload(kit, world, adapter_files, remove, guarded):
    """One bit of one weight: still a safetensors file with finite numbers."""
    client, service = world
    state = load(adapter_files[0].data)
    name = sorted(state)[0]
    state[name][0, 0] += 0.125
    flipped = kit.files(adapter_files[0].config_json, save(state))
    if guarded:
        await refused(client.publish(flipped, sha256=adapter_files[0].sha256), "CORRUPT_UPLOAD")
        assert service.store.infos() == []
        return
    remove(uploads, "check_bytes")
    await client.publish(flipped, sha256=adapter_files[0].sha256)
    assert len(service.store.infos()) == 1


@pytest.fixture
async def world(kit, backbone):
    async with kit.server(backbone) as (client, service, _):
        yield client, service


@KNOWN
async def test_every_reply_names_base_tokenizer_and_adapter(kit, folder, adapter_files, engine_name):
    async with kit.server(kit.load(folder, engine=engine_name)) as (client, _, _):
        described = await client.stub.Describe(pb.DescribeRequest())
        a, b = [(await client.publish(files)).digest for files in adapter_files]
        reply = await client.choose([kit.decision(kit.prompt(s), d) for s, d in enumerate((a, b, "", a))])
        assert [choice.adapter_digest for choice in reply.choices] == [a, b, "", a]
        assert reply.base_digest == described.base_digest
        assert reply.tokenizer_digest == described.tokenizer_digest
        assert {len(d) for d in (a, b, reply.base_digest, reply.tokenizer_digest)} == {64}
        base = described.base_digest
        assert (
            a
            == hashlib.sha256(
                f"{base}\n{adapter_files[0].config_json}\n{adapter_files[0].sha256}\n".encode()
            ).hexdigest()
        )
