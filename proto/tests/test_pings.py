"""A caller who waits long and pings often is not hung up on."""

import asyncio

import grpc
import pytest

from potluck.rpc.limits import SERVER_OPTIONS

METHOD = "/potluck.test.Slow/Answer"
STRICT = [option for option in SERVER_OPTIONS if option[0] != "grpc.http2.max_ping_strikes"]


async def answered(options):
    """The answer to a call of five seconds from a client that pings in each of them."""

    async def slow(request, context):
        await asyncio.sleep(5)
        return b"done"

    server = grpc.aio.server(options=options)
    handler = grpc.method_handlers_generic_handler(
        "potluck.test.Slow", {"Answer": grpc.unary_unary_rpc_method_handler(slow)}
    )
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    pings = [("grpc.keepalive_time_ms", 500), ("grpc.http2.max_pings_without_data", 0)]
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=pings) as channel:
            return await channel.unary_unary(METHOD)(b"", timeout=20)
    finally:
        await server.stop(None)


async def test_pings_do_not_end_a_call():
    assert await answered(SERVER_OPTIONS) == b"done"


async def test_without_the_option_they_would():
    with pytest.raises(grpc.aio.AioRpcError, match="Too many pings"):
        await answered(STRICT)
