"""The gRPC service: checks requests, queues decisions, samples from their distributions, echoes digests.

Choose and ChooseStream go the same way; a stream's batches are patient where the queue is full (batching.py).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from opentelemetry import trace
from opentelemetry.context import Context

from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.policy.v1 import policy_service_pb2_grpc as rpc
from potluck.telemetry import names
from potluck.telemetry.context import open_span, parent_of, start_span
from potluck_policy_server import proof, requests
from potluck_policy_server.adapters import DEFAULT_TTL_S, AdapterStore
from potluck_policy_server.backbones.base import Adapter, Backbone, Scores, Upload
from potluck_policy_server.backbones.fixed import MenuOnly
from potluck_policy_server.batching import Answer, Batcher, BatchOptions
from potluck_policy_server.errors import DeadlinePassed, InvalidRequest, WrongBase
from potluck_policy_server.folder import file_sha256
from potluck_policy_server.requests import Asked
from potluck_policy_server.sampling import choose, uniform
from potluck_policy_server.streaming import ChoiceStream
from potluck_policy_server.uploads import CHUNK, receive

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ServiceOptions:
    """Limits of the service."""

    batching: BatchOptions = field(default_factory=BatchOptions)
    adapter_bytes: int = 1 << 30
    ttl_s: float = DEFAULT_TTL_S
    max_in_flight: int = 64
    """Most unanswered batches of one stream."""
    trace_decisions: float = 0.02
    """Share of decisions that get a span of their own."""


class PolicyService(rpc.PolicyServiceServicer):
    """Serves one backbone."""

    def __init__(self, backbone: Backbone, options: ServiceOptions | None = None) -> None:
        self._backbone = backbone
        self._options = options or ServiceOptions()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="scoring")
        self.store = AdapterStore(self._options.adapter_bytes, self._options.ttl_s, self._forget)
        self.batcher = Batcher(backbone, self._thread, self._options.batching)
        self._streams: set[ChoiceStream] = set()
        self._draining = False

    def start(self) -> None:
        """Begins to serve the queue; needs a running loop."""
        self.batcher.start()

    def drain(self) -> None:
        """Streams read no more batches and end with their last answer."""
        self._draining = True
        for stream in self._streams:
            stream.drain()

    async def close(self) -> None:
        """Ends the queue and the scoring thread."""
        await self.batcher.stop()
        self._thread.shutdown(wait=True, cancel_futures=True)

    async def Describe(self, request: pb.DescribeRequest, context: Any) -> pb.DescribeResponse:
        one = self._backbone.description
        return pb.DescribeResponse(
            backbone=one.name,
            kind=one.kind,
            base_digest=one.base_digest,
            tokenizer_digest=one.tokenizer_digest,
            label_scheme=one.label_scheme,
            label_schemes=one.label_schemes,
            context_tokens=one.context_tokens,
            max_batch=self._options.batching.max_batch,
            dtype=one.dtype,
            parameters=one.parameters,
            generates=one.generates,
            letters=[pb.LabelToken(label=label, token=token) for label, token in one.letters],
            max_in_flight=self._options.max_in_flight,
        )

    async def Choose(self, request: pb.ChooseRequest, context: Any) -> pb.ChooseResponse:
        return await self._choose(request, _client(context), _deadline(context))

    async def ChooseStream(
        self, requests: AsyncIterator[pb.ChooseStreamRequest], context: Any
    ) -> AsyncIterator[pb.ChooseStreamResponse]:
        client, end = _client(context), _deadline(context)

        async def work(one: pb.ChooseStreamRequest) -> pb.ChooseResponse:
            deadline = _sooner(end, one.timeout_ms / 1000 if one.timeout_ms else None)
            return await self._choose(one.choose, client, deadline, patient=True, parent=parent_of(one.trace))

        stream = ChoiceStream(work, self._options.max_in_flight)
        if self._draining:
            stream.drain()
        self._streams.add(stream)
        try:
            async with contextlib.aclosing(stream.answers(requests)) as answers:
                async for response in answers:
                    yield response
        finally:
            self._streams.discard(stream)

    async def _choose(
        self,
        request: pb.ChooseRequest,
        client: str,
        deadline: float | None,
        patient: bool = False,
        parent: Context | None = None,
    ) -> pb.ChooseResponse:
        asked = requests.check(request, self.store, self._options.batching.max_batch)
        queries = [one.query for one in asked if one.rule is None]
        base = self._backbone.description
        attributes: dict[str, str | int] = {names.BATCH: len(asked), names.BASE: base.base_digest}
        pinned = self.store.pinned(query.adapter.digest for query in queries if query.adapter)
        with start_span(names.CHOOSE, attributes, parent), pinned:
            answers = await self.batcher.submit(queries, client, deadline, patient) if queries else []
            rest = iter(answers)
            choices = [
                self._choice(decision, one, _by_rule(one) if one.rule else next(rest))
                for decision, one in zip(request.decisions, asked, strict=True)
            ]
        return pb.ChooseResponse(choices=choices, base_digest=base.base_digest, tokenizer_digest=base.tokenizer_digest)

    async def Generate(self, request: pb.GenerateRequest, context: Any) -> pb.GenerateResponse:
        digest = request.policy.adapter
        adapter = self.store.get(digest) if request.policy.WhichOneof("kind") == "adapter" else None
        if adapter is None and request.policy.builtin != pb.BUILTIN_POLICY_FROZEN:
            raise InvalidRequest("policy", "text is written by an adapter or by the frozen base")
        with self.store.pinned([digest] if adapter else []):
            text = await self._in_thread(context, lambda: self._backbone.generate(request, adapter))
        return pb.GenerateResponse(
            text=text.text,
            finish_reason=text.finish_reason,
            prompt_tokens=text.prompt_tokens,
            output_tokens=text.output_tokens,
            adapter_digest=digest,
            base_digest=self._backbone.description.base_digest,
        )

    async def PublishAdapter(
        self, requests: AsyncIterator[pb.PublishAdapterRequest], context: Any
    ) -> pb.PublishAdapterResponse:
        base = self._backbone.description.base_digest
        upload = await receive(requests, base, self._options.adapter_bytes)
        if upload.digest in self.store:
            adapter: Adapter = self.store.get(upload.digest)
        else:
            adapter = await asyncio.to_thread(self._read, upload)
        trace.get_current_span().set_attributes({names.ADAPTER: upload.digest, names.AGENT: upload.agent})
        known, lease = self.store.add(adapter, f"publisher of {upload.agent}")
        return pb.PublishAdapterResponse(digest=upload.digest, known=known, lease=lease)

    async def HoldAdapter(self, request: pb.HoldAdapterRequest, context: Any) -> pb.HoldAdapterResponse:
        return pb.HoldAdapterResponse(lease=self.store.hold(request.digest, request.holder, request.ttl_s))

    async def ReleaseAdapter(self, request: pb.ReleaseAdapterRequest, context: Any) -> pb.ReleaseAdapterResponse:
        self.store.release(request.lease)
        return pb.ReleaseAdapterResponse()

    async def ListAdapters(self, request: pb.ListAdaptersRequest, context: Any) -> pb.ListAdaptersResponse:
        found = [
            pb.AdapterInfo(
                digest=info.adapter.digest,
                agent=info.adapter.agent,
                size=info.adapter.size,
                holders=info.holders,
                decisions=info.decisions,
            )
            for info in self.store.infos()
        ]
        return pb.ListAdaptersResponse(adapters=found)

    async def FetchBackbone(
        self, request: pb.FetchBackboneRequest, context: Any
    ) -> AsyncIterator[pb.FetchBackboneResponse]:
        served = self._backbone.description.base_digest
        if request.base_digest != served:
            raise WrongBase(request.base_digest, served)
        for path in self._backbone.files():
            sha256 = await asyncio.to_thread(_sha256, path)
            head = pb.BackboneFile(name=path.name, size=path.stat().st_size, sha256=sha256)
            yield pb.FetchBackboneResponse(file=head)
            with path.open("rb") as file:
                while chunk := await asyncio.to_thread(file.read, CHUNK):
                    yield pb.FetchBackboneResponse(chunk=chunk)

    def _choice(self, decision: pb.Decision, asked: Asked, answer: Answer) -> pb.ScoredChoice:
        proof.check_answer(asked.query.adapter, answer.scores.adapter_digest)
        logprobs = answer.scores.logprobs
        probabilities = np.exp(logprobs)
        index = choose(probabilities, decision.seed, decision.greedy)
        policy, items = decision.policy, decision.prompt.items
        choice = pb.ScoredChoice(
            letter=items[index].letter,
            index=index,
            logprob=float(logprobs[index]),
            probabilities=(probabilities / probabilities.sum()).tolist(),
            label_mass=answer.scores.label_mass,
            adapter_digest=answer.scores.adapter_digest,
            prompt_digest=answer.prepared.prompt_digest,
            prompt_tokens=answer.prepared.prompt_tokens,
            tokens=answer.prepared.tokens(),
            builtin=policy.builtin,
            source=answer.scores.source,
            samples=answer.scores.samples,
        )
        if uniform(decision.seed ^ 0x5EED) < self._options.trace_decisions:
            self._trace(decision, choice)
        return choice

    def _trace(self, decision: pb.Decision, choice: pb.ScoredChoice) -> None:
        attributes: dict[str, str | int | float] = {
            names.LETTER: choice.letter,
            names.LOGPROB: choice.logprob,
            names.MENU_SIZE: len(decision.prompt.items),
            names.OPTION_NAME: decision.prompt.items[choice.index].option,
            names.ADAPTER: choice.adapter_digest,
            names.GEN_AI_TEMPERATURE: decision.temperature,
            names.GEN_AI_INPUT_TOKENS: choice.prompt_tokens,
        }
        open_span(names.DECISION, attributes).end()

    async def _in_thread(self, context: Any, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        deadline = _deadline(context)

        def run() -> T:
            if deadline is not None and loop.time() > deadline:
                raise DeadlinePassed()
            return work()

        return await loop.run_in_executor(self._thread, run)

    def _read(self, upload: Upload) -> Adapter:
        adapter = self._backbone.read_adapter(upload)
        proof.check_read(upload, adapter)
        return adapter

    def _forget(self, digest: str) -> None:
        self._thread.submit(self._backbone.forget, digest)


def _by_rule(asked: Asked) -> Answer:
    assert asked.rule is not None
    return Answer(MenuOnly(asked.query), Scores(asked.rule(asked.query.prompt.items), float("nan")))


def _client(context: Any) -> str:
    return str(context.peer())


def _deadline(context: Any) -> float | None:
    left = context.time_remaining()
    return None if left is None else asyncio.get_running_loop().time() + left


def _sooner(deadline: float | None, seconds: float | None) -> float | None:
    own = None if seconds is None else asyncio.get_running_loop().time() + seconds
    return min((one for one in (deadline, own) if one is not None), default=None)


@lru_cache(maxsize=256)
def _sha256(path: Path) -> str:
    return file_sha256(path)
