"""ERC-8301 Scenario 1, input provenance: inference is dispatched over the input proven to be sanitized."""

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

SANITIZED = b"the input, sanitized"
INFERENCE = b"what was inferred from it"


class Stage(IntEnum):
    SANITIZE = 0
    INFER = 1


@pytest.fixture
def driver(drive: Drive, input_provenance: Any) -> WorkflowDriver:
    return drive(input_provenance)


@pytest.mark.requirement("EXE-006", "EXE-114", "EXE-120", "EXE-122", "EXE-127", "EXE-157", "EXE-173")
def test_scenario_1__as_drawn__completes(
    driver: WorkflowDriver, agent_verifier: Any, requester: Any, other_agent: Any, agent: Any, prover: Any
) -> None:
    gateway = other_agent
    plaintext = b"the input as the caller committed to it"
    run = driver.start_run(requester, plaintext)
    t0, started = run.task_hash, driver.now
    expires_at = driver.task(t0).expires_at
    assert driver.task(t0) == AgentTask(
        stage=Stage.SANITIZE,
        task_seq=0,
        input_hash=keccak256(plaintext),
        input=plaintext,
        timestamp=started,
        expires_at=expires_at,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )

    sanitized = driver.reply_to(t0, gateway, SANITIZED)
    r0 = sanitized.reply_hash
    assert sanitized.task_hashes == ()
    assert driver.reply(r0) == unproven(sanitized.reply)
    assert driver.state(run.id).stage == Stage.SANITIZE

    driver.prove(r0, sender=prover)
    gate_passed_at = driver.now
    t1 = open_task(driver, run.id)
    assert driver.task(t1) == AgentTask(
        stage=Stage.INFER,
        task_seq=1,
        input_hash=keccak256(SANITIZED),
        input=b"",
        timestamp=gate_passed_at,
        expires_at=gate_passed_at + WINDOW,
        prev_reply_hashes=(r0,),
        workflow_run_id=run.id,
    )
    # Created over a reply that was already proven: proven at once.
    assert driver.is_proven(t1)
    assert driver.reply(r0) == proven(sanitized.reply, agent_verifier, keccak256(plaintext))

    inferred = driver.reply_to(t1, agent, INFERENCE)
    r1 = inferred.reply_hash
    assert inferred.task_hashes == ()
    assert driver.result(run.id) == RunResult(RunStatus.PENDING, bytes(32), 0)

    driver.prove(r1, sender=prover)
    completed_at = driver.now
    tf = driver.result(run.id).final_task_hash
    assert driver.result(run.id) == RunResult(RunStatus.SUCCESS, tf, completed_at)
    assert driver.task(tf) == AgentTask(
        stage=FINAL_STAGE,
        task_seq=2,
        input_hash=bytes(32),
        input=b"",
        timestamp=completed_at,
        expires_at=0,
        prev_reply_hashes=(r1,),
        workflow_run_id=run.id,
    )
    assert driver.is_proven(tf)
    assert driver.reply(r1) == proven(inferred.reply, agent_verifier, keccak256(SANITIZED))
    assert driver.events() == [
        NewAgentTask(run.id, Stage.SANITIZE, t0),
        AgentReplyAnchored(run.id, r0, address_bytes(gateway)),
        NewAgentTask(run.id, Stage.INFER, t1),
        AgentReplyAnchored(run.id, r1, address_bytes(agent)),
        WorkflowCompleted(run.id, RunStatus.SUCCESS, tf, completed_at),
    ]
    assert_evidence_holds(driver, run.id)


@pytest.mark.requirement("EXE-069", "EXE-198")
def test_prove__sanitization_not_proven__no_inference_task(
    driver: WorkflowDriver, requester: Any, other_agent: Any, stranger: Any
) -> None:
    run = driver.start_run(requester)
    sanitized = driver.reply_to(run.task_hash, other_agent, SANITIZED)

    # The proof of "the input is its own sanitized form" does not speak of this reply.
    with (
        nothing_changes(driver),
        reverts_with(driver.workflow.ProofRejected, replyHash=sanitized.reply_hash),
    ):
        driver.prove(
            sanitized.reply_hash,
            sender=stranger,
            proof=keccak256(driver.task(run.task_hash).input_hash * 2),
        )

    assert driver.state(run.id).stage == Stage.SANITIZE
    assert open_task(driver, run.id) == run.task_hash


@pytest.mark.requirement("EXE-115")
def test_prove__inference_over_the_raw_input__rejected(
    driver: WorkflowDriver, requester: Any, other_agent: Any, agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester)
    sanitized = driver.reply_to(run.task_hash, other_agent, SANITIZED)
    driver.prove(sanitized.reply_hash, sender=prover)
    inferred = driver.reply_to(open_task(driver, run.id), agent, INFERENCE)

    raw_statement = keccak256(driver.task(run.task_hash).input_hash + inferred.reply.output_hash)
    with (
        nothing_changes(driver),
        reverts_with(driver.workflow.ProofRejected, replyHash=inferred.reply_hash),
    ):
        driver.prove(inferred.reply_hash, sender=prover, proof=raw_statement)

    driver.prove(
        inferred.reply_hash, sender=prover, proof=keccak256(keccak256(SANITIZED) + keccak256(INFERENCE))
    )
    assert driver.result(run.id).status is RunStatus.SUCCESS


@pytest.mark.requirement("EXE-125")
def test_prove__two_sanitizations__the_first_proven_is_used_and_the_other_moves_nothing(
    driver: WorkflowDriver,
    agent_verifier: Any,
    requester: Any,
    agent: Any,
    other_agent: Any,
    prover: Any,
) -> None:
    run = driver.start_run(requester)
    first = driver.reply_to(run.task_hash, other_agent, b"one way to sanitize")
    second = driver.reply_to(run.task_hash, agent, b"another way to sanitize")

    driver.prove(second.reply_hash, sender=prover)
    t1 = open_task(driver, run.id)
    assert driver.task(t1).input_hash == second.reply.output_hash
    state, events = driver.state(run.id), driver.events()

    driver.prove(first.reply_hash, sender=prover)

    assert driver.reply(first.reply_hash) == proven(
        first.reply, agent_verifier, driver.task(run.task_hash).input_hash
    )
    assert (driver.state(run.id), driver.events()) == (state, events)
    with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash):
        driver.reply_to(run.task_hash, other_agent, b"a third way to sanitize")


def test_prove__both_replies_in_one_proof__refused_as_two_stages(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester)
    sanitized = driver.reply_to(run.task_hash, other_agent, SANITIZED)
    driver.prove(sanitized.reply_hash, sender=prover)
    inferred = driver.reply_to(open_task(driver, run.id), agent, INFERENCE)

    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.MixedStages,
            replyHash=sanitized.reply_hash,
            stage=Stage.SANITIZE,
            expectedStage=Stage.INFER,
        ),
    ):
        driver.prove([inferred.reply_hash, sanitized.reply_hash], sender=prover)


@pytest.mark.parametrize("answered", [False, True], ids=["no reply", "a reply without its proof"])
@pytest.mark.parametrize("stage", Stage, ids=lambda stage: stage.name.lower())
@pytest.mark.requirement("EXE-129", "EXE-149", "EXE-150")
def test_timeout__twice_in_one_stage__retries_then_fails(
    driver: WorkflowDriver,
    requester: Any,
    agent: Any,
    other_agent: Any,
    stranger: Any,
    stage: Stage,
    answered: bool,
) -> None:
    run = driver.start_run(requester)
    prev_reply_hashes: tuple[bytes, ...] = ()
    if stage is Stage.INFER:
        sanitized = driver.reply_to(run.task_hash, other_agent, SANITIZED)
        driver.prove(sanitized.reply_hash, sender=stranger)
        prev_reply_hashes = (sanitized.reply_hash,)
    expired = open_task(driver, run.id)
    deadline = driver.task(expired).expires_at
    if answered:
        driver.reply_to(expired, agent)
        deadline += PROOF_WINDOW

    driver.time_out(expired, stranger, at=deadline + 1)

    retried = open_task(driver, run.id)
    # A retried task asks for the same: the same input, triggered by the same replies.
    assert driver.task(retried) == AgentTask(
        stage=stage,
        task_seq=stage + 1,
        input_hash=driver.task(expired).input_hash,
        input=b"",
        timestamp=deadline + 1,
        expires_at=deadline + 1 + WINDOW,
        prev_reply_hashes=prev_reply_hashes,
        workflow_run_id=run.id,
    )
    assert driver.is_proven(retried)

    driver.time_out(retried, stranger)

    assert driver.events()[-2:] == [
        NewAgentTask(run.id, stage, retried),
        WorkflowCompleted(run.id, RunStatus.FAILED, bytes(32), deadline + 2 + WINDOW),
    ]
    assert driver.state(run.id) == RunState(RunStatus.FAILED, stage, ())


def test_timeout__retried_in_both_stages__retries_are_counted_per_stage(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester)
    driver.time_out(run.task_hash, prover)
    sanitized = driver.reply_to(open_task(driver, run.id), other_agent, SANITIZED)
    driver.prove(sanitized.reply_hash, sender=prover)
    driver.time_out(open_task(driver, run.id), prover)
    inferred = driver.reply_to(open_task(driver, run.id), agent, INFERENCE)
    driver.prove(inferred.reply_hash, sender=prover)

    final_task = driver.task(driver.result(run.id).final_task_hash)
    assert (final_task.task_seq, final_task.prev_reply_hashes) == (4, (inferred.reply_hash,))
    assert_evidence_holds(driver, run.id)


def test_prove__reply_in_time_and_proof_after_expiry__passes_the_gate(
    driver: WorkflowDriver, requester: Any, other_agent: Any, prover: Any
) -> None:
    run = driver.start_run(requester)
    sanitized = driver.reply_to(run.task_hash, other_agent, SANITIZED)

    proven_at = driver.task(run.task_hash).expires_at + PROOF_WINDOW
    driver.prove(sanitized.reply_hash, sender=prover, at=proven_at)

    t1 = open_task(driver, run.id)
    assert driver.state(run.id) == RunState(
        RunStatus.PENDING,
        Stage.INFER,
        (OpenTask(t1, 1, 0, proven_at + WINDOW, proven_at + WINDOW),),
    )


@pytest.mark.requirement("EXE-034")
def test_runs__in_different_stages__independent(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    ahead, behind = driver.start_run(requester), driver.start_run(requester)
    operation_id = driver.fresh_operation_id()
    answers = [
        driver.reply_to(run.task_hash, other_agent, SANITIZED, operation_id=operation_id)
        for run in (ahead, behind)
    ]
    assert answers[0].reply_hash != answers[1].reply_hash

    driver.prove(answers[0].reply_hash, sender=prover)
    inferred = driver.reply_to(open_task(driver, ahead.id), agent, INFERENCE)
    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.MixedRuns,
            replyHash=answers[1].reply_hash,
            workflowRunId=behind.id,
            expectedWorkflowRunId=ahead.id,
        ),
    ):
        driver.prove([inferred.reply_hash, answers[1].reply_hash], sender=prover)
    driver.prove(inferred.reply_hash, sender=prover)

    assert driver.result(ahead.id).status is RunStatus.SUCCESS
    assert driver.state(behind.id).stage == Stage.SANITIZE
    assert open_task(driver, behind.id) == behind.task_hash
