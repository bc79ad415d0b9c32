"""Programs that the tracing tests run in processes of their own: a process has one tracer provider.

python -m tests.traced play on|off     plays a round and prints its spans and results as JSON
python -m tests.traced worker          makes one span and ends; with "_exit", without a shutdown
python -m tests.traced serve           a service that makes one span at its start and waits for a signal
"""

import asyncio
import dataclasses
import json
import sys

from potluck.play import PlayOptions
from potluck.rpc.logs import configure_logs
from potluck.rpc.server import run_until_signal
from potluck.telemetry import names
from potluck.telemetry.context import parent_of, start_span
from potluck.telemetry.setup import configure

from .conftest import specs, table
from .counting import CountingEnv, CountingPolicy, serve_env


class TracedEnv(CountingEnv):
    """Makes a span of its own under the span that a command carries."""

    async def carry_out(self, command, counts, context):
        with start_span("env step", parent=parent_of(command.trace)):
            return await super().carry_out(command, counts, context)


class TracedPolicy(CountingPolicy):
    """Makes a span of its own inside the call's."""

    async def Choose(self, request, context):
        with start_span("score"):
            return await super().Choose(request, context)


def _plain(result) -> dict:
    record = dataclasses.asdict(result, dict_factory=lambda pairs: {k: str(v) for k, v in pairs if k != "trace_id"})
    del record["env"]
    return record


async def _play(on: bool) -> None:
    memory = None
    if on:
        from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

        memory = InMemorySpanExporter()
        telemetry = configure("potluck-test", memory)
    env, policy = TracedEnv(), TracedPolicy()
    async with table(env, policy=policy) as t:
        with start_span(names.ROUND):
            results = await t.play(specs(2), PlayOptions(tokens=True))
        await t.play(specs(1, horizon=1))
    spans = []
    if memory is not None:
        telemetry.flush()
        spans = [
            {
                "name": span.name,
                "kind": span.kind.name,
                "trace": f"{span.context.trace_id:032x}",
                "id": span.context.span_id,
                "parent": span.parent.span_id if span.parent else None,
                "service": span.resource.attributes["service.name"],
                "attributes": dict(span.attributes),
            }
            for span in memory.get_finished_spans()
        ]
    out = {
        "spans": spans,
        "results": [_plain(result) for result in results],
        "trace_ids": [result.trace_id for result in results],
        "traceparents": policy.traceparents + env.traces,
        "sdk": "opentelemetry.sdk" in sys.modules,
    }
    json.dump(out, sys.stdout)


async def _serve() -> None:
    configure_logs("potluck-test")
    configure("potluck-test")
    with start_span(names.ROUND):
        pass
    await run_until_signal(await serve_env(CountingEnv()), "test")


if __name__ == "__main__":
    match sys.argv[1]:
        case "play":
            asyncio.run(_play(sys.argv[2] == "on"))
        case "serve":
            asyncio.run(_serve())
