"""ChooseStream over real sockets: answers, refusals, back-pressure, cancellation, deadlines, drain."""

import asyncio
import contextlib
import threading

import grpc
import pytest

from potluck.play import PolicyClient
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, from_status, typed_errors
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.batching import BatchOptions
from potluck_policy_server.service import ServiceOptions


class Gate:
    """Holds a backbone's scoring until it is opened, and counts what was scored."""

    def __init__(self, backbone):
        self.open = threading.Event()
        self.scored = 0
        self.began = threading.Event()
        inner = backbone.score

        def score(prepared):
            self.began.set()
            assert self.open.wait(20)
            self.scored += len(prepared)
            return inner(prepared)

        backbone.score = score


@pytest.fixture
def tables():
    return registry.load(BackboneOptions("tabular"))


@pytest.fixture
def gate(tables):
    gate = Gate(tables)
    yield gate
    gate.open.set()


@contextlib.asynccontextmanager
async def streaming(kit, backbone, in_flight=64, **batching):
    options = ServiceOptions(batching=BatchOptions(**batching), max_in_flight=in_flight)
    async with kit.server(backbone, options) as (client, service, server):
        yield client, service, server


def batch(kit, name, count=1, seed=0, timeout_ms=0, **fields):
    decisions = [kit.decision(kit.prompt(seed + i, 4), seed=seed + i, **fields) for i in range(count)]
    return pb.ChooseStreamRequest(choose=pb.ChooseRequest(request_id=name, decisions=decisions), timeout_ms=timeout_ms)


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("never happened")


async def settled(number):
    """The value of a counter that has stopped."""
    last, since = number(), 0
    while since < 20:
        await asyncio.sleep(0.02)
        last, since = (last, since + 1) if number() == last else (number(), 0)
    return last


async def ending(call):
    """Reads a stream that must fail to its end."""
    while await call.read() is not grpc.aio.EOF:
        pass
    raise grpc.aio.AioRpcError(
        await call.code(), await call.initial_metadata(), await call.trailing_metadata(), await call.details()
    )


async def refusal(call):
    with pytest.raises(PotluckError) as caught, typed_errors():
        await ending(call)
    return caught.value


async def read_all(call):
    found = []
    while (response := await call.read()) is not grpc.aio.EOF:
        found.append(response)
    return found


async def test_a_stream_answers_as_calls_do(kit, backbone, adapter_files):
    async with streaming(kit, backbone) as (client, _, server), PolicyClient(server.address) as other:
        digest = (await client.publish(adapter_files[0])).digest
        batches = [
            [kit.decision(kit.prompt(10 * b + i, 3 + i), digest if i % 2 else None, seed=i) for i in range(1 + b % 9)]
            for b in range(24)
        ]
        requests = [pb.ChooseRequest(decisions=one, tokens=True) for one in batches]
        async with await other.stream() as stream:
            replies = await asyncio.gather(*(stream.choose(request) for request in requests))
        for request, reply in zip(requests, replies, strict=True):
            alone = await client.stub.Choose(request)
            assert (reply.base_digest, reply.tokenizer_digest) == (alone.base_digest, alone.tokenizer_digest)
            for one, two in zip(reply.choices, alone.choices, strict=True):
                assert list(one.probabilities) == pytest.approx(list(two.probabilities), abs=1e-5)
                assert (one.letter, one.adapter_digest, one.prompt_digest) == (
                    two.letter, two.adapter_digest, two.prompt_digest,
                )  # fmt: skip
                assert one.tokens == two.tokens


async def test_a_batch_that_fails_harms_no_other(kit, tables):
    wrong = {
        "cold": (batch(kit, "cold", temperature=0.0), "INVALID_ARGUMENT"),
        "nobody": (batch(kit, "nobody", adapter="f" * 64), "UNKNOWN_ADAPTER"),
        "large": (batch(kit, "large", 17), "INVALID_ARGUMENT"),
    }
    async with streaming(kit, tables, max_batch=16) as (client, service, _):
        call = client.stub.ChooseStream(timeout=30)
        for number, (message, _) in enumerate(wrong.values()):
            await call.write(batch(kit, f"right {number}", 2))
            await call.write(message)
        await call.write(batch(kit, "empty", 0))
        await call.done_writing()
        found = {response.request_id: response for response in await read_all(call)}
        assert await call.code() is grpc.StatusCode.OK
        for name, (_, reason) in wrong.items():
            assert from_status(found.pop(name).failed).reason == reason
        assert {name: len(one.choose.choices) for name, one in found.items()} == {
            "right 0": 2, "right 1": 2, "right 2": 2, "empty": 0,
        }  # fmt: skip
        assert service.batcher.stats.decisions == 6


async def test_an_internal_fault_hides_its_text_and_ends_no_stream(kit, tables, monkeypatch):
    async with (
        streaming(kit, tables) as (_, _, server),
        PolicyClient(server.address) as other,
        await other.stream() as stream,
    ):
        request = batch(kit, "x").choose
        with monkeypatch.context() as patch:
            patch.setattr(tables, "score", lambda _: 1 / 0)
            with pytest.raises(PotluckError) as caught:
                await stream.choose(request)
        assert caught.value.reason == "INTERNAL"
        assert "division" not in caught.value.message
        assert (await stream.choose(request)).choices


@pytest.mark.parametrize(("in_flight", "begun"), [(4, 4), (300, 200)], ids=["bounded", "bound removed"])
async def test_no_more_than_the_limit_is_read(kit, tables, gate, in_flight, begun):
    async with streaming(kit, tables, in_flight, merge_below=1) as (client, service, _):
        assert (await client.stub.Describe(pb.DescribeRequest())).max_in_flight == in_flight
        call = client.stub.ChooseStream(timeout=60)

        async def write():
            for number in range(200):
                await call.write(batch(kit, f"b{number}", 2))
            await call.done_writing()

        writing = asyncio.create_task(write())
        await asyncio.to_thread(gate.began.wait, 20)
        # One batch is being scored, the others of those in flight wait.
        assert await settled(lambda: service.batcher.waiting) == 2 * (begun - 1)
        gate.open.set()
        assert sorted(response.request_id for response in await read_all(call)) == sorted(f"b{n}" for n in range(200))
        await writing


async def test_a_client_that_fetches_no_answers_is_held_back(kit, tables, monkeypatch):
    """Its answers fill the transport's window, then nothing of it is begun until it fetches them."""
    begun = 0

    async def large(*_, **__):
        nonlocal begun
        begun += 1
        return pb.ChooseResponse(base_digest="x" * (1 << 20))

    async with streaming(kit, tables, 4) as (client, service, _):
        monkeypatch.setattr(service, "_choose", large)
        call = client.stub.ChooseStream(timeout=60)
        for number in range(60):
            await call.write(batch(kit, f"b{number}"))
        await call.done_writing()
        assert 0 < await settled(lambda: begun) < 40
        assert len(await read_all(call)) == begun == 60


async def test_a_full_queue_holds_streams_back_and_refuses_calls_with_a_hint(kit, tables, gate):
    async with streaming(kit, tables, merge_below=1, max_queue=8) as (client, service, server):
        async with PolicyClient(server.address) as other, await other.stream() as stream:
            some = [asyncio.create_task(stream.choose(batch(kit, "", 4, n).choose)) for n in range(12)]
            await until(lambda: service.batcher.stats.held_back == 9)
            assert service.batcher.waiting == 8
            with pytest.raises(PotluckError) as caught, typed_errors():
                await client.choose([kit.decision(kit.prompt(0))] * 4)
            assert (caught.value.reason, caught.value.code) == ("OVERLOADED", grpc.StatusCode.RESOURCE_EXHAUSTED)
            assert 0 < caught.value.retry_after_s <= 10
            gate.open.set()
            assert [len(reply.choices) for reply in await asyncio.gather(*some)] == [4] * 12
        assert len((await client.choose([kit.decision(kit.prompt(0))] * 4)).choices) == 4
        assert gate.scored == 52


async def test_a_batch_that_is_taken_back_frees_its_place(kit, tables, gate):
    async with streaming(kit, tables, 3, merge_below=1) as (client, service, _):
        call = client.stub.ChooseStream(timeout=60)
        for name in ("scoring", "unwanted", "wanted"):
            await call.write(batch(kit, name, 2))
        await until(lambda: service.batcher.waiting == 4)
        await call.write(pb.ChooseStreamRequest(cancel="unwanted"))
        await call.write(pb.ChooseStreamRequest(cancel="never sent"))
        first = await call.read()
        assert (first.request_id, from_status(first.failed).reason) == ("unwanted", "CANCELLED")
        await until(lambda: service.batcher.waiting == 2)
        await call.write(batch(kit, "unwanted", 2))  # its name and its place are free again
        await until(lambda: service.batcher.waiting == 4)
        gate.open.set()
        await call.done_writing()
        rest = await read_all(call)
        assert sorted(one.request_id for one in rest) == ["scoring", "unwanted", "wanted"]
        assert all(one.WhichOneof("outcome") == "choose" for one in rest)
        assert gate.scored == 6


async def test_the_client_takes_back_what_it_waits_for_no_more(kit, tables, gate):
    async with (
        streaming(kit, tables, merge_below=1) as (_, service, server),
        PolicyClient(server.address) as other,
        await other.stream() as stream,
    ):
        first = asyncio.create_task(stream.choose(batch(kit, "").choose))
        await until(gate.began.is_set)
        leaving = asyncio.create_task(stream.choose(batch(kit, "", 5).choose))
        await until(lambda: service.batcher.waiting == 5)
        leaving.cancel()
        await until(lambda: service.batcher.waiting == 0)
        with pytest.raises(PotluckError) as caught:
            await stream.choose(batch(kit, "", 5).choose, timeout_s=0.05)
        assert caught.value.reason == "DEADLINE"
        gate.open.set()
        assert (await first).choices
        assert (await stream.choose(batch(kit, "").choose)).choices
        assert gate.scored == 2


async def test_a_client_that_vanishes_frees_all_its_places(kit, tables, gate):
    async with streaming(kit, tables, merge_below=1, max_queue=40) as (client, service, server):
        gone = kit.client(server.address)
        call = gone.stub.ChooseStream(timeout=60)
        for number in range(30):
            await call.write(batch(kit, f"b{number}", 2))
        await until(lambda: service.batcher.stats.held_back)
        call.cancel()
        await gone.channel.close()
        await until(lambda: service.batcher.waiting == 0 and not service._streams)
        gate.open.set()
        assert len((await client.choose([kit.decision(kit.prompt(0))] * 40)).choices) == 40
        assert gate.scored <= 42


async def test_deadlines_hold_in_the_queue_and_outside(kit, tables, gate):
    async with streaming(kit, tables, merge_below=1, max_queue=4) as (client, service, _):
        call = client.stub.ChooseStream(timeout=60)
        await call.write(batch(kit, "scoring"))
        await until(gate.began.is_set)
        await call.write(batch(kit, "waits", 4, timeout_ms=100))
        await until(lambda: service.batcher.waiting == 4)
        await call.write(batch(kit, "outside", 4, timeout_ms=100))
        await call.write(batch(kit, "patient", 4))
        await until(lambda: service.batcher.stats.expired == 1)
        await asyncio.sleep(0.1)
        gate.open.set()
        await call.done_writing()
        found = {one.request_id: one for one in await read_all(call)}
        assert from_status(found["waits"].failed).reason == from_status(found["outside"].failed).reason == "DEADLINE"
        assert len(found["patient"].choose.choices) == 4
        assert gate.scored == 5


async def test_a_draining_server_answers_what_is_in_flight(kit, tables, gate):
    async with streaming(kit, tables, merge_below=1) as (client, service, server):
        call, idle = client.stub.ChooseStream(timeout=60), client.stub.ChooseStream(timeout=60)
        await call.write(batch(kit, "first"))
        await call.write(batch(kit, "second"))
        await idle.write(pb.ChooseStreamRequest(cancel="nothing"))
        await until(lambda: gate.began.is_set() and service.batcher.waiting == 1 and len(service._streams) == 2)
        stopping = asyncio.create_task(server.drain(20))
        assert (await refusal(idle)).reason == "DRAINING"
        gate.open.set()
        answers = [await call.read(), await call.read()]
        assert sorted(one.request_id for one in answers) == ["first", "second"]
        assert all(one.choose.choices for one in answers)
        assert (await refusal(call)).reason == "DRAINING"
        await asyncio.wait_for(stopping, 10)


@pytest.mark.parametrize(
    ("last", "says"),
    [
        (pb.ChooseStreamRequest(), "neither a batch nor the id"),
        (pb.ChooseStreamRequest(choose=pb.ChooseRequest()), "is empty"),
        (pb.ChooseStreamRequest(choose=pb.ChooseRequest(request_id="first")), "'first' is not answered yet"),
    ],
)
async def test_a_message_against_the_contract_ends_the_stream_after_its_answers(kit, tables, gate, last, says):
    async with streaming(kit, tables) as (client, _, _):
        call = client.stub.ChooseStream(timeout=60)
        await call.write(batch(kit, "first"))
        await until(gate.began.is_set)
        await call.write(last)
        await asyncio.sleep(0.05)
        gate.open.set()
        assert (await call.read()).choose.choices
        error = await refusal(call)
        assert error.reason == "INVALID_ARGUMENT"
        assert says in error.message


async def test_a_stream_that_breaks_fails_what_has_no_answer(kit, tables, gate):
    async with (
        streaming(kit, tables) as (_, service, server),
        PolicyClient(server.address) as other,
        await other.stream() as stream,
    ):
        some = [asyncio.create_task(stream.choose(batch(kit, "", 1, n).choose)) for n in range(3)]
        await until(lambda: service.batcher.waiting == 2)
        await server._server.stop(0)
        for task in some:
            with pytest.raises(PotluckError) as caught:
                await task
            assert caught.value.reason == "UNREACHABLE"
        with pytest.raises(PotluckError):
            await stream.choose(batch(kit, "").choose)
        gate.open.set()
