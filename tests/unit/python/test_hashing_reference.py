"""provenflow.hashing against an implementation written by hand from the ERC, on generated values."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from provenflow import hashing
from tests.support import reference_hashing as reference
from tests.support.strategies import address, bytes32, replies, tasks, uint256


@given(tasks)
def test_task_hash__any_task__equals_reference(task: reference.Task) -> None:
    assert hashing.task_hash(*task) == reference.task_hash(task)


@given(replies)
def test_reply_hash__any_reply__equals_reference(reply: reference.Reply) -> None:
    assert hashing.reply_hash(*reply) == reference.reply_hash(reply)


@given(replies)
def test_reply_digest__any_reply__equals_reference(reply: reference.Reply) -> None:
    digest = hashing.reply_digest(
        reply.output_hash, reply.replier, reply.prev_task_hashes, reply.workflow_run_id
    )

    assert digest == reference.reply_digest(reply)


@given(bytes32, address, bytes32)
def test_operation_key__any_operation__equals_reference(run: bytes, replier: bytes, operation: bytes) -> None:
    assert hashing.operation_key(run, replier, operation) == reference.operation_key(run, replier, operation)


@given(address, uint256, uint256)
def test_run_id__any_run__equals_reference(sender: bytes, block_number: int, nonce: int) -> None:
    assert hashing.run_id(sender, block_number, nonce) == reference.run_id(sender, block_number, nonce)


@given(bytes32, bytes32, bytes32, bytes32, st.booleans(), bytes32)
def test_verification_digest__any_verdict__equals_reference(
    task_id: bytes, agent_id: bytes, input_hash: bytes, output_hash: bytes, valid: bool, profile: bytes
) -> None:
    arguments = (task_id, agent_id, input_hash, output_hash, valid, profile)

    assert hashing.verification_digest(*arguments) == reference.verification_digest(*arguments)


@given(st.binary(max_size=300))
def test_keccak256__any_bytes__equals_reference(data: bytes) -> None:
    assert hashing.keccak256(data) == reference.keccak(data)


@given(tasks)
def test_task_hash__any_task__is_never_the_hash_with_a_zero_inner(task: reference.Task) -> None:
    assert hashing.task_hash(*task) != reference.task_hash_with_zero_inner(task)
