"""A tiny checkout to try the toolchain on, and commands run in it as a user with nothing set would run them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

BASE = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Context} from "@openzeppelin/contracts/utils/Context.sol";

abstract contract Base is Context {
    function answer() public pure virtual returns (uint256) {
        return 41;
    }
}
"""

CHILD = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

import {Base} from "./Base.sol";

contract Child is Base {}
"""

ONLY_TYPES = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

enum Colour {
    Red,
    Blue
}
"""

MOCK = """// SPDX-License-Identifier: Apache-2.0
pragma solidity ^0.8.30;

contract Pretender {
    uint256 public pretence;
}
"""


def bare_run(folder: Path, home: Path, *command: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Run a command as under ``env -i`` with the environment activated: PATH and an empty HOME, nothing else."""
    environment = {"HOME": str(home), "PATH": f"{sys.prefix}/bin:/usr/bin:/bin", **extra}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=280)


@dataclass
class TinyCheckout:
    """A folder that counts as a checkout: an abstract base, its child, a file of types, and a mock."""

    root: Path
    home: Path

    def run(self, *command: str, ok: bool = True, **extra: str) -> str:
        """Run a command in it; everything it printed. Fails unless the command ends as `ok` says."""
        done = bare_run(self.root, self.home, *command, **extra)
        output = done.stdout + done.stderr
        assert (done.returncode == 0) is ok, f"{command} ended with {done.returncode}:\n{output}"
        return output

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace `old`, which must be there, in a file."""
        path = self.root / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    @property
    def cached(self) -> dict[str, str]:
        """Runtime bytecode by contract as Ape's cache has it."""
        document = json.loads((self.root / ".build" / "__local__.json").read_text())
        types: dict[str, Any] = document.get("contractTypes", {})
        return {name: entry["runtimeBytecode"].get("bytecode", "") for name, entry in types.items()}

    @property
    def artifacts_file(self) -> Path:
        return self.root / "provenflow" / "_artifacts" / "contracts.json"

    @property
    def artifacts(self) -> dict[str, Any]:
        """The exported artifact file."""
        document: dict[str, Any] = json.loads(self.artifacts_file.read_text())
        return document


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty HOME."""
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


def make_tiny_sources(root: Path) -> None:
    """Write the tiny checkout's files into `root`."""
    for name, text in {
        "contracts/Base.sol": BASE,
        "contracts/Child.sol": CHILD,
        "contracts/Colours.sol": ONLY_TYPES,
        "contracts/mocks/Pretender.sol": MOCK,
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    for name in ("ape-config.yaml", "foundry.toml", "package-lock.json", "requirements.lock"):
        shutil.copy(ROOT / name, root / name)
    shutil.copytree(ROOT / "tools" / "solc", root / "tools" / "solc")
    for name in ("@openzeppelin/contracts/package.json", "@openzeppelin/contracts/utils/Context.sol"):
        (root / "node_modules" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "node_modules" / name, root / "node_modules" / name)
    for name in ("solc", "@layerzerolabs"):
        (root / "node_modules" / name).symlink_to(ROOT / "node_modules" / name)


@pytest.fixture
def tiny(tmp_path: Path, home: Path) -> TinyCheckout:
    """A fresh tiny checkout, not yet compiled."""
    make_tiny_sources(tmp_path / "tiny")
    return TinyCheckout(tmp_path / "tiny", home)


@pytest.fixture(scope="session")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny checkout after ``ape compile``, for copying only."""
    folder = tmp_path_factory.mktemp("compiled-once")
    make_tiny_sources(folder / "tiny")
    TinyCheckout(folder / "tiny", folder).run("ape", "compile")
    return folder / "tiny"


@pytest.fixture
def compiled(compiled_once: Path, tmp_path: Path, home: Path) -> TinyCheckout:
    """A tiny checkout after ``ape compile``."""
    shutil.copytree(compiled_once, tmp_path / "tiny", symlinks=True)
    return TinyCheckout(tmp_path / "tiny", home)
