"""Puts one async context manager around a handler of any of the four kinds.

gRPC has a handler shape per kind of method (unary or streaming on either side), and an interceptor that forgets one
lets exception text leak through it. Here the four shapes are dealt with once.
"""

import contextlib
import inspect
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

Context = Any
"""grpc.aio's servicer context; its type parameters differ by method."""
Handler = Any
"""grpc.RpcMethodHandler, generic for type checkers alone."""
Around = Callable[[Context], contextlib.AbstractAsyncContextManager[None]]


def wrap(handler: Handler, around: Around) -> Handler:
    """The same handler, inside `around`."""
    decode, encode = handler.request_deserializer, handler.response_serializer
    if handler.unary_unary is not None:
        return grpc.unary_unary_rpc_method_handler(_one(handler.unary_unary, around), decode, encode)
    if handler.stream_unary is not None:
        return grpc.stream_unary_rpc_method_handler(_one(handler.stream_unary, around), decode, encode)
    if handler.unary_stream is not None:
        return grpc.unary_stream_rpc_method_handler(_many(handler.unary_stream, around), decode, encode)
    return grpc.stream_stream_rpc_method_handler(_many(handler.stream_stream, around), decode, encode)


def _one(inner: Any, around: Around) -> Any:
    async def call(request: Any, context: Context) -> Any:
        async with around(context):
            return await inner(request, context)

    return call


def _many(inner: Any, around: Around) -> Any:
    if not inspect.isasyncgenfunction(inner):
        return _one(inner, around)  # it writes through the context

    async def call(request: Any, context: Context) -> AsyncIterator[Any]:
        async with around(context), contextlib.aclosing(inner(request, context)) as answers:
            async for answer in answers:
                yield answer

    return call
