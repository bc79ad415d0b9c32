"""A model endpoint on a real socket that speaks both protocols and answers from a script.

Each scripted `Answer` serves one POST, in order; what was asked is kept. The last answer is not repeated: a call too
many gets a 500 that says so, which fails the test that made it.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Answer:
    text: str = ""
    status: int = 200
    finish: str = ""
    """"" = the protocol's word for a reply that ended by itself."""
    headers: dict[str, str] = field(default_factory=dict)
    body: str | None = None
    """Sent as it is, instead of a proper message."""
    delay_s: float = 0.0


@dataclass(frozen=True)
class Call:
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def texts(self) -> list[str]:
        """The turns of the conversation, the system's left out."""
        return [turn["content"] for turn in self.body["messages"] if turn["role"] != "system"]


class Endpoint:
    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = list(answers)
        self.calls: list[Call] = []
        endpoint = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                endpoint.serve(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Endpoint:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def base_url(self, provider: str) -> str:
        """What --base-url takes: OpenAI's protocol has its version in it."""
        return f"{self.url}/v1" if provider == "openai" else self.url

    def serve(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        headers = {name.lower(): value for name, value in handler.headers.items()}
        self.calls.append(Call(handler.path, headers, body))
        index = len(self.calls) - 1
        too_many = Answer(status=500, body='{"error": "one call too many"}')
        answer = self.answers[index] if index < len(self.answers) else too_many
        time.sleep(answer.delay_s)
        data = (answer.body if answer.body is not None else self._message(handler.path, body, answer)).encode()
        handler.send_response(answer.status)
        for name, value in {"content-type": "application/json", **answer.headers}.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(data)))
        handler.end_headers()
        with suppress(BrokenPipeError, ConnectionResetError):  # the client may have lost patience
            handler.wfile.write(data)

    def _message(self, path: str, body: dict[str, Any], answer: Answer) -> str:
        if answer.status != 200:
            error = {"type": "invalid_request_error", "message": answer.text or "no"}
            return json.dumps({"type": "error", "error": error})
        sent = len(json.dumps(body["messages"])) // 4
        got = len(answer.text) // 4
        if path == "/v1/chat/completions":
            message = {"role": "assistant", "content": answer.text}
            choice = {"index": 0, "message": message, "finish_reason": answer.finish or "stop"}
            usage = {"prompt_tokens": sent, "completion_tokens": got, "total_tokens": sent + got}
            head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": body["model"]}
            return json.dumps({**head, "choices": [choice], "usage": usage})
        if path == "/v1/messages":
            head = {"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"]}
            content = [{"type": "text", "text": answer.text}]
            usage = {"input_tokens": sent, "output_tokens": got}
            stop = {"stop_reason": answer.finish or "end_turn", "stop_sequence": None}
            return json.dumps({**head, "content": content, **stop, "usage": usage})
        return json.dumps({"error": {"message": f"no such path {path}"}})
