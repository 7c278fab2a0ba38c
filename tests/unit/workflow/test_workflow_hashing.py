"""The contracts' hash formulas in the EVM: every golden vector, and generated values against the reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from eth_utils import to_checksum_address
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support import reference_hashing as reference
from tests.support.strategies import address, bytes32, replies, tasks, uint256
from tests.support.vectors import Formula, Inputs, Vector, load_vectors, preimage_of, reply_of, task_of

VECTORS = load_vectors()

# A call costs some milliseconds, and the package's formulas are compared with the same reference on many more values.
in_the_evm = settings(max_examples=20)


def _task_hash(harness: Any, task: reference.Task, plaintext: bytes = b"") -> bytes:
    return bytes(
        harness.taskHash(
            (
                task.stage,
                task.task_seq,
                task.input_hash,
                plaintext,
                task.timestamp,
                task.expires_at,
                list(task.prev_reply_hashes),
                task.workflow_run_id,
            )
        )
    )


def _reply_tuple(reply: reference.Reply, output: bytes = b"") -> tuple[Any, ...]:
    return (
        reply.operation_id,
        reply.output_hash,
        output,
        reply.timestamp,
        to_checksum_address(reply.replier),
        list(reply.prev_task_hashes),
        reply.workflow_run_id,
    )


def _reply_hash(harness: Any, reply: reference.Reply, output: bytes = b"") -> bytes:
    return bytes(harness.replyHash(_reply_tuple(reply, output)))


def _reply_digest(harness: Any, reply: reference.Reply) -> bytes:
    return bytes(harness.replyDigest(_reply_tuple(reply)))


def _operation_key(harness: Any, workflow_run_id: bytes, replier: bytes, operation_id: bytes) -> bytes:
    return bytes(harness.operationKey(workflow_run_id, to_checksum_address(replier), operation_id))


def _run_id(harness: Any, sender: bytes, block_number: int, run_nonce: int) -> bytes:
    return bytes(harness.runId(to_checksum_address(sender), block_number, run_nonce))


def _check_task_hash(harness: Any, vector: Vector) -> None:
    task = task_of(vector.inputs)

    assert _task_hash(harness, task) == vector.expected
    assert _task_hash(harness, task, b"any plaintext") == vector.expected


def _check_zero_inner(harness: Any, vector: Vector) -> None:
    task = task_of(vector.inputs)

    assert not task.prev_reply_hashes
    assert _task_hash(harness, task) == vector.expected
    assert _task_hash(harness, task) != vector.must_not_equal


def _check_reply_hash(harness: Any, vector: Vector) -> None:
    reply = reply_of(vector.inputs)

    assert _reply_hash(harness, reply) == vector.expected
    assert _reply_hash(harness, reply, b"any plaintext") == vector.expected


def _check_stale_reply_hash(harness: Any, vector: Vector) -> None:
    reply = reply_of(vector.inputs)

    # The EVM does give the stale value for the stale layout, so the vector tells the layouts apart.
    assert bytes(harness.hashBytes(reference.stale_reply_preimage(reply))) == vector.expected
    for operation_id in (bytes(32), b"\x11" * 32, vector.expected):
        assert _reply_hash(harness, reply._replace(operation_id=operation_id)) != vector.expected


def _check_reply_digest(harness: Any, vector: Vector) -> None:
    reply = reply_of(vector.inputs)

    assert _reply_digest(harness, reply) == vector.expected
    assert _reply_digest(harness, reply._replace(timestamp=1, operation_id=b"\x77" * 32)) == vector.expected


def _check_operation_key(harness: Any, vector: Vector) -> None:
    inputs = vector.inputs

    assert (
        _operation_key(harness, inputs["workflowRunId"], inputs["replier"], inputs["operationId"])
        == vector.expected
    )


def _check_run_id(harness: Any, vector: Vector) -> None:
    inputs = vector.inputs

    assert _run_id(harness, inputs["sender"], inputs["blockNumber"], inputs["runNonce"]) == vector.expected


def _check_verification_digest(harness: Any, vector: Vector) -> None:
    names = ("taskId", "agentId", "inputHash", "outputHash", "valid", "agentProofProfile")

    assert bytes(harness.verificationDigest(*(vector.inputs[name] for name in names))) == vector.expected


def _check_concatenation(harness: Any, vector: Vector) -> None:
    assert bytes(harness.hashBytes(preimage_of(vector))) == vector.expected


CHECKS: dict[Formula, Callable[[Any, Vector], None]] = {
    Formula.TASK_HASH: _check_task_hash,
    Formula.ZERO_INNER: _check_zero_inner,
    Formula.REPLY_HASH: _check_reply_hash,
    Formula.STALE_REPLY_HASH: _check_stale_reply_hash,
    Formula.REPLY_DIGEST: _check_reply_digest,
    Formula.OPERATION_KEY: _check_operation_key,
    Formula.RUN_ID: _check_run_id,
    Formula.VERIFICATION_DIGEST: _check_verification_digest,
    Formula.EMPTY_INNER: _check_concatenation,
    Formula.COMMIT: _check_concatenation,
    Formula.BOUND_COMMIT: _check_concatenation,
    Formula.RESULT_KEY: _check_concatenation,
}

SHOWN = {
    Formula.TASK_HASH: ("EXE-014", "EXE-015"),
    Formula.ZERO_INNER: ("EXE-016", "EXE-017"),
    Formula.REPLY_HASH: ("EXE-025",),
    Formula.STALE_REPLY_HASH: ("EXE-025",),
    Formula.REPLY_DIGEST: ("EXE-037", "EXE-038"),
    Formula.OPERATION_KEY: ("EXE-035",),
}


def _parameter(vector: Vector) -> Any:
    shown = SHOWN.get(vector.formula)
    return pytest.param(vector, id=vector.id, marks=(pytest.mark.requirement(*shown),) if shown else ())


@pytest.mark.parametrize("vector", map(_parameter, VECTORS.values()))
def test_workflow_hashing__golden_vector__agrees(hashing_harness: Any, vector: Vector) -> None:
    CHECKS[vector.formula](hashing_harness, vector)


def test_workflow_hashing__every_formula__has_a_check() -> None:
    assert set(CHECKS) == set(Formula) == {vector.formula for vector in VECTORS.values()}


@pytest.mark.requirement("EXE-038")
def test_workflow_hashing__reconstructed_retry__same_operation_but_other_reply_hash(
    hashing_harness: Any,
) -> None:
    def of(inputs: Inputs) -> tuple[bytes, bytes]:
        reply = reply_of(inputs)
        key = _operation_key(hashing_harness, reply.workflow_run_id, reply.replier, reply.operation_id)
        return key, _reply_digest(hashing_harness, reply)

    first, retry = VECTORS["reply-A"].inputs, VECTORS["reply-A-reconstructed-retry"].inputs

    assert of(first) == of(retry)
    assert _reply_hash(hashing_harness, reply_of(first)) != _reply_hash(hashing_harness, reply_of(retry))


@pytest.mark.requirement("EXE-014", "EXE-015")
@given(task=tasks, plaintext=st.binary(max_size=70))
@in_the_evm
def test_task_hash__any_task__equals_reference(
    hashing_harness: Any, task: reference.Task, plaintext: bytes
) -> None:
    assert _task_hash(hashing_harness, task, plaintext) == reference.task_hash(task)


@pytest.mark.requirement("EXE-025")
@given(reply=replies, output=st.binary(max_size=70))
@in_the_evm
def test_reply_hash__any_reply__equals_reference(
    hashing_harness: Any, reply: reference.Reply, output: bytes
) -> None:
    assert _reply_hash(hashing_harness, reply, output) == reference.reply_hash(reply)


@pytest.mark.requirement("EXE-037")
@given(reply=replies)
@in_the_evm
def test_reply_digest__any_reply__equals_reference(hashing_harness: Any, reply: reference.Reply) -> None:
    assert _reply_digest(hashing_harness, reply) == reference.reply_digest(reply)


@pytest.mark.requirement("EXE-035")
@given(run=bytes32, replier=address, operation=bytes32)
@in_the_evm
def test_operation_key__any_operation__equals_reference(
    hashing_harness: Any, run: bytes, replier: bytes, operation: bytes
) -> None:
    assert _operation_key(hashing_harness, run, replier, operation) == reference.operation_key(
        run, replier, operation
    )


@given(sender=address, block_number=uint256, nonce=uint256)
@in_the_evm
def test_run_id__any_run__equals_reference(
    hashing_harness: Any, sender: bytes, block_number: int, nonce: int
) -> None:
    assert _run_id(hashing_harness, sender, block_number, nonce) == reference.run_id(
        sender, block_number, nonce
    )


@given(words=st.tuples(bytes32, bytes32, bytes32, bytes32), valid=st.booleans(), profile=bytes32)
@in_the_evm
def test_verification_digest__any_verdict__equals_reference(
    hashing_harness: Any, words: tuple[bytes, bytes, bytes, bytes], valid: bool, profile: bytes
) -> None:
    assert bytes(hashing_harness.verificationDigest(*words, valid, profile)) == reference.verification_digest(
        *words, valid, profile
    )
