"""The workspace keeps its shape: boundaries, light imports, lean environments, clean files."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ISOLATED = {k: v for k, v in os.environ.items() if k != "UV_NO_SYNC"}
LIGHT = [
    "potluck.rpc.server",
    "potluck.rpc.channel",
    "potluck.play",
    "potluck.telemetry",
    "potluck_optionlib.game",
    "potluck_optionlib.menus",
    "potluck_optionlib.mining",
    "potluck_trainer.config",
]


def run(*command: str, cwd: Path = ROOT, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=cwd, env=env or dict(os.environ), capture_output=True, text=True, check=False)


def lint_imports(cwd: Path) -> subprocess.CompletedProcess[str]:
    sources = ":".join(str(p) for p in sorted((cwd / "packages").glob("*/src")))
    command = "from importlinter.cli import lint_imports_command as main; main()"
    return run(sys.executable, "-c", command, "--no-cache", cwd=cwd, env={**os.environ, "PYTHONPATH": sources})


def test_import_boundaries_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


def test_import_boundaries_catch_a_trainer_that_reaches_into_envs(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "packages", tmp_path / "packages", ignore=shutil.ignore_patterns("*.safetensors", "tests"))
    shutil.copy(ROOT / ".importlinter", tmp_path)
    offender = tmp_path / "packages/trainer/src/potluck_trainer/offender.py"
    offender.write_text("import potluck_envs\n")
    done = lint_imports(tmp_path)
    assert done.returncode != 0
    assert "potluck_trainer.offender -> potluck_envs" in done.stdout


def strangers(root: Path) -> list[str]:
    """Sources that mention `potluck.decoder` (it needs torch) outside the two packages that may."""
    own = ("proto/src/potluck/decoder/", "packages/policy-server/", "packages/trainer/")
    sources = [p for folder in ("proto/src", "packages") for p in sorted((root / folder).rglob("*.py"))]
    names = [p.relative_to(root).as_posix() for p in sources if "potluck.decoder" in p.read_text("utf-8")]
    assert names
    return [name for name in names if not name.startswith(own)]


def test_only_policy_server_and_trainer_use_the_decoder(tmp_path: Path) -> None:
    assert not strangers(ROOT)
    for name in ("potluck/decoder/layers.py", "potluck/play/fast.py"):
        (tmp_path / "proto/src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "proto/src" / name).write_text("from potluck.decoder import layers\n")
    assert strangers(tmp_path) == ["proto/src/potluck/play/fast.py"]


@pytest.mark.parametrize("module", LIGHT)
def test_light_modules_import_without_torch_or_engines(module: str) -> None:
    code = (
        f"import sys, {module}\n"
        "heavy = {'torch', 'transformers', 'peft', 'overcooked_ai_py', 'meltingpot'} & set(sys.modules)\n"
        "sys.exit(f'{heavy} imported' if heavy else 0)"
    )
    done = run(sys.executable, "-c", code)
    assert done.returncode == 0, done.stderr


def test_light_import_check_sees_torch() -> None:
    done = run(sys.executable, "-c", "import sys, torch; sys.exit('torch' in sys.modules)")
    assert done.returncode == 1


def test_env_server_runs_alone_and_holds_no_torch() -> None:
    code = (
        "import importlib.util as u, potluck_envs.service\n"
        "names = ('torch', 'transformers', 'gym', 'pygame', 'tensorflow', 'potluck_trainer')\n"
        "print([m for m in names if u.find_spec(m)])\n"
        "from potluck_envs.overcooked import provider\n"
        "provider.make('overcooked/cramped_room').reset(0)"
    )
    done = run("uv", "run", "--frozen", "--isolated", "--package", "potluck-envs", "python", "-c", code, env=ISOLATED)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("package", "forbidden"),
    [
        ("potluck-trainer", {"overcooked-ai", "dm-meltingpot", "dmlab2d", "potluck-envs", "potluck-policy-server"}),
        ("potluck-policy-server", {"overcooked-ai", "dm-meltingpot", "dmlab2d", "potluck-envs", "potluck-trainer"}),
        ("potluck-audit", {"torch", "transformers", "overcooked-ai", "potluck-envs", "potluck-trainer"}),
        ("potluck-optionlib", {"torch", "grpcio", "potluck-proto", "overcooked-ai"}),
        ("potluck-proto", {"torch", "numpy", "overcooked-ai"}),
    ],
)
def test_locked_environments_are_lean(package: str, forbidden: set[str]) -> None:
    done = run("uv", "export", "--frozen", "--package", package, "--no-hashes", "--no-header", "--no-annotate")
    assert done.returncode == 0, done.stderr
    names = {line.split("==")[0].split(" ")[0].strip() for line in done.stdout.splitlines() if "==" in line}
    names |= {Path(line.split()[1]).name for line in done.stdout.splitlines() if line.startswith("-e ")}
    assert len(names) > 2
    assert not names & forbidden


def test_the_lean_check_sees_an_engine() -> None:
    done = run("uv", "export", "--frozen", "--package", "potluck-envs", "--extra", "overcooked", "--no-hashes")
    assert "overcooked-ai==" in done.stdout


def test_a_changed_requirement_makes_the_lock_stale(tmp_path: Path) -> None:
    """What `make check` asks of the lock goes red for a package that the lock does not know."""
    for file in ("pyproject.toml", "uv.lock", "README.md", "proto", "packages"):
        source = ROOT / file
        ignore = shutil.ignore_patterns("src", "tests", "__pycache__", "pretrain")
        shutil.copytree(source, tmp_path / file, ignore=ignore) if source.is_dir() else shutil.copy(source, tmp_path)
    assert run("uv", "lock", "--check", cwd=tmp_path).returncode == 0
    project = tmp_path / "packages/optionlib/pyproject.toml"
    project.write_text(project.read_text().replace('"numpy>=2"', '"numpy>=2", "tyro>=99"'))
    assert run("uv", "lock", "--check", cwd=tmp_path).returncode != 0


def test_the_trainer_imports_in_an_environment_without_engines(tmp_path: Path) -> None:
    """The trainer's own environment, less the CUDA stack: what it imports must be declared, and no engine is there."""
    lock = (ROOT / "uv.lock").read_text()
    names = {line.split('"')[1] for line in lock.splitlines() if line.startswith("name = ")}
    skip = sorted(n for n in names if n.startswith(("torch", "triton", "nvidia", "cuda")))
    flags = [f for n in skip for f in ("--no-install-package", n)]
    env = {**ISOLATED, "UV_PROJECT_ENVIRONMENT": str(tmp_path / "env")}
    done = run("uv", "sync", "--frozen", "--package", "potluck-trainer", *flags, env=env)
    assert done.returncode == 0, done.stderr
    code = (
        "import importlib.util as u, potluck_trainer.cli, potluck_trainer.config\n"
        "names = ('overcooked_ai_py', 'meltingpot', 'potluck_envs', 'potluck_policy_server')\n"
        "print([m for m in names if u.find_spec(m)])"
    )
    done = run(str(tmp_path / "env/bin/python"), "-c", code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_files_hold_no_machine_path_and_no_registry_host() -> None:
    done = run(sys.executable, "scripts/hygiene.py")
    assert done.returncode == 0, done.stdout


def test_hygiene_sees_a_machine_path(tmp_path: Path) -> None:
    run("git", "init", "-q", cwd=tmp_path)
    (tmp_path / "notes.md").write_text("see /" + "root/notes and py" + "pi.org\n")
    done = run(sys.executable, str(ROOT / "scripts/hygiene.py"), cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.count("notes.md:1") == 2


def test_lock_is_current() -> None:
    done = run("uv", "lock", "--check", env=ISOLATED)
    assert done.returncode == 0, done.stderr
