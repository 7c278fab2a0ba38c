"""Compiling what is measured: the contracts as they are, and their plain twin.

The twin is the same workflow over another storage file: in the compiler's input, and there only,
``contracts/workflow/WorkflowStorage.sol`` is replaced by ``contracts/mocks/plain/PlainWorkflowStorage.sol``, in which
every field has a slot of its own. Both are compiled with the settings of ``ape-config.yaml``, those of a deployment.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from provenflow.artifacts import Artifact
from provenflow.errors import Invalid, WrongUse
from provenflow.toolchain import SOLC_VERSION, checkout_root

STORAGE: Final = "contracts/workflow/WorkflowStorage.sol"
PLAIN: Final = "contracts/mocks/plain/PlainWorkflowStorage.sol"
_PLAIN_NAME: Final = "PlainWorkflowStorage"
_STORAGE_NAME: Final = "WorkflowStorage"
# Imports of the plain file, as they read at the place of the file that it replaces.
_MOVED: Final = {'"../../workflow/': '"./', '"../../interfaces/': '"../interfaces/'}
_TIMEOUT: Final = 600.0  # seconds; solc-js needs ten


def root() -> Path:
    """The checkout.

    Raises
    ------
    WrongUse
        The package is not imported from one.
    """
    folder = checkout_root()
    if folder is None:
        raise WrongUse("There are no contracts to measure here.", fix="Run it in a checkout of provenflow.")
    return folder


def sources(*, twin: bool) -> dict[str, str]:
    """The sources to measure by name, mocks that the benchmark needs included.

    Parameters
    ----------
    twin:
        With the plain storage in the place of the packed one.

    Raises
    ------
    WrongUse
        A source is missing.
    """
    folder = root()
    wanted = [
        *sorted((folder / "contracts" / "interfaces").glob("*.sol")),
        *sorted((folder / "contracts" / "workflow").rglob("*.sol")),
        *sorted((folder / "contracts" / "examples").glob("*.sol")),
        folder / "contracts" / "mocks" / "MockAgentVerifier.sol",
        folder / "contracts" / "mocks" / "WideWorkflow.sol",
    ]
    try:
        found = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in wanted}
        if twin:
            found[STORAGE] = as_storage((folder / PLAIN).read_text(encoding="utf-8"))
    except OSError as error:
        raise WrongUse(f"{error.filename} cannot be read: {error.strerror}.") from None
    return found


def as_storage(plain: str) -> str:
    """The text of the plain storage as it reads in the place of the packed one: renamed, its imports moved."""
    text = plain.replace(_PLAIN_NAME, _STORAGE_NAME)
    for old, new in _MOVED.items():
        text = text.replace(old, new)
    return text


def compile_contracts(*, twin: bool) -> dict[str, Artifact]:
    """Compile from nothing.

    Parameters
    ----------
    twin:
        The plain twin instead of the contracts as they are.

    Returns
    -------
    dict
        Every contract by name, abstract ones and interfaces included (their bytecode is empty).

    Raises
    ------
    Invalid
        The compiler reports an error or a warning. For the twin that means: ``PlainWorkflowStorage`` no longer has the
        internal functions that ``WorkflowStorage`` has.
    WrongUse
        Set-up is incomplete.
    """
    settings = yaml.safe_load((root() / "ape-config.yaml").read_text(encoding="utf-8"))["solidity"]
    if settings["version"] != SOLC_VERSION:
        raise WrongUse(f"ape-config.yaml wants solc {settings['version']}, and {SOLC_VERSION} is pinned.")
    document = {
        "language": "Solidity",
        "sources": {name: {"content": text} for name, text in sources(twin=twin).items()},
        "settings": {
            "optimizer": {"enabled": settings["optimize"], "runs": settings["optimization_runs"]},
            "evmVersion": settings["evm_version"],
            "remappings": settings["import_remapping"],
            "outputSelection": {"*": {"*": ["abi", "evm.bytecode.object", "evm.deployedBytecode.object"]}},
        },
    }
    output = _solc(document)
    # Warnings about the libraries are not ours to mend.
    if problems := [
        problem["formattedMessage"]
        for problem in output.get("errors", [])
        if problem["severity"] == "error"
        or (problem.get("sourceLocation") or {}).get("file", "").startswith("contracts/")
    ]:
        what = f"with {PLAIN} in the place of {STORAGE}" if twin else "as they are"
        raise Invalid(f"The contracts do not compile {what}:\n" + "\n".join(problems))
    return {
        name: Artifact(
            name=name,
            abi=tuple(compiled["abi"]),
            bytecode=_hex(compiled["evm"]["bytecode"]["object"]),
            deployed_bytecode=_hex(compiled["evm"]["deployedBytecode"]["object"]),
            source_id=source,
            is_mock=source.startswith("contracts/mocks/"),
        )
        for source, contracts in output["contracts"].items()
        if source.startswith("contracts/")
        for name, compiled in contracts.items()
    }


def _solc(document: Mapping[str, Any]) -> dict[str, Any]:
    compiler = root() / "tools" / "solc" / f"solc-v{SOLC_VERSION}"
    try:
        answer = subprocess.run(
            [compiler, "--standard-json", "--base-path", root()],
            input=json.dumps(document).encode(),
            capture_output=True,
            timeout=_TIMEOUT,
            check=True,
            cwd=root(),
        )
    except subprocess.CalledProcessError as error:
        raise WrongUse(error.stderr.decode(errors="replace").strip(), fix="Run 'make setup'.") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WrongUse(f"The compiler cannot be run ({error}).", fix="Run 'make setup'.") from None
    output: dict[str, Any] = json.loads(answer.stdout)
    return output


def _hex(code: str) -> str:
    return f"0x{code}" if code else ""
