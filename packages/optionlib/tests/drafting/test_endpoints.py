"""Both client libraries against a real socket: replies, ends, errors, retries, keys."""

import json
from datetime import UTC, datetime
from urllib.parse import quote

import pytest

from potluck_optionlib.drafting import retry
from potluck_optionlib.drafting.bodies import HIDDEN, Veil
from potluck_optionlib.drafting.endpoints import Message, Reply, connect
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
from potluck_optionlib.drafting.reply import extract
from potluck_optionlib.drafting.settings import Endpoint

KEY = "sk-test-0123456789"
BOTH = pytest.mark.parametrize("provider", ["openai", "anthropic"])
TURNS = [Message("user", "the game"), Message("assistant", "a module"), Message("user", "its faults")]


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def settings(provider: str, url: str, **more: object) -> Endpoint:
    return Endpoint.model_validate({"provider": provider, "model": "big-1", "base_url": url, "attempts": 3, **more})


Asked = tuple[Reply, list, list[float], list[retry.Pause]]


def asked(endpoint_module, provider: str, *answers, **more: object) -> Asked:
    """One reply from a scripted endpoint, with the calls it took, the waits and the pauses that were told."""
    waits: list[float] = []
    pauses: list[retry.Pause] = []
    with endpoint_module.Endpoint(answers) as server:
        endpoint = settings(provider, server.base_url(provider), **more)
        reply = retry.ask(connect(endpoint), endpoint, "the rules", TURNS, pauses.append, waits.append)
        return reply, server.calls, waits, pauses


@BOTH
def test_a_conversation_is_sent_whole_and_a_reply_comes_back(endpoint_module, provider: str) -> None:
    answer = endpoint_module.Answer("fine", headers={"x-request-id": "r7", "request-id": "r7"})
    reply, calls, _, _ = asked(endpoint_module, provider, answer, max_tokens=77, temperature=0.5)
    assert reply.text == "fine"
    assert (reply.truncated, reply.refused, reply.model, reply.request_id) == (False, False, "big-1", "r7")
    assert min(reply.input_tokens, reply.output_tokens) > 0
    (call,) = calls
    assert call.texts == [turn.text for turn in TURNS]
    assert call.body["model"] == "big-1"
    assert call.body["temperature"] == 0.5
    if provider == "openai":
        assert call.body["messages"][0] == {"role": "system", "content": "the rules"}
        assert call.body["max_completion_tokens"] == 77
        assert call.headers["authorization"] == f"Bearer {KEY}"
    else:
        assert call.body["system"] == "the rules"
        assert call.body["max_tokens"] == 77
        assert call.headers["anthropic-version"]
        assert KEY in (call.headers.get("x-api-key"), call.headers.get("authorization", "").removeprefix("Bearer "))


@BOTH
def test_no_temperature_is_sent_unless_asked_for(endpoint_module, provider: str) -> None:
    _, calls, _, _ = asked(endpoint_module, provider, endpoint_module.Answer("fine"))
    assert "temperature" not in calls[0].body


@pytest.mark.parametrize(("provider", "finish"), [("openai", "length"), ("anthropic", "max_tokens")])
def test_a_reply_that_was_cut_is_reported_as_cut(endpoint_module, provider: str, finish: str) -> None:
    cut = "```python\ndef contracts(world):\n    return ["
    reply, *_ = asked(endpoint_module, provider, endpoint_module.Answer(cut, finish=finish))
    assert reply.truncated
    found = extract(reply)
    assert not isinstance(found, str)
    assert (found.stage, found.kind) == ("reply", "truncated")
    whole, *_ = asked(endpoint_module, provider, endpoint_module.Answer(cut))
    assert not whole.truncated


@pytest.mark.parametrize(("provider", "finish"), [("openai", "content_filter"), ("anthropic", "refusal")])
def test_a_refusal_is_told_apart(endpoint_module, provider: str, finish: str) -> None:
    reply, *_ = asked(endpoint_module, provider, endpoint_module.Answer("I cannot", finish=finish))
    assert reply.refused
    found = extract(reply)
    assert not isinstance(found, str)
    assert found.kind == "refused"


@BOTH
@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RefusedRequestError),
        (401, AuthError),
        (403, AuthError),
        (404, UnknownModelError),
        (422, RefusedRequestError),
    ],
)
def test_refused_requests_are_typed_and_not_repeated(
    endpoint_module, provider: str, status: int, kind: type[EndpointError]
) -> None:
    with endpoint_module.Endpoint([endpoint_module.Answer(f"bad key {KEY}", status=status)]) as server:
        endpoint = settings(provider, server.base_url(provider))
        with pytest.raises(kind) as caught:
            retry.ask(connect(endpoint), endpoint, "", TURNS, pytest.fail, pytest.fail)
        assert len(server.calls) == 1
    assert caught.value.status == status
    assert KEY not in str(caught.value)
    assert "<key>" in str(caught.value)
    assert "big-1" in str(caught.value)


@BOTH
def test_a_busy_endpoint_is_obeyed_and_seen(endpoint_module, provider: str) -> None:
    busy = endpoint_module.Answer("slow down", status=429, headers={"retry-after": "7"})
    reply, calls, waits, pauses = asked(endpoint_module, provider, busy, busy, endpoint_module.Answer("fine"))
    assert reply.text == "fine"
    assert len(calls) == 3
    assert waits == [7.0, 7.0]
    assert [(pause.attempt, pause.asked, pause.status) for pause in pauses] == [(1, True, 429), (2, True, 429)]


@BOTH
def test_attempts_end(endpoint_module, provider: str) -> None:
    busy = endpoint_module.Answer("slow down", status=429, headers={"retry-after": "0"})
    with pytest.raises(RateLimitedError, match="after 3 attempts"):
        asked(endpoint_module, provider, busy, busy, busy, endpoint_module.Answer("too late"))


@BOTH
def test_longer_waits_than_allowed_are_errors(endpoint_module, provider: str) -> None:
    busy = endpoint_module.Answer(status=429, headers={"retry-after": "86400"})
    with pytest.raises(RateLimitedError, match="86400 s is asked for, --longest-wait-s is 300"):
        asked(endpoint_module, provider, busy, endpoint_module.Answer("fine"))


@BOTH
def test_failing_servers_are_tried_again_with_doubling_pauses(endpoint_module, provider: str) -> None:
    bad, worse, good = (endpoint_module.Answer("ok", status=status) for status in (500, 529, 200))
    reply, _, waits, _ = asked(endpoint_module, provider, bad, worse, good)
    assert reply.text == "ok"
    assert waits == [1.0, 2.0]
    with pytest.raises(ServerFailedError, match="500") as caught:
        asked(endpoint_module, provider, bad, bad, bad)
    assert caught.value.status == 500


@BOTH
@pytest.mark.parametrize(
    "body",
    [
        "<html>",
        "",
        "{}",
        "[]",
        "null",
        "[" * 100_000,
        '{"choices": []}',
        '{"choices": {"a": 1}, "content": "abc"}',
        '{"choices": ["a"], "content": ["abc"]}',
        '{"choices": [{"message": "x"}], "content": [{"type": "text"}]}',
        '{"choices": [{"message": {"content": ["a"]}}], "content": [{"type": "text", "text": 5}]}',
        '{"choices": [{"message": {"content": 5}}], "content": null}',
    ],
)
def test_bodies_that_are_no_reply(endpoint_module, provider: str, body: str) -> None:
    with pytest.raises(MalformedReplyError):
        asked(endpoint_module, provider, endpoint_module.Answer(body=body))


@BOTH
@pytest.mark.parametrize("usage", ['"many"', "{}", "[1]", '{"prompt_tokens": "x", "input_tokens": true}', "null"])
def test_a_paid_reply_is_not_lost_over_its_token_counts(endpoint_module, provider: str, usage: str) -> None:
    message = '"choices": [{"message": {"content": "fine"}}], "content": [{"type": "text", "text": "fine"}]'
    reply, *_ = asked(endpoint_module, provider, endpoint_module.Answer(body=f'{{{message}, "usage": {usage}}}'))
    assert (reply.text, reply.input_tokens, reply.output_tokens) == ("fine", -1, -1)


@BOTH
def test_lone_surrogates_are_replaced_so_that_the_reply_can_be_kept(endpoint_module, provider: str) -> None:
    reply, *_ = asked(endpoint_module, provider, endpoint_module.Answer("a\ud800b \U0001f958"))
    assert reply.text == "a\ufffdb \U0001f958"
    assert reply.text.encode()


@BOTH
@pytest.mark.parametrize("wrap", ["{}", "Bearer {}", "x" * 297 + "{}", '\\"{}'])
def test_an_echoed_key_is_taken_out_of_errors(endpoint_module, provider: str, wrap: str) -> None:
    bodies = [f'{{"choices": [], "auth": {json.dumps(wrap.format(KEY))}}}', wrap.format(KEY), f'["{KEY}"]']
    for answer in [*(endpoint_module.Answer(body=body) for body in bodies), endpoint_module.Answer(KEY, status=400)]:
        with pytest.raises(EndpointError) as caught:
            asked(endpoint_module, provider, answer)
        assert KEY[:6] not in str(caught.value)


@BOTH
def test_an_echoed_key_is_taken_out_of_everything_that_is_kept(endpoint_module, provider: str) -> None:
    usage = '"usage": {"prompt_tokens": 1, "input_tokens": 1}'
    message = f'"choices": [{{"message": {{"content": "my {KEY}"}}, "finish_reason": "{KEY}"}}], "stop_reason": "{KEY}"'
    body = f'{{{message}, "content": [{{"type": "text", "text": "my {KEY}"}}], "model": "{KEY}", {usage}}}'
    answer = endpoint_module.Answer(body=body, headers={"x-request-id": KEY, "request-id": KEY})
    reply, *_ = asked(endpoint_module, provider, answer)
    assert KEY not in repr(reply)
    assert (reply.text, reply.finish, reply.model, reply.request_id) == ("my <key>", "<key>", "<key>", "<key>")


@pytest.mark.parametrize("key", ['sk-"quoted\\key"', "sk/with+signs=&more"])
def test_escaped_forms_of_a_key_are_found(key: str) -> None:
    for form in (key, json.dumps({"a": key}), repr([key]), quote(key, safe="")):
        told = Veil(key).text(f"say {form}!")
        assert "sk" not in told
        assert HIDDEN in told


def test_a_word_that_is_no_key_stays() -> None:
    assert Veil("none").text("none of it") == "none of it"


@BOTH
@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(endpoint_module, provider: str, status: int) -> None:
    with endpoint_module.Endpoint([endpoint_module.Answer("got it")]) as other:
        target = other.base_url(provider).replace("127.0.0.1", "me:secret@localhost")
        away = endpoint_module.Answer(status=status, headers={"location": f"{target}/{KEY}"}, body="")
        with pytest.raises(RedirectedError) as caught:
            asked(endpoint_module, provider, away)
        assert other.calls == []
    assert target.replace("me:secret@", "") in str(caught.value)
    assert KEY not in str(caught.value)
    assert caught.value.status == status


@BOTH
@pytest.mark.parametrize("url", ["http://[::1", "http://me:secret@[::1", "not a url", "ftp://x", "http://ex ample/"])
def test_addresses_that_are_none(provider: str, url: str) -> None:
    with pytest.raises(UnreachableError, match="--base-url") as caught:
        connect(settings(provider, url)).ask("", TURNS)
    assert "secret" not in str(caught.value)


@BOTH
def test_slow_and_absent_endpoints(endpoint_module, provider: str) -> None:
    with pytest.raises(UnreachableError, match=r"no reply within 0\.2 s"):
        asked(endpoint_module, provider, endpoint_module.Answer("late", delay_s=2.0), timeout_s=0.2)
    endpoint = settings(provider, "http://127.0.0.1:9")
    with pytest.raises(UnreachableError, match="cannot be reached"):
        connect(endpoint).ask("", TURNS)


@BOTH
@pytest.mark.parametrize("key", [None, "", "  "])
def test_without_a_key_nothing_is_sent(
    endpoint_module, provider: str, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"{provider.upper()}_API_KEY"
    monkeypatch.delenv(name) if key is None else monkeypatch.setenv(name, key)
    with endpoint_module.Endpoint([]) as server:
        with pytest.raises(MissingKeyError, match=f"{name} is not set, so nothing was sent"):
            connect(settings(provider, server.base_url(provider)))
        assert server.calls == []


@BOTH
def test_without_the_extra_the_cure_is_named(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, provider, None)
    with pytest.raises(MissingClientError, match=r"potluck-optionlib\[draft\]"):
        connect(settings(provider, "http://127.0.0.1:9"))


@BOTH
def test_addresses_are_told_without_secrets(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    client = connect(settings(provider, "http://me:secret@127.0.0.1:9/v1"))
    assert client.address.rstrip("/") == "http://127.0.0.1:9/v1"
    with pytest.raises(UnreachableError) as caught:
        client.ask("", TURNS)
    assert "secret" not in str(caught.value)
    monkeypatch.setenv(f"{provider.upper()}_BASE_URL", "http://127.0.0.1:8/other")
    assert "127.0.0.1:8/other" in connect(Endpoint.model_validate({"provider": provider, "model": "m"})).address


def test_retry_after_in_all_its_forms() -> None:
    now = datetime(2026, 8, 1, 12, 0, 0, tzinfo=UTC)
    dates = ["Sat, 01 Aug 2026 12:00:30 GMT", "Sat, 01 Aug 2026 11:00:00 GMT", "Sat, 01 Aug 2026 12:00:30 -0000"]
    forms = [None, "3", "0.5", "-4", "soon", "nan", "inf", *dates]
    waits = [retry.retry_after(form, now) for form in forms]
    assert waits == [None, 3.0, 0.5, 0.0, None, None, None, 30.0, 0.0, 30.0]
