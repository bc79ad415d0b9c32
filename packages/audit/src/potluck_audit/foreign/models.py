"""Models that judge: one prompt in, one reply out, with its cost.

`connect_openai` speaks to any endpoint of OpenAI's chat protocol through the `openai` client library, which is imported
when it is called; the key comes from OPENAI_API_KEY and is never shown. `PolicyModel` asks the `Generate` call of a
policy server. Any object with `ask` and `name` will do.
"""

from __future__ import annotations

import os
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

from potluck.play.policy_client import PolicyClient
from potluck.policy.v1 import policy_service_pb2 as policy_pb
from potluck.rpc.errors import PotluckError, Reason, typed_errors
from potluck_audit.foreign.errors import JudgeUnavailable, RequestRefused

KEY = "OPENAI_API_KEY"


@dataclass(frozen=True)
class Reply:
    """What a model said. Tokens are None where the endpoint does not tell."""

    text: str
    truncated: bool = False
    prompt_tokens: int | None = None
    output_tokens: int | None = None


class Model(Protocol):
    """Answers prompts."""

    name: str

    async def ask(self, system: str, prompt: str) -> Reply:
        """Raises RequestRefused where this one prompt is not taken, other errors where no prompt would be."""
        ...


class OpenModel(Model, AbstractAsyncContextManager["OpenModel"], Protocol):
    """A model with a connection that is closed at the end of its context."""


@dataclass(frozen=True)
class Sampling:
    """How text is written."""

    max_tokens: int = 1024
    temperature: float | None = 0.0
    """None leaves it to the endpoint, as some models demand."""
    timeout_s: float = 300.0
    retries: int = 4
    """After rate limits and failures of the endpoint."""


class OpenAIModel:
    """A model behind OpenAI's chat protocol."""

    def __init__(self, model: str, base_url: str | None = None, sampling: Sampling = Sampling()) -> None:
        try:
            import openai
        except ImportError as error:
            cure = "pip install 'potluck-audit[judge]'"
            raise JudgeUnavailable("model", "the `openai` client library is missing", cure) from error
        key = os.environ.get(KEY, "").strip()
        if not key:
            cure = "export it; a local server that needs none takes any word, such as none"
            raise JudgeUnavailable("model", f"{KEY} is not set, so nothing was sent", cure)
        self.name, self._key, self._sampling, self._library = model, key, sampling, openai
        self._client = openai.AsyncOpenAI(
            api_key=key, base_url=base_url, max_retries=sampling.retries, timeout=sampling.timeout_s
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._client.close()

    async def ask(self, system: str, prompt: str) -> Reply:
        warmth: dict[str, Any] = {}
        if self._sampling.temperature is not None:
            warmth["temperature"] = self._sampling.temperature
        turns: Any = [{"role": "system", "content": system}, {"role": "user", "content": prompt}]
        try:
            done: Any = await self._client.chat.completions.create(
                model=self.name, messages=turns, max_completion_tokens=self._sampling.max_tokens, **warmth
            )
        except self._library.OpenAIError as error:
            raise self._typed(error) from None
        choices = getattr(done, "choices", None)
        if not choices or getattr(choices[0], "message", None) is None:
            raise JudgeUnavailable("base-url", f"{self.name} sent a reply without a message", "check --base-url")
        usage = getattr(done, "usage", None)
        return Reply(
            choices[0].message.content or "",
            choices[0].finish_reason == "length",
            usage.prompt_tokens if usage else None,
            usage.completion_tokens if usage else None,
        )

    def _typed(self, error: Exception) -> PotluckError:
        text = " ".join(str(error).replace(self._key, "<key>").split())[:300]
        status = getattr(error, "status_code", None)
        if status in (400, 413, 422):
            return RequestRefused(f"{self.name} refused a request ({status}): {text}")
        if status in (401, 403):
            return JudgeUnavailable("model", f"{self.name} refuses the key ({status}): {text}", f"check {KEY}")
        if status == 404:
            return JudgeUnavailable("model", f"{self.name} is unknown there: {text}", "check --model and --base-url")
        cure = "check --base-url and the network, or try again later"
        return JudgeUnavailable("base-url", f"{self.name} gave no reply: {text}", cure, Reason.UNREACHABLE)


class PolicyModel:
    """A policy server's `Generate`: an adapter by its digest, or the frozen base."""

    def __init__(self, address: str, adapter: str = "", sampling: Sampling = Sampling()) -> None:
        self.name = f"{address} {adapter[:12] or 'frozen'}"
        self._client, self._adapter, self._sampling = PolicyClient(address), adapter, sampling

    async def __aenter__(self) -> Self:
        await self._client.wait_ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._client.close()

    async def ask(self, system: str, prompt: str) -> Reply:
        frozen = policy_pb.Policy(builtin=policy_pb.BUILTIN_POLICY_FROZEN)
        request = policy_pb.GenerateRequest(
            policy=policy_pb.Policy(adapter=self._adapter) if self._adapter else frozen,
            prompt=prompt,
            system=system,
            max_tokens=self._sampling.max_tokens,
            temperature=self._sampling.temperature or 0.0,
        )
        try:
            with typed_errors(f"policy server {self._client.address}"):
                reply = await self._client.stub.Generate(request, timeout=self._sampling.timeout_s)
        except PotluckError as error:
            if error.reason in (Reason.PROMPT_TOO_LONG, Reason.MESSAGE_TOO_LARGE):
                raise RequestRefused(error.message) from error
            raise
        return Reply(reply.text, reply.finish_reason == "length", reply.prompt_tokens, reply.output_tokens)
