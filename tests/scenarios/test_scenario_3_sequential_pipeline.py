"""ERC-8301 Scenario 3, sequential pipeline: each stage's output is the next stage's input."""

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
from provenflow.hashing import FINAL_STAGE, keccak256
from tests.support.fixtures import Drive
from tests.support.observation import nothing_changes, only_changes
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
from tests.support.workflow import OpenTask, RunState, Submission, WorkflowDriver

INPUT = b"H0"
OUTPUTS = (b"H1", b"H2", b"H3")


class Stage(IntEnum):
    STEP_A = 0
    STEP_B = 1
    STEP_C = 2


@pytest.fixture
def driver(drive: Drive, pipeline: Any) -> WorkflowDriver:
    return drive(pipeline)


@pytest.mark.requirement(
    "EXE-060", "EXE-109", "EXE-110", "EXE-128", "EXE-142", "EXE-143", "EXE-144", "EXE-175"
)
def test_scenario_3__as_drawn__completes(
    driver: WorkflowDriver,
    agent_verifier: Any,
    requester: Any,
    agent: Any,
    other_agent: Any,
    third_agent: Any,
    prover: Any,
) -> None:
    expires_at = driver.now + 30 * WINDOW
    run = driver.start_run(requester, INPUT, expires_at=expires_at)
    t0 = run.task_hash
    times = [driver.now]
    answers: list[Submission] = []
    for replier, output in zip((agent, other_agent), OUTPUTS[:2], strict=True):
        answers.append(driver.reply_to(open_task(driver, run.id), replier, output))
        times.append(driver.now)
    t1, t2 = (answer.task_hash for answer in answers)
    answers.append(driver.reply_to(t2, third_agent, OUTPUTS[2]))
    r0, r1, r2 = (answer.reply_hash for answer in answers)

    assert driver.task(t0) == AgentTask(
        stage=Stage.STEP_A,
        task_seq=0,
        input_hash=keccak256(INPUT),
        input=INPUT,
        timestamp=times[0],
        expires_at=expires_at,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )
    assert driver.task(t1) == AgentTask(
        stage=Stage.STEP_B,
        task_seq=1,
        input_hash=keccak256(OUTPUTS[0]),
        input=b"",
        timestamp=times[1],
        expires_at=times[1] + WINDOW,
        prev_reply_hashes=(r0,),
        workflow_run_id=run.id,
    )
    assert driver.task(t2) == AgentTask(
        stage=Stage.STEP_C,
        task_seq=2,
        input_hash=keccak256(OUTPUTS[1]),
        input=b"",
        timestamp=times[2],
        expires_at=times[2] + WINDOW,
        prev_reply_hashes=(r1,),
        workflow_run_id=run.id,
    )
    # Async stages move on without a proof, so nothing but the initial task is proven; the terminal stage waits.
    assert [driver.is_proven(task_hash) for task_hash in (t0, t1, t2)] == [True, False, False]
    assert [driver.reply(answer.reply_hash) for answer in answers] == [unproven(a.reply) for a in answers]
    assert driver.result(run.id) == RunResult(RunStatus.PENDING, bytes(32), 0)
    assert driver.state(run.id) == RunState(
        RunStatus.PENDING,
        Stage.STEP_C,
        (OpenTask(t2, 2, 0, times[2] + WINDOW, times[2] + WINDOW + PROOF_WINDOW),),
    )

    driver.prove(r2, sender=prover)
    completed_at = driver.now
    tf = driver.result(run.id).final_task_hash

    assert driver.result(run.id) == RunResult(RunStatus.SUCCESS, tf, completed_at)
    assert driver.task(tf) == AgentTask(
        stage=FINAL_STAGE,
        task_seq=3,
        input_hash=bytes(32),
        input=b"",
        timestamp=completed_at,
        expires_at=0,
        prev_reply_hashes=(r2,),
        workflow_run_id=run.id,
    )
    assert [driver.is_proven(task_hash) for task_hash in (t0, t1, t2, tf)] == [True, False, False, True]
    assert driver.reply(r2) == proven(answers[2].reply, agent_verifier, keccak256(OUTPUTS[1]))
    assert driver.events() == [
        NewAgentTask(run.id, Stage.STEP_A, t0),
        AgentReplyAnchored(run.id, r0, address_bytes(agent)),
        NewAgentTask(run.id, Stage.STEP_B, t1),
        AgentReplyAnchored(run.id, r1, address_bytes(other_agent)),
        NewAgentTask(run.id, Stage.STEP_C, t2),
        AgentReplyAnchored(run.id, r2, address_bytes(third_agent)),
        WorkflowCompleted(run.id, RunStatus.SUCCESS, tf, completed_at),
    ]
    assert_evidence_holds(driver, run.id)


@pytest.mark.requirement("EXE-047", "EXE-123", "EXE-157", "EXE-170")
def test_prove__async_replies_late_and_out_of_order__propagates_and_moves_nothing(
    driver: WorkflowDriver, agent_verifier: Any, requester: Any, agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester, INPUT)
    first = driver.reply_to(run.task_hash, agent, OUTPUTS[0])
    second = driver.reply_to(first.task_hash, agent, OUTPUTS[1])
    t1, t2 = first.task_hash, second.task_hash
    state, events = driver.state(run.id), driver.events()

    driver.prove(second.reply_hash, sender=prover)

    # `proven` speaks of a task's own previous replies; the chain behind them is another question.
    assert [driver.is_proven(task_hash) for task_hash in (t1, t2)] == [False, True]
    assert not driver.workflow.isChainProven(t2)
    assert driver.reply(second.reply_hash) == proven(second.reply, agent_verifier, keccak256(OUTPUTS[0]))

    driver.prove(first.reply_hash, sender=prover)

    assert [driver.is_proven(task_hash) for task_hash in (t1, t2)] == [True, True]
    assert driver.workflow.isChainProven(t2)
    assert driver.reply(first.reply_hash) == proven(first.reply, agent_verifier, keccak256(INPUT))
    # The current stage is sync, and still its gate was not asked: neither reply answers an open task.
    assert (driver.state(run.id), driver.events()) == (state, events)


@pytest.mark.requirement("EXE-147")
def test_prove__async_reply_after_completion__refused(
    driver: WorkflowDriver, requester: Any, agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester, INPUT)
    first = driver.reply_to(run.task_hash, agent, OUTPUTS[0])
    second = driver.reply_to(first.task_hash, agent, OUTPUTS[1])
    third = driver.reply_to(second.task_hash, agent, OUTPUTS[2])
    driver.prove(third.reply_hash, sender=prover)

    for answer in (first, second, third):
        with (
            nothing_changes(driver),
            reverts_with(driver.workflow.RunNotPending, workflowRunId=run.id, status=RunStatus.SUCCESS),
        ):
            driver.prove(answer.reply_hash, sender=prover)


def test_prove__replies_of_two_stages_in_one_proof__refused(
    driver: WorkflowDriver, requester: Any, agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester, INPUT)
    first = driver.reply_to(run.task_hash, agent, OUTPUTS[0])
    second = driver.reply_to(first.task_hash, agent, OUTPUTS[1])

    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.MixedStages,
            replyHash=second.reply_hash,
            stage=Stage.STEP_B,
            expectedStage=Stage.STEP_A,
        ),
    ):
        driver.prove([first.reply_hash, second.reply_hash], sender=prover)


@pytest.mark.requirement("EXE-194")
def test_reply__second_one_to_an_async_task__refused(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any
) -> None:
    run = driver.start_run(requester, INPUT)
    driver.reply_to(run.task_hash, agent, OUTPUTS[0])

    with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash):
        driver.reply_to(run.task_hash, other_agent, b"too late")


@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name.lower())
@pytest.mark.requirement("EXE-042", "EXE-043", "EXE-044", "EXE-129", "EXE-151")
def test_timeout__twice_in_one_stage__retries_then_fails(
    driver: WorkflowDriver, requester: Any, agent: Any, stranger: Any, stage: Stage
) -> None:
    run = driver.start_run(requester, INPUT)
    prev_reply_hashes: tuple[bytes, ...] = ()
    for output in OUTPUTS[:stage]:
        prev_reply_hashes = (driver.reply_to(open_task(driver, run.id), agent, output).reply_hash,)
    expired = open_task(driver, run.id)
    deadline = driver.task(expired).expires_at
    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.TaskNotExpired, taskHash=expired, deadline=deadline, blockTimestamp=deadline
        ),
    ):
        driver.time_out(expired, stranger, at=deadline)

    driver.time_out(expired, stranger, at=deadline + 1)

    retried = open_task(driver, run.id)
    assert driver.task(retried) == AgentTask(
        stage=stage,
        task_seq=stage + 1,
        input_hash=keccak256((INPUT, *OUTPUTS)[stage]),
        input=b"",
        timestamp=deadline + 1,
        expires_at=deadline + 1 + WINDOW,
        prev_reply_hashes=prev_reply_hashes,
        workflow_run_id=run.id,
    )
    assert driver.is_proven(retried) == (stage is Stage.STEP_A)
    with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=expired):
        driver.time_out(expired, stranger, at=driver.now + 1)

    driver.time_out(retried, stranger)

    failed_at = deadline + 2 + WINDOW
    assert driver.result(run.id) == RunResult(RunStatus.FAILED, bytes(32), 0)
    assert driver.events()[-2:] == [
        NewAgentTask(run.id, stage, retried),
        WorkflowCompleted(run.id, RunStatus.FAILED, bytes(32), failed_at),
    ]
    with (
        nothing_changes(driver),
        reverts_with(driver.workflow.RunNotPending, workflowRunId=run.id, status=RunStatus.FAILED),
    ):
        driver.reply_to(retried, agent)


@pytest.mark.requirement("EXE-157")
def test_prove__reply_with_two_waiting_tasks__both_become_proven(
    driver: WorkflowDriver, requester: Any, agent: Any, prover: Any
) -> None:
    # A retry makes a second task over the same, unproven reply.
    run = driver.start_run(requester, INPUT)
    first = driver.reply_to(run.task_hash, agent, OUTPUTS[0])
    driver.time_out(first.task_hash, prover)
    retried = open_task(driver, run.id)
    assert [driver.is_proven(task_hash) for task_hash in (first.task_hash, retried)] == [False, False]

    driver.prove(first.reply_hash, sender=prover)

    assert [driver.is_proven(task_hash) for task_hash in (first.task_hash, retried)] == [True, True]


@pytest.mark.requirement("EXE-003", "EXE-135")
def test_reply__terminal_stage_without_proof__never_completes(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, stranger: Any
) -> None:
    run = driver.start_run(requester, INPUT)
    for output in OUTPUTS[:2]:
        driver.reply_to(open_task(driver, run.id), agent, output)
    t2 = open_task(driver, run.id)
    answer = driver.reply_to(t2, agent, OUTPUTS[2])
    driver.reply_to(t2, other_agent, OUTPUTS[2])
    with (
        nothing_changes(driver),
        reverts_with(driver.workflow.ProofRejected, replyHash=answer.reply_hash),
    ):
        driver.prove(answer.reply_hash, sender=stranger, proof=keccak256(INPUT))

    assert driver.result(run.id) == RunResult(RunStatus.PENDING, bytes(32), 0)
    assert open_task(driver, run.id) == t2


def test_runs__in_different_stages__independent(
    driver: WorkflowDriver, requester: Any, agent: Any, prover: Any
) -> None:
    runs = [driver.start_run(requester, INPUT) for _ in Stage]
    for run, outputs in zip(runs, ((), OUTPUTS[:1], OUTPUTS[:2]), strict=True):
        for output in outputs:
            driver.reply_to(open_task(driver, run.id), agent, output)
    assert [driver.state(run.id).stage for run in runs] == list(Stage)

    for run, output in zip(runs, OUTPUTS, strict=True):
        with only_changes(driver, run.id):
            answer = driver.reply_to(open_task(driver, run.id), agent, output)
    with only_changes(driver, runs[2].id):
        driver.prove(answer.reply_hash, sender=prover)
    with only_changes(driver, runs[1].id):
        driver.time_out(open_task(driver, runs[1].id), prover)

    assert [driver.state(run.id).stage for run in runs] == [Stage.STEP_B, Stage.STEP_C, Stage.STEP_C]
    assert [driver.result(run.id).status for run in runs] == [
        RunStatus.PENDING,
        RunStatus.PENDING,
        RunStatus.SUCCESS,
    ]
