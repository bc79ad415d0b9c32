"""The command: in this process for its words, in one of its own for its life."""

import json
import signal
import subprocess
import sys

import pytest
from pydantic import ValidationError

from potluck_policy_server import cli, serving
from potluck_policy_server.config import ServeConfig


@pytest.fixture
def command(monkeypatch, capsys):
    """Runs the command here and gives (exit status, stdout, stderr)."""
    monkeypatch.setattr(serving, "configure_logs", lambda *_: None)
    monkeypatch.setattr(serving, "PATIENCE_S", 0.5)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["potluck-policy", *arguments])
        status = 0
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
        return status, *capsys.readouterr()

    return run


def test_serve_says_ready_answers_and_drains(command):
    arguments = [sys.executable, "-m", "potluck_policy_server.cli", "serve", "--backbone", "tabular"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("ready potluck-policy on 127.0.0.1:")
        address = line.split()[-1]
        status, out, _ = command("describe", address)
        assert (status, json.loads(out)["backbone"]) == (0, "tabular")
        status, out, err = command("serve", "--backbone", "tabular", "--bind", address)
        assert (status, out) == (1, "")
        assert "in use" in err
        assert command("describe", address)[0] == 0
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["serve", "--backbone", "tinny"], "no backbone 'tinny'"),
        (["serve", "--backbone", "tabular", "--bind", "0.0.0.0:0"], "POTLUCK_TOKEN"),
        (["serve", "--backbone", "tabular", "--bind", "127.0.0.1:many"], "cannot listen"),
        (["describe", "127.0.0.1:1"], "did not answer"),
    ],
)
def test_what_goes_wrong_is_one_line(command, arguments, says):
    status, out, err = command(*arguments)
    assert (status, out, err.count("\n")) == (1, "", 1)
    assert says in err


def test_a_misspelt_flag_is_refused(command):
    status, out, err = command("serve", "--backbon", "tabular")
    assert status == 2
    assert "--backbone" in out + err


def test_a_misspelt_setting_is_refused():
    with pytest.raises(ValidationError, match="thread"):
        ServeConfig(thread=2)


def test_describe_lists_the_backbones(command):
    assert command("describe")[1].split() == [
        "openai",
        "scripted",
        "smollm2-135m",
        "tabular",
        "tiny",
        "uniform",
        "vllm",
    ]


def test_the_table_server_needs_no_torch():
    lines = [
        "import sys",
        "from potluck_policy_server import serving",
        "from potluck_policy_server.backbones import base, registry",
        "registry.load(base.BackboneOptions('tabular'))",
        "print('torch' in sys.modules)",
    ]
    code = "\n".join(lines)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_help_explains_every_setting(command):
    text = command("serve", "--help")[1]
    for name in ServeConfig.model_fields:
        assert f"--{name.replace('_', '-')}" in text
    assert "ready potluck-policy on" in text
