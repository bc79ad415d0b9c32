"""Throughput and latency of one policy server under 1, 8 and 64 clients, by calls and by streams.

    python benchmarks/clients.py
    python benchmarks/clients.py --backbone smollm2-135m --requests 64

A server process of its own, and clients in this one, each over a connection of its own. A client by calls asks for
`batch` decisions and waits for the answer; one by streams keeps `window` such batches in flight on one ChooseStream.
All rows come from one run and answer the same number of requests, row by row in turn for `repeats` rounds; the best
round of each is shown. Latency is from the sending of a batch to its answer. Decisions per CPU second are over both
processes: on a machine that does other things they are what can be compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")

import grpc
import tyro

from potluck.play.choice_stream import ChoiceStream
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.policy.v1.policy_service_pb2_grpc import PolicyServiceStub
from potluck.rpc.limits import CLIENT_OPTIONS
from potluck_policy_server.conformance.peer import decision

APART = [*CLIENT_OPTIONS, ("grpc.use_local_subchannel_pool", 1)]
"""Without the last option channels of one process share a connection, and the server sees one client."""
Ask = Callable[[pb.ChooseRequest], Awaitable[pb.ChooseResponse]]


class Row(NamedTuple):
    """What one way of asking came to."""

    per_second: float
    per_cpu_second: float
    latencies: list[float]


class Way(NamedTuple):
    """How clients ask."""

    name: str
    clients: int
    window: int
    """Batches that a client has in flight; 0 = plain calls, one at a time."""


@contextlib.asynccontextmanager
async def asker(address: str, way: Way) -> AsyncIterator[Ask]:
    """One client."""
    async with grpc.aio.insecure_channel(address, APART) as channel:
        await asyncio.wait_for(channel.channel_ready(), 300)
        stub = PolicyServiceStub(channel)
        if not way.window:
            yield lambda request: stub.Choose(request, timeout=600)
            return
        async with ChoiceStream(stub.ChooseStream(timeout=600), address, way.window) as stream:
            yield lambda request: stream.choose(request, 600)


async def measure(address: str, pid: int, way: Way, batch: int, count: int) -> Row:
    """All clients, until `count` requests are answered."""
    latencies: list[float] = []
    requests = [pb.ChooseRequest(decisions=[decision(97 * n + i, 6) for i in range(batch)]) for n in range(64)]
    left = itertools.islice(itertools.cycle(requests), count)

    async def work(ask: Ask) -> None:
        for request in left:
            began = time.perf_counter()
            reply = await ask(request)
            latencies.append(time.perf_counter() - began)
            assert len(reply.choices) == batch

    async with contextlib.AsyncExitStack() as stack:
        asks = [await stack.enter_async_context(asker(address, way)) for _ in range(way.clients)]
        await asyncio.gather(*(ask(requests[0]) for ask in asks))
        began, cpu = time.perf_counter(), cpu_seconds(pid)
        await asyncio.gather(*(work(ask) for ask in asks for _ in range(way.window or 1)))
        done = batch * len(latencies)
        return Row(done / (time.perf_counter() - began), done / (cpu_seconds(pid) - cpu), sorted(latencies))


def cpu_seconds(pid: int) -> float:
    """CPU time of the server and of this process (Linux)."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + time.process_time()


async def run(address: str, pid: int, ways: list[Way], batch: int, count: int, repeats: int) -> list[Row]:
    """The best round of each way."""
    best: dict[Way, Row] = {}
    for _ in range(repeats):
        for way in ways:
            row = await measure(address, pid, way, batch, count)
            print(
                f"{way.clients} by {way.name}: {row.per_cpu_second:.0f} decisions per CPU s",
                file=sys.stderr,
                flush=True,
            )
            if way not in best or row.per_cpu_second > best[way].per_cpu_second:
                best[way] = row
    return [best[way] for way in ways]


def main(
    backbone: str = "tiny",
    clients: tuple[int, ...] = (1, 8, 64),
    batch: int = 2,
    window: int = 4,
    requests: int = 1000,
    repeats: int = 2,
) -> None:
    """Measure and print a table.

    Args:
        backbone: what is served.
        clients: numbers of clients.
        batch: decisions per request, as many as a small game's wave has.
        window: batches in flight per stream.
        requests: per row and round.
        repeats: rounds.
    """
    ways = [
        Way(name, n, w) for n in clients for name, w in (("calls", 0), ("stream 1", 1), (f"stream {window}", window))
    ]
    command = [sys.executable, "-m", "potluck_policy_server.cli", "serve", "--backbone", backbone]
    command += ["--trace-decisions", "0", "--log-level", "WARNING"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        address = process.stdout.readline().split()[-1]
        rows = asyncio.run(run(address, process.pid, ways, batch, requests, repeats))
    finally:
        process.terminate()
        process.wait(30)
    print(f"{backbone}, {batch} decisions per request")
    print(f"{'clients':>7} {'by':<9} {'dec/s':>8} {'dec/CPU s':>9} {'p50 ms':>8} {'p95 ms':>8} {'p99 ms':>8}")
    for way, row in zip(ways, rows, strict=True):
        p50, p95, p99 = (1000 * row.latencies[int(q * (len(row.latencies) - 1))] for q in (0.5, 0.95, 0.99))
        speed = f"{row.per_second:>8.0f} {row.per_cpu_second:>9.0f}"
        print(f"{way.clients:>7} {way.name:<9} {speed} {p50:>8.1f} {p95:>8.1f} {p99:>8.1f}")


if __name__ == "__main__":
    tyro.cli(main)
