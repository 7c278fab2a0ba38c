"""Where the checkout and its pinned tools are: anvil, forge, cast and the Solidity compiler.

Nothing here needs the Makefile or an activated environment: a command finds the same tools from its own location. An
installed wheel has no checkout and needs only ``anvil`` on PATH. The standard library only, so that any part may
import it.
"""

from __future__ import annotations

import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Final

from provenflow.errors import WrongUse

SOLC_VERSION: Final = "0.8.30"
FOUNDRY_TOOLS: Final = ("anvil", "forge", "cast")

# What makes a folder a checkout. Ape compiles in a temporary copy of contracts/, scripts/ and tests/, which lacks them.
_CHECKOUT_FILES: Final = (
    "ape-config.yaml",
    "package-lock.json",
    f"tools/solc/solc-v{SOLC_VERSION}",
    "contracts",
)

_MACHINES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


def is_checkout(folder: Path) -> bool:
    """Whether ``folder`` is a checkout of the project: it has the Ape configuration, the Node lock and the compiler."""
    return all((folder / name).exists() for name in _CHECKOUT_FILES)


def checkout_root() -> Path | None:
    """The checkout that this package is imported from, or None for an installed wheel."""
    root = Path(__file__).resolve().parent.parent
    return root if is_checkout(root) else None


def foundry_platform() -> str:
    """The name of this machine in the native Foundry packages, for instance ``linux-amd64``.

    Raises
    ------
    WrongUse
        Foundry has no native package for this operating system or processor.
    """
    machine = _MACHINES.get(platform.machine().lower())
    if sys.platform not in ("linux", "darwin") or machine is None:
        raise WrongUse(
            f"Foundry's packages have no binaries for {sys.platform} on {platform.machine()}.",
            fix="Use Linux or macOS on x86-64 or ARM64.",
        )
    return f"{sys.platform}-{machine}"


def native_foundry(root: Path, tool: str) -> Path:
    """Where npm puts the native binary of a Foundry tool; the file need not exist.

    The shims in ``node_modules/.bin`` are not used: npm 10 does not make them, and they pass their own name on to
    their children.

    Parameters
    ----------
    root:
        The checkout.
    tool:
        ``anvil``, ``forge`` or ``cast``.

    Raises
    ------
    WrongUse
        Foundry has no native package for this machine.
    """
    return root / "node_modules" / "@foundry-rs" / f"{tool}-{foundry_platform()}" / "bin" / tool


def find_anvil() -> Path:
    """The anvil to start: ``PROVENFLOW_ANVIL``, else the checkout's pinned one, else the first on PATH.

    Raises
    ------
    WrongUse
        There is none, or ``PROVENFLOW_ANVIL`` names no executable file.
    """
    named = os.environ.get("PROVENFLOW_ANVIL")
    if named:
        if not _is_executable(Path(named)):
            raise WrongUse(
                f"PROVENFLOW_ANVIL is {named}, which is no executable file.",
                fix="Set it to the path of anvil, or unset it.",
            )
        return Path(named)
    root = checkout_root()
    if root is not None:
        for candidate in (root / ".venv" / "bin" / "anvil", native_foundry(root, "anvil")):
            if _is_executable(candidate):
                return candidate
    on_path = shutil.which("anvil")
    if on_path is None:
        fix = (
            "Run 'make setup'."
            if root is not None
            else "Install Foundry's anvil and put it on PATH, or name it."
        )
        raise WrongUse("No anvil was found, neither in PROVENFLOW_ANVIL nor on PATH.", fix=fix)
    return Path(on_path)


def solc_folder() -> Path:
    """The folder with the pinned compiler, as py-solc-x wants it in ``SOLCX_BINARY_PATH``.

    A ``SOLCX_BINARY_PATH`` of the user's is not taken over: py-solc-x downloads a version that is missing there, and a
    compiler other than the checkout's wrapper does not find the libraries in ``node_modules`` from the temporary folder
    in which Ape compiles.

    Raises
    ------
    WrongUse
        The package is not imported from a checkout, so there is no compiler.
    """
    root = checkout_root()
    if root is None:
        raise WrongUse("An installed provenflow has no compiler.", fix="Compile in a checkout of provenflow.")
    return root / "tools" / "solc"


def use_pinned_tools() -> None:
    """Let Ape find the pinned compiler and anvil in this process; outside a checkout nothing changes.

    Sets ``SOLCX_BINARY_PATH`` and puts the environment's own ``bin`` first on ``PATH``, for a command that was
    started by its path and not through an activated environment.
    """
    if checkout_root() is None:
        return
    os.environ["SOLCX_BINARY_PATH"] = str(solc_folder())
    own = str(Path(sys.prefix) / "bin")
    path = [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry != own]
    os.environ["PATH"] = os.pathsep.join([own, *path])


def _is_executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
