"""The command from end to end: a scripted model on a real socket, real child processes, a real burn-in."""

import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from potluck_optionlib import cli
from potluck_optionlib.burnin import load
from potluck_optionlib.drafting.journal import read_log, sha256
from potluck_optionlib.guards import GuardLibrary

pytestmark = pytest.mark.usefixtures("plugin")

KEY = "sk-test-0123456789"
SOURCE = Path(__file__).parent / "support/lighthouse.py"
BOTH = pytest.mark.parametrize("provider", ["openai", "anthropic"])
PLAY = ["--solo-episodes", "10", "--team-episodes", "14", "--horizon", "200"]
LITTLE = ["--solo-episodes", "1", "--team-episodes", "1", "--horizon", "10"]

ABSOLUTE = ('change.before["held"] != "oil" and change.after["held"] == "oil"', 'change.after["held"] == "oil"')
SHARED = (
    ('emptied = change.before["held"] == "oil" and change.after["held"] == "none"', "emptied = True"),
    ('Reach("use", carrying=True)', 'Reach("use")'),
)
NEAREST = (
    ('lamps["pour_oil"],', 'nearest(world, agent, lamps["pour_oil"]),'),
    ('lamps["light_lamp"],', 'nearest(world, agent, lamps["light_lamp"]),'),
    (
        "def poured(",
        "def nearest(world, agent, instances):\n"
        "    x, y = world.pose(agent)[:2]\n"
        "    spots = [instance.target[1:-1].split(',') for instance in instances]\n"
        "    away = [abs(int(tx) - x) + abs(int(ty) - y) for tx, ty in spots]\n"
        "    return [instances[away.index(min(away))]]\n\n\n"
        "def poured(",
    ),
)


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)


def fenced(source: str) -> str:
    return f"Here is the module.\n\n```python\n{source}```\n"


class Desk:
    """Runs the command against a scripted endpoint."""

    def __init__(self, endpoint_module: ModuleType, out: Path) -> None:
        self._module = endpoint_module
        self.out = out
        self.calls: list = []

    def draft(self, provider: str, *answers: object, more: list[str] = LITTLE) -> int:
        scripted = self._module.Answer
        given = [answer if isinstance(answer, scripted) else scripted(answer) for answer in answers]
        with self._module.Endpoint(given) as server:
            game = ["lighthouse/small", "--game-source", str(SOURCE)]
            model = ["--model", "big-1", "--provider", provider, "--base-url", server.base_url(provider)]
            try:
                cli.main(["draft", *game, *model, "--out", str(self.out), "--attempts", "2", *more])
            except SystemExit as stop:
                return int(stop.code or 0)
            finally:
                self.calls = server.calls
        return 0

    def report(self, version: int) -> dict:
        return json.loads((self.out / f"versions/{version:03d}/report.json").read_bytes())

    def kinds(self, version: int) -> set[tuple[str, str, str]]:
        return {(f["stage"], f["kind"], f["option"]) for f in self.report(version)["findings"]}

    @property
    def manifest(self) -> dict:
        return json.loads((self.out / "manifest.json").read_bytes())


@pytest.fixture
def desk(endpoint_module: ModuleType, tmp_path: Path) -> Desk:
    return Desk(endpoint_module, tmp_path / "out")


def test_a_good_library_is_clean_at_once_and_everything_is_kept(
    desk: Desk, good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.draft("openai", fenced(good), more=PLAY) == 0
    assert "version 0 is clean: take_oil, pour_oil, light_lamp, wait" in capsys.readouterr().out
    (call,) = desk.calls
    assert "class Lighthouse(World):" in call.texts[0]
    assert "gets a `Lighthouse`" in call.texts[0]
    manifest = desk.manifest
    (row,) = manifest["versions"]
    assert (manifest["result"], manifest["final"]) == ("clean", 0)
    assert (manifest["provider"], manifest["model"]) == ("openai", "big-1")
    assert manifest["sources"] == [
        {"name": "lighthouse.py", "sha256": sha256(SOURCE.read_bytes()), "bytes": SOURCE.stat().st_size}
    ]
    assert min(manifest["usage"].values()) > 0
    assert set(row["sha256"]) == {path.name for path in (desk.out / "versions/000").iterdir()}
    folder = desk.out / "versions/000"
    assert (folder / "contracts.py").read_text() == good
    for name, digest in row["sha256"].items():
        assert sha256((folder / name).read_bytes()) == digest
    library = GuardLibrary.parse((folder / "guards.json").read_text())
    burnin = load(folder / "burnin.parquet")
    assert library.digest == row["library_digest"]
    assert burnin.digest == row["burnin_digest"]
    assert {guard.option for guard in library.guards} == {"take_oil", "pour_oil", "light_lamp"}
    assert library.certificate is not None
    assert library.certificate.contracts_digest == burnin.contracts_digest
    everything = b"".join(path.read_bytes() for path in desk.out.rglob("*") if path.is_file())
    assert KEY.encode() not in everything
    assert str(SOURCE.parent).encode() not in everything


@pytest.mark.parametrize(
    ("provider", "defect", "found", "evidence"),
    [
        ("openai", [ABSOLUTE], ("suspect", "effect_without_change", "take_oil"), "successes changed nothing"),
        ("anthropic", SHARED, ("validate", "shared_effect", "pour_oil"), "nothing of the actor's own changed"),
        ("openai", NEAREST, ("suspect", "always_explicit", "pour_oil"), "executions failed explicitly (NoPath"),
    ],
    ids=["absolute", "shared", "nearest"],
)
def test_each_defect_is_found_sent_back_with_its_evidence_and_repaired(
    desk: Desk,
    good: str,
    changed: Callable[..., str],
    provider: str,
    defect,
    found: tuple[str, str, str],
    evidence: str,
) -> None:
    assert desk.draft(provider, fenced(changed(*defect)), fenced(good), more=PLAY) == 0
    assert found in desk.kinds(0)
    assert desk.kinds(1) == set()
    first, second = desk.calls
    assert len(first.texts) == 1
    request, reply, repair = second.texts
    assert request == first.texts[0]
    assert reply == fenced(changed(*defect))
    assert evidence in repair
    assert f"[{found[0]}/{found[1]}] {found[2]}:" in repair
    assert "take_oil: " in repair.split("ended in random play")[1]
    assert (desk.manifest["result"], desk.manifest["final"]) == ("clean", 1)
    before, after = (GuardLibrary.parse((desk.out / f"versions/00{n}/guards.json").read_text()) for n in (0, 1))
    assert after.forbids("take_oil", {"held": "oil"})
    assert before.forbids("take_oil", {"held": "oil"}) is (found[2] != "take_oil")


@pytest.mark.parametrize(
    ("module", "kind", "evidence"),
    [
        ("def contracts(world:\n    return []\n", "syntax", "line 1"),
        ("def contracts(world):\n    open('x')\n    return []\n", "builtin", "line 2: `open`"),
        ("import socket\n\n\ndef contracts(world):\n    return []\n", "import", "`socket` may not be imported"),
    ],
    ids=["syntax", "file", "socket"],
)
def test_modules_that_do_not_pass_the_screen_are_never_run(desk: Desk, module: str, kind: str, evidence: str) -> None:
    assert desk.draft("anthropic", fenced(module), "no module at all", more=["--repairs", "1"]) == 1
    assert {finding[:2] for finding in desk.kinds(0)} == {("screen", kind)}
    assert evidence in desk.calls[1].texts[-1]
    assert desk.kinds(1) == {("reply", "no_module", "")}
    assert desk.manifest["result"] == "faults"


def test_a_module_that_loops_or_eats_memory_is_ended_and_sent_back(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    loops = "def contracts(world):\n    while True:\n        pass\n"
    eats = "def contracts(world):\n    return [bytes(1000) * 10**6 for _ in range(10**6)]\n"
    tight = ["--repairs", "1", "--limits.inspect-s", "4", "--limits.memory-mb", "256", "--limits.wall-factor", "40"]
    assert desk.draft("openai", fenced(loops), fenced(eats), more=tight) == 1
    assert desk.kinds(0) == {("load", "cpu_time", "")}
    assert "[load/cpu_time] the module used more than 4 s" in desk.calls[1].texts[-1]
    assert desk.kinds(1) == {("load", "memory", "")}
    out = capsys.readouterr().out
    assert "left in version 1" in out
    assert "256 MiB" in out


@pytest.mark.parametrize(("provider", "finish"), [("openai", "length"), ("anthropic", "max_tokens")])
def test_a_cut_reply_is_reported_as_cut(
    desk: Desk, endpoint_module: ModuleType, good: str, provider: str, finish: str
) -> None:
    cut = endpoint_module.Answer(fenced(good), finish=finish)
    assert desk.draft(provider, cut, "sorry", more=["--repairs", "1"]) == 1
    assert desk.kinds(0) == {("reply", "truncated", "")}
    assert not (desk.out / "versions/000/contracts.py").exists()
    assert "cut off" in desk.calls[1].texts[-1]


def test_a_busy_endpoint_is_waited_for_in_sight(
    desk: Desk, endpoint_module: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    busy = endpoint_module.Answer("slow down", status=429, headers={"retry-after": "0.3"})
    assert desk.draft("openai", busy, "no module", more=["--repairs", "0"]) == 1
    (pause,) = [event for event in read_log(desk.out).events if event["event"] == "pause"]
    assert (pause["wait_s"], pause["asked"], pause["status"]) == (0.3, True, 429)
    assert "trying again in 0.3 s (as the endpoint asks)" in capsys.readouterr().err


def test_an_endpoint_that_fails_ends_the_draft_and_a_second_run_goes_on(
    desk: Desk, endpoint_module: ModuleType, good: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = endpoint_module.Answer("oh", status=500, headers={"retry-after": "0"})
    assert desk.draft("openai", fenced("x = 1\n"), bad, bad) == 2
    assert "answered 500" in capsys.readouterr().err
    assert desk.manifest["result"].startswith("error: openai")
    assert read_log(desk.out).events[-1]["event"] == "endpoint_error"
    assert desk.draft("openai", "no module this time", more=[*LITTLE, "--repairs", "1"]) == 1
    assert len(desk.calls) == 1
    assert len(desk.calls[0].texts) == 3
    assert desk.kinds(0) == {("screen", "entry", "")}
    assert desk.draft("openai", more=[*LITTLE, "--repairs", "1"]) == 1
    assert desk.calls == []
    assert desk.draft("anthropic") == 2
    assert "another provider. Use" in capsys.readouterr().err


@BOTH
def test_without_a_key_nothing_is_sent_or_written(
    desk: Desk, provider: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = f"{provider.upper()}_API_KEY"
    monkeypatch.delenv(name)
    assert desk.draft(provider, "anything") == 2
    assert f"{name} is not set, so nothing was sent" in capsys.readouterr().err
    assert desk.calls == []
    assert not desk.out.exists()


def test_a_dry_run_shows_all_of_it_and_sends_nothing(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    assert desk.draft("openai", more=["--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "# Three mistakes" in out
    assert "class Lighthouse(World):" in out
    assert not desk.out.exists()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--repairs", "-1"], "--repairs: Input should be greater"),
        (["--limits.inspect-s", "0.01", "--limits.wall-factor", "1"], "Raise the limits"),
    ],
)
def test_settings_that_cannot_work_are_found_before_anything_is_sent(
    desk: Desk, more: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert desk.draft("openai", "anything", more=more) == 2
    assert why in capsys.readouterr().err
    assert desk.calls == []


def test_games_that_cannot_be_drafted_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for game, why in (("closed/game", "no `with_contracts`"), ("lighthouse/none", "no game 'lighthouse/none'")):
        with pytest.raises(SystemExit) as stop:
            cli.main(["draft", game, "--game-source", str(SOURCE), "--model", "m", "--out", str(tmp_path / "out")])
        assert stop.value.code == 2
        assert why in capsys.readouterr().err
