"""An endpoint of the chat protocol on a real socket, and scripted models to put behind it."""

import json
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def oracle(logs):
    """Knows the labels: it finds the task in the prompt and answers what is asked."""
    truth = {log.question: log for log in logs}

    def answer(prompt):
        log = truth[re.match(r"Task: (\S+)", prompt)[1]]
        if asked := re.search(r"The last step shown is step (\d+)", prompt):
            return json.dumps({"reason": "…", "mistake": int(asked[1]) == log.mistake_step})
        if asked := re.search(r"first half \(steps (\d+) to (\d+)\)", prompt):
            return json.dumps({"half": "first" if log.mistake_step <= int(asked[2]) else "second"})
        return json.dumps({"reason": "…", "agent": log.mistake_agent, "step": log.mistake_step})

    return answer


def contrary(logs):
    """Always wrong: another agent and another step, no step's mistake but the last, always the other half."""
    truth = {log.question: log for log in logs}
    right = oracle(logs)

    def answer(prompt):
        log, found = truth[re.match(r"Task: (\S+)", prompt)[1]], json.loads(right(prompt))
        if "mistake" in found:
            return json.dumps({"mistake": False})
        if "half" in found:
            return json.dumps({"half": {"first": "second", "second": "first"}[found["half"]]})
        other = next(a for a in log.agents if a.casefold() != log.mistake_agent.casefold())
        return json.dumps({"agent": other, "step": log.mistake_step + 10})

    return answer


@contextmanager
def served(answer, *, status=200, usage=True):
    """The endpoint's address and the requests that it got."""
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            got.append({"path": self.path, "key": self.headers["authorization"], **body})
            prompt = body["messages"][-1]["content"]
            if status != 200:
                return self.send(status, {"error": {"message": f"no: {self.headers['authorization']}"}})
            reply = {
                "id": "r1", "object": "chat.completion", "created": 0, "model": body["model"],
                "choices": [
                    {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": answer(prompt)}}
                ],
            }  # fmt: skip
            if usage:
                reply["usage"] = {"prompt_tokens": len(prompt.split()), "completion_tokens": 5, "total_tokens": 0}
            return self.send(200, reply)

        def send(self, code, data):
            raw = json.dumps(data).encode()
            self.send_response(code)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *args):
            pass

    class Server(ThreadingHTTPServer):
        def handle_error(self, request, client_address):
            """Clients hang up when a judge gives up."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
