"""What commands print and the exit codes they end with (provenflow.cli, provenflow.cli.output)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from provenflow import __version__
from provenflow.cli import _COMMANDS, main
from provenflow.cli.output import (
    Check,
    CommandGroup,
    Outcome,
    emit,
    json_option,
    printable,
    run_command,
)
from provenflow.errors import Invalid, ProvenflowError, Unreachable, WrongUse


def run(as_json: bool, body) -> Result:
    """The result of a throw-away command whose body is `body`."""

    @click.command()
    def command() -> None:
        run_command("probe", as_json, body)

    return CliRunner(mix_stderr=False).invoke(command)


def raising(error: BaseException):
    def body() -> Outcome:
        raise error

    return body


def python(code: str, **kwargs) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=False, **kwargs)


# --- run_command ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [0, 1, 2, 3])
def test_run_command__outcome__exits_with_its_code_and_prints_its_text(code):
    result = run(False, lambda: Outcome(code, text="all read"))

    assert (result.exit_code, result.stdout, result.stderr) == (code, "all read\n", "")


def test_run_command__json__prints_exactly_one_document():
    checks = [Check("links", "holds", "every link is right."), Check("time", "unchecked", "no block header.")]

    result = run(True, lambda: Outcome(3, checks, {"run": "0x01"}, "not printed"))

    assert json.loads(result.stdout) == {
        "command": "probe",
        "ok": False,
        "exit": 3,
        "checks": [
            {"id": "links", "verdict": "holds", "detail": "every link is right."},
            {"id": "time", "verdict": "unchecked", "detail": "no block header."},
        ],
        "run": "0x01",
    }
    assert result.stderr == ""


def test_run_command__json_and_code_0__says_ok():
    assert json.loads(run(True, lambda: Outcome(0)).stdout)["ok"] is True


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ProvenflowError("It is odd.", fix="Mend it."), 1),
        (Invalid("It is odd.", fix="Mend it."), 1),
        (WrongUse("It is odd.", fix="Mend it."), 2),
        (Unreachable("It is odd.", fix="Mend it."), 3),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else str(value),
)
def test_run_command__error_of_ours__one_sentence_and_the_code_of_its_class(error, code):
    text, document = run(False, raising(error)), run(True, raising(error))

    assert (text.exit_code, text.stdout, text.stderr) == (code, "", "error: It is odd. Mend it.\n")
    assert document.stderr == text.stderr
    assert json.loads(document.stdout) == {
        "command": "probe",
        "ok": False,
        "exit": code,
        "checks": [],
        "error": "It is odd. Mend it.",
    }


def test_run_command__unexpected_exception__one_sentence_without_trace(monkeypatch):
    monkeypatch.delenv("PROVENFLOW_DEBUG", raising=False)

    result = run(False, raising(KeyError("lost\nkey")))

    assert result.exit_code == 1
    assert result.stderr.startswith("error: unexpected failure (KeyError: ")
    assert result.stderr.count("\n") == 1
    assert "PROVENFLOW_DEBUG=1" in result.stderr
    assert "Traceback" not in result.stderr


def test_run_command__unexpected_exception_with_debug__shows_the_trace_too(monkeypatch):
    monkeypatch.setenv("PROVENFLOW_DEBUG", "1")

    result = run(False, raising(KeyError("lost")))

    assert result.exit_code == 1
    assert "Traceback (most recent call last)" in result.stderr
    assert result.stderr.endswith("PROVENFLOW_DEBUG=1 shows where.\n")


def test_run_command__interrupted__exits_130_without_trace():
    text, document = run(False, raising(KeyboardInterrupt())), run(True, raising(KeyboardInterrupt()))

    assert (text.exit_code, text.stderr) == (130, "error: interrupted.\n")
    assert json.loads(document.stdout)["exit"] == document.exit_code == 130


def test_run_command__real_interrupt_signal__exits_130():
    code = """
import time
from provenflow.cli.output import Outcome, emit, run_command
def body():
    emit("ready")
    time.sleep(60)
run_command("probe", False, body)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)

    assert (process.returncode, errors) == (130, "error: interrupted.\n")


def test_run_command__message_with_line_feeds_and_escapes__stays_one_clean_line():
    result = run(False, raising(Invalid("node said\n\x1b[31mred\x07\u202e.")))

    assert result.stderr == "error: node said \\x1b[31mred\\x07\\u202e.\n"


@pytest.mark.parametrize("code", [0, 1])
def test_run_command__reader_has_gone__keeps_the_exit_code_and_says_nothing(code):
    script = f"""
from provenflow.cli.output import Outcome, run_command
run_command("probe", False, lambda: Outcome({code}, text="x" * 1_000_000))
"""
    read_end, write_end = os.pipe()
    os.close(read_end)
    process = subprocess.run(
        [sys.executable, "-c", script], stdout=write_end, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write_end)

    assert (process.returncode, process.stderr) == (code, "")


def test_run_command__output_cannot_be_written__exits_3_with_a_sentence(tmp_path):
    script = """
import resource, signal
from provenflow.cli.output import Outcome, run_command
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
run_command("probe", False, lambda: Outcome(0, text="it holds"))
"""
    with (tmp_path / "full").open("w") as full:
        process = subprocess.run(
            [sys.executable, "-c", script], stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )

    assert process.returncode == 3
    assert process.stderr.startswith("error: the output cannot be written")
    assert process.stderr.count("\n") == 1


def test_run_command__stdout_closed__keeps_the_exit_code():
    process = python(
        "import sys; sys.stdout = None\n"
        "from provenflow.cli.output import Outcome, run_command\n"
        "run_command('probe', False, lambda: Outcome(1, text='it does not'))"
    )

    assert (process.returncode, process.stderr) == (1, "")


def test_emit__terminal_without_the_character__prints_a_question_mark():
    process = python(
        "from provenflow.cli.output import emit; emit('proven \\u2713')",
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )

    assert (process.returncode, process.stdout) == (0, "proven ?\n")


def test_printable__keeps_text_and_escapes_what_a_terminal_acts_on():
    assert printable("a\tb\nå ✓") == "a\tb\nå ✓"
    assert printable("\x1b[2J\r\x7f\x9b\u2066") == "\\x1b[2J\\r\\x7f\\x9b\\u2066"


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda: Outcome(4), "exit code 4 is not one of"),
        (lambda: Outcome(0, [Check("links", "fails", "a link is wrong.")]), "although a check fails"),
        (lambda: Outcome(1, fields={"exit": 0}), "may not replace exit"),
        (lambda: Outcome(1, fields={"error": "mine"}), "may not replace error"),
    ],
    ids=["unknown code", "holds with a failing check", "hides exit", "hides error"],
)
def test_outcome__contradicting_itself__is_refused(make, reason):
    with pytest.raises(ValueError, match=reason):
        make()


# --- the root command ----------------------------------------------------------------------------------------------


def test_main__version__prints_name_and_version():
    result = CliRunner(mix_stderr=False).invoke(main, ["--version"])

    assert (result.exit_code, result.stdout) == (0, f"provenflow {__version__}\n")


@pytest.mark.parametrize(
    "args", [["--help"], *[[name, "--help"] for name in sorted(_COMMANDS)]], ids=" ".join
)
def test_main__help__shows_an_example(args):
    result = CliRunner(mix_stderr=False).invoke(main, args)

    assert result.exit_code == 0
    assert "Example" in result.stdout
    assert f"provenflow {args[0] if len(args) > 1 else 'devnet'}" in result.stdout.split("Example", 1)[1]


@pytest.mark.parametrize("args", [[], ["evidence"]], ids=["root", "evidence"])
def test_main__no_subcommand__shows_help_on_stderr_and_exits_2(args):
    result = CliRunner(mix_stderr=False).invoke(main, args)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Usage: provenflow")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        (["nonsense"], "error: no such command 'nonsense'; see provenflow --help\n"),
        (["--nonsense"], "error: no such option: --nonsense; see provenflow --help\n"),
        (["devnet", "--nonsense"], "error: no such option: --nonsense; see provenflow devnet --help\n"),
        (["devnet", "--port"], "error: option '--port' requires an argument; see --help\n"),
        (["devnet", "extra"], "error: got unexpected extra argument (extra); see provenflow devnet --help\n"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_main__wrong_use__is_one_sentence_that_names_the_help(args, sentence):
    result = CliRunner(mix_stderr=False).invoke(main, args)

    assert (result.exit_code, result.stdout, result.stderr) == (2, "", sentence)


def test_main__wrong_use_with_json__prints_the_document_too():
    result = CliRunner(mix_stderr=False).invoke(main, ["evidence", "nonsense", "--json"])

    assert result.exit_code == 2
    document = json.loads(result.stdout)
    assert document == {
        "command": "evidence nonsense",
        "ok": False,
        "exit": 2,
        "checks": [],
        "error": "no such command 'nonsense'; see provenflow evidence --help",
    }


def test_main__devnet_with_a_json_file_and_wrong_use__prints_no_document():
    result = CliRunner(mix_stderr=False).invoke(main, ["devnet", "--json", "devnet.json", "--nonsense"])

    assert (result.exit_code, result.stdout) == (2, "")


def test_main__subcommand_that_cannot_be_loaded__is_one_sentence(monkeypatch):
    monkeypatch.setitem(_COMMANDS, "devnet", "provenflow.cli.lost")

    result = CliRunner(mix_stderr=False).invoke(main, ["devnet"])

    assert result.exit_code == 1
    assert result.stderr.startswith("error: unexpected failure (ModuleNotFoundError: ")
    assert "Traceback" not in result.stderr


def test_main__one_subcommand__does_not_load_the_others():
    process = python(
        "import sys; from provenflow.cli import main\n"
        "try: main(['devnet', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('provenflow.cli.evidence', 'ape', 'web3') if m in sys.modules])"
    )

    assert process.stdout.splitlines()[-1] == "[]"


def test_main__installed_command__runs():
    process = subprocess.run(
        [Path(sys.executable).with_name("provenflow"), "--version"],
        text=True,
        capture_output=True,
        check=False,
    )

    assert (process.returncode, process.stdout) == (0, f"provenflow {__version__}\n")


def test_command_group__with_a_subcommand__runs_it():
    @click.group(cls=CommandGroup)
    def group() -> None:
        """A group."""

    @group.command()
    @json_option
    def inner(as_json: bool) -> None:
        run_command("inner", as_json, lambda: Outcome(0, text="ran"))

    assert CliRunner(mix_stderr=False).invoke(group, ["inner"]).stdout == "ran\n"
    assert (
        json.loads(CliRunner(mix_stderr=False).invoke(group, ["inner", "--json"]).stdout)["command"]
        == "inner"
    )


def test_emit__text__ends_with_one_line_feed(capsys):
    emit("done")

    assert capsys.readouterr().out == "done\n"
