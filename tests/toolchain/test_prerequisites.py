"""What set-up cannot install itself is asked for in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.toolchain.conftest import ROOT

GOOD_PYTHON = f'exec "{sys.executable}" "$@"'


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder with a good python3, node and npm: all that is on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    put(folder, "python3", GOOD_PYTHON)
    put(folder, "node", "echo v20.1.0")
    put(folder, "npm", "echo 10.0.0")
    return folder


def put(folder: Path, name: str, script: str) -> None:
    program = folder / name
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def check(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", ROOT / "tools" / "prerequisites.sh"],
        env={"PATH": str(folder), **environment},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_everything_there__prints_the_python(programs: Path) -> None:
    done = check(programs)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{programs}/python3\n", "")


def test_first_python_too_old__takes_the_next(programs: Path) -> None:
    put(programs, "python3.12", "exit 1")
    put(programs, "python3.11", GOOD_PYTHON)
    assert check(programs).stdout == f"{programs}/python3.11\n"


def test_python_named__takes_it(programs: Path) -> None:
    put(programs, "mine", GOOD_PYTHON)
    assert check(programs, PYTHON="mine").stdout == f"{programs}/mine\n"


def refusal(folder: Path, **environment: str) -> str:
    done = check(folder, **environment)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    return done.stderr


def test_no_python__says_so(programs: Path) -> None:
    (programs / "python3").unlink()
    assert "there is no Python 3.11 or newer on PATH" in refusal(programs)


def test_only_an_old_python__says_so(programs: Path) -> None:
    put(programs, "python3", "exit 1")
    assert "there is no Python 3.11 or newer on PATH" in refusal(programs)


def test_named_python_too_old__says_so(programs: Path) -> None:
    put(programs, "old", "exit 1")
    assert "PYTHON is 'old', which is no Python 3.11 or newer" in refusal(programs, PYTHON="old")


def test_python_without_venv__names_the_package(programs: Path) -> None:
    put(programs, "python3", 'case "$2" in *ensurepip*) exit 1;; esac')
    assert "apt-get install python3-venv" in refusal(programs)


def test_no_node__says_so(programs: Path) -> None:
    (programs / "node").unlink()
    assert refusal(programs) == "error: Node.js is not on PATH; install version 20 or newer.\n"


@pytest.mark.parametrize("version", ["v18.19.0", "v9.0.0"])
def test_old_node__says_which(programs: Path, version: str) -> None:
    put(programs, "node", f"echo {version}")
    assert refusal(programs) == f"error: Node.js is {version}; install version 20 or newer.\n"


def test_no_npm__says_so(programs: Path) -> None:
    (programs / "npm").unlink()
    assert "npm is not on PATH" in refusal(programs)
