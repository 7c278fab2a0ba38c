"""The compiler wrapper answers as solc does, reads only where it may, and refuses the rest in one sentence."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.toolchain.conftest import ROOT

HEADER = "// SPDX-License-Identifier: CC0-1.0\npragma solidity ^0.8.30;\n"
WRAPPER = ROOT / "tools" / "solc" / "solc-v0.8.30"


def solc(*arguments: str, stdin: str = "", wrapper: Path = WRAPPER) -> subprocess.CompletedProcess[str]:
    return subprocess.run([wrapper, *arguments], input=stdin, capture_output=True, text=True, timeout=60)


def standard_input(text: str) -> str:
    return json.dumps(
        {
            "language": "Solidity",
            "sources": {"Main.sol": {"content": f"{HEADER}{text}"}},
            "settings": {"outputSelection": {"*": {"*": ["evm.bytecode.object"]}}},
        }
    )


def compile_import(name: str, *arguments: str) -> dict[str, Any]:
    """Compile a source that imports `name`."""
    done = solc("--standard-json", *arguments, stdin=standard_input(f'import "{name}"; contract Main {{}}'))
    assert done.returncode == 0, done.stderr
    output: dict[str, Any] = json.loads(done.stdout)
    return output


def errors(output: dict[str, Any]) -> str:
    return "".join(
        problem["message"] for problem in output.get("errors", []) if problem["severity"] == "error"
    )


def library_in(folder: Path) -> Path:
    folder.mkdir(parents=True)
    file = folder / "Library.sol"
    file.write_text(f"{HEADER}library Library {{}}\n")
    return file


def test_version__two_lines__as_solc_prints_them() -> None:
    # Twice: the second answer comes from the kept version.
    for _ in range(2):
        lines = solc("--version").stdout.splitlines()
        assert len(lines) == 2
        assert lines[1].startswith("Version: 0.8.30+commit.")


def test_standard_json__source__compiles() -> None:
    done = solc("--standard-json", stdin=standard_input("contract Main {}"))
    assert json.loads(done.stdout)["contracts"]["Main.sol"]["Main"]["evm"]["bytecode"]["object"]


def test_standard_json__import_below_base_path__is_read(tmp_path: Path) -> None:
    library_in(tmp_path / "base" / "lib")
    output = compile_import("lib/Library.sol", "--base-path", str(tmp_path / "base"))
    assert "Main" in output["contracts"]["Main.sol"]


def test_standard_json__import_below_include_path__is_read(tmp_path: Path) -> None:
    library_in(tmp_path / "include")
    (tmp_path / "base").mkdir()
    paths = ("--base-path", str(tmp_path / "base"), "--include-path", str(tmp_path / "include"))
    assert errors(compile_import("Library.sol", *paths)) == ""


def test_standard_json__import_from_node_modules__is_read_from_this_checkout(tmp_path: Path) -> None:
    name = "node_modules/@openzeppelin/contracts/utils/Context.sol"
    assert errors(compile_import(name, "--base-path", str(tmp_path))) == ""


def test_standard_json__import_from_elsewhere__only_when_allowed(tmp_path: Path) -> None:
    outside = library_in(tmp_path / "outside")
    (tmp_path / "base").mkdir()
    base = ("--base-path", str(tmp_path / "base"))

    assert "outside of allowed directories" in errors(compile_import(str(outside), *base))
    # A folder whose name only begins like an allowed one is not allowed.
    assert "outside of allowed directories" in errors(
        compile_import(str(outside), *base, "--allow-paths", str(tmp_path / "out"))
    )
    assert errors(compile_import(str(outside), *base, "--allow-paths", f"/nowhere,{outside.parent}")) == ""


def test_standard_json__import_missing__names_where_it_looked(tmp_path: Path) -> None:
    message = errors(compile_import("Missing.sol", "--base-path", str(tmp_path)))
    assert f"File not found: Missing.sol, searched in {tmp_path}" in message


def test_other_option__is_refused() -> None:
    done = solc("--combined-json", "abi")
    assert done.returncode == 1
    assert (
        done.stderr
        == "Error: this wrapper of solc-js knows only --version and --standard-json, not '--combined-json'\n"
    )


def test_no_option__is_refused() -> None:
    done = solc()
    assert (done.returncode, done.stderr) == (1, "Error: nothing to do: give --version or --standard-json\n")


def test_option_without_value__is_refused() -> None:
    done = solc("--standard-json", "--base-path")
    assert (done.returncode, done.stderr) == (1, "Error: --base-path needs a value\n")


def test_solc_not_installed__says_make_setup(tmp_path: Path) -> None:
    copy = tmp_path / "tools" / "solc" / WRAPPER.name
    copy.parent.mkdir(parents=True)
    shutil.copy(WRAPPER, copy)
    done = solc("--version", wrapper=copy)
    assert done.returncode == 1
    assert done.stderr.startswith("Error: solc is not installed in ")
    assert done.stderr.endswith("run 'make setup'\n")


def test_other_solc_installed__says_make_setup(tmp_path: Path) -> None:
    copy = tmp_path / "tools" / "solc" / "solc-v0.8.99"
    copy.parent.mkdir(parents=True)
    shutil.copy(WRAPPER, copy)
    (tmp_path / "node_modules").symlink_to(ROOT / "node_modules")
    done = solc("--version", wrapper=copy)
    assert done.returncode == 1
    assert "node_modules has solc 0.8.30" in done.stderr
    assert "not 0.8.99: run 'make setup'" in done.stderr
