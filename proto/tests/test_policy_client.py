"""Publishing and holding adapters."""

import hashlib

import pytest

from potluck.play import DigestMismatch, adapter_digest
from potluck.rpc.errors import PotluckError, Reason

from .conftest import table
from .counting import BASE, CountingPolicy, OtherNamesPolicy

WEIGHTS = bytes(range(256)) * 10_000
CONFIG = '{"kind":"table"}'


def test_the_digest_is_the_contract_s():
    weights = hashlib.sha256(WEIGHTS).hexdigest()
    assert (
        adapter_digest(BASE, CONFIG, weights) == hashlib.sha256(f"{BASE}\n{CONFIG}\n{weights}\n".encode()).hexdigest()
    )


async def test_weights_travel_in_chunks_and_are_named_by_their_bytes():
    policy = CountingPolicy()
    async with table(policy=policy) as t:
        digest, lease = await t.policy.publish("a", CONFIG, WEIGHTS, BASE)
        again, _ = await t.policy.publish("a", CONFIG, WEIGHTS, BASE)
        other, _ = await t.policy.publish("a", CONFIG, WEIGHTS + b"x", BASE)
    assert policy.chunks[:3] == [1 << 20, 1 << 20, len(WEIGHTS) - (2 << 20)]
    assert policy.leases[lease] == digest == again != other


async def test_a_broken_upload_is_repeated_and_an_endless_one_is_an_error():
    policy = CountingPolicy()
    policy.broken_uploads = 1
    async with table(policy=policy) as t:
        assert await t.policy.publish("a", CONFIG, WEIGHTS, BASE)
        policy.broken_uploads = 100
        with pytest.raises(PotluckError) as caught:
            await t.policy.publish("a", CONFIG, WEIGHTS, BASE)
    assert caught.value.reason == Reason.UNREACHABLE


async def test_another_digest_than_the_bytes_is_refused():
    async with table(policy=OtherNamesPolicy()) as t:
        with pytest.raises(DigestMismatch):
            await t.policy.publish("a", CONFIG, WEIGHTS, BASE)


async def test_leases_are_taken_and_ended_once():
    policy = CountingPolicy()
    async with table(policy=policy) as t:
        lease = await t.policy.hold("d" * 64, "trainer", 60)
        assert policy.leases == {lease: "d" * 64}
        await t.policy.release(lease)
        assert policy.leases == {}
        with pytest.raises(PotluckError) as caught:
            await t.policy.release(lease)
    assert caught.value.reason == Reason.UNKNOWN_LEASE
