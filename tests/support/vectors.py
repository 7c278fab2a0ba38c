"""Reads the golden vectors of ``tests/vectors`` and gives each one a known meaning.

Whatever is not understood (an unknown formula, an unknown key, a missing or empty file) is an error: a vector that no
test checks must never look like a vector that holds.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from tests.support import reference_hashing as reference

VECTOR_FOLDER = Path(__file__).resolve().parent.parent / "vectors"
VECTOR_FILES = ("erc8301-public.json", "erc8301-derived.json")

Inputs = dict[str, Any]


class Formula(Enum):
    """What a vector's ``formula`` means. The value is the text in the files (several texts may mean one formula)."""

    TASK_HASH = "taskHash"
    REPLY_HASH = "replyHash"
    REPLY_DIGEST = "replyDigest"
    OPERATION_KEY = "operationKey"
    RUN_ID = "keccak256(abi.encode(address sender,uint256 blockNumber,uint256 runNonce))"
    VERIFICATION_DIGEST = (
        "keccak256(abi.encode(bytes32 taskId,bytes32 agentId,bytes32 inputHash,bytes32 outputHash,bool valid,"
        "bytes32 agentProofProfile))"
    )
    EMPTY_INNER = 'keccak256("")'
    STALE_REPLY_HASH = (
        "keccak256(abi.encode(bytes32 outputHash,uint256 timestamp,address replier,keccak256(packed prevTaskHashes),"
        "bytes32 workflowRunId))"
    )
    ZERO_INNER = "WRONG: inner term special-cased to bytes32(0)"
    COMMIT = "keccak256(result || nonce32)"
    BOUND_COMMIT = "keccak256(result || secret32 || replier20)"
    RESULT_KEY = "keccak256(result) where result = revealOutput[:-52]"


_FORMULAS = {formula.value: formula for formula in Formula} | {
    "keccak256(abi.encode(uint8 stage,uint256 taskSeq,bytes32 inputHash,uint256 timestamp,uint256 expiresAt,"
    "keccak256(packed prevReplyHashes),bytes32 workflowRunId))": Formula.TASK_HASH,
}

_VECTOR_KEYS = {
    "id", "step", "source", "formula", "inputs", "expected", "must_not_equal", "recomputed", "reproduces", "evm_agrees",
    "note",
}  # fmt: skip
_FILE_KEYS = {
    "schema",
    "note",
    "run_id",
    "vectors",
    "selectors",
    "interface_ids",
    "event_topic0",
    "typehashes",
}


class VectorError(Exception):
    """A vector file that cannot be used as it is."""


@dataclass(frozen=True)
class Vector:
    """One golden vector, with references to other vectors resolved.

    ``inputs`` has the ERC's field names; hashes and addresses are bytes, numbers are int, lists are lists.
    ``must_not_equal`` is set for a negative vector: the value a broken implementation gives.
    """

    id: str
    formula: Formula
    inputs: Inputs
    expected: bytes
    must_not_equal: bytes | None


def load_document(name: str, folder: Path = VECTOR_FOLDER) -> dict[str, Any]:
    """The parsed file ``name``, refused when missing, empty or with sections that no test knows."""
    path = folder / name
    if not path.is_file():
        raise VectorError(f"{name}: the vector file is missing")
    text = path.read_text(encoding="utf-8")
    if not text.strip():
        raise VectorError(f"{name}: the vector file is empty")
    document = json.loads(text)
    if unknown := sorted(set(document) - _FILE_KEYS):
        raise VectorError(f"{name}: no test checks the section(s) {', '.join(unknown)}")
    if not document.get("vectors"):
        raise VectorError(f"{name}: the vector file has no vectors")
    return dict(document)


def load_vectors(folder: Path = VECTOR_FOLDER) -> dict[str, Vector]:
    """Every vector of every file, by id."""
    raw: dict[tuple[str, str], dict[str, Any]] = {}
    previous_formula = ""
    for name in VECTOR_FILES:
        for entry in load_document(name, folder)["vectors"]:
            _check_entry(name, entry)
            if any(identifier == entry["id"] for _, identifier in raw):
                raise VectorError(f"{name}: vector {entry['id']} appears twice")
            previous_formula = previous_formula if entry["formula"] == "same" else entry["formula"]
            raw[name, entry["id"]] = {**entry, "formula": previous_formula}
    return {identifier: _vector(name, entry, raw) for (name, identifier), entry in raw.items()}


def task_of(inputs: Inputs) -> reference.Task:
    """The inputs of a ``taskHash`` vector in the order of the formula."""
    return reference.Task(
        inputs["stage"],
        inputs["taskSeq"],
        inputs["inputHash"],
        inputs["timestamp"],
        inputs["expiresAt"],
        inputs["prevReplyHashes"],
        inputs["workflowRunId"],
    )


def reply_of(inputs: Inputs) -> reference.Reply:
    """The inputs of a reply vector in the order of the formula; what the formula leaves out is zero."""
    return reference.Reply(
        inputs.get("operationId", bytes(32)),
        inputs["outputHash"],
        inputs.get("timestamp", 0),
        inputs["replier"],
        inputs["prevTaskHashes"],
        inputs["workflowRunId"],
    )


def preimage_of(vector: Vector) -> bytes:
    """The bytes hashed by a vector whose formula is keccak256 of a plain concatenation."""
    inputs = vector.inputs
    match vector.formula:
        case Formula.EMPTY_INNER:
            return b""
        case Formula.COMMIT:
            return bytes(inputs["result"] + inputs["nonce"])
        case Formula.BOUND_COMMIT:
            preimage = bytes(inputs["result"] + inputs["secret"] + inputs["replier"])
            if preimage != inputs["revealOutput"]:
                raise VectorError(f"{vector.id}: revealOutput is not result, secret and replier put together")
            return preimage
        case Formula.RESULT_KEY:
            return bytes(inputs["revealOutput"][:-52])
    raise VectorError(f"{vector.id}: not a plain concatenation")


def _check_entry(name: str, entry: dict[str, Any]) -> None:
    if unknown := sorted(set(entry) - _VECTOR_KEYS):
        raise VectorError(f"{name}: vector {entry.get('id')}: no test knows the key(s) {', '.join(unknown)}")
    for flag in ("reproduces", "evm_agrees"):
        if entry.get(flag, True) is not True:
            raise VectorError(f"{name}: vector {entry['id']} says itself that it does not hold ({flag})")
    if entry.get("recomputed", entry["expected"]) != entry["expected"]:
        raise VectorError(f"{name}: vector {entry['id']}: recomputed and expected differ")


def _vector(name: str, entry: dict[str, Any], raw: dict[tuple[str, str], dict[str, Any]]) -> Vector:
    formula = _FORMULAS.get(entry["formula"])
    if formula is None:
        raise VectorError(f"{name}: vector {entry['id']} has an unknown formula: {entry['formula']}")
    inputs = entry["inputs"]
    if "same_as" in inputs:
        inputs = raw[name, inputs["same_as"]]["inputs"]
    elif "see" in inputs:
        other_name, other_id = inputs["see"].split()
        inputs = raw[other_name, other_id]["inputs"]
    return Vector(
        id=entry["id"],
        formula=formula,
        inputs=_typed(inputs),
        expected=_from_hex(entry["expected"]),
        must_not_equal=_from_hex(entry["must_not_equal"]) if "must_not_equal" in entry else None,
    )


def _typed(inputs: dict[str, Any]) -> Inputs:
    typed: Inputs = {}
    for key, value in inputs.items():
        if key == "prevReplyHashesPacked":
            packed = _from_hex(value)
            typed["prevReplyHashes"] = [packed[at : at + 32] for at in range(0, len(packed), 32)]
        elif key == "agentProofProfile":
            text = value.removeprefix('keccak256("').removesuffix('")')
            typed[key] = reference.keccak(text.encode())
        elif key == "result":
            typed[key] = value.encode()
        elif isinstance(value, list):
            typed[key] = [_from_hex(item) for item in value]
        elif isinstance(value, str):
            typed[key] = _from_hex(value)
        else:
            typed[key] = value
    return typed


def _from_hex(text: str) -> bytes:
    if not text.startswith("0x"):
        raise VectorError(f"not a 0x-prefixed hex value: {text}")
    return bytes.fromhex(text[2:])
