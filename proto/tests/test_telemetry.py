"""Tracing: one connected trace, nothing without an endpoint, nothing lost at the end, no byte of play changed."""

import asyncio
import json
import os
import sys
from pathlib import Path

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc

from potluck.common.v1.common_pb2 import TraceContext
from potluck.telemetry import names
from potluck.telemetry.context import extract, inject, parent_of, start_span, trace_id, trace_message
from potluck.telemetry.setup import configure

PROTO = Path(__file__).parents[1]
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def _environment(**extra: str) -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")} | extra


async def _start(*arguments: str, **env: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, *arguments, cwd=PROTO, env=_environment(**env),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip


async def _run(*arguments: str, **env: str) -> tuple[str, str]:
    process = await _start(*arguments, **env)
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    return out.decode(), err.decode()


class _Receiver(trace_service_pb2_grpc.TraceServiceServicer):
    """A real OTLP endpoint."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, str]] = []

    async def Export(self, request, context):
        for resource in request.resource_spans:
            service = next(a.value.string_value for a in resource.resource.attributes if a.key == "service.name")
            self.spans += [(service, span.name) for scope in resource.scope_spans for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


@pytest.fixture
async def receiver():
    server, servicer = grpc.aio.server(), _Receiver()
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    servicer.endpoint = f"http://127.0.0.1:{port}"
    yield servicer
    await server.stop(None)


@pytest.fixture(scope="module")
def played() -> dict[str, dict]:
    async def both():
        on, off = await asyncio.gather(
            _run("-m", "tests.traced", "play", "on"), _run("-m", "tests.traced", "play", "off")
        )
        return {"on": json.loads(on[0]), "off": json.loads(off[0])}

    return asyncio.run(both())


def test_a_round_is_one_connected_trace(played):
    spans = played["on"]["spans"]
    by_id = {span["id"]: span for span in spans}
    root = next(span for span in spans if span["name"] == names.ROUND)
    mine = [span for span in spans if span["trace"] == root["trace"]]
    assert root["parent"] is None
    assert all(span["parent"] in by_id for span in mine if span is not root)

    def parents(name: str, kind: str | None = None) -> set[str]:
        chosen = [span for span in mine if span["name"] == name and kind in (None, span["kind"])]
        assert chosen, name
        return {by_id[span["parent"]]["name"] + "/" + by_id[span["parent"]]["kind"] for span in chosen}

    choose = "potluck.policy.v1.PolicyService/Choose"
    assert parents(names.EPISODE) <= {"wave/INTERNAL", "round/INTERNAL"}
    assert parents(names.WAVE) == {"round/INTERNAL"}
    assert parents(choose, "CLIENT") == {"wave/INTERNAL"}
    assert parents(choose, "SERVER") == {f"{choose}/CLIENT"}
    assert parents("score") == {f"{choose}/SERVER"}
    assert parents("env step") == {"episode/INTERNAL"}
    counts = {name: sum(span["name"] == name for span in mine) for name in (names.EPISODE, names.WAVE, "env step")}
    assert counts == {names.EPISODE: 2, names.WAVE: 7, "env step": 14}
    assert played["on"]["trace_ids"] == [root["trace"]] * 2


def test_rounds_do_not_run_into_each_other(played):
    roots = [span for span in played["on"]["spans"] if span["parent"] is None]
    assert len({span["trace"] for span in roots}) == len(roots) > 2


def test_spans_carry_the_pinned_attributes(played):
    spans = played["on"]["spans"]
    client = next(span for span in spans if span["kind"] == "CLIENT" and span["name"].endswith("/Choose"))
    assert client["attributes"] == {
        "rpc.system.name": "grpc",
        "rpc.method": "potluck.policy.v1.PolicyService/Choose",
        "rpc.response.status_code": "OK",
    }
    episode = next(span for span in spans if span["name"] == names.EPISODE)
    for name in ("potluck.episode.id", "potluck.game", "potluck.seed", "potluck.return", "potluck.trajectory.digest"):
        assert name in episode["attributes"]
    assert {span["service"] for span in spans} == {"potluck-test"}


def test_tracing_changes_no_byte_of_what_is_played(played):
    on, off = played["on"], played["off"]
    assert on["results"] == off["results"]
    assert len(on["results"][0]["decisions"]) > 100
    assert off["spans"] == []
    assert set(off["traceparents"]) == {""}
    assert off["trace_ids"] == ["", ""]
    assert all(parent.startswith("00-") for parent in on["traceparents"])
    assert (on["sdk"], off["sdk"]) == (True, False)


def test_without_an_endpoint_there_is_no_exporter():
    assert configure("potluck-test", env={}) is None
    assert configure("potluck-test", env={"OTEL_EXPORTER_OTLP_ENDPOINT": ""}) is None
    assert (
        configure("x", env={"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_SDK_DISABLED": "true"}) is None
    )


NO_SDK = """
import sys
sys.modules["opentelemetry.sdk"] = None
import potluck.play, potluck.rpc.server, potluck.rpc.channel
from potluck.telemetry.setup import configure, shutdown
from potluck.telemetry.context import start_span
from potluck.rpc.errors import PotluckError
with start_span("x"):
    pass
try:
    print(configure("x"))
except PotluckError as error:
    print(error.reason, error)
shutdown()
"""


async def test_without_the_sdk_everything_works_until_an_endpoint_is_set():
    out, _ = await _run("-c", NO_SDK)
    assert out.split() == ["None"]
    out, _ = await _run("-c", NO_SDK, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1")
    assert out.startswith("UNSUPPORTED")
    assert "potluck-proto[otel]" in out


WORKER = """
import os, sys
from potluck.telemetry.context import start_span
from potluck.telemetry.setup import configure
configure("potluck-worker")
for _ in range(2):
    with start_span("episode"):
        pass
if len(sys.argv) > 1:
    os._exit(0)
"""


async def test_recycled_workers_lose_no_span(receiver):
    workers = 5
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint}
    for _ in range(workers):
        await _run("-c", WORKER, **env)
    assert receiver.spans.count(("potluck-worker", names.EPISODE)) == 2 * workers
    assert receiver.spans.count(("potluck-worker", names.STARTUP)) == workers
    before = len(receiver.spans)
    await _run("-c", WORKER, "skip", **env)
    assert len(receiver.spans) == before, "the control: a process that skips the shutdown loses its spans"


async def test_a_service_sends_its_spans_on_sigterm(receiver):
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, "OTEL_SERVICE_NAME": "named"}
    process = await _start("-m", "tests.traced", "serve", **env)
    assert (await asyncio.wait_for(process.stdout.readline(), 30)).startswith(b"ready test on")
    process.terminate()
    _, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    assert sorted(receiver.spans) == [("named", names.ROUND), ("named", names.STARTUP)]
    assert b"2 spans sent, 0 lost" in err


async def test_spans_that_nobody_takes_are_counted():
    env = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    process = await _start("-m", "tests.traced", "serve", **env)
    await asyncio.wait_for(process.stdout.readline(), 30)
    process.terminate()
    _, err = await asyncio.wait_for(process.communicate(), 30)
    assert process.returncode == 0
    assert b"0 spans sent, 2 lost" in err


def test_a_message_carries_a_context_over_a_stream():
    context = parent_of(TraceContext(traceparent=PARENT, tracestate="a=1"))
    with start_span("child", parent=context):
        message = trace_message()
        assert trace_id() == PARENT.split("-")[1]
    assert message is not None
    assert (message.traceparent, message.tracestate) == (PARENT, "a=1"), "without the SDK a parent passes through"
    assert (trace_message(), trace_id(), parent_of(TraceContext())) == (None, "", None)


@pytest.mark.parametrize(
    ("header", "valid"),
    [
        (PARENT, True),
        (PARENT.replace("00-", "01-", 1), True),
        (PARENT.replace("00-", "ff-", 1), False),
        (PARENT.replace("0af7651916cd43dd8448eb211c80319c", "0" * 32), False),
        (PARENT.replace("b7ad6b7169203331", "0" * 16), False),
        (PARENT.upper(), False),
        (PARENT + "-extra", False),
        ("rubbish", False),
        ("", False),
    ],
)
def test_only_valid_headers_count(header, valid):
    carrier: dict[str, str] = {}
    span = trace.get_current_span(extract({"traceparent": header}))
    inject(carrier, span)
    assert ("traceparent" in carrier) is valid


def test_names_are_pinned():
    ours = {key: value for key, value in vars(names).items() if key.isupper()}
    assert len(set(ours.values())) == len(ours)
    standard = {key: value for key, value in ours.items() if key.startswith(("RPC_", "GEN_AI_", "ERROR_", "SERVICE_"))}
    assert standard == {
        "RPC_SYSTEM": "rpc.system.name",
        "RPC_METHOD": "rpc.method",
        "RPC_STATUS": "rpc.response.status_code",
        "ERROR_TYPE": "error.type",
        "SERVICE_NAME": "service.name",
        "GEN_AI_OPERATION": "gen_ai.operation.name",
        "GEN_AI_PROVIDER": "gen_ai.provider.name",
        "GEN_AI_MODEL": "gen_ai.request.model",
        "GEN_AI_RESPONSE_MODEL": "gen_ai.response.model",
        "GEN_AI_TEMPERATURE": "gen_ai.request.temperature",
        "GEN_AI_SEED": "gen_ai.request.seed",
        "GEN_AI_AGENT": "gen_ai.agent.name",
        "GEN_AI_INPUT_TOKENS": "gen_ai.usage.input_tokens",
        "GEN_AI_OUTPUT_TOKENS": "gen_ai.usage.output_tokens",
    }
    dotted = [value for key, value in ours.items() if key not in standard and "." in value]
    assert all(value.startswith("potluck.") for value in dotted)
