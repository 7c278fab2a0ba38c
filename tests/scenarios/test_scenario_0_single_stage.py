"""ERC-8301 Scenario 0, single stage: one task, one reply, one proof."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pytest

from provenflow.abi import (
    AgentReplyAnchored,
    AgentTask,
    NewAgentTask,
    RunResult,
    RunStatus,
    WorkflowCompleted,
)
from provenflow.hashing import FINAL_STAGE, keccak256, run_id
from tests.support.fixtures import Drive
from tests.support.observation import nothing_changes
from tests.support.reverts import reverts_with
from tests.support.scenario import (
    PROOF_WINDOW,
    WINDOW,
    address_bytes,
    assert_evidence_holds,
    open_task,
    proven,
    unproven,
)
from tests.support.workflow import OpenTask, RunState, WorkflowDriver


class Stage(IntEnum):
    EXECUTE = 0


@pytest.fixture
def driver(drive: Drive, single_stage: Any) -> WorkflowDriver:
    return drive(single_stage)


@pytest.mark.requirement(
    "EXE-074", "EXE-127", "EXE-136", "EXE-138", "EXE-139", "EXE-141", "EXE-145", "EXE-172"
)
def test_scenario_0__as_drawn__completes(
    driver: WorkflowDriver, agent_verifier: Any, requester: Any, agent: Any, prover: Any
) -> None:
    plaintext, output = b"what is to be done", b"what was done"
    expires_at = driver.now + 3 * WINDOW
    run = driver.start_run(requester, plaintext, expires_at=expires_at)
    t0, started = run.task_hash, driver.now

    assert run.id == run_id(address_bytes(requester), run.receipt.block_number, 0)
    assert driver.events() == [NewAgentTask(run.id, Stage.EXECUTE, t0)]
    assert driver.task(t0) == AgentTask(
        stage=Stage.EXECUTE,
        task_seq=0,
        input_hash=keccak256(plaintext),
        input=plaintext,
        timestamp=started,
        expires_at=expires_at,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )
    assert driver.is_proven(t0)
    assert driver.state(run.id) == RunState(
        RunStatus.PENDING, Stage.EXECUTE, (OpenTask(t0, 0, 0, expires_at, expires_at),)
    )

    answer = driver.reply_to(t0, agent, output)
    r0 = answer.reply_hash

    # The terminal stage is sync: the reply is stored and waits, and its task waits with it.
    assert answer.task_hashes == ()
    assert driver.reply(r0) == unproven(answer.reply)
    assert driver.result(run.id) == RunResult(RunStatus.PENDING, bytes(32), 0)
    assert driver.state(run.id) == RunState(
        RunStatus.PENDING, Stage.EXECUTE, (OpenTask(t0, 0, 0, expires_at, expires_at + PROOF_WINDOW),)
    )

    driver.prove(r0, sender=prover)
    completed_at = driver.now
    result = driver.result(run.id)
    tf = result.final_task_hash

    assert result == RunResult(RunStatus.SUCCESS, tf, completed_at)
    assert driver.events() == [
        NewAgentTask(run.id, Stage.EXECUTE, t0),
        AgentReplyAnchored(run.id, r0, address_bytes(agent)),
        WorkflowCompleted(run.id, RunStatus.SUCCESS, tf, completed_at),
    ]
    assert driver.task(tf) == AgentTask(
        stage=FINAL_STAGE,
        task_seq=1,
        input_hash=bytes(32),
        input=b"",
        timestamp=completed_at,
        expires_at=0,
        prev_reply_hashes=(r0,),
        workflow_run_id=run.id,
    )
    assert driver.is_proven(tf)
    assert driver.reply(r0) == proven(answer.reply, agent_verifier, keccak256(plaintext))
    assert driver.state(run.id) == RunState(RunStatus.SUCCESS, Stage.EXECUTE, ())
    assert_evidence_holds(driver, run.id)


@pytest.mark.parametrize(
    "wrong", [b"", b"\0" * 32, keccak256(b"another statement")], ids=["empty", "zeros", "another statement"]
)
@pytest.mark.requirement("EXE-196", "EXE-197", "EXE-198")
def test_prove__wrong_proof_first__changes_nothing_and_the_right_one_completes(
    driver: WorkflowDriver, requester: Any, agent: Any, prover: Any, stranger: Any, wrong: bytes
) -> None:
    run = driver.start_run(requester)
    answer = driver.reply_to(run.task_hash, agent)

    with (
        nothing_changes(driver),
        reverts_with(driver.workflow.ProofRejected, replyHash=answer.reply_hash),
    ):
        driver.prove(answer.reply_hash, sender=stranger, proof=wrong)

    driver.prove(answer.reply_hash, sender=prover)
    assert driver.result(run.id).status is RunStatus.SUCCESS


def test_prove__statement_of_another_reply__rejected(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester)
    first = driver.reply_to(run.task_hash, agent, b"one answer")
    second = driver.reply_to(run.task_hash, other_agent, b"another answer")

    with (
        nothing_changes(driver),
        reverts_with(driver.workflow.ProofRejected, replyHash=second.reply_hash),
    ):
        driver.prove(second.reply_hash, sender=prover, proof=driver.proof_for(first.reply_hash))


def test_prove__two_replies__the_proven_one_is_the_result(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester)
    first = driver.reply_to(run.task_hash, agent, b"one answer")
    second = driver.reply_to(run.task_hash, other_agent, b"another answer")

    driver.prove(second.reply_hash, sender=prover)

    final_task_hash = driver.result(run.id).final_task_hash
    assert driver.task(final_task_hash).prev_reply_hashes == (second.reply_hash,)
    assert driver.reply(first.reply_hash) == unproven(first.reply)
    with (
        nothing_changes(driver),
        reverts_with(driver.workflow.RunNotPending, workflowRunId=run.id, status=RunStatus.SUCCESS),
    ):
        driver.prove(first.reply_hash, sender=prover)


@pytest.mark.requirement("EXE-101", "EXE-187")
def test_reply__at_and_after_expires_at__accepted_then_refused(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any
) -> None:
    run = driver.start_run(requester)
    expires_at = driver.task(run.task_hash).expires_at
    late = driver.build_reply(run.task_hash, other_agent)

    on_time = driver.build_reply(run.task_hash, agent)
    driver.submit(on_time, at=expires_at)

    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.TaskExpired,
            taskHash=run.task_hash,
            expiresAt=expires_at,
            blockTimestamp=expires_at + 1,
        ),
    ):
        driver.submit(late, at=expires_at + 1)
    assert driver.result(run.id).status is RunStatus.PENDING


@pytest.mark.parametrize("lateness", [1, PROOF_WINDOW, PROOF_WINDOW + 1], ids="{}s".format)
def test_prove__reply_in_time_and_proof_after_expiry__completes(
    driver: WorkflowDriver, requester: Any, agent: Any, prover: Any, lateness: int
) -> None:
    # Expiry stops replies, not proofs; even after the proof window a proof counts until somebody times the task out.
    run = driver.start_run(requester)
    answer = driver.reply_to(run.task_hash, agent)
    expires_at = driver.task(run.task_hash).expires_at

    driver.prove(answer.reply_hash, sender=prover, at=expires_at + lateness)

    assert driver.result(run.id).status is RunStatus.SUCCESS


@pytest.mark.parametrize("answered", [False, True], ids=["no reply", "a reply without its proof"])
@pytest.mark.requirement("EXE-004", "EXE-007", "EXE-150", "EXE-154", "EXE-188")
def test_timeout__twice__retries_then_fails(
    driver: WorkflowDriver, requester: Any, agent: Any, stranger: Any, answered: bool
) -> None:
    run = driver.start_run(requester)
    t0 = run.task_hash
    deadlines = [driver.task(t0).expires_at]
    anchored = []
    if answered:
        anchored.append(
            AgentReplyAnchored(run.id, driver.reply_to(t0, agent).reply_hash, address_bytes(agent))
        )
        deadlines[0] += PROOF_WINDOW

    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.TaskNotExpired,
            taskHash=t0,
            deadline=deadlines[0],
            blockTimestamp=deadlines[0],
        ),
    ):
        driver.time_out(t0, stranger, at=deadlines[0])
    driver.time_out(t0, stranger, at=deadlines[0] + 1)

    (open_task,) = driver.state(run.id).open_tasks
    t1, retried_at = open_task.task_hash, driver.now
    # The plaintext stays with the first task of that input.
    assert driver.task(t1) == AgentTask(
        stage=Stage.EXECUTE,
        task_seq=1,
        input_hash=driver.task(t0).input_hash,
        input=b"",
        timestamp=retried_at,
        expires_at=retried_at + WINDOW,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )
    assert driver.is_proven(t1)
    assert open_task == OpenTask(t1, 1, 0, retried_at + WINDOW, retried_at + WINDOW)

    driver.time_out(t1, stranger, at=retried_at + WINDOW + 1)

    assert driver.result(run.id) == RunResult(RunStatus.FAILED, bytes(32), 0)
    assert driver.state(run.id) == RunState(RunStatus.FAILED, Stage.EXECUTE, ())
    assert driver.events() == [
        NewAgentTask(run.id, Stage.EXECUTE, t0),
        *anchored,
        NewAgentTask(run.id, Stage.EXECUTE, t1),
        WorkflowCompleted(run.id, RunStatus.FAILED, bytes(32), retried_at + WINDOW + 1),
    ]


@pytest.mark.requirement("EXE-096", "EXE-125")
def test_timeout__once__superseded_task_takes_no_reply_and_its_proof_moves_nothing(
    driver: WorkflowDriver, agent_verifier: Any, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester)
    t0 = run.task_hash
    early = driver.reply_to(t0, agent)
    driver.time_out(t0, prover)
    t1 = open_task(driver, run.id)

    with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=t0):
        driver.reply_to(t0, other_agent)
    receipt = driver.prove(early.reply_hash, sender=prover)

    assert driver.event_names(receipt) == []
    assert driver.reply(early.reply_hash) == proven(early.reply, agent_verifier, driver.task(t0).input_hash)
    assert open_task(driver, run.id) == t1

    answer = driver.reply_to(t1, other_agent)
    driver.prove(answer.reply_hash, sender=prover)
    final_task = driver.task(driver.result(run.id).final_task_hash)
    assert (final_task.task_seq, final_task.prev_reply_hashes) == (2, (answer.reply_hash,))
    assert_evidence_holds(driver, run.id)


@pytest.mark.requirement("EXE-094", "EXE-182")
def test_runs__side_by_side__independent(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    # The same requester, input and agent, so that nothing but the run tells them apart.
    runs = [driver.start_run(requester) for _ in range(3)]
    assert len({run.id for run in runs}) == 3
    answers = [driver.reply_to(run.task_hash, agent) for run in runs]

    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.ForeignTask,
            taskHash=runs[1].task_hash,
            taskWorkflowRunId=runs[1].id,
            replyWorkflowRunId=runs[0].id,
        ),
    ):
        driver.reply_to(runs[1].task_hash, other_agent, workflow_run_id=runs[0].id)

    driver.prove(answers[1].reply_hash, sender=prover)
    assert [driver.result(run.id).status for run in runs] == [
        RunStatus.PENDING,
        RunStatus.SUCCESS,
        RunStatus.PENDING,
    ]
    driver.time_out(runs[0].task_hash, prover)
    driver.prove(answers[2].reply_hash, sender=prover)

    assert [driver.result(run.id).status for run in runs] == [
        RunStatus.PENDING,
        RunStatus.SUCCESS,
        RunStatus.SUCCESS,
    ]
    for run, answer in list(zip(runs, answers, strict=True))[1:]:
        final_task = driver.task(driver.result(run.id).final_task_hash)
        assert final_task.prev_reply_hashes == (answer.reply_hash,)
        assert final_task.workflow_run_id == run.id
