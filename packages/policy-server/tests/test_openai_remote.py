"""The remote backbone against a local HTTP server that speaks the chat protocol, through the real client."""

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from potluck.common.v1 import common_pb2
from potluck.policy.v1 import policy_service_pb2 as pb
from potluck.rpc.errors import PotluckError, typed_errors
from potluck_policy_server.backbones import openai_remote, registry
from potluck_policy_server.backbones.base import BackboneOptions
from potluck_policy_server.errors import UnknownBackbone

pytest.importorskip("openai", reason="the extra [openai] is not installed")


class ChatServer(ThreadingHTTPServer):
    """Answers as `mode` says; remembers what was asked."""

    daemon_threads = True
    mode = "logprobs"
    refusals = 0
    texts = ("B", "B.", " A\n", "B)", "I think B", "A", "B", "Z")

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked, self.lock = [], threading.Lock()


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with self.server.lock:
            self.server.asked.append((self.path, self.headers["authorization"], body))
            refuse = self.server.refusals > 0
            self.server.refusals -= refuse
        status, answer, headers = self.refusal(body) if not refuse else (429, "slow down", {"retry-after": "0.01"})
        self.say(status, {"error": {"message": answer}} if status != 200 else answer or self.reply(body), headers)

    def refusal(self, body):
        """(status, message or body, headers); an empty one means a good answer."""
        match self.server.mode:
            case "no key":
                return 401, "Incorrect API key provided", {}
            case "no model":
                return 404, "The model does not exist", {}
            case "logprobs refused" if body.get("logprobs"):
                return 400, "logprobs are not supported with this model", {}
            case "new limit name" if "max_tokens" in body:
                return 400, "Use max_completion_tokens instead of max_tokens", {}
        return 200, {"choices": []} if self.server.mode == "broken" else {}, {}

    def reply(self, body):
        choices = []
        for index in range(body.get("n", 1)):
            text = "Let me think about it" if self.server.mode == "prose" else self.server.texts[index % 8]
            choices.append(
                {
                    "index": index,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text},
                    "logprobs": self.listed(body),
                }
            )
        return {
            "id": "x",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": choices,
            "usage": {"prompt_tokens": 77, "completion_tokens": 1, "total_tokens": 78},
        }

    def listed(self, body):
        if not body.get("logprobs") or self.server.mode == "nothing listed":
            return None
        tokens = {"A": 0.1, " A": 0.1, "B": 0.4, "C": 0.05, "The": 0.2}
        if self.server.mode == "letters not listed":
            tokens = {"The": 0.9, "I": 0.05}
        top = [{"token": t, "logprob": math.log(p), "bytes": None} for t, p in tokens.items()]
        return {"content": [{**top[0], "top_logprobs": top}], "refusal": None}

    def say(self, status, body, headers):
        data = json.dumps(body).encode()
        self.send_response(status)
        for key, value in {
            "content-type": "application/json",
            "content-length": str(len(data)),
            **headers,
        }.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_):
        pass


@pytest.fixture
def chat(monkeypatch):
    server = ChatServer()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{server.server_port}/v1")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def remote(chat):
    return registry.load(BackboneOptions("openai:frontier-1", samples=8))


async def test_listed_log_probabilities_give_the_menu_policy(kit, chat, remote):
    """ " A" and "A" name one letter, "The" none; D is beyond the list; T = 0.5 squares the odds."""
    async with kit.server(remote) as (client, _, _):
        plain, cold = (await client.choose([kit.decision(kit.prompt(1, 4), temperature=t) for t in (1.0, 0.5)])).choices
        np.testing.assert_allclose(plain.probabilities, np.array([0.2, 0.4, 0.05, 0]) / 0.65, atol=1e-9)
        squares = np.array([0.2, 0.4, 0.05, 0]) ** 2
        np.testing.assert_allclose(cold.probabilities, squares / squares.sum(), atol=1e-9)
        assert plain.source == pb.SCORE_SOURCE_TOP_LOGPROBS
        assert plain.label_mass == pytest.approx(0.65)
        assert (plain.samples, plain.prompt_tokens, plain.adapter_digest) == (0, 77, "")
        one = (await client.choose([kit.decision(kit.prompt(1, 1))])).choices[0]
        assert list(one.probabilities) == [1.0]
    assert len(chat.asked) == 2  # a menu of one costs nothing
    path, key, body = chat.asked[0]
    assert (path, key) == ("/v1/chat/completions", "Bearer sk-secret-of-the-test")
    assert (body["model"], body["top_logprobs"], body["max_tokens"]) == ("frontier-1", 20, 1)
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert "\nA) go to " in body["messages"][1]["content"]


@pytest.mark.parametrize("mode", ["nothing listed", "logprobs refused", "letters not listed"])
async def test_without_a_list_texts_are_sampled_and_the_reply_says_so(kit, chat, remote, mode):
    """Of eight texts four say B, two A, and two nothing that is offered."""
    chat.mode = mode
    async with kit.server(remote) as (client, _, _):
        (choice,) = (await client.choose([kit.decision(kit.prompt(1, 4), temperature=0.7)])).choices
    assert (choice.source, choice.samples) == (pb.SCORE_SOURCE_SAMPLES, 8)
    np.testing.assert_allclose(choice.probabilities, [2 / 6, 4 / 6, 0, 0], atol=1e-9)
    assert math.isnan(choice.label_mass)
    sampled = [body for _, _, body in chat.asked if not body.get("logprobs")]
    assert [(body["n"], body["temperature"]) for body in sampled] == [(8, 0.7)]


async def test_a_server_that_is_busy_is_asked_again(kit, chat, remote):
    chat.refusals = 3
    async with kit.server(remote) as (client, _, _):
        assert (await client.choose([kit.decision(kit.prompt(1, 4))])).choices
        assert len(chat.asked) == 4
        chat.refusals = 10**6
        with pytest.raises(PotluckError, match="still refuses after 5 retries") as caught, typed_errors():
            await client.choose([kit.decision(kit.prompt(1, 4))])
        assert caught.value.reason == "OVERLOADED"
        chat.refusals = 0
        assert (await client.choose([kit.decision(kit.prompt(1, 4))])).choices


@pytest.mark.parametrize(
    ("mode", "reason", "says"),
    [
        ("no key", "UNAUTHENTICATED", "Incorrect API key"),
        ("no model", "UNKNOWN_BACKBONE", "no model 'frontier-1' there"),
        ("prose", "LABELS_UNSUPPORTED", "none of 8 texts of 'frontier-1' names an option, for example 'Let me think"),
        ("broken", "UNREACHABLE", "without a choice"),
    ],
)
async def test_what_goes_wrong_there_is_a_typed_error_here(kit, chat, remote, mode, reason, says):
    chat.mode = mode
    remote._lists = mode not in ("prose", "broken")
    async with kit.server(remote) as (client, _, _):
        with pytest.raises(PotluckError) as caught, typed_errors():
            await client.choose([kit.decision(kit.prompt(1, 4))])
    assert (caught.value.reason, says in caught.value.message) == (reason, True), caught.value.message
    assert "secret" not in caught.value.message


async def test_one_decision_fails_its_own_request_only(kit, chat, remote):
    chat.mode = "prose"
    remote._lists = False
    async with kit.server(remote) as (client, _, _):
        with pytest.raises(PotluckError), typed_errors():
            await client.choose([kit.decision(kit.prompt(1, 4)), kit.decision(kit.prompt(1, 1))])
        assert (await client.choose([kit.decision(kit.prompt(1, 1))])).choices


async def test_the_newer_name_of_the_limit_is_found(kit, chat, remote):
    chat.mode = "new limit name"
    async with kit.server(remote) as (client, _, _):
        for _ in range(2):
            assert (await client.choose([kit.decision(kit.prompt(1, 4))])).choices
    assert [("max_tokens" in body, "max_completion_tokens" in body) for _, _, body in chat.asked] == [
        (True, False), (False, True), (False, True),
    ]  # fmt: skip


def test_a_server_that_is_not_there(kit, monkeypatch, chat, remote):
    chat.shutdown()
    chat.server_close()
    monkeypatch.setattr(remote._client, "max_retries", 0)
    (found,) = kit.scores(remote, [kit.query(kit.prompt(1, 4))])
    assert isinstance(found, openai_remote.RemoteFault)
    assert found.reason == "UNREACHABLE"


async def test_text_words_and_uploads(kit, chat, remote, adapter_files):
    async with kit.server(remote) as (client, _, _):
        frozen = pb.Policy(builtin=pb.BUILTIN_POLICY_FROZEN)
        reply = await client.stub.Generate(pb.GenerateRequest(policy=frozen, prompt="hi", max_tokens=5))
        assert (reply.finish_reason, reply.prompt_tokens) == ("stop", 77)
        for call, reason in (
            (
                client.choose([kit.decision(kit.prompt(1))], label_scheme=common_pb2.LABEL_SCHEME_WORDS),
                "LABELS_UNSUPPORTED",
            ),
            (client.publish(adapter_files[0]), "UNSUPPORTED"),
        ):
            with pytest.raises(PotluckError) as caught, typed_errors():
                await call
            assert caught.value.reason == reason


def test_without_a_key_or_a_model_nothing_is_served(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(PotluckError, match="OPENAI_API_KEY is not set") as caught:
        registry.load(BackboneOptions("openai:frontier-1"))
    assert caught.value.reason == "UNAUTHENTICATED"
    with pytest.raises(UnknownBackbone, match="name the model too"):
        registry.load(BackboneOptions("openai:"))
