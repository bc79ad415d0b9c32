"""The backbone `openai:MODEL`: a model behind an OpenAI-compatible server, without weights, to be evaluated frozen.

    OPENAI_API_KEY=... potluck-policy serve --backbone openai:gpt-5
    OPENAI_API_KEY=any OPENAI_BASE_URL=http://127.0.0.1:8000/v1 potluck-policy serve --backbone openai:qwen3

It reads the letters prompt as a chat. Where the server lists the most probable first tokens, the policy is

    P(letter) = m(letter)^(1/T) / sum of m(other)^(1/T) over the menu,   m = probability of the tokens that spell it

with 0 for letters beyond the list, and the reply's source says TOP_LOGPROBS. Where it lists none, or none that is
offered, `samples` texts are drawn at temperature T and counted: the source says SAMPLES. A text counts if it is an
offered letter and nothing else but white space, full stop or bracket; the others are left out, and none at all is an
error. Nothing here learns, and another call may answer otherwise.
"""

from __future__ import annotations

import logging
import math
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import Reason
from potluck_policy_server.backbones import registry
from potluck_policy_server.backbones.base import (
    LETTERS,
    Adapter,
    BackboneOptions,
    Description,
    Query,
    Scores,
    Text,
    Upload,
)
from potluck_policy_server.errors import LabelsUnsupported, PolicyServerError, UnknownBackbone, Unsupported
from potluck_policy_server.folder import sha256_hex
from potluck_policy_server.lm.prompts import letters_messages

LISTED = 20
"""Most tokens that the protocol lists."""
PARALLEL = 16
RETRIES = 5
TIMEOUT_S = 120.0
LONGEST_REPLY = 8
_TRIM = " \t\r\n.):("

log = logging.getLogger(__name__)


class RemoteFault(PolicyServerError):
    """The remote server refused, failed, or said something else than an option."""


@dataclass(slots=True)
class RemoteDecision:
    """A decision as a chat."""

    messages: list[dict[str, str]]
    letters: tuple[str, ...]
    temperature: float
    prompt_tokens: int = 0
    """As the remote server counts them; 0 until it has answered."""

    @property
    def prompt_digest(self) -> str:
        """sha256 of the messages."""
        return sha256_hex("\n".join(message["content"] for message in self.messages).encode())

    def tokens(self) -> pb.Tokens | None:
        """A remote tokenizer's ids are not known here."""
        return None


class OpenAiRemote:
    """A chat model behind the OpenAI protocol."""

    def __init__(self, options: BackboneOptions, client: Any) -> None:
        self._model = options.name.partition(":")[2]
        self._samples = options.samples
        self._client = client
        self._lists = True
        self._limit_name = "max_tokens"
        address = str(client.base_url)
        self.description = Description(
            name=options.name,
            kind=pb.BACKBONE_KIND_FIXED,
            base_digest=sha256_hex(f"potluck remote v1\n{address}\n{self._model}\n".encode()),
            label_scheme=LETTERS,
            label_schemes=(LETTERS,),
            dtype="remote",
            generates=True,
        )

    def prepare(self, query: Query) -> RemoteDecision:
        if query.label_scheme not in (0, LETTERS):
            raise LabelsUnsupported(f"{self.description.name!r} reads letters only")
        letters = tuple(item.letter for item in query.prompt.items)
        return RemoteDecision(letters_messages(query.prompt), letters, query.temperature)

    def score(self, prepared: Sequence[RemoteDecision]) -> list[Scores | PolicyServerError]:
        with ThreadPoolExecutor(PARALLEL, thread_name_prefix="remote") as pool:
            return list(pool.map(self._score, prepared))

    def read_adapter(self, upload: Upload) -> Adapter:
        raise Unsupported(self.description.name, "have adapters: its weights are not here")

    def forget(self, digest: str) -> None:
        """Nothing is cached."""

    def generate(self, request: pb.GenerateRequest, adapter: Adapter | None) -> Text:
        messages = [{"role": "system", "content": request.system}] if request.system else []
        messages.append({"role": "user", "content": request.prompt})
        reply = self._ask(messages, request.max_tokens, temperature=request.temperature, seed=request.seed % 2**31)
        choice, usage = reply.choices[0], reply.usage
        read, written = (usage.prompt_tokens, usage.completion_tokens) if usage else (0, 0)
        return Text(choice.message.content or "", choice.finish_reason or "length", read, written)

    def files(self) -> list[Path]:
        raise Unsupported(self.description.name, "be downloaded: its weights are not here")

    def _score(self, decision: RemoteDecision) -> Scores | PolicyServerError:
        if len(decision.letters) == 1:
            return Scores(np.zeros(1), float("nan"))
        try:
            masses = self._listed(decision) if self._lists else {}
            if sum(masses.values()) > 0:
                return _from_masses(decision, masses)
            return self._sampled(decision)
        except PolicyServerError as error:  # this decision's answer; the others go on
            return error

    def _listed(self, decision: RemoteDecision) -> dict[str, float]:
        """Probability by offered letter, from the list of likely first tokens; empty where there is no list."""
        try:
            reply = self._ask(decision.messages, 1, logprobs=True, top_logprobs=LISTED, temperature=1.0)
        except RemoteFault as error:
            if error.reason != Reason.INVALID_ARGUMENT or "logprobs" not in error.message:
                raise
            log.warning("%s lists no log-probabilities; menus are sampled %d times", self._model, self._samples)
            self._lists = False
            return {}
        self._count(decision, reply)
        content = getattr(reply.choices[0].logprobs, "content", None) if reply.choices else None
        masses = dict.fromkeys(decision.letters, 0.0)
        for entry in content[0].top_logprobs if content else ():
            if (letter := entry.token.strip()) in masses:
                masses[letter] += math.exp(min(entry.logprob, 0.0))
        return masses

    def _sampled(self, decision: RemoteDecision) -> Scores:
        counts: Counter[str] = Counter()
        strays: list[str] = []
        for text in self._texts(decision):
            if (letter := text.strip(_TRIM)) in decision.letters:
                counts[letter] += 1
            else:
                strays.append(text)
        if not counts:
            message = f"none of {len(strays)} texts of {self._model!r} names an option, for example {strays[0][:60]!r}"
            cure = "use a model that follows instructions, or one whose server lists log-probabilities"
            raise RemoteFault(Reason.LABELS_UNSUPPORTED, message, cure)
        shares = np.array([counts[letter] for letter in decision.letters], float) / counts.total()
        with np.errstate(divide="ignore"):
            logs = np.log(shares)
        return Scores(logs, float("nan"), source=pb.SCORE_SOURCE_SAMPLES, samples=counts.total() + len(strays))

    def _texts(self, decision: RemoteDecision) -> Iterator[str]:
        left = self._samples
        while left > 0:
            reply = self._ask(decision.messages, LONGEST_REPLY, n=min(left, 8), temperature=decision.temperature)
            self._count(decision, reply)
            if not reply.choices:
                raise RemoteFault(
                    Reason.UNREACHABLE, f"{self._model!r} answered without a choice", "look at its server"
                )
            left -= len(reply.choices)
            yield from (choice.message.content or "" for choice in reply.choices)

    def _count(self, decision: RemoteDecision, reply: Any) -> None:
        if reply.usage and reply.usage.prompt_tokens:
            decision.prompt_tokens = int(reply.usage.prompt_tokens)

    def _ask(self, messages: list[dict[str, str]], most: int, **settings: Any) -> Any:
        """One call. Servers disagree about the name of the limit; the one that works is remembered."""
        try:
            return self._call(messages, **{self._limit_name: most}, **settings)
        except RemoteFault as error:
            if error.reason != Reason.INVALID_ARGUMENT or "max_completion_tokens" not in error.message:
                raise
            self._limit_name = "max_completion_tokens"
            return self._call(messages, max_completion_tokens=most, **settings)

    def _call(self, messages: list[dict[str, str]], **settings: Any) -> Any:
        import openai

        try:
            return self._client.chat.completions.create(model=self._model, messages=messages, **settings)
        except openai.RateLimitError as error:
            cure = "ask fewer decisions at once, or raise the account's limit"
            raise RemoteFault(
                Reason.OVERLOADED, f"{self._model!r} still refuses after {RETRIES} retries", cure
            ) from error
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            message = f"the server refuses the key: {_words(error)}"
            raise RemoteFault(Reason.UNAUTHENTICATED, message, "set OPENAI_API_KEY to a key for this server") from error
        except openai.NotFoundError as error:
            message = f"no model {self._model!r} there: {_words(error)}"
            raise RemoteFault(Reason.UNKNOWN_BACKBONE, message, "check the name and OPENAI_BASE_URL") from error
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            raise RemoteFault(
                Reason.INVALID_ARGUMENT, f"{self._model!r} refuses the request: {_words(error)}"
            ) from error
        except openai.OpenAIError as error:
            message = f"{self.description.name!r} did not answer ({type(error).__name__})"
            raise RemoteFault(Reason.UNREACHABLE, message, "check OPENAI_BASE_URL and the server's log") from error


def load(options: BackboneOptions) -> OpenAiRemote:
    """Entry point."""
    model = options.name.partition(":")[2]
    if not model:
        raise UnknownBackbone(options.name, registry.known(), "name the model too, as in openai:gpt-5")
    try:
        import openai
    except ImportError:
        why = "its client is not installed; add the extra: potluck-policy-server[openai]"
        raise UnknownBackbone(options.name, registry.known(), why) from None
    if not os.environ.get("OPENAI_API_KEY"):
        cure = "set it to the server's key; a server without keys takes any text"
        raise RemoteFault(Reason.UNAUTHENTICATED, "OPENAI_API_KEY is not set", cure)
    return OpenAiRemote(options, openai.OpenAI(max_retries=RETRIES, timeout=TIMEOUT_S))


def _from_masses(decision: RemoteDecision, masses: dict[str, float]) -> Scores:
    with np.errstate(divide="ignore"):
        logs = np.log(np.array([masses[letter] for letter in decision.letters])) / decision.temperature
    logs -= logs.max()
    logs -= np.log(np.exp(logs).sum())
    return Scores(logs, min(sum(masses.values()), 1.0), source=pb.SCORE_SOURCE_TOP_LOGPROBS)


def _words(error: Any) -> str:
    """The server's own words, cut; keys never appear in them."""
    body = getattr(error, "body", None)
    text = body.get("message") if isinstance(body, dict) else None
    return str(text or getattr(error, "message", "") or type(error).__name__)[:200]
