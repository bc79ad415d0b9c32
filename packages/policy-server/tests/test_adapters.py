"""Leases, eviction and digests of the adapter store."""

import hashlib

import pytest

from potluck_policy_server.adapters import AdapterStore, adapter_digest, check_agent
from potluck_policy_server.backbones.base import Adapter
from potluck_policy_server.errors import InvalidRequest, Overloaded, UnknownAdapter, UnknownLease


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def dropped():
    return []


@pytest.fixture
def store(clock, dropped):
    return AdapterStore(budget=100, ttl_s=60, on_drop=dropped.append, clock=clock)


def adapter(name, size=40):
    return Adapter(name, "agent_0", size, object())


def test_digest_is_the_documented_hash():
    expected = hashlib.sha256(b'base\n{"a":1,"b":[2]}\nsha\n').hexdigest()
    assert adapter_digest("base", {"b": [2], "a": 1}, "sha") == expected


def test_an_unknown_adapter_is_named(store):
    with pytest.raises(UnknownAdapter, match="'nobody'"):
        store.get("nobody")


def test_publishing_again_is_known_and_leases_again(store):
    first, second = store.add(adapter("a")), store.add(adapter("a"))
    assert (first.known, second.known) == (False, True)
    assert first.lease != second.lease
    assert store.size == 40


def test_leased_adapters_are_never_dropped(store, dropped):
    store.add(adapter("a"))
    store.add(adapter("b"))
    with pytest.raises(Overloaded, match="20 of 100"):
        store.add(adapter("c"))
    assert dropped == []
    assert "c" not in store


def test_the_least_recently_used_unleased_one_goes_first(store, dropped):
    leases = [store.add(adapter(name)).lease for name in "ab"]
    for lease in leases:
        store.release(lease)
    store.get("a")
    store.add(adapter("c"))
    assert dropped == ["b"]
    assert store.size == 80
    store.get("a")


def test_leases_expire(store, clock, dropped):
    lease = store.add(adapter("a")).lease
    held = store.hold("a", "trainer", ttl_s=100)
    clock.now = 61
    assert store.infos()[0].holders == ("trainer",)
    with pytest.raises(UnknownLease, match="expired"):
        store.release(lease)
    store.release(held)
    store.add(adapter("b", 80))
    assert dropped == ["a"]
    with pytest.raises(UnknownAdapter):
        store.hold("a", "late")


def test_an_unleased_adapter_stays_while_there_is_room(store, clock):
    store.add(adapter("a"))
    clock.now = 1000
    assert store.get("a").digest == "a"


def test_a_request_in_flight_pins_what_it_uses(store, dropped):
    store.release(store.add(adapter("a")).lease)
    with store.pinned(["a", "a"]), store.pinned(["a"]), pytest.raises(Overloaded):
        store.add(adapter("b", 80))
    assert dropped == []
    store.add(adapter("b", 80))
    assert dropped == ["a"]


def test_decisions_are_counted(store):
    store.add(adapter("a"))
    with store.pinned(["a", "a", "a"]):
        pass
    assert store.infos()[0].decisions == 3


def test_memory_returns_after_many_loads(store):
    for number in range(50):
        store.release(store.add(adapter(str(number))).lease)
    assert store.size <= 100
    assert store.evictions == 48


@pytest.mark.parametrize("name", ["", "a/b", "../x", "a b", "-a", "x" * 65, "ä"])
def test_bad_agent_names_are_refused(name):
    with pytest.raises(InvalidRequest):
        check_agent(name)
    check_agent("agent_0")


def test_a_lease_longer_than_a_week_is_refused(store):
    store.add(adapter("a"))
    with pytest.raises(InvalidRequest, match="week"):
        store.hold("a", "x", ttl_s=10**7)
