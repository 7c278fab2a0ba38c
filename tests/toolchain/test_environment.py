"""With the environment activated and nothing else set, the user's own tools work in the checkout."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from provenflow.toolchain import FOUNDRY_TOOLS, native_foundry
from tests.toolchain.conftest import ROOT, TinyCheckout, bare_run

FORGE_TEST = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Child} from "contracts/Child.sol";

contract ChildTest {
    function testFuzz_answer(uint256) public {
        require(new Child().answer() == 41, "wrong answer");
    }
}
"""

SCRIPT = """import click
from ape.cli import ConnectedProviderCommand


@click.command(cls=ConnectedProviderCommand)
def cli(provider):
    \"\"\"Say where we are.\"\"\"
    click.echo(f"chain {provider.chain_id}")
"""


@pytest.fixture
def bare(home: Path) -> TinyCheckout:
    """This checkout itself, as a user with nothing set sees it."""
    return TinyCheckout(ROOT, home)


@pytest.mark.parametrize("tool", FOUNDRY_TOOLS)
def test_foundry__is_the_pinned_native_binary(bare: TinyCheckout, tool: str) -> None:
    linked = Path(sys.prefix) / "bin" / tool
    assert linked.resolve() == native_foundry(ROOT, tool).resolve()
    assert "1.7.1" in bare.run(tool, "--version")


def test_node__is_linked_beside_them(bare: TinyCheckout) -> None:
    done = subprocess.run(
        ["node", "--version"],
        env={"PATH": f"{sys.prefix}/bin"},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert int(done.stdout.removeprefix("v").split(".")[0]) >= 20


def test_ape__has_the_plugins(bare: TinyCheckout) -> None:
    code = "from ape.utils.basemodel import ManagerAccessMixin as m; print(sorted(m.plugin_manager.registered_plugins))"
    plugins = bare.run(sys.executable, "-c", code)
    for plugin in ("ape_foundry", "ape_provenflow", "ape_solidity"):
        assert f"'{plugin}'" in plugins


def test_ape_compile__users_own_compiler_folder__uses_the_pinned_one(
    tiny: TinyCheckout, tmp_path: Path
) -> None:
    # py-solc-x would try to download the compiler into the folder.
    theirs = tmp_path / "theirs"
    theirs.mkdir()

    tiny.run("ape", "compile", SOLCX_BINARY_PATH=str(theirs))

    assert list(theirs.iterdir()) == []


def test_ape_compile__started_by_its_path__works(tiny: TinyCheckout) -> None:
    tiny.run(f"{sys.prefix}/bin/ape", "compile", PATH="/usr/bin:/bin")


def test_ape_compile__nothing_lands_in_home_but_apes_own_folder(tiny: TinyCheckout) -> None:
    tiny.run("ape", "compile")
    assert [path.name for path in tiny.home.iterdir()] in ([], [".ape"])


def test_ape_run__in_a_project__connects_to_its_own_anvil(compiled: TinyCheckout) -> None:
    (compiled.root / "scripts").mkdir()
    (compiled.root / "scripts" / "where.py").write_text(SCRIPT)
    assert "chain 31337" in compiled.run("ape", "run", "where", "--network", "ethereum:local:foundry")


def test_ape_run_deploy__here__shows_its_help(bare: TinyCheckout) -> None:
    output = bare.run("ape", "run", "deploy", "--help")
    assert "--network" in output
    assert "WARNING:" not in output


def test_ape_test__here__collects_and_runs(bare: TinyCheckout) -> None:
    assert "passed" in bare.run(
        "ape", "test", "tests/toolchain/test_licences.py", "-q", "-p", "no:cacheprovider"
    )


def test_forge__here__is_configured_for_these_contracts(bare: TinyCheckout) -> None:
    output = bare.run("forge", "config")
    assert 'src = "contracts"' in output
    assert "offline = true" in output
    remappings = dict(line.split("=") for line in bare.run("forge", "remappings").splitlines() if "=" in line)
    assert set(remappings) == {"@openzeppelin/contracts/", "forge-std/"}
    assert (ROOT / remappings["forge-std/"] / "Test.sol").is_file()
    assert (ROOT / remappings["@openzeppelin/contracts/"] / "utils" / "Context.sol").is_file()


def test_forge_test__in_a_tiny_checkout__compiles_and_passes(compiled: TinyCheckout) -> None:
    (compiled.root / "fuzz").mkdir()
    (compiled.root / "fuzz" / "Child.t.sol").write_text(FORGE_TEST)

    compiled.run("forge", "build")
    assert "1 passed" in compiled.run("forge", "test")

    compiled.edit("contracts/Base.sol", "41", "42")
    assert "1 failed" in compiled.run("forge", "test", ok=False)


def test_link_tools__outside_an_environment__says_so(home: Path) -> None:
    outside = Path(sys.base_prefix) / "bin" / "python3"
    done = bare_run(ROOT, home, str(outside), "tools/link_tools.py", PYTHONPATH=str(ROOT))
    assert done.returncode == 1
    assert done.stderr == "error: This is not the project's environment. Run 'make setup'.\n"


def test_link_tools__npm_left_the_binaries_out__says_so(tmp_path: Path, home: Path) -> None:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "link_tools.py", tmp_path / "tools")
    done = bare_run(tmp_path, home, sys.executable, "tools/link_tools.py")
    assert done.returncode == 1
    assert done.stderr.startswith("error: npm did not install node_modules/@foundry-rs/anvil-")
    assert "--omit=optional" in done.stderr
