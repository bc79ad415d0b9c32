"""Takes a reply out of a response body, whatever the endpoint sent, and keeps the key out of all that is kept.

Bodies are read here and not by the client libraries, which build objects of any shape without checking them. Each
string passes `Veil.text` before it is cut, shown or stored: that is the one place where the key is taken out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from potluck_optionlib.drafting.errors import MalformedReplyError

HIDDEN = "<key>"
SHORTEST_KEY = 8
"""Keys with fewer characters are no secrets but words for a server that wants none (`none`); they stay."""


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


@dataclass(frozen=True, slots=True)
class Veil:
    """Takes a key out of text."""

    key: str

    def text(self, text: str) -> str:
        """The text with `<key>` for the key (also as escaped in JSON, Python and URLs), U+FFFD for lone surrogates."""
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if len(self.key) < SHORTEST_KEY:
            return whole
        forms = {self.key, json.dumps(self.key)[1:-1], repr(self.key)[1:-1], quote(self.key, safe="")}
        for form in sorted(forms, key=len, reverse=True):
            whole = whole.replace(form, HIDDEN)
        return whole


def openai_reply(body: str, headers: Mapping[str, str], veil: Veil, where: str) -> Reply:
    """The reply in a chat completion. Raises MalformedReplyError."""
    read = _Reader(body, veil, where)
    choices = read.data.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(choice, dict) or not isinstance(message, dict):
        raise read.fault("it holds no message")
    finish = read.word(choice, "finish_reason")
    return Reply(
        read.word(message, "content"),
        finish,
        finish == "length",
        finish == "content_filter" or bool(message.get("refusal")),
        read.word(read.data, "model"),
        veil.text(headers.get("x-request-id", "")),
        read.count("prompt_tokens"),
        read.count("completion_tokens"),
    )


def anthropic_reply(body: str, headers: Mapping[str, str], veil: Veil, where: str) -> Reply:
    """The reply in a message. Raises MalformedReplyError."""
    read = _Reader(body, veil, where)
    blocks = read.data.get("content")
    if not isinstance(blocks, list) or not all(isinstance(block, dict) for block in blocks):
        raise read.fault("it holds no message")
    texts = [block for block in blocks if block.get("type") == "text"]
    if not all(isinstance(block.get("text"), str) for block in texts):
        raise read.fault("a text block holds no text")
    finish = read.word(read.data, "stop_reason")
    return Reply(
        veil.text("".join(block["text"] for block in texts)),
        finish,
        finish in ("max_tokens", "model_context_window_exceeded"),
        finish == "refusal",
        read.word(read.data, "model"),
        veil.text(headers.get("request-id", "")),
        read.count("input_tokens"),
        read.count("output_tokens"),
    )


class _Reader:
    def __init__(self, body: str, veil: Veil, where: str) -> None:
        self._body, self._veil, self._where = body, veil, where
        try:
            data = json.loads(body)
        except (ValueError, RecursionError):
            raise self.fault("it is no JSON") from None
        if not isinstance(data, dict):
            raise self.fault("it is no JSON object")
        self.data: dict[str, Any] = data

    def fault(self, why: str) -> MalformedReplyError:
        seen = self._veil.text(self._body)[:300]
        return MalformedReplyError(f"{self._where} sent something that is no reply, {why}: {seen!r}. Check --base-url.")

    def word(self, fields: Mapping[str, Any], name: str) -> str:
        """A text field, "" where it is absent or null."""
        value = fields.get(name)
        if value is not None and not isinstance(value, str):
            raise self.fault(f"`{name}` is no text")
        return self._veil.text(value or "")

    def count(self, name: str) -> int:
        """A token count, -1 where the endpoint tells none that is a number."""
        usage = self.data.get("usage")
        value = usage.get(name) if isinstance(usage, dict) else None
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else -1
