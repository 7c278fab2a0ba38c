"""The hash formulas of ERC-8301, and the verification digest of ERC-8274.

Pure functions: they need neither a node nor a contract. Every value is ABI-encoded by eth-abi and hashed with
keccak256. A value that does not fit its ABI type raises :class:`provenflow.errors.HashingError` with the name of the
field as the ERC spells it; nothing is ever truncated, padded or rounded into a type.

What the arguments may be:

* ``bytes32``: 32 ``bytes``, or a ``str`` of ``0x`` and 64 hex digits;
* ``address``: 20 ``bytes``, or a ``str`` of ``0x`` and 40 hex digits. Digits in mixed case must carry a right EIP-55
  checksum;
* ``uint8``, ``uint256``: a non-negative ``int`` in range; a ``bool`` is not a number here;
* lists of ``bytes32``: a ``list`` or ``tuple``. The order is significant.

The formulas alone are here. Rules about which values are allowed in a workflow (``operationId`` is not zero,
``prevTaskHashes`` is not empty, and so on) belong to the contract and to the evidence verifier.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, TypeAlias

from eth_abi.abi import encode
from eth_hash.auto import keccak
from eth_utils.address import to_checksum_address

from provenflow.errors import HashingError

__all__ = [
    "EMPTY_LIST_HASH",
    "FINAL_STAGE",
    "Address",
    "Bytes32",
    "keccak256",
    "operation_key",
    "reply_digest",
    "reply_hash",
    "run_id",
    "task_hash",
    "to_address",
    "to_bytes32",
    "to_uint",
    "verification_digest",
]

Bytes32: TypeAlias = bytes | str
Address: TypeAlias = bytes | str

_HEX: Final = re.compile(r"0x[0-9a-fA-F]*")


def keccak256(data: bytes) -> bytes:
    """keccak256 of raw bytes, as the EVM computes it (not NIST SHA3-256).

    Parameters
    ----------
    data:
        Bytes of any length. Text must be encoded first, hex decoded first.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    HashingError
        ``data`` is not ``bytes``.
    """
    if not isinstance(data, bytes):
        raise HashingError("data", data, "bytes")
    return bytes(keccak(data))


EMPTY_LIST_HASH: Final = keccak256(b"")
"""``keccak256("")``: the inner term of an empty ``prevReplyHashes`` (ERC-8301, Data Envelopes, ``AgentTask``)."""

FINAL_STAGE: Final = 255
"""``type(uint8).max``: the sentinel ``stage`` of a run's final task (ERC-8301, Gate Logic, Terminal stage)."""


def task_hash(
    stage: int,
    task_seq: int,
    input_hash: Bytes32,
    timestamp: int,
    expires_at: int,
    prev_reply_hashes: Sequence[Bytes32],
    workflow_run_id: Bytes32,
) -> bytes:
    """``taskHash``: the identity of a dispatched task (ERC-8301, Data Envelopes, ``AgentTask``).

    The plaintext ``input`` is not part of it.

    Parameters
    ----------
    stage:
        uint8; :data:`FINAL_STAGE` for the final task.
    task_seq:
        uint256; counts 0, 1, 2 … within a run.
    input_hash:
        bytes32; keccak256 of the input, zero for the final task.
    timestamp:
        uint256; ``block.timestamp`` at emission, in Unix seconds.
    expires_at:
        uint256; Unix seconds, 0 = no expiry.
    prev_reply_hashes:
        bytes32[], in order; empty for an initial task, whose inner term is then :data:`EMPTY_LIST_HASH`.
    workflow_run_id:
        bytes32.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    HashingError
        A value does not fit its ABI type; ``field`` is for instance ``task.taskSeq``.
    """
    return _hash_words(
        ("uint8", to_uint("task.stage", stage, 8)),
        ("uint256", to_uint("task.taskSeq", task_seq, 256)),
        ("bytes32", to_bytes32("task.inputHash", input_hash)),
        ("uint256", to_uint("task.timestamp", timestamp, 256)),
        ("uint256", to_uint("task.expiresAt", expires_at, 256)),
        ("bytes32", _list_hash("task.prevReplyHashes", prev_reply_hashes)),
        ("bytes32", to_bytes32("task.workflowRunId", workflow_run_id)),
    )


def reply_hash(
    operation_id: Bytes32,
    output_hash: Bytes32,
    timestamp: int,
    replier: Address,
    prev_task_hashes: Sequence[Bytes32],
    workflow_run_id: Bytes32,
) -> bytes:
    """``replyHash``: the identity of an anchored reply (ERC-8301, Data Envelopes, ``AgentReply``).

    The plaintext ``output`` is not part of it.

    Parameters
    ----------
    operation_id:
        bytes32; the logical operation, stable across retries.
    output_hash:
        bytes32; keccak256 of the output.
    timestamp:
        uint256; time of the off-chain execution, in Unix seconds.
    replier:
        address of the agent.
    prev_task_hashes:
        bytes32[], in order; entry 0 is the primary task.
    workflow_run_id:
        bytes32.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    HashingError
        A value does not fit its ABI type; ``field`` is for instance ``reply.operationId``.
    """
    return _hash_words(
        ("bytes32", to_bytes32("reply.operationId", operation_id)),
        ("bytes32", to_bytes32("reply.outputHash", output_hash)),
        ("uint256", to_uint("reply.timestamp", timestamp, 256)),
        ("address", to_address("reply.replier", replier)),
        ("bytes32", _list_hash("reply.prevTaskHashes", prev_task_hashes)),
        ("bytes32", to_bytes32("reply.workflowRunId", workflow_run_id)),
    )


def reply_digest(
    output_hash: Bytes32,
    replier: Address,
    prev_task_hashes: Sequence[Bytes32],
    workflow_run_id: Bytes32,
) -> bytes:
    """``replyDigest``: the content that a retry of an operation must repeat (ERC-8301, Data Envelopes).

    It leaves out ``timestamp`` and ``operationId``, so that a retry rebuilt at a later time has the same digest.

    Parameters
    ----------
    output_hash, replier, prev_task_hashes, workflow_run_id:
        bytes32, address, bytes32[] and bytes32, as in :func:`reply_hash`.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    HashingError
        A value does not fit its ABI type.
    """
    return _hash_words(
        ("bytes32", to_bytes32("reply.outputHash", output_hash)),
        ("address", to_address("reply.replier", replier)),
        ("bytes32", _list_hash("reply.prevTaskHashes", prev_task_hashes)),
        ("bytes32", to_bytes32("reply.workflowRunId", workflow_run_id)),
    )


def operation_key(workflow_run_id: Bytes32, replier: Address, operation_id: Bytes32) -> bytes:
    """``operationKey``: an operation id in the scope of its run and replier (ERC-8301, Data Envelopes).

    The formula is RECOMMENDED by the ERC; a contract may use an equivalent nested mapping.

    Parameters
    ----------
    workflow_run_id, replier, operation_id:
        bytes32, address and bytes32.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    HashingError
        A value does not fit its ABI type.
    """
    return _hash_words(
        ("bytes32", to_bytes32("reply.workflowRunId", workflow_run_id)),
        ("address", to_address("reply.replier", replier)),
        ("bytes32", to_bytes32("reply.operationId", operation_id)),
    )


def run_id(sender: Address, block_number: int, run_nonce: int) -> bytes:
    """``workflowRunId`` in the form that the ERC recommends (ERC-8301, ``run()``: Run Initiation).

    It holds neither chain nor contract, so off chain a run is known by (chain id, contract, run id).

    Parameters
    ----------
    sender:
        address that called ``run``.
    block_number:
        uint256; block of that call.
    run_nonce:
        uint256; the contract's counter of runs before that call.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    HashingError
        A value does not fit its ABI type.
    """
    return _hash_words(
        ("address", to_address("msg.sender", sender)),
        ("uint256", to_uint("block.number", block_number, 256)),
        ("uint256", to_uint("runNonce", run_nonce, 256)),
    )


def verification_digest(
    task_id: Bytes32,
    agent_id: Bytes32,
    input_hash: Bytes32,
    output_hash: Bytes32,
    valid: bool,
    agent_proof_profile: Bytes32,
) -> bytes:
    """``verificationDigest`` that an ``IAgentVerifier`` returns (ERC-8274).

    Parameters
    ----------
    task_id:
        bytes32; an ERC-8301 workflow passes its ``workflowRunId`` (ERC-8301, ``onAgentProve``, option A).
    agent_id:
        bytes32; an ERC-8301 workflow passes ``bytes32(uint256(uint160(replier)))``.
    input_hash, output_hash:
        bytes32.
    valid:
        The verdict; a ``bool``, not a number.
    agent_proof_profile:
        bytes32; names the exact profile of proofs that the verifier accepts.

    Returns
    -------
    bytes
        32 bytes.

    Raises
    ------
    HashingError
        A value does not fit its ABI type.
    """
    if not isinstance(valid, bool):
        raise HashingError("valid", valid, "True or False")
    return _hash_words(
        ("bytes32", to_bytes32("taskId", task_id)),
        ("bytes32", to_bytes32("agentId", agent_id)),
        ("bytes32", to_bytes32("inputHash", input_hash)),
        ("bytes32", to_bytes32("outputHash", output_hash)),
        ("bool", valid),
        ("bytes32", to_bytes32("agentProofProfile", agent_proof_profile)),
    )


def _hash_words(*words: tuple[str, object]) -> bytes:
    """``keccak256(abi.encode(…))`` of (ABI type, checked value) pairs, all of static types."""
    return keccak256(encode([abi_type for abi_type, _ in words], [value for _, value in words]))


def _list_hash(field: str, hashes: Sequence[Bytes32]) -> bytes:
    """``keccak256(abi.encodePacked(bytes32[]))``; an empty list is not special."""
    # bytes and str are sequences too: taken as lists they would be read digit by digit.
    if not isinstance(hashes, (list, tuple)):
        raise HashingError(field, hashes, "a list of 32-byte values")
    return keccak256(b"".join(to_bytes32(f"{field}[{index}]", item) for index, item in enumerate(hashes)))


def to_uint(field: str, value: object, bits: int) -> int:
    """Check an unsigned integer.

    Parameters
    ----------
    field:
        Name of the value as the ERC spells it, for the error.
    value:
        A non-negative ``int``; not a ``bool``.
    bits:
        Size of the ABI type, 8 for uint8.

    Raises
    ------
    HashingError
        ``value`` is not an integer, or does not fit.
    """
    # bool is a subclass of int, and True would silently become 1.
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << bits:
        raise HashingError(field, value, f"an integer from 0 to 2**{bits} - 1")
    return int(value)


def to_bytes32(field: str, value: Bytes32) -> bytes:
    """The 32 bytes of a ``bytes32``.

    Parameters
    ----------
    field:
        Name of the value as the ERC spells it, for the error.
    value:
        32 ``bytes``, or ``0x`` and 64 hex digits.

    Raises
    ------
    HashingError
        ``value`` is anything else.
    """
    return _fixed_bytes(field, value, 32, "32 bytes, or 0x and 64 hex digits")


def to_address(field: str, value: Address) -> bytes:
    """The 20 bytes of an ``address``.

    Parameters
    ----------
    field:
        Name of the value as the ERC spells it, for the error.
    value:
        20 ``bytes``, or ``0x`` and 40 hex digits; in mixed case the EIP-55 checksum must be right.

    Raises
    ------
    HashingError
        ``value`` is anything else.
    """
    expected = "20 bytes, or 0x and 40 hex digits"
    raw = _fixed_bytes(field, value, 20, expected)
    if isinstance(value, str):
        digits = value[2:]
        mixed_case = digits not in (digits.lower(), digits.upper())
        if mixed_case and value != to_checksum_address(raw):
            raise HashingError(field, value, f"an address with a right EIP-55 checksum ({expected})")
    return raw


def _fixed_bytes(field: str, value: bytes | str, length: int, expected: str) -> bytes:
    if isinstance(value, bytes) and len(value) == length:
        return bytes(value)
    if isinstance(value, str) and len(value) == 2 + 2 * length and _HEX.fullmatch(value):
        return bytes.fromhex(value[2:])
    raise HashingError(field, value, expected)
