"""Where the pinned tools are looked for, and what is said when they are missing."""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path

import pytest

from provenflow import toolchain
from provenflow.errors import WrongUse
from tests.toolchain.conftest import ROOT, TinyCheckout


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package as an installed wheel sees itself, with nothing on PATH."""
    monkeypatch.setattr(toolchain, "checkout_root", lambda: None)
    monkeypatch.delenv("PROVENFLOW_ANVIL", raising=False)
    monkeypatch.setenv("PATH", "")


def make_program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_checkout_root__here__is_this_checkout() -> None:
    assert toolchain.checkout_root() == ROOT


@pytest.mark.parametrize(
    "name", ["ape-config.yaml", "package-lock.json", "tools/solc/solc-v0.8.30", "contracts"]
)
def test_is_checkout__one_part_missing__is_none(tiny: TinyCheckout, name: str) -> None:
    assert toolchain.is_checkout(tiny.root)
    (tiny.root / name).rename(tiny.root / "moved")
    assert not toolchain.is_checkout(tiny.root)


@pytest.mark.parametrize(
    ("system", "machine", "expected"),
    [
        ("linux", "x86_64", "linux-amd64"),
        ("linux", "aarch64", "linux-arm64"),
        ("darwin", "x86_64", "darwin-amd64"),
        ("darwin", "arm64", "darwin-arm64"),
    ],
)
def test_foundry_platform__supported(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str, expected: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    assert toolchain.foundry_platform() == expected


@pytest.mark.parametrize(("system", "machine"), [("win32", "AMD64"), ("linux", "riscv64")])
def test_foundry_platform__other__says_what_works(
    monkeypatch: pytest.MonkeyPatch, system: str, machine: str
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    with pytest.raises(WrongUse, match=rf"no binaries for {system} on {machine}\. Use Linux or macOS"):
        toolchain.foundry_platform()


def test_find_anvil__in_the_checkout__is_the_pinned_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PROVENFLOW_ANVIL", raising=False)
    monkeypatch.setenv("PATH", "")
    assert toolchain.find_anvil().resolve() == toolchain.native_foundry(ROOT, "anvil").resolve()


def test_find_anvil__not_linked__is_taken_from_node_modules(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PROVENFLOW_ANVIL", raising=False)
    monkeypatch.setattr(toolchain, "checkout_root", lambda: tmp_path)
    native = make_program(toolchain.native_foundry(tmp_path, "anvil"))
    assert toolchain.find_anvil() == native


def test_find_anvil__named_by_the_user__is_that_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = make_program(tmp_path / "my-anvil")
    monkeypatch.setenv("PROVENFLOW_ANVIL", str(mine))
    assert toolchain.find_anvil() == mine


@pytest.mark.parametrize("kind", ["missing", "folder", "not executable"])
def test_find_anvil__named_wrongly__says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str
) -> None:
    named = tmp_path / "anvil"
    if kind == "folder":
        named.mkdir()
    elif kind == "not executable":
        make_program(named).chmod(0o644)
    monkeypatch.setenv("PROVENFLOW_ANVIL", str(named))
    with pytest.raises(
        WrongUse, match="which is no executable file. Set it to the path of anvil, or unset it"
    ):
        toolchain.find_anvil()


@pytest.mark.usefixtures("installed")
def test_find_anvil__installed__is_the_one_on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    mine = make_program(tmp_path / "anvil")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert toolchain.find_anvil() == mine


@pytest.mark.usefixtures("installed")
def test_find_anvil__nowhere__says_what_to_install() -> None:
    with pytest.raises(WrongUse, match="No anvil was found.*Install Foundry's anvil"):
        toolchain.find_anvil()


def test_find_anvil__checkout_without_set_up__says_make_setup(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("PROVENFLOW_ANVIL", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(toolchain, "checkout_root", lambda: tmp_path)
    with pytest.raises(WrongUse, match="No anvil was found.*Run 'make setup'"):
        toolchain.find_anvil()


@pytest.mark.usefixtures("installed")
def test_solc_folder__installed__says_there_is_none() -> None:
    with pytest.raises(WrongUse, match="An installed provenflow has no compiler"):
        toolchain.solc_folder()


def test_use_pinned_tools__points_ape_at_this_checkout(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOLCX_BINARY_PATH", str(tmp_path))
    own = f"{sys.prefix}/bin"
    monkeypatch.setenv("PATH", f"/usr/bin{os.pathsep}{own}")

    toolchain.use_pinned_tools()

    assert os.environ["SOLCX_BINARY_PATH"] == str(ROOT / "tools" / "solc")
    assert os.environ["PATH"].split(os.pathsep) == [own, "/usr/bin"]


@pytest.mark.usefixtures("installed")
def test_use_pinned_tools__installed__changes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SOLCX_BINARY_PATH", str(tmp_path))
    before = dict(os.environ)

    toolchain.use_pinned_tools()

    assert dict(os.environ) == before
