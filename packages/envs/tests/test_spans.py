"""Episode spans under the caller's span: one each, ended whatever happens, and none without a caller's span."""

import pytest
import pytest_asyncio
import wire_client as wire
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from potluck.common.v1.common_pb2 import TraceContext
from potluck.telemetry import context, names
from potluck_envs.server import env_server

pytestmark = pytest.mark.asyncio
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans(monkeypatch):
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(context, "_TRACER", provider.get_tracer("potluck"))
    return exporter


@pytest_asyncio.fixture
async def stream():
    async with env_server(workers=1) as server, wire.Stream(server.address) as stream:
        yield stream


async def test_ten_episodes_leave_ten_spans_under_their_parent(stream, spans):
    commands = [wire.start(f"e{i}", seed=i) for i in range(10)]
    commands[7] = wire.start("e7", game="faulty/raises", seed=13)
    for command in commands:
        command.trace.CopyFrom(TraceContext(traceparent=PARENT))
    untraced = wire.start("untraced")
    done = await stream.finish((await stream.ask(*commands, untraced)).values())
    found = {span.attributes[names.EPISODE_ID]: span for span in spans.get_finished_spans()}
    assert sorted(found) == sorted(f"e{i}" for i in range(10))
    assert {span.parent.span_id for span in found.values()} == {0xB7AD6B7169203331}
    assert found["e3"].attributes[names.RETURN] == done["e3"].finished.team_return
    assert found["e3"].attributes[names.STEPS] == 60
    assert not found["e7"].status.is_ok


async def test_tracing_changes_no_byte(stream, spans):
    plain, traced = wire.start("plain", seed=4), wire.start("traced", seed=4)
    traced.trace.CopyFrom(TraceContext(traceparent=PARENT))
    done = await stream.finish((await stream.ask(plain, traced)).values(), letters="first")
    assert done["plain"].finished == done["traced"].finished
