"""Who may listen where, and who may call."""

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from potluck.rpc.channel import connect, wait_ready
from potluck.rpc.errors import PotluckError, Reason, typed_errors
from potluck.rpc.security import Security, is_loopback
from potluck.rpc.server import serve

from .certificates import issue, make_authority
from .four_kinds import KINDS, call, kinds_server

TOKEN = Security(token="open sesame")


async def _reason(channel, kind="UnaryUnary", security=None) -> str:
    with pytest.raises(PotluckError) as caught, typed_errors():
        await call(channel, kind, b"hello", timeout=3, security=security)
    return caught.value.reason


@pytest.mark.parametrize("kind", KINDS)
async def test_a_missing_or_wrong_token_is_refused_for_every_kind_of_call(kind):
    async with kinds_server(security=TOKEN) as (kinds, server, right):
        assert await call(right, kind, b"hello", security=TOKEN) == b"done hello"
        for wrong in (Security(), Security(token="open"), Security(token="open sesame ")):
            async with connect(server.address, wrong) as channel:
                assert await _reason(channel, kind, wrong) == Reason.UNAUTHENTICATED
    assert kinds.attempts == 1


async def test_health_needs_no_token_and_reflection_does():
    async with kinds_server(security=TOKEN) as (_, server, _), connect(server.address, Security()) as channel:
        await wait_ready(channel, server.address, 2)
        request = reflection_pb2.ServerReflectionRequest(list_services="")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [reply async for reply in reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo([request])]
    assert caught.value.code() == grpc.StatusCode.UNAUTHENTICATED


async def test_tls_with_a_token():
    authority = make_authority()
    cert, key = issue(authority, "server")
    async with kinds_server(security=Security(cert=cert, key=key, token="t")) as (_, server, _):
        async with connect(server.address, Security(ca=authority.pem, token="t")) as channel:
            assert await call(channel, "UnaryUnary", b"hello") == b"done hello"
        async with connect(server.address, Security(ca=authority.pem, token="wrong")) as channel:
            assert await _reason(channel) == Reason.UNAUTHENTICATED
        for stranger in (Security(token="t"), Security(ca=make_authority().pem, token="t")):
            async with connect(server.address, stranger) as channel:
                assert await _reason(channel) == Reason.UNREACHABLE


async def test_mutual_tls_refuses_clients_without_a_certificate_of_the_authority():
    authority, other = make_authority(), make_authority()
    cert, key = issue(authority, "server")
    mine, theirs = issue(authority, "trainer", client=True), issue(other, "trainer", client=True)
    mutual = Security(cert=cert, key=key, ca=authority.pem, token="t")
    async with kinds_server(security=mutual) as (_, server, _):
        async with connect(server.address, Security(*mine, ca=authority.pem, token="t")) as channel:
            assert await call(channel, "UnaryUnary", b"hello") == b"done hello"
        for stranger in (Security(ca=authority.pem, token="t"), Security(*theirs, ca=authority.pem, token="t")):
            async with connect(server.address, stranger) as channel:
                assert await _reason(channel) == Reason.UNREACHABLE


@pytest.mark.parametrize("bind", ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.org:0"])
async def test_an_address_others_can_reach_needs_tls_and_a_token(bind):
    authority = make_authority()
    cert, key = issue(authority, "server")
    for security, missing in (
        (Security(), "POTLUCK_TLS_CERT and POTLUCK_TLS_KEY, POTLUCK_TOKEN"),
        (TOKEN, "POTLUCK_TLS_CERT and POTLUCK_TLS_KEY:"),
        (Security(cert=cert, key=key), "POTLUCK_TOKEN:"),
    ):
        with pytest.raises(PotluckError, match=missing) as caught:
            await serve(lambda server: None, services=[], bind=bind, security=security)
        assert caught.value.reason == Reason.INSECURE


async def test_with_both_it_may_listen_everywhere():
    authority = make_authority()
    cert, key = issue(authority, "server")
    security = Security(cert=cert, key=key, token="t")
    server = await serve(lambda server: None, services=[], bind="0.0.0.0:0", security=security)
    async with connect(f"127.0.0.1:{server.port}", Security(ca=authority.pem)) as channel:
        reply = await health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest())
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
    await server.stop()


def test_a_token_never_travels_in_plain_text_to_other_machines():
    with pytest.raises(PotluckError, match="plain text") as caught:
        connect("192.0.2.1:7001", TOKEN)
    assert caught.value.reason == Reason.INSECURE


async def test_a_port_in_use_is_named_with_the_cure():
    async with kinds_server() as (_, server, _):
        with pytest.raises(PotluckError, match=f"port {server.port} on 127.0.0.1 is in use: .*--bind") as caught:
            await serve(lambda server: None, services=[], bind=server.address, security=Security())
    assert caught.value.reason == Reason.PORT_IN_USE


@pytest.mark.parametrize("bind", ["7001", "127.0.0.1", "127.0.0.1:http", "127.0.0.1:70000", ":7001", ""])
async def test_an_address_that_is_none_is_refused(bind):
    with pytest.raises(PotluckError) as caught:
        await serve(lambda server: None, services=[], bind=bind, security=Security())
    assert caught.value.reason in (Reason.INVALID_ARGUMENT, Reason.INSECURE)


async def test_an_address_of_another_machine_is_refused():
    authority = make_authority()
    cert, key = issue(authority, "server")
    security = Security(cert=cert, key=key, token="t")
    with pytest.raises(PotluckError, match="cannot listen") as caught:
        await serve(lambda server: None, services=[], bind="192.0.2.1:0", security=security)
    assert caught.value.reason == Reason.INVALID_ARGUMENT


def test_loopback():
    yes = ["127.0.0.1:1", "127.9.9.9:1", "[::1]:1", "localhost:1", "unix:/x/y"]
    no = ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "example.org:1", "localhost.example.org:1", "*:1"]
    assert [is_loopback(address) for address in yes] == [True] * len(yes)
    assert [is_loopback(address) for address in no] == [False] * len(no)


def test_settings_come_from_the_environment(tmp_path):
    for name in ("cert", "key", "ca"):
        (tmp_path / name).write_bytes(name.encode())
    env = {f"POTLUCK_TLS_{name.upper()}": str(tmp_path / name) for name in ("cert", "key", "ca")}
    security = Security.from_env(env | {"POTLUCK_TOKEN": "t"})
    assert (security.cert, security.key, security.ca, security.token) == (b"cert", b"key", b"ca", "t")
    assert Security.from_env({}) == Security()
    assert "t" not in repr(security).removeprefix("Security(").split(", ")
    assert repr(security) == "Security(cert, key, ca, token)"


@pytest.mark.parametrize(
    "env",
    [{"POTLUCK_TLS_CERT": "missing.pem", "POTLUCK_TLS_KEY": "missing.pem"}, {"POTLUCK_TOKEN": "a\nb"}],
)
def test_settings_that_cannot_work_are_refused(env):
    with pytest.raises(PotluckError) as caught:
        Security.from_env(env)
    assert caught.value.reason == Reason.INVALID_ARGUMENT


def test_a_certificate_without_its_key_is_refused():
    with pytest.raises(PotluckError, match="POTLUCK_TLS_KEY"):
        Security(cert=b"x")


async def test_the_environment_decides_where_nothing_else_does(monkeypatch):
    monkeypatch.setenv("POTLUCK_TOKEN", "from the environment")
    async with kinds_server(security=None) as (_, server, channel):
        assert await call(channel, "UnaryUnary", b"hello") == b"done hello"
        async with connect(server.address, Security()) as stranger:
            assert await _reason(stranger) == Reason.UNAUTHENTICATED
