"""The tests' own driver: exact times, honest records, and failures where a record is not what it claims to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from provenflow.abi import AgentReply, AgentTask, RunStatus
from provenflow.hashing import keccak256
from tests.support.fixtures import Drive
from tests.support.reverts import reverts_with
from tests.support.workflow import DEFAULT_INPUT, WorkflowDriver


@pytest.fixture
def driver(drive: Drive, pipeline: Any) -> WorkflowDriver:
    return drive(pipeline)


def test_start_run__default__gives_id_and_task_of_the_receipt(driver: WorkflowDriver, requester: Any) -> None:
    before = driver.now

    run = driver.start_run(requester)

    assert driver.now == before + 1
    task = driver.task(run.task_hash)
    assert (task.workflow_run_id, task.timestamp, task.input) == (run.id, before + 1, DEFAULT_INPUT)
    assert task.input_hash == keccak256(DEFAULT_INPUT)
    assert driver.result(run.id).status is RunStatus.PENDING


def test_build_reply__default__is_accepted_by_the_next_call_and_transaction(
    driver: WorkflowDriver, requester: Any, agent: Any
) -> None:
    run = driver.start_run(requester)

    reply = driver.build_reply(run.task_hash, agent)

    assert reply.timestamp == driver.now == driver.task(run.task_hash).timestamp + 1
    assert driver.call_reply(reply) == reply.reply_hash()
    submission = driver.submit(reply)
    assert submission.reply_hash == reply.reply_hash()
    assert driver.reply(submission.reply_hash).reply == reply
    assert driver.dispatched(submission.receipt) == [(run.id, 1, submission.task_hash)]
    assert driver.event_names(submission.receipt) == ["AgentReplyAnchored", "NewAgentTask"]


def test_build_reply__several__have_distinct_operations(
    driver: WorkflowDriver, requester: Any, agent: Any
) -> None:
    run = driver.start_run(requester)

    replies = [driver.build_reply(run.task_hash, agent) for _ in range(3)]

    assert len({reply.operation_id for reply in replies}) == 3


def test_submit__retry_with_later_timestamp__gives_the_first_reply_hash(
    driver: WorkflowDriver, requester: Any, agent: Any
) -> None:
    run = driver.start_run(requester)
    first = driver.reply_to(run.task_hash, agent)
    retry = replace(first.reply, timestamp=driver.advance_time(5))

    again = driver.submit(retry)

    assert again.reply_hash == first.reply_hash != retry.reply_hash()
    assert driver.event_names(again.receipt) == []


def test_submit__block_time_given__is_exact(driver: WorkflowDriver, requester: Any, agent: Any) -> None:
    run = driver.start_run(requester)
    reply = driver.build_reply(run.task_hash, agent)
    at = driver.now + 12_345

    driver.submit(reply, at=at)

    assert driver.now == at


def test_submit__sender_that_is_not_the_replier__is_sent_by_it(
    driver: WorkflowDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    run = driver.start_run(requester)
    reply = driver.build_reply(run.task_hash, agent)

    with reverts_with(driver.workflow.ReplierMismatch, replier=agent, sender=stranger):
        driver.call_reply(reply, stranger)
    with reverts_with(driver.workflow.ReplierMismatch, replier=agent, sender=stranger):
        driver.submit(reply, stranger)


def test_prove__default_proof__completes_the_last_stage(
    driver: WorkflowDriver, requester: Any, agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester)
    second = driver.reply_to(run.task_hash, agent, b"a")
    third = driver.reply_to(second.task_hash, agent, b"b")
    last = driver.reply_to(third.task_hash, agent, b"c")

    with reverts_with(driver.workflow.ProofRejected, replyHash=last.reply_hash):
        driver.call_prove(last.reply_hash, prover, proof=b"")
    driver.call_prove(last.reply_hash, prover)
    assert driver.result(run.id).status is RunStatus.PENDING
    at = driver.now + 100
    driver.prove(last.reply_hash, prover, at=at)

    result = driver.result(run.id)
    assert (result.status, result.completed_at) == (RunStatus.SUCCESS, at)
    assert driver.reply(last.reply_hash).proven
    assert driver.is_proven(result.final_task_hash)


def test_advance_time__seconds__mines_at_exactly_that_time(driver: WorkflowDriver) -> None:
    before = driver.now

    assert driver.advance_time(1_000) == driver.now == before + 1_000
    assert driver.set_time(before + 2_000) == driver.now == before + 2_000


def test_records__that_do_not_hash_to_their_key__fail_the_test(
    monkeypatch: pytest.MonkeyPatch, driver: WorkflowDriver, requester: Any, agent: Any
) -> None:
    run = driver.start_run(requester)
    submission = driver.reply_to(run.task_hash, agent)
    # As if the contract had answered with another record than that of the key.
    monkeypatch.setattr(AgentTask, "task_hash", lambda _: bytes(32))
    monkeypatch.setattr(AgentReply, "reply_hash", lambda _: bytes(32))

    for read, key in ((driver.task, run.task_hash), (driver.reply, submission.reply_hash)):
        with pytest.raises(AssertionError):
            read(key)


def test_view__reverting_while_gas_is_tracked__still_reverts(
    monkeypatch: pytest.MonkeyPatch, driver: WorkflowDriver
) -> None:
    from ape.pytest.config import ConfigWrapper

    monkeypatch.setattr(ConfigWrapper, "track_gas", True)

    with reverts_with(driver.workflow.UnknownTask, taskHash=bytes(32)):
        driver.workflow.getAgentTask(bytes(32))
