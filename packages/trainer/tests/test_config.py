"""Settings: files, flags, errors that name the nearest key, and imports that stay light."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from potluck_trainer import cli
from potluck_trainer.config import RunConfig
from potluck_trainer.config_file import load_toml
from potluck_trainer.errors import ConfigError

CONFIGS = sorted((Path(__file__).parents[3] / "configs").glob("*.toml"))


def resolved(capsys, *args):
    assert cli.main(["train", *args, "--dry-run"]) == 0
    return json.loads(capsys.readouterr().out)


def test_defaults_are_the_papers_for_overcooked(capsys):
    config = resolved(capsys)
    assert config["episodes_per_round"] == 6
    assert config["temperature"] == 0.9
    assert config["horizon"] == 400
    learner = config["learner"]
    assert (learner["rank"], learner["alpha"], learner["lr"]) == (16, 32, 2e-5)
    assert (learner["clip"], learner["epochs"], learner["beta"], learner["max_grad_norm"]) == (0.2, 2, 0.05, 1.0)
    assert config["evaluation"]["seeds"] == list(range(10000, 10020))


def test_flags_override_the_file(capsys, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('backbone = "tabular"\nrounds = 7\n[learner]\nlr = 0.5\nepochs = 3\n')
    config = resolved(capsys, f"@{file}", "--learner.lr", "1e-4", "--rounds", "9")
    assert (config["learner"]["lr"], config["learner"]["epochs"], config["rounds"]) == (1e-4, 3, 9)
    assert resolved(capsys, f"@{file}")["learner"]["lr"] == 0.5


def test_the_learning_rate_goes_with_the_backbone():
    assert RunConfig(backbone="tabular").resolved().learner.lr == 0.05
    assert RunConfig(backbone="tiny").resolved().learner.lr == 2e-5


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("[learner]\nlrr = 1\n", r'unknown key "learner.lrr"; did you mean "learner.lr"'),
        ("ronds = 3\n", r'unknown key "ronds"; did you mean "rounds"'),
        ("lr = 3\n", r'did you mean "learner.lr"'),
        ("zzzzqqq = 3\n", r"known keys: game"),
        ("rounds = -1\n", r"rounds is -1; give 0 or more"),
        ('game = "overcooked"\n', "family/layout"),
        ("[evaluation]\nvalidation_seeds = [10000]\n", "keep them apart"),
        ("rounds = = 3\n", "not valid TOML"),
        ('[learner]\nreduction = "mean"\n', "learner.reduction is mean; give 'decision' or 'episode'"),
        ('rounds = "many"\n', "rounds is 'many': input should be a valid integer"),
        ('interface = "json"\n', "potluck eval RUN --interface json"),
    ],
)
def test_bad_files_say_what_to_do(tmp_path, capsys, text, hint):
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=hint):
        load_toml(file, RunConfig)
    assert cli.main(["train", f"@{file}"]) == 2
    assert capsys.readouterr().err.startswith("potluck: ")


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (("--rounds", "-3"), "--rounds is -3; give 0 or more"),
        (("--learner.clip", "0"), "--learner.clip is 0.0; give more than 0"),
        (("--learner.lr", "nan"), "--learner.lr is nan; give 0 or more"),
        (("--evaluation.confidence", "1"), "--evaluation.confidence is 1.0; give less than 1"),
        (("--services.env-workers", "0"), "--services.env-workers is 0; give 1 or more"),
        (("--game", "overcooked"), '--game: "overcooked" names no game'),
        (("--interface", "json"), "free text has no exact probability"),
        (("--name", "a/b"), '--name: "a/b" is no folder name'),
    ],
)
def test_a_wrong_flag_is_named_with_its_cure(capsys, flags, hint):
    assert cli.main(["train", *flags, "--dry-run"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("potluck: --")
    assert hint in said
    assert "pydantic" not in said


def test_flags_on_top_of_a_file_are_checked_too(capsys, tmp_path):
    file = tmp_path / "c.toml"
    file.write_text("rounds = 7\n[learner]\nlr = 0.5\n")
    assert cli.main(["train", f"@{file}", "--learner.lr", "-1"]) == 2
    assert "--learner.lr is -1.0; give 0 or more" in capsys.readouterr().err
    assert cli.main(["eval", str(tmp_path), "--temperature", "0"]) == 2
    assert "--temperature is 0.0; give more than 0" in capsys.readouterr().err


def test_a_missing_file_and_an_unknown_command(capsys):
    assert cli.main(["train", "@nowhere.toml"]) == 2
    assert "there is no config file nowhere.toml" in capsys.readouterr().err
    assert cli.main(["train", "@/"]) == 2
    assert "cannot read /: Is a directory" in capsys.readouterr().err
    assert cli.main(["trian"]) == 2
    assert "known: train" in capsys.readouterr().err


def test_a_misspelt_flag_is_refused_with_the_nearest(capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "--learner.lrr", "1"])
    assert stop.value.code == 2
    assert "--learner.lr" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["train", "eval", "replay", "up", "demo"])
def test_help_is_worth_reading(capsys, command):
    with pytest.raises(SystemExit) as stop:
        cli.main([command, "--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    assert len(text) > 600
    assert "(required)" not in text or command in ("eval", "replay")


def test_help_without_a_command(capsys):
    assert cli.main(["--help"]) == 0
    assert "demo" in capsys.readouterr().out


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_shipped_configs_load(path):
    config = load_toml(path, RunConfig).resolved()
    assert config.rounds > 0


def test_only_known_things_change_on_resume(capsys, tmp_path):
    assert cli.main(["train", "--resume", str(tmp_path), "--learner.lr", "1"]) == 2
    assert "--learner.lr cannot change" in capsys.readouterr().err
    assert cli.main(["train", "--resume", str(tmp_path)]) == 1
    assert "there is no run" in capsys.readouterr().err


def test_config_and_wire_modules_import_without_torch():
    code = (
        "import sys, potluck_trainer.config, potluck_trainer.config_file, potluck_trainer.session, "
        "potluck_trainer.arguments, potluck_trainer.training; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
