"""Model endpoints through the providers' own client libraries: one conversation in, one reply out.

The libraries come with the extra `potluck-optionlib[draft]` and are imported when a client is made. Their retries are
switched off: `retry.py` does the waiting, so that every attempt is seen and counted. Keys are read from the
environment, passed to the client and never kept, printed or written; error texts are searched for them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from potluck_optionlib.drafting.errors import (
    AuthError,
    EndpointError,
    MalformedReplyError,
    MissingClientError,
    MissingKeyError,
    RateLimitedError,
    RefusedRequestError,
    ServerFailedError,
    UnknownModelError,
    UnreachableError,
)
from potluck_optionlib.drafting.settings import Endpoint, Provider

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


@dataclass(frozen=True, slots=True)
class Message:
    """One turn of the conversation."""

    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What the model said."""

    text: str
    finish: str
    """The endpoint's own word for why the reply ended ("stop", "length", "end_turn", "max_tokens", ...)."""
    truncated: bool
    refused: bool
    model: str
    """The model that the endpoint says answered."""
    request_id: str
    input_tokens: int
    """-1 where the endpoint does not tell."""
    output_tokens: int


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


class _OpenAIClient:
    def __init__(self, endpoint: Endpoint, key: str) -> None:
        try:
            import openai
        except ImportError as error:
            raise MissingClientError(_missing("openai")) from error
        self._library: Any = openai
        self._endpoint, self._key = endpoint, key
        self._client = openai.OpenAI(api_key=key, base_url=endpoint.base_url, max_retries=0, timeout=endpoint.timeout_s)
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
            done: Any = raw.parse()
        except (self._library.OpenAIError, ValueError) as error:
            raise _typed(error, self._library, self._endpoint, self.address, self._key) from None
        choices = getattr(done, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise MalformedReplyError(_no_message(self._endpoint, raw.text))
        choice, usage = choices[0], done.usage
        return Reply(
            choice.message.content or "",
            str(choice.finish_reason),
            choice.finish_reason == "length",
            choice.finish_reason == "content_filter" or bool(getattr(choice.message, "refusal", None)),
            str(done.model),
            str(raw.headers.get("x-request-id", "")),
            usage.prompt_tokens if usage else -1,
            usage.completion_tokens if usage else -1,
        )


class _AnthropicClient:
    def __init__(self, endpoint: Endpoint, key: str) -> None:
        try:
            import anthropic
        except ImportError as error:
            raise MissingClientError(_missing("anthropic")) from error
        self._library: Any = anthropic
        self._endpoint, self._key = endpoint, key
        self._client = anthropic.Anthropic(
            api_key=key, base_url=endpoint.base_url, max_retries=0, timeout=endpoint.timeout_s
        )
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
            done: Any = raw.parse()
        except (self._library.AnthropicError, ValueError) as error:
            raise _typed(error, self._library, self._endpoint, self.address, self._key) from None
        content = getattr(done, "content", None)
        if content is None:
            raise MalformedReplyError(_no_message(self._endpoint, raw.text()))
        usage = done.usage
        return Reply(
            "".join(block.text for block in content if block.type == "text"),
            str(done.stop_reason),
            done.stop_reason in ("max_tokens", "model_context_window_exceeded"),
            done.stop_reason == "refusal",
            str(done.model),
            str(raw.headers.get("request-id", "")),
            usage.input_tokens if usage else -1,
            usage.output_tokens if usage else -1,
        )


def _address(url: object) -> str:
    return re.sub(r"//[^/@]*@", "//", str(url))


def _typed(error: Exception, library: Any, endpoint: Endpoint, address: str, key: str) -> EndpointError:
    """The error of a client library as ours, without the key and with its cure."""
    where = f"{endpoint.provider} ({endpoint.model}, {address})"
    text = " ".join(str(error).replace(key, "<key>").split())[:500]
    if isinstance(error, library.APITimeoutError):
        return UnreachableError(
            f"{where} gave no reply within {endpoint.timeout_s:g} s. Raise --timeout-s or ask for less."
        )
    if isinstance(error, library.APIConnectionError):
        return UnreachableError(f"{where} cannot be reached: {text} Check --base-url and the network.")
    status = int(getattr(error, "status_code", 0) or 0)
    if not isinstance(error, library.APIStatusError) or status < 400:
        return MalformedReplyError(f"{where} sent something that is no reply: {text}", status)
    kind = _KINDS.get(status, ServerFailedError if status >= 500 else RefusedRequestError)
    cure = _CURES[kind].format(key=KEYS[endpoint.provider])
    typed = kind(f"{where} answered {status}: {text} {cure}", status)
    typed.retry_after = error.response.headers.get("retry-after")
    return typed


def _missing(library: str) -> str:
    return f"The `{library}` client library is not installed. Install potluck-optionlib[draft]."


def _no_message(endpoint: Endpoint, body: str) -> str:
    return f"{endpoint.provider} ({endpoint.model}) sent a reply without a message: {body[:300]!r}. Check --base-url."
