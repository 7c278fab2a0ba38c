"""provenflow.hashing: what it accepts, and that nothing is truncated, padded or rounded into a type."""

from __future__ import annotations

import enum
import inspect
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from provenflow import hashing
from provenflow.errors import HashingError, Invalid, ProvenflowError

WORD = bytes(range(32))
OTHER_WORD = bytes(range(1, 33))
# Checksummed as in EIP-55, whose text gives this address as an example.
CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
ADDRESS = bytes.fromhex(CHECKSUMMED[2:])
UINT256_MAX = 2**256 - 1

VALID: dict[Callable[..., bytes], dict[str, Any]] = {
    hashing.task_hash: {
        "stage": 1,
        "task_seq": 2,
        "input_hash": WORD,
        "timestamp": 3,
        "expires_at": 4,
        "prev_reply_hashes": [WORD, OTHER_WORD],
        "workflow_run_id": OTHER_WORD,
    },
    hashing.reply_hash: {
        "operation_id": WORD,
        "output_hash": OTHER_WORD,
        "timestamp": 5,
        "replier": ADDRESS,
        "prev_task_hashes": [WORD, OTHER_WORD],
        "workflow_run_id": WORD,
    },
    hashing.reply_digest: {
        "output_hash": OTHER_WORD,
        "replier": ADDRESS,
        "prev_task_hashes": [WORD, OTHER_WORD],
        "workflow_run_id": WORD,
    },
    hashing.operation_key: {"workflow_run_id": WORD, "replier": ADDRESS, "operation_id": OTHER_WORD},
    hashing.run_id: {"sender": ADDRESS, "block_number": 6, "run_nonce": 7},
    hashing.verification_digest: {
        "task_id": WORD,
        "agent_id": OTHER_WORD,
        "input_hash": WORD,
        "output_hash": OTHER_WORD,
        "valid": True,
        "agent_proof_profile": WORD,
    },
}

# argument -> (the name in the ERC, its ABI type), per function
FIELDS: dict[Callable[..., bytes], dict[str, tuple[str, str]]] = {
    hashing.task_hash: {
        "stage": ("task.stage", "uint8"),
        "task_seq": ("task.taskSeq", "uint256"),
        "input_hash": ("task.inputHash", "bytes32"),
        "timestamp": ("task.timestamp", "uint256"),
        "expires_at": ("task.expiresAt", "uint256"),
        "prev_reply_hashes": ("task.prevReplyHashes", "bytes32[]"),
        "workflow_run_id": ("task.workflowRunId", "bytes32"),
    },
    hashing.reply_hash: {
        "operation_id": ("reply.operationId", "bytes32"),
        "output_hash": ("reply.outputHash", "bytes32"),
        "timestamp": ("reply.timestamp", "uint256"),
        "replier": ("reply.replier", "address"),
        "prev_task_hashes": ("reply.prevTaskHashes", "bytes32[]"),
        "workflow_run_id": ("reply.workflowRunId", "bytes32"),
    },
    hashing.reply_digest: {
        "output_hash": ("reply.outputHash", "bytes32"),
        "replier": ("reply.replier", "address"),
        "prev_task_hashes": ("reply.prevTaskHashes", "bytes32[]"),
        "workflow_run_id": ("reply.workflowRunId", "bytes32"),
    },
    hashing.operation_key: {
        "workflow_run_id": ("reply.workflowRunId", "bytes32"),
        "replier": ("reply.replier", "address"),
        "operation_id": ("reply.operationId", "bytes32"),
    },
    hashing.run_id: {
        "sender": ("msg.sender", "address"),
        "block_number": ("block.number", "uint256"),
        "run_nonce": ("runNonce", "uint256"),
    },
    hashing.verification_digest: {
        "task_id": ("taskId", "bytes32"),
        "agent_id": ("agentId", "bytes32"),
        "input_hash": ("inputHash", "bytes32"),
        "output_hash": ("outputHash", "bytes32"),
        "valid": ("valid", "bool"),
        "agent_proof_profile": ("agentProofProfile", "bytes32"),
    },
}

BAD: dict[str, dict[str, Any]] = {
    "uint8": {
        "256": 256,
        "300": 300,
        "negative": -1,
        "bool": True,
        "float": 1.0,
        "text": "1",
        "bytes": b"\x01",
        "none": None,
    },
    "uint256": {
        "2**256": 2**256,
        "more digits than Python prints": 10**5000,
        "negative": -1,
        "bool": False,
        "float": 1.0,
        "text": "1",
        "bytes": b"\x01",
        "none": None,
    },
    "bytes32": {
        "31 bytes": WORD[:31],
        "33 bytes": WORD + b"\x00",
        "two bytes": b"\xde\xad",
        "no bytes": b"",
        "bytearray": bytearray(WORD),
        "hex without 0x": WORD.hex(),
        "hex with 0X": "0X" + WORD.hex(),
        "odd hex": "0x" + WORD.hex()[:-1],
        "short hex": "0x" + WORD.hex()[:-2],
        "long hex": "0x" + WORD.hex() + "00",
        "not hex": "0x" + "zz" * 32,
        "hex with a newline": "0x" + WORD.hex()[:-2] + "\n\n",
        "hex with spaces": "0x" + " 1" * 32,
        "int": 1,
        "list": [WORD],
        "none": None,
    },
    "address": {
        "19 bytes": ADDRESS[:19],
        "21 bytes": ADDRESS + b"\x00",
        "32 bytes": bytes(12) + ADDRESS,
        "bad checksum": "0x5AAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
        "hex without 0x": CHECKSUMMED[2:],
        "odd hex": CHECKSUMMED[:-1],
        "short hex": CHECKSUMMED[:-2],
        "name": "agent.eth",
        "int": 1,
        "none": None,
    },
    "bytes32[]": {
        "one bytes32": WORD,
        "two words in one": WORD + OTHER_WORD,
        "one hex bytes32": "0x" + WORD.hex(),
        "empty text": "",
        "empty bytes": b"",
        "set": {WORD},
        "dict": {WORD: WORD},
        "generator": (word for word in [WORD]),
        "none": None,
        "int": 0,
    },
    "bool": {"0": 0, "1": 1, "text": "true", "none": None},
}


def _bad_calls() -> list[Any]:
    calls = []
    for function, fields in FIELDS.items():
        for argument, (field, abi_type) in fields.items():
            for label, value in BAD[abi_type].items():
                calls.append(
                    pytest.param(
                        function, argument, field, value, id=f"{function.__name__}: {field}: {label}"
                    )
                )
    return calls


@pytest.mark.parametrize("function", FIELDS, ids=lambda function: function.__name__)
def test_hashing__table_of_this_test__covers_every_argument_in_order(function: Callable[..., bytes]) -> None:
    assert list(inspect.signature(function).parameters) == list(FIELDS[function]) == list(VALID[function])


@pytest.mark.parametrize(("function", "argument", "field", "value"), _bad_calls())
def test_hashing__value_that_does_not_fit_its_type__names_the_field(
    function: Callable[..., bytes], argument: str, field: str, value: Any
) -> None:
    arguments = {**VALID[function], argument: value}

    with pytest.raises(HashingError) as caught:
        function(**arguments)

    assert caught.value.field == field
    assert caught.value.value is value
    assert str(caught.value).startswith(f"{field} must be ")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("function", "argument", "field"),
    [
        (hashing.task_hash, "prev_reply_hashes", "task.prevReplyHashes"),
        (hashing.reply_hash, "prev_task_hashes", "reply.prevTaskHashes"),
        (hashing.reply_digest, "prev_task_hashes", "reply.prevTaskHashes"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
@pytest.mark.parametrize("bad", BAD["bytes32"].values(), ids=BAD["bytes32"])
def test_hashing__bad_entry_of_a_list__names_field_and_index(
    function: Callable[..., bytes], argument: str, field: str, bad: Any
) -> None:
    with pytest.raises(HashingError) as caught:
        function(**{**VALID[function], argument: [WORD, bad, OTHER_WORD]})

    assert caught.value.field == f"{field}[1]"


@pytest.mark.parametrize("function", VALID, ids=lambda function: function.__name__)
def test_hashing__hex_text__means_the_same_as_bytes(function: Callable[..., bytes]) -> None:
    def as_hex(value: Any) -> Any:
        if isinstance(value, bytes):
            return "0x" + value.hex()
        return [as_hex(item) for item in value] if isinstance(value, list) else value

    in_bytes = function(**VALID[function])

    assert function(**{name: as_hex(value) for name, value in VALID[function].items()}) == in_bytes
    assert isinstance(in_bytes, bytes)
    assert len(in_bytes) == 32


@pytest.mark.parametrize("function", VALID, ids=lambda function: function.__name__)
def test_hashing__every_argument__changes_the_hash(function: Callable[..., bytes]) -> None:
    hashes = {function(**VALID[function])}
    others: dict[str, Any] = {
        "uint8": 9,
        "uint256": 9,
        "bytes32": b"\x55" * 32,
        "address": b"\x55" * 20,
        "bytes32[]": [OTHER_WORD, WORD],
        "bool": False,
    }
    for argument, (_, abi_type) in FIELDS[function].items():
        hashes.add(function(**{**VALID[function], argument: others[abi_type]}))

    assert len(hashes) == 1 + len(FIELDS[function])


@pytest.mark.parametrize(
    "spelling",
    [CHECKSUMMED, CHECKSUMMED.lower(), "0x" + CHECKSUMMED[2:].upper(), ADDRESS],
    ids=["EIP-55", "lower case", "upper case", "bytes"],
)
def test_hashing__address_in_each_legal_spelling__means_the_same(spelling: bytes | str) -> None:
    assert hashing.run_id(spelling, 1, 1) == hashing.run_id(ADDRESS, 1, 1)


def test_hashing__largest_values__are_accepted() -> None:
    lowest = hashing.task_hash(0, 0, bytes(32), 0, 0, [], bytes(32))
    highest = hashing.task_hash(
        255, UINT256_MAX, b"\xff" * 32, UINT256_MAX, UINT256_MAX, (b"\xff" * 32,), b"\xff" * 32
    )

    assert lowest != highest


def test_hashing__enum_member__counts_as_its_number() -> None:
    class Stage(enum.IntEnum):
        REVEAL = 1

    assert hashing.task_hash(**{**VALID[hashing.task_hash], "stage": Stage.REVEAL}) == hashing.task_hash(
        **VALID[hashing.task_hash]
    )


def test_task_hash__empty_list__is_not_special() -> None:
    arguments = {**VALID[hashing.task_hash], "prev_reply_hashes": []}

    assert hashing.task_hash(**arguments) == hashing.task_hash(**{**arguments, "prev_reply_hashes": ()})
    assert hashing.task_hash(**arguments) != hashing.task_hash(
        **{**arguments, "prev_reply_hashes": [bytes(32)]}
    )


def test_constants__are_those_of_the_text() -> None:
    assert hashing.EMPTY_LIST_HASH.hex() == "c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470"
    assert hashing.FINAL_STAGE == 2**8 - 1


def test_keccak256__is_not_nist_sha3() -> None:
    assert (
        hashing.keccak256(b"abc").hex() == "4e03657aea45a94fc7d47ba826c8d667c0d1e6e33a64a036ec44f58fa12d6c45"
    )


@pytest.mark.parametrize("data", ["abc", bytearray(b"abc"), None, 1, [1]], ids=repr)
def test_keccak256__not_bytes__is_refused(data: Any) -> None:
    with pytest.raises(HashingError, match=r"^data must be bytes, not "):
        hashing.keccak256(data)


@pytest.mark.parametrize(
    ("converter", "value", "expected"),
    [
        (hashing.to_bytes32, "0x" + WORD.hex(), WORD),
        (hashing.to_address, CHECKSUMMED, ADDRESS),
        (lambda field, value: hashing.to_uint(field, value, 16), 65_535, 65_535),
    ],
    ids=["to_bytes32", "to_address", "to_uint"],
)
def test_converters__good_value__is_returned_and_bad_one_names_the_field(
    converter: Callable[[str, Any], Any], value: Any, expected: Any
) -> None:
    assert converter("aField", value) == expected
    for bad in (None, 65_536, -1, b"\x00", "0x00"):
        with pytest.raises(HashingError, match=r"^aField must be "):
            converter("aField", bad)


def test_hashing_error__is_one_of_ours_and_a_value_error() -> None:
    error = HashingError("task.stage", 256, "an integer from 0 to 2**8 - 1")

    assert str(error) == "task.stage must be an integer from 0 to 2**8 - 1, not 256."
    assert isinstance(error, (Invalid, ProvenflowError))
    assert isinstance(error, ValueError)
    assert error.exit_code == 1


def test_hashing_error__enormous_value__stays_one_short_sentence() -> None:
    assert len(str(HashingError("reply.outputHash", b"\x00" * 1_000_000, "32 bytes"))) < 300
    assert "too long to print" in str(HashingError("task.taskSeq", 10**5000, "an integer"))


def test_hashing__import__needs_neither_ape_nor_web3() -> None:
    program = "import sys, provenflow.hashing; print(sorted({'ape', 'web3'} & set(sys.modules)))"
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout.strip() == "[]"
