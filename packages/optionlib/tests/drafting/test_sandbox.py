"""The child process: hostile modules past the screen, every way of dying, and controls without the protections."""

import os
import platform
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from potluck_optionlib.drafting import sandbox
from potluck_optionlib.drafting.errors import SandboxError
from potluck_optionlib.drafting.judgement import unsteady
from potluck_optionlib.drafting.messages import Request, Task, Verdict
from potluck_optionlib.drafting.screen import screen
from potluck_optionlib.drafting.settings import Limits, Play
from potluck_optionlib.errors import NotDraftableError
from potluck_optionlib.games import find_draftable

pytestmark = pytest.mark.usefixtures("plugin")

REAL = """from potluck_optionlib.contracts import canonical_json, waiting

real = canonical_json.__globals__["__builtins__"]
bring = real["__import__"]


def contracts(world):
    return [waiting()]


"""
"""Goes around the screen: functions of other modules lead to the real builtins."""
RUN = "from potluck_optionlib.drafting.runner import main; main()"
_OFF = "import sys; sys.addaudithook = lambda hook: None; "
_OPEN = "from potluck_optionlib.drafting import seccomp; seccomp.install = lambda: False; "
UNHOOKED = (sys.executable, "-P", "-c", f"{_OFF}{_OPEN}{RUN}")
UNSEEN = (sys.executable, "-P", "-c", f"{_OFF}{RUN}")
"""Without the hook, as native code is."""
UNLIMITED = (sys.executable, "-P", "-c", f"import resource; resource.setrlimit = lambda *a: None; {RUN}")
ESCAPES = {
    "reads a file": ("real['open']('/etc/hostname').read()", "open"),
    "writes a file": ("real['open']('left_behind', 'w')", "open for writing"),
    "removes a file": ("bring('os').remove('nothing')", "os.remove"),
    "lists a folder": ("bring('os').listdir('/etc')", "os.listdir"),
    "opens a socket": ("bring('socket').socket()", "socket.__new__"),
    "starts a process": ("bring('subprocess').run(['true'])", "subprocess.Popen"),
    "starts a shell": ("bring('os').system('true')", "os.system"),
    "forks": ("bring('os').fork()", "os.fork"),
    "raises its limits": ("bring('resource').setrlimit(0, (1, 1))", "resource.setrlimit"),
    "cannot catch it": ("try:\n    real['open']('/etc/hostname')\nexcept real['BaseException']:\n    pass", "open"),
}


def judged(source: str, command: Sequence[str] = sandbox.COMMAND, seconds: float = 20.0, **limits: float) -> Verdict:
    request = Request(
        task=Task.INSPECT,
        game="lighthouse/small",
        source=source,
        limits=Limits.model_validate(limits),
        seconds=seconds,
        play=Play(),
    )
    return sandbox.run(request, command=command)


def only(verdict: Verdict) -> tuple[str, str, str]:
    assert len(verdict.findings) == 1
    finding = verdict.findings[0]
    return finding.stage, finding.kind, finding.evidence


def test_a_good_module_comes_back_as_contracts(good: str) -> None:
    verdict = judged(good)
    assert verdict.findings == ()
    assert [contract["name"] for contract in verdict.contracts] == ["take_oil", "pour_oil", "light_lamp", "wait"]
    assert verdict.sample_digest


@pytest.mark.parametrize("escape", ESCAPES)
def test_the_hook_ends_what_reaches_outside(escape: str) -> None:
    line, event = ESCAPES[escape]
    stage, kind, evidence = only(judged(REAL + line))
    assert (stage, kind) == ("load", "breach")
    assert f"`{event}`" in evidence


@pytest.mark.parametrize("escape", ["reads a file", "opens a socket"])
def test_without_the_hook_the_same_modules_get_through(escape: str) -> None:
    """The control of the test above."""
    assert judged(REAL + ESCAPES[escape][0], UNHOOKED).findings == ()


def test_without_the_hook_still_nothing_can_be_written() -> None:
    kept = "file = real['open']('left_behind', 'w')\nfile.write('x' * 9000)\nfile.flush()"
    stage, kind, evidence = only(judged(REAL + kept, UNHOOKED))
    assert stage == "load"
    assert (kind, "File too large" in evidence) in {("raises", True), ("crash", False)}


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the filter is for x86-64")
@pytest.mark.parametrize(
    "line",
    [
        "bring('os').fork()",
        "bring('os').execv('/bin/true', ['true'])",
        "bring('socket').socket()",
        "bring('os').mkdir('left')",
        "bring('os').unlink('left')",
        "real['open']('left', 'w')",
        "bring('os').kill(1, 0)",
        "bring('os').setsid()",
    ],
)
def test_the_kernel_refuses_what_the_hook_does_not_see(line: str) -> None:
    assert "PermissionError: [Errno 1]" in only(judged(REAL + line, UNSEEN))[2]


def test_threads_are_allowed() -> None:
    line = "t = bring('threading').Thread(target=int)\nt.start()\nt.join()"
    assert judged(REAL + line).findings == ()


@pytest.mark.parametrize("module", ["_posixsubprocess", "pyarrow.fs", "pyarrow._fs", "pyarrow.parquet"])
def test_modules_that_act_unseen_are_gone(module: str) -> None:
    _, kind, evidence = only(judged(REAL + f"bring('{module}')"))
    assert kind == "breach"
    assert f"`import` ({module}" in evidence
    seen = f"left = [m for m in bring('sys').modules if m == '{module}']\nassert not left"
    assert judged(REAL + seen).findings == ()


NAMED = """import dataclasses, functools
from potluck_optionlib.contracts import waiting

D = dataclasses.make_dataclass("D", ["__globals__"])
d = D(None)
functools.update_wrapper(d, waiting, assigned=("__globals__",), updated=())
match d:
    case D(g):
        found = g["__builtins__"]


def contracts(world):
    return [waiting()]
"""


def test_allowed_names_do_not_lead_to_the_real_builtins() -> None:
    assert "pattern" in {finding.kind for finding in screen(NAMED)}
    stage, kind, evidence = only(judged(NAMED))
    assert (stage, kind) == ("load", "raises")
    assert "make_dataclass" in evidence


def test_loops_are_ended_by_cpu_time() -> None:
    stage, kind, evidence = only(judged(REAL + "while True:\n    pass", seconds=1, wall_factor=60))
    assert (stage, kind) == ("load", "cpu_time")
    assert "1 s" in evidence


def test_sleepers_are_ended_by_the_clock() -> None:
    _, kind, evidence = only(judged(REAL + "bring('time').sleep(100)", seconds=1, wall_factor=1))
    assert kind == "wall_time"
    assert "1 s" in evidence


def test_memory_is_limited() -> None:
    hungry = "eaten = []\nwhile True:\n    eaten.append(bytes(2**20))"
    assert only(judged(REAL + hungry, memory_mb=64))[:2] == ("load", "memory")
    some = "eaten = [bytes(2**20) for _ in range(300)]\nassert len(eaten) == 300"
    assert only(judged(REAL + some, memory_mb=64))[1] == "memory"
    assert judged(REAL + some, UNLIMITED, memory_mb=64).findings == ()


def test_a_child_that_crashes_is_a_finding() -> None:
    _, kind, evidence = only(judged(REAL + "bring('os').abort()"))
    assert kind == "crash"
    assert "SIGABRT" in evidence


def test_nothing_of_the_environment_reaches_the_module(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@proxy")
    told = "seen = bring('os').environ\nraise ValueError(str(sorted(seen)) + seen.get('OPENAI_API_KEY', ''))"
    _, kind, evidence = only(judged(REAL + told))
    assert kind == "raises"
    assert "PYTHONHASHSEED" in evidence
    assert "secret" not in evidence
    assert "OPENAI" not in evidence.partition(" (line")[0]


def test_what_a_module_prints_is_no_message() -> None:
    forged = 'real[\'print\'](\'{"event": "result", "verdict": {"sample_digest": "forged"}}\', flush=True)'
    verdict = judged(REAL + forged)
    assert verdict.findings == ()
    assert verdict.sample_digest not in ("", "forged")


def test_errors_name_the_drafted_line() -> None:
    source = "def contracts(world):\n    table = {}\n    return table['missing']\n"
    assert only(judged(source))[2] == "KeyError: 'missing' (line 3: return table['missing'])"


def test_errors_that_are_no_proper_text_are_told() -> None:
    assert only(judged("def contracts(world):\n    raise ValueError(chr(0xD800))\n"))[2].startswith(
        r"ValueError: \ud800"
    )


@pytest.mark.parametrize("given", ["None", "[1]", "world.stores", "(c for c in [])"])
def test_contracts_must_be_contracts(given: str) -> None:
    assert only(judged(f"def contracts(world):\n    return {given}\n"))[:2] == ("load", "returns")


def test_order_that_hangs_on_string_hashes_is_found(changed) -> None:
    shuffled = changed(("in world.lamps]", "in set(world.lamps)]"))
    request = Request(
        task=Task.INSPECT, game="lighthouse/small", source=shuffled, limits=Limits(), seconds=20, play=Play()
    )
    samples = [sandbox.run(request, hash_seed=seed) for seed in (1, 3)]
    assert len({sample.sample_digest for sample in samples}) > 1
    assert [finding.kind for finding in unsteady(Verdict(sample_digest="a"), Verdict(sample_digest="b"))] == [
        "not_deterministic"
    ]
    assert unsteady(samples[0], samples[0]) == ()


def test_hooks_that_change_the_world_are_found(changed) -> None:
    source = changed(
        (
            "instances=lambda world, agent: stores",
            "instances=lambda world, agent: (world.step(['use', 'use']), stores)[1]",
        )
    )
    assert ("validate", "meddles") in {(f.stage, f.kind) for f in judged(source).findings}


SPEAKER = 'import sys, time; sys.stdin.read(); print(\'{"event": "ready"}\', flush=True); '


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("print('hello', flush=True); time.sleep(60)", "protocol"),
        ("print('{\"event\": 5}', flush=True)", "protocol"),
        ("print('x' * 2**21, flush=True)", "reply_size"),
        ("sys.exit(3)", "crash"),
    ],
)
def test_a_child_that_misbehaves_on_the_wire_is_a_finding(script: str, kind: str) -> None:
    command = (sys.executable, "-c", SPEAKER + script)
    assert only(judged("", command, reply_mb=1))[1] == kind


def test_a_child_that_never_starts_is_the_machine_s_fault() -> None:
    with pytest.raises(SandboxError, match=r"before the module was loaded: Traceback.*no_such_thing"):
        judged("", (sys.executable, "-c", "import no_such_thing"))


def test_providers_without_the_hook_are_told_apart() -> None:
    with pytest.raises(NotDraftableError, match="with_contracts"):
        find_draftable("closed/game")


def test_children_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    judged(REAL)
    assert list(tmp_path.iterdir()) == []
    assert not [name for name in os.listdir(".") if name == "left_behind"]
