"""Everything that decides the bytecode changes the hash of the inputs, and nothing else does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from provenflow.build import inputs_hash
from provenflow.errors import WrongUse
from tests.toolchain.conftest import TinyCheckout

Change = Callable[[TinyCheckout], None]


def set_version(tiny: TinyCheckout, package: str, version: str) -> None:
    """Lock another version of a Node package, and install it."""
    lock = tiny.root / "package-lock.json"
    document = json.loads(lock.read_text())
    document["packages"][f"node_modules/{package}"]["version"] = version
    lock.write_text(json.dumps(document))
    folder = tiny.root / "node_modules" / package
    if folder.is_symlink():
        folder.unlink()
    folder.mkdir(exist_ok=True)
    (folder / "package.json").write_text(json.dumps({"version": version}))


def rename_source(tiny: TinyCheckout) -> None:
    (tiny.root / "contracts" / "Child.sol").rename(tiny.root / "contracts" / "Kid.sol")


def move_text_between_sources(tiny: TinyCheckout) -> None:
    # The same stream of bytes, cut at another place.
    first, second = (tiny.root / "contracts" / name for name in ("Base.sol", "Child.sol"))
    first.write_text(first.read_text() + second.read_text()[:10])
    second.write_text(second.read_text()[10:])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda tiny: tiny.edit("contracts/Base.sol", "41", "42"), id="source"),
        pytest.param(lambda tiny: (tiny.root / "contracts" / "Child.sol").unlink(), id="source deleted"),
        pytest.param(rename_source, id="source renamed"),
        pytest.param(move_text_between_sources, id="text moved to another source"),
        pytest.param(lambda tiny: tiny.edit("ape-config.yaml", "runs: 200", "runs: 201"), id="setting"),
        pytest.param(lambda tiny: set_version(tiny, "@openzeppelin/contracts", "5.7.1"), id="library"),
        pytest.param(lambda tiny: set_version(tiny, "solc", "0.8.31"), id="compiler"),
        pytest.param(
            lambda tiny: tiny.edit("tools/solc/solc-v0.8.30", '"use strict";', '"use strict"; '), id="wrapper"
        ),
        pytest.param(
            lambda tiny: tiny.edit("requirements.lock", "ape-solidity==0.8", "ape-solidity==0.9"),
            id="ape plugin",
        ),
    ],
)
def test_inputs_hash__an_input_changed__is_another(tiny: TinyCheckout, change: Change) -> None:
    before = inputs_hash(tiny.root)
    change(tiny)
    assert inputs_hash(tiny.root) != before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(
            lambda tiny: tiny.edit("requirements.lock", "rich==", "rich==1"), id="unrelated package"
        ),
        pytest.param(lambda tiny: set_version(tiny, "solhint", "9.9.9"), id="unrelated node package"),
        pytest.param(lambda tiny: (tiny.root / "contracts" / "README.md").write_text("x"), id="no source"),
    ],
)
def test_inputs_hash__something_else_changed__is_the_same(tiny: TinyCheckout, change: Change) -> None:
    before = inputs_hash(tiny.root)
    change(tiny)
    assert inputs_hash(tiny.root) == before


def test_inputs_hash__another_place__is_the_same(tiny: TinyCheckout, tmp_path: Path) -> None:
    before = inputs_hash(tiny.root)
    tiny.root.rename(tmp_path / "moved")
    assert inputs_hash(tmp_path / "moved") == before


def test_inputs_hash__library_not_locked__says_so(tiny: TinyCheckout) -> None:
    tiny.edit("ape-config.yaml", "node_modules/@openzeppelin/contracts", "node_modules/@else/contracts/src")
    with pytest.raises(WrongUse, match="package-lock.json does not name @else/contracts"):
        inputs_hash(tiny.root)


def test_inputs_hash__not_installed__says_make_setup(tiny: TinyCheckout) -> None:
    (tiny.root / "node_modules" / "solc").unlink()
    with pytest.raises(
        WrongUse, match=r"wants solc 0\.8\.30, but node_modules has nothing\. Run 'make setup'"
    ):
        inputs_hash(tiny.root)


def test_inputs_hash__lock_missing__says_so(tiny: TinyCheckout) -> None:
    (tiny.root / "requirements.lock").unlink()
    with pytest.raises(WrongUse, match=r"requirements\.lock cannot be read: No such file"):
        inputs_hash(tiny.root)
