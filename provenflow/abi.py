"""The ABI of ``IAgentWorkflow`` (ERC-8301): calls encoded, answers and logs decoded, strictly.

Only eth-abi is used, so nothing here needs Ape or web3. Two rules hold everywhere:

* what is encoded must fit its ABI type, else :class:`provenflow.errors.HashingError`; nothing is truncated or padded;
* what is decoded must be exactly the canonical ABI encoding of its value, else
  :class:`provenflow.errors.EvidenceError`: data that is too short or too long, dirty padding, a stray offset and an
  enum value out of range are all refused, and the sentence says which.

``bytes32`` values are 32 ``bytes`` and addresses 20 ``bytes``; :func:`provenflow.hashing.to_bytes32` and
:func:`provenflow.hashing.to_address` make them from hex.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final, TypeAlias

from eth_abi.abi import decode, encode
from eth_abi.exceptions import DecodingError, InsufficientDataBytes, InvalidPointer, NonEmptyPaddingBytes

from provenflow import hashing
from provenflow.errors import EvidenceError, HashingError
from provenflow.hashing import Address, Bytes32, keccak256, to_address, to_bytes32, to_uint

TASK_TUPLE: Final = "(uint8,uint256,bytes32,bytes,uint256,uint256,bytes32[],bytes32)"
REPLY_TUPLE: Final = "(bytes32,bytes32,bytes,uint256,address,bytes32[],bytes32)"


class RunStatus(IntEnum):
    """``RunStatus`` of a run (ERC-8301, Data Envelopes)."""

    PENDING = 0
    SUCCESS = 1
    FAILED = 2

    @property
    def label(self) -> str:
        """The name as the ERC spells it: ``Pending``, ``Success`` or ``Failed``."""
        return self.name.capitalize()


@dataclass(frozen=True, slots=True)
class AgentTask:
    """``AgentTask``: a task as the contract dispatched it (ERC-8301, Data Envelopes).

    Parameters
    ----------
    stage:
        uint8.
    task_seq:
        uint256; counts 0, 1, 2 … within a run.
    input_hash:
        32 bytes; keccak256 of the input, zero for the final task.
    input:
        Plaintext, may be empty.
    timestamp:
        uint256; ``block.timestamp`` at emission, Unix seconds.
    expires_at:
        uint256; Unix seconds, 0 = no expiry.
    prev_reply_hashes:
        32 bytes each, in order; empty for an initial task.
    workflow_run_id:
        32 bytes.

    Raises
    ------
    HashingError
        A value does not fit its ABI type.
    """

    stage: int
    task_seq: int
    input_hash: bytes
    input: bytes
    timestamp: int
    expires_at: int
    prev_reply_hashes: tuple[bytes, ...]
    workflow_run_id: bytes

    def __post_init__(self) -> None:
        to_uint("task.stage", self.stage, 8)
        to_uint("task.taskSeq", self.task_seq, 256)
        _raw("task.inputHash", self.input_hash, 32)
        _raw("task.input", self.input)
        to_uint("task.timestamp", self.timestamp, 256)
        to_uint("task.expiresAt", self.expires_at, 256)
        object.__setattr__(
            self, "prev_reply_hashes", _raw_list("task.prevReplyHashes", self.prev_reply_hashes)
        )
        _raw("task.workflowRunId", self.workflow_run_id, 32)

    def task_hash(self) -> bytes:
        """``taskHash`` recomputed from the fields, 32 bytes; see :func:`provenflow.hashing.task_hash`."""
        return hashing.task_hash(
            self.stage,
            self.task_seq,
            self.input_hash,
            self.timestamp,
            self.expires_at,
            self.prev_reply_hashes,
            self.workflow_run_id,
        )

    def as_tuple(self) -> tuple[Any, ...]:
        """The fields in ABI order, as eth-abi takes them for :data:`TASK_TUPLE`."""
        return (
            self.stage,
            self.task_seq,
            self.input_hash,
            self.input,
            self.timestamp,
            self.expires_at,
            self.prev_reply_hashes,
            self.workflow_run_id,
        )


@dataclass(frozen=True, slots=True)
class AgentReply:
    """``AgentReply``: a reply as an agent submits it (ERC-8301, Data Envelopes).

    Parameters
    ----------
    operation_id:
        32 bytes; non-zero, stable across retries.
    output_hash:
        32 bytes; keccak256 of the output.
    output:
        Plaintext, may be empty.
    timestamp:
        uint256; time of the off-chain execution, Unix seconds.
    replier:
        20 bytes; the agent's address.
    prev_task_hashes:
        32 bytes each, in order; entry 0 is the primary task.
    workflow_run_id:
        32 bytes.

    Raises
    ------
    HashingError
        A value does not fit its ABI type.
    """

    operation_id: bytes
    output_hash: bytes
    output: bytes
    timestamp: int
    replier: bytes
    prev_task_hashes: tuple[bytes, ...]
    workflow_run_id: bytes

    def __post_init__(self) -> None:
        _raw("reply.operationId", self.operation_id, 32)
        _raw("reply.outputHash", self.output_hash, 32)
        _raw("reply.output", self.output)
        to_uint("reply.timestamp", self.timestamp, 256)
        _raw("reply.replier", self.replier, 20)
        object.__setattr__(self, "prev_task_hashes", _raw_list("reply.prevTaskHashes", self.prev_task_hashes))
        _raw("reply.workflowRunId", self.workflow_run_id, 32)

    def reply_hash(self) -> bytes:
        """``replyHash`` recomputed from the fields, 32 bytes; see :func:`provenflow.hashing.reply_hash`."""
        return hashing.reply_hash(
            self.operation_id,
            self.output_hash,
            self.timestamp,
            self.replier,
            self.prev_task_hashes,
            self.workflow_run_id,
        )

    def as_tuple(self) -> tuple[Any, ...]:
        """The fields in ABI order, as eth-abi takes them for :data:`REPLY_TUPLE`."""
        return (
            self.operation_id,
            self.output_hash,
            self.output,
            self.timestamp,
            self.replier,
            self.prev_task_hashes,
            self.workflow_run_id,
        )


@dataclass(frozen=True)
class Function:
    """A function of the interface: its name, the ABI types it takes and the ABI types it returns."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def signature(self) -> str:
        """``name(types)`` as it is hashed into the selector."""
        return f"{self.name}({','.join(self.inputs)})"

    @functools.cached_property
    def selector(self) -> bytes:
        """The first 4 bytes of the signature's keccak256."""
        return keccak256(self.signature.encode())[:4]

    def encode(self, *arguments: object) -> bytes:
        """Calldata for `arguments`, which the caller has already checked against their ABI types."""
        return self.selector + encode(self.inputs, arguments)

    def decode(self, data: bytes) -> tuple[Any, ...]:
        """The values returned, from the bytes that the call answered.

        Raises
        ------
        EvidenceError
            The bytes are not the canonical encoding of the return types.
        """
        return decode_exactly(self.outputs, data, f"{self.name}() returned")


@dataclass(frozen=True)
class Event:
    """An event of the interface: its name and the ABI types of its indexed and of its other parameters, in order."""

    name: str
    indexed: tuple[str, ...]
    data: tuple[str, ...]

    @property
    def signature(self) -> str:
        """``name(types)`` as it is hashed into topic 0; in this interface the indexed parameters always lead."""
        return f"{self.name}({','.join(self.indexed + self.data)})"

    @functools.cached_property
    def topic0(self) -> bytes:
        """The signature's keccak256, 32 bytes."""
        return keccak256(self.signature.encode())


RUN: Final = Function("run", ("bytes32", "bytes", "uint256"), ("bytes32",))
RESULT: Final = Function("result", ("bytes32",), ("uint8", "bytes32", "uint256"))
GET_AGENT_TASK: Final = Function("getAgentTask", ("bytes32",), (TASK_TUPLE, "bool"))
GET_AGENT_REPLY: Final = Function("getAgentReply", ("bytes32",), (REPLY_TUPLE, "address", "bool", "bytes32"))
GET_REPLY_HASH_BY_OPERATION: Final = Function(
    "getReplyHashByOperation", ("bytes32", "address", "bytes32"), ("bytes32",)
)
ON_AGENT_REPLY: Final = Function("onAgentReply", (REPLY_TUPLE,), ("bytes32",))
ON_AGENT_PROVE: Final = Function("onAgentProve", ("bytes32[]", "bytes"), ())

FUNCTIONS: Final = (
    RUN,
    RESULT,
    GET_AGENT_TASK,
    GET_AGENT_REPLY,
    GET_REPLY_HASH_BY_OPERATION,
    ON_AGENT_REPLY,
    ON_AGENT_PROVE,
)

NEW_AGENT_TASK: Final = Event("NewAgentTask", ("bytes32", "uint8", "bytes32"), ())
AGENT_REPLY_ANCHORED: Final = Event("AgentReplyAnchored", ("bytes32", "bytes32", "address"), ())
WORKFLOW_COMPLETED: Final = Event("WorkflowCompleted", ("bytes32",), ("uint8", "bytes32", "uint256"))

EVENTS: Final = (NEW_AGENT_TASK, AGENT_REPLY_ANCHORED, WORKFLOW_COMPLETED)

INTERFACE_ID: Final = functools.reduce(
    operator.xor, (int.from_bytes(function.selector, "big") for function in FUNCTIONS)
).to_bytes(4, "big")
"""ERC-165 id of ``IAgentWorkflow``: its selectors, xor-ed."""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What ``result()`` returns: `status`, `final_task_hash` (32 bytes) and `completed_at` (Unix seconds)."""

    status: RunStatus
    final_task_hash: bytes
    completed_at: int


@dataclass(frozen=True, slots=True)
class NewAgentTask:
    """``NewAgentTask``: a task was dispatched. Ids and hashes are 32 bytes."""

    workflow_run_id: bytes
    stage: int
    task_hash: bytes


@dataclass(frozen=True, slots=True)
class AgentReplyAnchored:
    """``AgentReplyAnchored``: a reply was anchored. Ids and hashes are 32 bytes, `replier` 20."""

    workflow_run_id: bytes
    reply_hash: bytes
    replier: bytes


@dataclass(frozen=True, slots=True)
class WorkflowCompleted:
    """``WorkflowCompleted``: a run reached a terminal state. `timestamp` is in Unix seconds."""

    workflow_run_id: bytes
    status: RunStatus
    final_task_hash: bytes
    timestamp: int


WorkflowEvent: TypeAlias = NewAgentTask | AgentReplyAnchored | WorkflowCompleted


def encode_run(input_hash: Bytes32, plaintext: bytes, expires_at: int) -> bytes:
    """Calldata of ``run``: bytes32, ``input`` (may be empty), Unix seconds. ``HashingError`` if one does not fit."""
    return RUN.encode(
        to_bytes32("inputHash", input_hash), _raw("input", plaintext), to_uint("expiresAt", expires_at, 256)
    )


def encode_result(workflow_run_id: Bytes32) -> bytes:
    """Calldata of ``result``. ``HashingError`` if the id is not a bytes32."""
    return RESULT.encode(to_bytes32("workflowRunId", workflow_run_id))


def encode_get_agent_task(task_hash: Bytes32) -> bytes:
    """Calldata of ``getAgentTask``. ``HashingError`` if the hash is not a bytes32."""
    return GET_AGENT_TASK.encode(to_bytes32("taskHash", task_hash))


def encode_get_agent_reply(reply_hash: Bytes32) -> bytes:
    """Calldata of ``getAgentReply``. ``HashingError`` if the hash is not a bytes32."""
    return GET_AGENT_REPLY.encode(to_bytes32("replyHash", reply_hash))


def encode_get_reply_hash_by_operation(
    workflow_run_id: Bytes32, replier: Address, operation_id: Bytes32
) -> bytes:
    """Calldata of ``getReplyHashByOperation``. ``HashingError`` if a value does not fit."""
    return GET_REPLY_HASH_BY_OPERATION.encode(
        to_bytes32("workflowRunId", workflow_run_id),
        to_address("replier", replier),
        to_bytes32("operationId", operation_id),
    )


def encode_on_agent_reply(reply: AgentReply) -> bytes:
    """Calldata of ``onAgentReply``; the reply checked its values when it was made."""
    return ON_AGENT_REPLY.encode(reply.as_tuple())


def encode_on_agent_prove(reply_hashes: Sequence[Bytes32], proof: bytes) -> bytes:
    """Calldata of ``onAgentProve``: bytes32 each, proof of any length. ``HashingError`` if a value does not fit."""
    hashes = [to_bytes32(f"replyHashes[{index}]", item) for index, item in enumerate(reply_hashes)]
    return ON_AGENT_PROVE.encode(hashes, _raw("proof", proof))


def decode_run(data: bytes) -> bytes:
    """The ``workflowRunId`` that ``run`` returned, 32 bytes. ``EvidenceError`` if the data is not exactly one."""
    (workflow_run_id,) = RUN.decode(data)
    return bytes(workflow_run_id)


def decode_result(data: bytes) -> RunResult:
    """What ``result`` returned. ``EvidenceError`` if the data is not exactly that, or the status is out of range."""
    status, final_task_hash, completed_at = RESULT.decode(data)
    return RunResult(_status(status, "result() returned"), final_task_hash, completed_at)


def decode_get_agent_task(data: bytes) -> tuple[AgentTask, bool]:
    """Task and ``proven`` that ``getAgentTask`` returned. ``EvidenceError`` if the data is not exactly that."""
    task, proven = GET_AGENT_TASK.decode(data)
    return AgentTask(*task), proven


def decode_get_agent_reply(data: bytes) -> tuple[AgentReply, bytes, bool, bytes]:
    """Reply, ``verifier`` (20 bytes), ``proven`` and ``verificationDigest`` (32 bytes) that ``getAgentReply`` returned.

    ``EvidenceError`` if the data is not exactly that.
    """
    reply, verifier, proven, digest = GET_AGENT_REPLY.decode(data)
    return _reply(reply), _address_bytes(verifier), proven, digest


def decode_get_reply_hash_by_operation(data: bytes) -> bytes:
    """The ``replyHash`` (32 bytes, zero = no binding) that ``getReplyHashByOperation`` returned.

    ``EvidenceError`` if the data is not exactly one.
    """
    (reply_hash,) = GET_REPLY_HASH_BY_OPERATION.decode(data)
    return bytes(reply_hash)


def decode_on_agent_reply(data: bytes) -> bytes:
    """The canonical ``replyHash`` (32 bytes) that ``onAgentReply`` returned.

    ``EvidenceError`` if the data is not exactly one.
    """
    (reply_hash,) = ON_AGENT_REPLY.decode(data)
    return bytes(reply_hash)


def decode_event(topics: Sequence[bytes], data: bytes) -> WorkflowEvent:
    """One of the three events of the interface, from a log's topics (32 bytes each) and data.

    Raises
    ------
    EvidenceError
        The first topic is none of the interface's, the number of topics is not the event's, a topic does not fit its
        type, or the data is not exactly the event's.
    """
    event = next((event for event in EVENTS if topics and topics[0] == event.topic0), None)
    if event is None:
        first = f"0x{topics[0].hex()}" if topics else "none"
        raise EvidenceError(f"A log is no event of IAgentWorkflow: its first topic is {first}.")
    if len(topics) != 1 + len(event.indexed):
        raise EvidenceError(f"{event.name} has {len(topics)} topics, not {1 + len(event.indexed)}.")
    indexed = [
        decode_exactly((abi_type,), topic, f"{event.name}, topic {place}:")[0]
        for place, (abi_type, topic) in enumerate(zip(event.indexed, topics[1:], strict=True), 1)
    ]
    values = decode_exactly(event.data, data, f"{event.name} carries")
    if event is NEW_AGENT_TASK:
        return NewAgentTask(*indexed)
    if event is AGENT_REPLY_ANCHORED:
        return AgentReplyAnchored(indexed[0], indexed[1], _address_bytes(indexed[2]))
    status, final_task_hash, timestamp = values
    return WorkflowCompleted(indexed[0], _status(status, f"{event.name} carries"), final_task_hash, timestamp)


def decode_exactly(types: Sequence[str], data: bytes, subject: str) -> tuple[Any, ...]:
    """The values of `data`, which must be exactly the canonical ABI encoding of them.

    Parameters
    ----------
    types:
        ABI types.
    data:
        Bytes to decode.
    subject:
        Opens the sentence of the error, for instance ``"result() returned"``.

    Raises
    ------
    EvidenceError
        The data is too short, too long, has dirty padding, or is encoded in another way than ``abi.encode`` does.
    """
    try:
        values = decode(types, data)
    except NonEmptyPaddingBytes:
        raise EvidenceError(f"{subject} a value that does not fit its type (dirty padding).") from None
    except InsufficientDataBytes:
        raise EvidenceError(f"{subject} too little data: {len(data)} bytes.") from None
    except (InvalidPointer, DecodingError, OverflowError):
        # An offset or a length beyond what Python can seek to shows as OverflowError.
        raise EvidenceError(
            f"{subject} data whose offsets or lengths do not fit ({len(data)} bytes)."
        ) from None
    canonical = encode(types, values)
    if len(data) < len(canonical):
        # Ape makes eth-abi take missing bytes for zeros, for the whole process.
        raise EvidenceError(f"{subject} too little data: {len(data)} bytes.")
    if len(data) > len(canonical) and data.startswith(canonical):
        raise EvidenceError(f"{subject} {len(data) - len(canonical)} bytes too many.")
    if data != canonical:
        raise EvidenceError(f"{subject} data that is not the canonical ABI encoding of its values.")
    return values


def _status(value: int, subject: str) -> RunStatus:
    try:
        return RunStatus(value)
    except ValueError:
        raise EvidenceError(f"{subject} {value} as RunStatus, which has only 0, 1 and 2.") from None


def _reply(values: tuple[Any, ...]) -> AgentReply:
    operation_id, output_hash, output, timestamp, replier, prev_task_hashes, workflow_run_id = values
    return AgentReply(
        operation_id,
        output_hash,
        output,
        timestamp,
        _address_bytes(replier),
        prev_task_hashes,
        workflow_run_id,
    )


def _address_bytes(decoded: str) -> bytes:
    """The 20 bytes of an address as eth-abi decodes it (``0x…``)."""
    return bytes.fromhex(decoded[2:])


def _raw(field: str, value: object, length: int | None = None) -> bytes:
    if isinstance(value, bytes) and length in (None, len(value)):
        return value
    raise HashingError(field, value, "bytes" if length is None else f"{length} bytes")


def _raw_list(field: str, values: object) -> tuple[bytes, ...]:
    # bytes are a sequence too: taken as a list they would be read byte by byte.
    if not isinstance(values, (list, tuple)):
        raise HashingError(field, values, "a list of 32-byte values")
    return tuple(_raw(f"{field}[{index}]", value, 32) for index, value in enumerate(values))
