"""The queue: merging, waiting, bounds, deadlines, and one request's failure."""

import asyncio
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from potluck.rpc.errors import PotluckError
from potluck_policy_server.backbones.base import Scores
from potluck_policy_server.batching import Batcher, BatchOptions
from potluck_policy_server.errors import DeadlinePassed, LabelsUnsupported, Overloaded


class Slow:
    """A backbone that records its batches; a query "bad" is refused, "broken" breaks the batch."""

    def __init__(self):
        self.batches, self.threads = [], set()
        self.gate = threading.Event()
        self.gate.set()

    def prepare(self, query):
        if query == "bad":
            raise LabelsUnsupported("bad")
        return query

    def score(self, prepared):
        self.threads.add(threading.get_ident())
        self.gate.wait(5)
        self.batches.append(list(prepared))
        if "broken" in prepared:
            raise ZeroDivisionError
        return [Scores(np.zeros(1), 0.0) for _ in prepared]


@pytest.fixture
def slow():
    return Slow()


@pytest.fixture
async def make(slow):
    made = []

    def build(**options):
        thread = ThreadPoolExecutor(1)
        batcher = Batcher(slow, thread, BatchOptions(**options))
        batcher.start()
        made.append((batcher, thread))
        return batcher

    yield build
    slow.gate.set()
    for batcher, thread in made:
        await batcher.stop()
        thread.shutdown()


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("never happened")


async def test_a_lone_client_never_waits(make, slow):
    batcher = make(window_s=0.5)
    start = time.perf_counter()
    for number in range(20):
        await batcher.submit([number], "me", None)
    assert time.perf_counter() - start < 0.5
    assert (batcher.stats.waits, batcher.stats.batches) == (0, 20)


async def test_small_requests_of_several_clients_are_merged(make, slow):
    batcher = make(window_s=0.05)
    await batcher.submit(["warm"], "b", None)
    answers = await asyncio.gather(*(batcher.submit([f"{c}1", f"{c}2"], c, None) for c in "ab"))
    assert slow.batches[1:] == [["a1", "a2", "b1", "b2"]]
    assert [[one.prepared for one in part] for part in answers] == [["a1", "a2"], ["b1", "b2"]]
    assert len(slow.threads) == 1


async def test_large_requests_are_computed_alone(make, slow):
    batcher = make(merge_below=3)
    slow.gate.clear()
    first = asyncio.create_task(batcher.submit(["x"], "a", None))
    await until(lambda: slow.threads)
    rest = [asyncio.create_task(batcher.submit(part, "b", None)) for part in (["1"], ["2", "2", "2"], ["3"], ["4"])]
    await asyncio.sleep(0.01)
    slow.gate.set()
    await asyncio.gather(first, *rest)
    assert slow.batches == [["x"], ["1"], ["2", "2", "2"], ["3", "4"]]


async def test_a_full_queue_refuses_and_recovers(make, slow):
    batcher = make(max_queue=4)
    slow.gate.clear()
    first = asyncio.create_task(batcher.submit(["x"], "a", None))
    await until(lambda: slow.threads)
    waiting = asyncio.create_task(batcher.submit(["1", "2", "3"], "a", None))
    await until(lambda: batcher.waiting == 3)
    with pytest.raises(Overloaded, match="3 decisions wait already"):
        await batcher.submit(["4", "5"], "b", None)
    slow.gate.set()
    await asyncio.gather(first, waiting)
    assert len(await batcher.submit(["4", "5"], "b", None)) == 2
    assert batcher.stats.refused == 1


async def test_work_whose_deadline_passed_is_not_begun(make, slow):
    batcher = make()
    loop = asyncio.get_running_loop()
    slow.gate.clear()
    first = asyncio.create_task(batcher.submit(["x"], "a", None))
    await until(lambda: slow.threads)
    late = asyncio.create_task(batcher.submit(["late"], "a", loop.time() + 0.01))
    patient = asyncio.create_task(batcher.submit(["patient"], "a", loop.time() + 60))
    await asyncio.sleep(0.03)
    slow.gate.set()
    with pytest.raises(DeadlinePassed):
        await late
    await asyncio.gather(first, patient)
    assert slow.batches == [["x"], ["patient"]]


async def test_a_client_that_left_is_not_served(make, slow):
    batcher = make()
    slow.gate.clear()
    first = asyncio.create_task(batcher.submit(["x"], "a", None))
    await until(lambda: slow.threads)
    gone = asyncio.create_task(batcher.submit(["gone"], "b", None))
    await until(lambda: batcher.waiting == 1)
    gone.cancel()
    slow.gate.set()
    await first
    await batcher.submit(["next"], "a", None)
    assert ["gone"] not in slow.batches


async def test_a_client_that_leaves_frees_its_place_at_once(make, slow):
    batcher = make(max_queue=4)
    slow.gate.clear()
    first = asyncio.create_task(batcher.submit(["x"], "a", None))
    await until(lambda: slow.threads)
    gone = asyncio.create_task(batcher.submit(["1", "2", "3", "4"], "b", None))
    await until(lambda: batcher.waiting == 4)
    with pytest.raises(Overloaded):
        await batcher.submit(["5"], "c", None)
    gone.cancel()
    await until(lambda: batcher.waiting == 0)
    stays = asyncio.create_task(batcher.submit(["5"], "c", None))
    await until(lambda: batcher.waiting == 1)
    slow.gate.set()
    await asyncio.gather(first, stays)
    assert batcher.stats.withdrawn == 1
    assert slow.batches == [["x"], ["5"]]


@pytest.mark.parametrize("size", [1, 9], ids=["small", "large"])
async def test_clients_take_turns(make, slow, size):
    """One client sends forty requests before another sends two: these are the next ones in line, not the last."""
    batcher = make(merge_below=8, max_batch=4)
    slow.gate.clear()
    first = asyncio.create_task(batcher.submit(["x"], "flood", None))
    await until(lambda: slow.threads)
    flood = [asyncio.create_task(batcher.submit(["f"] * size, "flood", None)) for _ in range(40)]
    await until(lambda: batcher.waiting == 40 * size)
    others = [asyncio.create_task(batcher.submit(["o"] * size, "other", None)) for _ in range(2)]
    await until(lambda: batcher.waiting == 42 * size)
    slow.gate.set()
    await asyncio.gather(first, *flood, *others)
    order = [name for batch in slow.batches[1:] for name in batch]
    assert order.index("o") <= size
    assert len(order) - 1 - order[::-1].index("o") < 4 * size
    assert order.count("f") == 40 * size


async def test_one_bad_request_fails_alone(make, slow):
    batcher = make(window_s=0.05)
    await batcher.submit(["warm"], "b", None)
    good, bad = await asyncio.gather(
        batcher.submit(["good"], "a", None), batcher.submit(["fine", "bad"], "b", None), return_exceptions=True
    )
    assert [one.prepared for one in good] == ["good"]
    assert isinstance(bad, LabelsUnsupported)
    assert slow.batches[-1] == ["good"]


async def test_a_broken_batch_does_not_end_the_service(make, slow):
    batcher = make()
    with pytest.raises(ZeroDivisionError):
        await batcher.submit(["broken"], "a", None)
    assert len(await batcher.submit(["next"], "a", None)) == 1


async def test_merged_clients_get_their_own_answers_over_the_wire(kit, backbone):
    """Two clients at once against one server: each answer equals the one it gets alone, to rounding."""
    async with kit.server(backbone) as (client, service, server):
        other = kit.client(server.address)
        prompts = [kit.prompt(seed, 3 + seed % 4) for seed in range(8)]
        alone = [(await client.choose([kit.decision(prompt, seed=1)])).choices[0] for prompt in prompts]
        both = [
            (client if number % 2 else other).choose([kit.decision(prompt, seed=1)])
            for number, prompt in enumerate(prompts)
        ]
        together = [reply.choices[0] for reply in await asyncio.gather(*both)]
        for a, b in zip(alone, together, strict=True):
            np.testing.assert_allclose(a.probabilities, b.probabilities, atol=1e-5)
            assert a.letter == b.letter
        assert service.batcher.stats.batches < service.batcher.stats.requests
        await other.channel.close()


async def test_an_internal_fault_hides_its_text(kit, backbone, monkeypatch):
    async with kit.server(backbone) as (client, _, _):

        def explode(_):
            raise RuntimeError("secret path")

        with monkeypatch.context() as patch:
            patch.setattr(backbone, "score", explode)
            from potluck.rpc.errors import typed_errors

            with pytest.raises(PotluckError) as caught, typed_errors():
                await client.choose([kit.decision(kit.prompt(0))])
        assert caught.value.reason == "INTERNAL"
        assert "secret" not in caught.value.message
        assert (await client.choose([kit.decision(kit.prompt(0))])).choices


async def test_a_flood_gives_way_to_a_client_with_little(make, slow):
    """The queue is full of one client's requests: another's finds a place, and the flood's newest is refused."""
    batcher = make(max_queue=8, merge_below=1)
    slow.gate.clear()
    first = asyncio.create_task(batcher.submit(["x"], "flood", None))
    await until(lambda: slow.threads)
    flood = [asyncio.create_task(batcher.submit([f"f{n}"], "flood", None)) for n in range(8)]
    await until(lambda: batcher.waiting == 8)
    with pytest.raises(Overloaded):  # who floods is refused
        await batcher.submit(["f8"], "flood", None)
    other = asyncio.create_task(batcher.submit(["o"], "other", None))
    with pytest.raises(Overloaded) as caught:
        await flood[7]
    assert caught.value.retry_after_s > 0
    slow.gate.set()
    await asyncio.gather(first, other, *flood[:7])
    assert [name for part in slow.batches for name in part] == ["x", "f0", "o", *(f"f{n}" for n in range(1, 7))]
    assert batcher.stats.refused == 2


async def test_a_patient_request_waits_outside_and_comes_in(make, slow):
    batcher = make(max_queue=4, merge_below=1)
    slow.gate.clear()
    first = asyncio.create_task(batcher.submit(["x"], "a", None))
    await until(lambda: slow.threads)
    inside = asyncio.create_task(batcher.submit(["1"] * 4, "a", None))
    await until(lambda: batcher.waiting == 4)
    outside = [asyncio.create_task(batcher.submit([n] * 3, "a", None, patient=True)) for n in range(4)]
    late = asyncio.create_task(batcher.submit(["late"], "a", asyncio.get_running_loop().time() + 0.02, patient=True))
    with pytest.raises(DeadlinePassed):
        await late
    await until(lambda: batcher.stats.held_back == 5)
    outside[1].cancel()
    with pytest.raises(Overloaded):  # it can never come in
        await batcher.submit(["9"] * 5, "a", None, patient=True)
    slow.gate.set()
    answers = await asyncio.gather(first, inside, *(outside[n] for n in (0, 2, 3)))
    assert [len(part) for part in answers] == [1, 4, 3, 3, 3]
    assert sum(len(part) for part in slow.batches) == 14


async def test_the_hint_follows_the_rate(make, slow):
    batcher = make(max_queue=100)
    await batcher.submit(["x"], "a", None)
    batcher._rate = 50.0
    slow.gate.clear()
    first = asyncio.create_task(batcher.submit(["x"], "a", None))
    await until(lambda: batcher.stats.batches == 2)
    waiting = asyncio.create_task(batcher.submit(["1"] * 100, "a", None))
    await until(lambda: batcher.waiting == 100)
    with pytest.raises(Overloaded) as caught:
        await batcher.submit(["2"], "a", None)
    assert caught.value.retry_after_s == pytest.approx(2.0)
    slow.gate.set()
    await asyncio.gather(first, waiting)


async def test_a_client_with_sixty_four_requests_does_not_starve_one_with_one(kit, monkeypatch):
    """Over real connections: the one request of a client that comes last is among the next to be scored."""
    from potluck.policy.v1 import policy_service_pb2 as pb
    from potluck_policy_server.backbones import registry
    from potluck_policy_server.backbones.base import BackboneOptions
    from potluck_policy_server.service import ServiceOptions

    tables, gate, order = registry.load(BackboneOptions("tabular")), threading.Event(), []
    inner = tables.score

    def score(prepared):
        assert gate.wait(20)
        order.append(len(prepared))
        return inner(prepared)

    monkeypatch.setattr(tables, "score", score)
    options = ServiceOptions(batching=BatchOptions(merge_below=1))
    async with kit.server(tables, options) as (client, service, server):
        flood, other = (kit.client(server.address, apart=True) for _ in range(2))
        many = [asyncio.create_task(flood.choose([kit.decision(kit.prompt(0))] * 2)) for _ in range(64)]
        await until(lambda: service.batcher.waiting == 126)
        one = asyncio.create_task(other.choose([kit.decision(kit.prompt(1))] * 3))
        await until(lambda: service.batcher.waiting == 129)
        gate.set()
        await asyncio.gather(*many, one)
        assert order.index(3) <= 2
        assert len(order) == 65
        for each in (flood, other):
            await each.channel.close()
        assert (await client.stub.Describe(pb.DescribeRequest())).backbone == "tabular"
