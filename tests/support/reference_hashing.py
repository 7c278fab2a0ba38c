"""A second implementation of the ERC-8301 hash formulas, written by hand from the text.

It shares no code with ``provenflow.hashing``: every ABI word is built here explicitly and keccak comes straight from
pycryptodome. It exists to be compared with the package and with the contracts, and it trusts its caller: values are
expected to be in range.

``abi.encode`` of static types is the concatenation of 32-byte words: numbers and addresses right-aligned, ``bytes32``
as it is, ``bool`` as 0 or 1. ``abi.encodePacked(bytes32[])`` is the concatenation of the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from Crypto.Hash import keccak as _pycryptodome_keccak


class Task(NamedTuple):
    """The hashed fields of ``AgentTask``, in the order of the ERC's formula."""

    stage: int
    task_seq: int
    input_hash: bytes
    timestamp: int
    expires_at: int
    prev_reply_hashes: Sequence[bytes]
    workflow_run_id: bytes


class Reply(NamedTuple):
    """The hashed fields of ``AgentReply``, in the order of the ERC's formula; ``replier`` is 20 bytes."""

    operation_id: bytes
    output_hash: bytes
    timestamp: int
    replier: bytes
    prev_task_hashes: Sequence[bytes]
    workflow_run_id: bytes


def keccak(data: bytes) -> bytes:
    """keccak256 of ``data``: 32 bytes."""
    return bytes(_pycryptodome_keccak.new(digest_bits=256, data=data).digest())


def number_word(value: int) -> bytes:
    """A ``uintN`` as one word."""
    return value.to_bytes(32, "big")


def address_word(value: bytes) -> bytes:
    """An ``address`` (20 bytes) as one word."""
    return b"\x00" * 12 + value


def packed_hash(hashes: Sequence[bytes]) -> bytes:
    """``keccak256(abi.encodePacked(bytes32[]))``."""
    return keccak(b"".join(hashes))


def task_hash(task: Task) -> bytes:
    """``taskHash`` (Data Envelopes, ``AgentTask``)."""
    return keccak(
        number_word(task.stage)
        + number_word(task.task_seq)
        + task.input_hash
        + number_word(task.timestamp)
        + number_word(task.expires_at)
        + packed_hash(task.prev_reply_hashes)
        + task.workflow_run_id
    )


def task_hash_with_zero_inner(task: Task) -> bytes:
    """What ``taskHash`` would be if an empty ``prevReplyHashes`` were special-cased to ``bytes32(0)``: forbidden."""
    return keccak(
        number_word(task.stage)
        + number_word(task.task_seq)
        + task.input_hash
        + number_word(task.timestamp)
        + number_word(task.expires_at)
        + bytes(32)
        + task.workflow_run_id
    )


def reply_hash(reply: Reply) -> bytes:
    """``replyHash`` (Data Envelopes, ``AgentReply``)."""
    return keccak(
        reply.operation_id
        + reply.output_hash
        + number_word(reply.timestamp)
        + address_word(reply.replier)
        + packed_hash(reply.prev_task_hashes)
        + reply.workflow_run_id
    )


def stale_reply_preimage(reply: Reply) -> bytes:
    """The preimage of ``replyHash`` in drafts before ``operationId`` was added: no longer conformant."""
    return (
        reply.output_hash
        + number_word(reply.timestamp)
        + address_word(reply.replier)
        + packed_hash(reply.prev_task_hashes)
        + reply.workflow_run_id
    )


def reply_digest(reply: Reply) -> bytes:
    """``replyDigest`` (Data Envelopes): neither ``timestamp`` nor ``operationId``."""
    return keccak(
        reply.output_hash
        + address_word(reply.replier)
        + packed_hash(reply.prev_task_hashes)
        + reply.workflow_run_id
    )


def operation_key(workflow_run_id: bytes, replier: bytes, operation_id: bytes) -> bytes:
    """``operationKey`` (Data Envelopes)."""
    return keccak(workflow_run_id + address_word(replier) + operation_id)


def run_id(sender: bytes, block_number: int, run_nonce: int) -> bytes:
    """The recommended ``workflowRunId`` (Run Initiation)."""
    return keccak(address_word(sender) + number_word(block_number) + number_word(run_nonce))


def verification_digest(
    task_id: bytes,
    agent_id: bytes,
    input_hash: bytes,
    output_hash: bytes,
    valid: bool,
    agent_proof_profile: bytes,
) -> bytes:
    """``verificationDigest`` of an ERC-8274 ``IAgentVerifier``."""
    return keccak(
        task_id + agent_id + input_hash + output_hash + number_word(1 if valid else 0) + agent_proof_profile
    )
