"""Model endpoints through the providers' own client libraries: one conversation in, one reply out.

The libraries come with the extra `potluck-optionlib[draft]` and are imported when a client is made. Their retries are
switched off: `retry.py` does the waiting, so that every attempt is seen and counted. Keys are read from the
environment, passed to the client and never printed or written: what comes back is searched for them (`bodies.py`).
Redirects are not followed, for they would send the whole conversation to somebody else.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Protocol

from potluck_optionlib.drafting.bodies import Message, Reply, Veil, anthropic_reply, openai_reply
from potluck_optionlib.drafting.errors import (
    AuthError,
    EndpointError,
    MalformedReplyError,
    MissingClientError,
    MissingKeyError,
    RateLimitedError,
    RedirectedError,
    RefusedRequestError,
    ServerFailedError,
    UnknownModelError,
    UnreachableError,
)
from potluck_optionlib.drafting.settings import Endpoint, Provider

__all__ = ["KEYS", "Client", "Message", "Reply", "connect"]

KEYS = {Provider.OPENAI: "OPENAI_API_KEY", Provider.ANTHROPIC: "ANTHROPIC_API_KEY"}
_KINDS: dict[int, type[EndpointError]] = {
    401: AuthError,
    403: AuthError,
    404: UnknownModelError,
    429: RateLimitedError,
}
_CURES = {
    AuthError: "The key is refused: check {key} and that it may use this model.",
    UnknownModelError: "Check --model and --base-url.",
    RateLimitedError: "Try again later or with another model.",
    RefusedRequestError: "The endpoint does not accept the request: check --model, --max-tokens and --temperature.",
    ServerFailedError: "The endpoint failed; try again later.",
}


class Client(Protocol):
    """A conversation partner."""

    address: str
    """Where requests go, without any user name or password."""

    def ask(self, system: str, messages: Sequence[Message]) -> Reply:
        """One call. Raises the EndpointErrors; `retry_after` on one is the endpoint's header."""
        ...


def connect(endpoint: Endpoint) -> Client:
    """The client of an endpoint. Raises MissingKeyError or MissingClientError; nothing is sent yet."""
    key = os.environ.get(KEYS[endpoint.provider], "").strip()
    if not key:
        raise MissingKeyError(
            f"{KEYS[endpoint.provider]} is not set, so nothing was sent. Export the key of {endpoint.provider}; "
            "a local server that needs none takes any word, e.g. `none`."
        )
    return _AnthropicClient(endpoint, key) if endpoint.provider is Provider.ANTHROPIC else _OpenAIClient(endpoint, key)


def _made(kind: Any, library: Any, endpoint: Endpoint, key: str) -> Any:
    """A library's client. Raises UnreachableError where the address is none."""
    try:
        return kind(
            api_key=key,
            base_url=endpoint.base_url,
            max_retries=0,
            timeout=endpoint.timeout_s,
            http_client=library.DefaultHttpxClient(follow_redirects=False, timeout=endpoint.timeout_s),
        )
    except Exception as error:
        told = Veil(key).text(_address(f"{endpoint.base_url}: {error}"))
        raise UnreachableError(f"--base-url {told}. Give an address such as http://localhost:8000/v1.") from None


class _OpenAIClient:
    def __init__(self, endpoint: Endpoint, key: str) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingClientError(_missing("openai")) from error
        self._library: Any = openai
        self._endpoint, self._key = endpoint, key
        self._client = _made(openai.OpenAI, openai, endpoint, key)
        self.address = _address(self._client.base_url)

    def ask(self, system: str, messages: Sequence[Message]) -> Reply:
        turns: Any = [{"role": "system", "content": system}, *({"role": m.role, "content": m.text} for m in messages)]
        extra: dict[str, Any] = {}
        if self._endpoint.temperature is not None:
            extra["temperature"] = self._endpoint.temperature
        try:
            raw = self._client.chat.completions.with_raw_response.create(
                model=self._endpoint.model, messages=turns, max_completion_tokens=self._endpoint.max_tokens, **extra
            )
            body = raw.http_response.text
        except (self._library.OpenAIError, ValueError) as error:
            raise _typed(error, self._library, self._endpoint, self.address, self._key) from None
        return openai_reply(body, raw.headers, Veil(self._key), _where(self._endpoint, self.address))


class _AnthropicClient:
    def __init__(self, endpoint: Endpoint, key: str) -> None:
        try:
            import anthropic
        except ImportError as error:
            raise MissingClientError(_missing("anthropic")) from error
        self._library: Any = anthropic
        self._endpoint, self._key = endpoint, key
        self._client = _made(anthropic.Anthropic, anthropic, endpoint, key)
        self.address = _address(self._client.base_url)

    def ask(self, system: str, messages: Sequence[Message]) -> Reply:
        turns: Any = [{"role": m.role, "content": m.text} for m in messages]
        warmth = self._endpoint.temperature
        extra = None if warmth is None else {"temperature": warmth}
        try:
            raw = self._client.messages.with_raw_response.create(
                model=self._endpoint.model,
                system=system,
                messages=turns,
                max_tokens=self._endpoint.max_tokens,
                timeout=self._endpoint.timeout_s,
                extra_body=extra,
            )
            body = raw.http_response.text
        except (self._library.AnthropicError, ValueError) as error:
            raise _typed(error, self._library, self._endpoint, self.address, self._key) from None
        return anthropic_reply(body, raw.headers, Veil(self._key), _where(self._endpoint, self.address))


def _address(url: object) -> str:
    return re.sub(r"//[^/@]*@", "//", str(url))


def _where(endpoint: Endpoint, address: str) -> str:
    return f"{endpoint.provider} ({endpoint.model}, {address})"


def _typed(error: Exception, library: Any, endpoint: Endpoint, address: str, key: str) -> EndpointError:
    """The error of a client library as ours, without the key and with its cure."""
    where = _where(endpoint, address)
    text = " ".join(Veil(key).text(str(error)).split())[:500]
    if isinstance(error, library.APITimeoutError):
        return UnreachableError(
            f"{where} gave no reply within {endpoint.timeout_s:g} s. Raise --timeout-s or ask for less."
        )
    if isinstance(error, library.APIConnectionError):
        return UnreachableError(f"{where} cannot be reached: {text} Check --base-url and the network.")
    status = int(getattr(error, "status_code", 0) or 0)
    if isinstance(error, library.APIStatusError) and 300 <= status < 400:
        target = _address(Veil(key).text(error.response.headers.get("location", "nowhere")))[:300]
        return RedirectedError(
            f"{where} answered {status} and points to {target}. Redirects are not followed; if you trust that address, "
            "give it as --base-url.",
            status,
        )
    if not isinstance(error, library.APIStatusError) or status < 400:
        return MalformedReplyError(f"{where} sent something that is no reply: {text}", status)
    kind = _KINDS.get(status, ServerFailedError if status >= 500 else RefusedRequestError)
    cure = _CURES[kind].format(key=KEYS[endpoint.provider])
    typed = kind(f"{where} answered {status}: {text} {cure}", status)
    typed.retry_after = error.response.headers.get("retry-after")
    return typed


def _missing(library: str) -> str:
    return f"The `{library}` client library is not installed. Install potluck-optionlib[draft]."
