"""The compiled contracts that the package carries: ABIs and bytecode.

One file, ``provenflow/_artifacts/contracts.json``, written by :mod:`provenflow.build` in a checkout and shipped in the
wheel. In a checkout it is refused when it comes from other sources than those on disk, so that nobody deploys old
bytecode by accident.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from eth_abi.abi import encode
from eth_abi.exceptions import EncodingError
from eth_utils.abi import collapse_if_tuple

from provenflow.build import FORMAT, inputs_hash
from provenflow.errors import Invalid, WrongUse
from provenflow.toolchain import checkout_root

ARTIFACTS_FILE: Final = Path(__file__).parent / "_artifacts" / "contracts.json"


@dataclass(frozen=True)
class Artifact:
    """One compiled contract.

    Parameters
    ----------
    name:
        The contract's name.
    abi:
        Its ABI, as solc gives it.
    bytecode:
        Creation bytecode as ``0x…``; ``""`` for an interface or an abstract contract.
    deployed_bytecode:
        Runtime bytecode as ``0x…``, immutables still zero; ``""`` likewise.
    source_id:
        Its source, relative to the checkout.
    is_mock:
        It plays a behaviour for tests and proves nothing: never for a chain that is not local.
    """

    name: str
    abi: tuple[Mapping[str, Any], ...]
    bytecode: str
    deployed_bytecode: str
    source_id: str
    is_mock: bool

    @property
    def constructor_inputs(self) -> tuple[Mapping[str, Any], ...]:
        """The constructor's parameters, as in the ABI."""
        for entry in self.abi:
            if entry.get("type") == "constructor":
                return tuple(entry.get("inputs", ()))
        return ()

    def init_code(self, *arguments: object) -> bytes:
        """The init code of a deployment: creation bytecode, then the ABI-encoded constructor arguments.

        Raises
        ------
        WrongUse
            The contract cannot be deployed, or the arguments do not fit its constructor.
        """
        if not self.bytecode:
            raise WrongUse(f"{self.name} is an interface or abstract and cannot be deployed.")
        inputs = self.constructor_inputs
        if len(inputs) != len(arguments):
            raise WrongUse(f"{self.name} takes {len(inputs)} constructor arguments, not {len(arguments)}.")
        try:
            encoded = encode([collapse_if_tuple(dict(entry)) for entry in inputs], arguments)
        except EncodingError as trouble:
            raise WrongUse(
                f"The constructor arguments of {self.name} do not fit its ABI: {trouble}"
            ) from None
        return bytes.fromhex(self.bytecode.removeprefix("0x")) + encoded


@dataclass(frozen=True)
class Artifacts:
    """Everything in the artifact file.

    Parameters
    ----------
    inputs:
        SHA-256, as 64 hex digits, of everything that decides the bytecode.
    compiler:
        Compiler version and settings.
    contracts:
        The contracts by name.
    """

    inputs: str
    compiler: Mapping[str, Any]
    contracts: Mapping[str, Artifact]


def load(name: str) -> Artifact:
    """The compiled contract called `name`.

    Raises
    ------
    WrongUse
        There is none of that name; or as in :func:`load_all`.
    Invalid
        As in :func:`load_all`.
    """
    contracts = load_all().contracts
    if name not in contracts:
        raise WrongUse(f"There is no contract {name}.", fix=f"There are: {', '.join(sorted(contracts))}.")
    return contracts[name]


def names() -> list[str]:
    """The names of all compiled contracts, sorted. Raises as :func:`load_all`."""
    return sorted(load_all().contracts)


def load_all() -> Artifacts:
    """Everything in the artifact file of this installation.

    Raises
    ------
    WrongUse
        The file is missing, or, in a checkout, comes from other sources than those on disk.
    Invalid
        The file is not what :mod:`provenflow.build` of this version writes.
    """
    root = checkout_root()
    fix = "Run 'make compile'." if root is not None else "Install provenflow again."
    artifacts = read(ARTIFACTS_FILE, fix)
    if root is not None and artifacts.inputs != inputs_hash(root):
        raise WrongUse("The compiled contracts do not come from the sources as they are now.", fix=fix)
    return artifacts


def read(path: Path, fix: str) -> Artifacts:
    """Read an artifact file, whatever it was compiled from.

    Parameters
    ----------
    path:
        The file.
    fix:
        What the user can do when it is not there or not right.

    Raises
    ------
    WrongUse
        There is no such file.
    Invalid
        It is not of the format that this version reads.
    """
    try:
        status = path.stat()
    except OSError:
        raise WrongUse(f"The compiled contracts are missing ({path}).", fix=fix) from None
    try:
        return _parse(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        raise Invalid(f"{path} is not an artifact file of format {FORMAT}.", fix=fix) from None


@lru_cache(maxsize=4)
def _parse(path: Path, _mtime_ns: int, _size: int) -> Artifacts:
    document = json.loads(path.read_bytes())
    if document["format"] != FORMAT:
        raise ValueError("another format")
    contracts = {
        name: Artifact(
            name=name,
            abi=tuple(entry["abi"]),
            bytecode=_code(entry["bytecode"]),
            deployed_bytecode=_code(entry["deployedBytecode"]),
            source_id=_text(entry["sourceId"]),
            is_mock=_flag(entry["mock"]),
        )
        for name, entry in document["contracts"].items()
    }
    if not contracts:
        raise ValueError("no contracts")
    return Artifacts(_text(document["inputs"]), dict(document["compiler"]), contracts)


def _code(value: object) -> str:
    code = _text(value)
    bytes.fromhex(code.removeprefix("0x"))  # raises for anything that is not hex, unlinked libraries included
    return code


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a string")
    return value


def _flag(value: object) -> bool:
    # A missing or odd flag must not turn a mock into a contract that may go to a public chain.
    if not isinstance(value, bool):
        raise TypeError("not a boolean")
    return value
