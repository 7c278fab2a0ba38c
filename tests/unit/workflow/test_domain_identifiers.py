"""Operation ids are no semantic deduplication: what may be accepted once needs an identifier of its own in the gate."""

from __future__ import annotations

from typing import Any

import pytest

from provenflow.hashing import keccak256
from tests.support.fixtures import Drive
from tests.support.scenario import open_task, unproven
from tests.support.workflow import WorkflowDriver

RECORD, OTHER_RECORD = keccak256(b"record 1 of the source"), keccak256(b"record 2 of the source")


@pytest.fixture
def driver(drive: Drive, project: Any, deployer: Any, agent_verifier: Any) -> WorkflowDriver:
    """Takes each record once, two of them open the next stage."""
    return drive(deployer.deploy(project.RecordCollectorWorkflow, agent_verifier))


@pytest.mark.requirement("EXE-183", "EXE-184", "EXE-131")
def test_gate__one_record_under_two_operations__two_replies_and_one_record(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any
) -> None:
    run = driver.start_run(requester)
    first = driver.reply_to(run.task_hash, agent, RECORD)

    # The same agent with the same bytes, and another agent with other bytes around the same record.
    repeats = [
        driver.reply_to(run.task_hash, agent, RECORD),
        driver.reply_to(run.task_hash, other_agent, RECORD + b" as seen by another"),
    ]

    assert len({first.reply_hash, *(repeat.reply_hash for repeat in repeats)}) == 3
    for repeat in repeats:
        assert driver.event_names(repeat.receipt) == ["AgentReplyAnchored"]
        assert driver.reply(repeat.reply_hash) == unproven(repeat.reply)
    assert open_task(driver, run.id) == run.task_hash

    second = driver.reply_to(run.task_hash, other_agent, OTHER_RECORD)
    assert driver.task(second.task_hash).prev_reply_hashes == (first.reply_hash, second.reply_hash)


@pytest.mark.requirement("EXE-034", "EXE-183")
def test_gate__one_operation_id_for_two_records__two_records(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any
) -> None:
    run = driver.start_run(requester)
    operation_id = driver.fresh_operation_id()
    first = driver.reply_to(run.task_hash, agent, RECORD, operation_id=operation_id)
    second = driver.reply_to(run.task_hash, other_agent, OTHER_RECORD, operation_id=operation_id)
    assert driver.task(second.task_hash).prev_reply_hashes == (first.reply_hash, second.reply_hash)


@pytest.mark.requirement("EXE-183")
def test_gate__one_record_in_two_runs__taken_in_each(
    driver: WorkflowDriver, requester: Any, agent: Any
) -> None:
    for run in (driver.start_run(requester), driver.start_run(requester)):
        driver.reply_to(run.task_hash, agent, RECORD)
        second = driver.reply_to(run.task_hash, agent, OTHER_RECORD)
        assert len(second.task_hashes) == 1
