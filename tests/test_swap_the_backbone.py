"""docs/swap-the-backbone.md does what it says: its server is about sixty lines and keeps every promise."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[1] / "docs" / "swap-the-backbone.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def server_code() -> str:
    found = re.search(r"```python\n(# nearest_server\.py\n.*?)```", PAGE, re.DOTALL)
    assert found
    return found.group(1)


@contextmanager
def served(code: str, folder: Path) -> Iterator[str]:
    (folder / "nearest_server.py").write_text(code, encoding="utf-8")
    command = [sys.executable, "nearest_server.py", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert ready.startswith("ready nearest on "), ready
            yield ready.split()[-1]
        finally:
            process.terminate()


def conform(address: str) -> subprocess.CompletedProcess[str]:
    command = [BIN / "potluck-policy", "conform", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=240)


def test_the_page_s_server_is_sixty_lines_of_code() -> None:
    code = [line for line in server_code().splitlines() if line.strip() and not line.startswith(("#", '"""'))]
    assert 40 < len(code) <= 65
    assert "potluck_policy_server" not in "\n".join(code)


def test_the_page_s_server_keeps_every_promise(tmp_path: Path) -> None:
    with served(server_code(), tmp_path) as address:
        done = conform(address)
    assert done.returncode == 0, done.stdout + done.stderr
    kept, of = re.findall(r"(\d+) of (\d+) checks kept", done.stdout)[0]
    assert kept == of


@pytest.mark.parametrize(
    ("right", "wrong", "check"),
    [
        ("random.Random(d.seed)", "random.Random()", "seeds decide samples"),
        ('refuse("UNKNOWN_ADAPTER", f"no adapter {d.policy.adapter!r} here")', "kind = 1", "unknown names are refused"),
    ],
)
def test_with_a_fault_it_does_not(tmp_path: Path, right: str, wrong: str, check: str) -> None:
    assert right in server_code()
    with served(server_code().replace(right, wrong, 1), tmp_path) as address:
        done = conform(address)
    assert done.returncode == 1
    assert f"FAIL  {check}" in done.stdout


def test_a_folder_is_one_flag(tmp_path: Path) -> None:
    """The embedded base, by its folder instead of its name."""
    from potluck_policy_server.backbones.tiny import folder

    command = [BIN / "potluck-policy", "serve", "--backbone", str(folder())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            done = subprocess.run([BIN / "potluck-policy", "describe", address], capture_output=True, text=True)
        finally:
            process.terminate()
    assert '"kind": "BACKBONE_KIND_CAUSAL_LM"' in done.stdout


@pytest.mark.parametrize(
    ("name", "says"), [("vllm:Qwen/Qwen3-4B-Instruct-2507", "vLLM"), ("openai:gpt-5", "OPENAI_API_KEY")]
)
def test_what_is_not_there_is_one_line(monkeypatch: pytest.MonkeyPatch, name: str, says: str) -> None:
    if name.startswith("vllm"):
        try:
            import vllm  # noqa: F401

            pytest.skip("vLLM is installed here")
        except ImportError:
            pass
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = subprocess.run([BIN / "potluck-policy", "serve", "--backbone", name], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (1, 1), done.stderr
    assert says in done.stderr
