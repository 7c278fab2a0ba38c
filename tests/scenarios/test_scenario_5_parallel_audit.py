"""ERC-8301 Scenario 5, parallel multi-agent audit: three dimensions at once, then qualification, then settlement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import IntEnum
from itertools import permutations
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
from tests.support.workflow import OpenTask, RunState, StartedRun, Submission, WorkflowDriver

CODE = b"contract Audited {}"
REPORTS = (b"gas report", b"security report", b"logic report")
QUALIFICATION = b"the auditors are qualified"
SETTLEMENT = b"settled"


class Stage(IntEnum):
    AUDIT = 0
    QUALIFY = 1
    SETTLE = 2


class Dimension(IntEnum):
    GAS = 0
    SECURITY = 1
    LOGIC = 2


@pytest.fixture
def driver(drive: Drive, parallel_audit: Any) -> WorkflowDriver:
    return drive(parallel_audit)


@pytest.fixture
def auditors(agent: Any, other_agent: Any, third_agent: Any) -> tuple[Any, ...]:
    """By dimension."""
    return (agent, other_agent, third_agent)


def audit(
    driver: WorkflowDriver, run: StartedRun, auditors: Sequence[Any], order: Sequence[int] = tuple(Dimension)
) -> list[Submission]:
    """One reply for each dimension, in this order; the answer is in that order too."""
    return [driver.reply_to(run.task_hashes[lane], auditors[lane], REPORTS[lane]) for lane in order]


def lanes(driver: WorkflowDriver, workflow_run_id: bytes) -> dict[int, bytes]:
    """Open tasks by dimension."""
    return {task.lane: task.task_hash for task in driver.state(workflow_run_id).open_tasks}


@pytest.mark.requirement("EXE-013", "EXE-071", "EXE-072", "EXE-117", "EXE-164", "EXE-177")
def test_scenario_5__as_drawn__all_five_dispatch_points(
    driver: WorkflowDriver,
    agent_verifier: Any,
    requester: Any,
    auditors: Sequence[Any],
    qualifier: Any,
    settler: Any,
    prover: Any,
) -> None:
    run = driver.start_run(requester, CODE)
    started, expires_at = driver.now, driver.now - 1 + WINDOW
    t_gas, t_sec, t_logic = run.task_hashes
    for lane, task_hash in enumerate(run.task_hashes):
        assert driver.task(task_hash) == AgentTask(
            stage=Stage.AUDIT,
            task_seq=lane,
            input_hash=keccak256(CODE),
            # The plaintext is kept once.
            input=CODE if lane == Dimension.GAS else b"",
            timestamp=started,
            expires_at=expires_at,
            prev_reply_hashes=(),
            workflow_run_id=run.id,
        )
        assert driver.is_proven(task_hash)
    assert driver.state(run.id) == RunState(
        RunStatus.PENDING,
        Stage.AUDIT,
        tuple(
            OpenTask(task, lane, lane, expires_at, expires_at) for lane, task in enumerate(run.task_hashes)
        ),
    )

    answers = audit(driver, run, auditors)
    audited_at = driver.now
    r_gas, r_sec, r_logic = (answer.reply_hash for answer in answers)
    assert [answer.task_hashes for answer in answers[:2]] == [(), ()]
    t_qual = answers[2].task_hash
    assert driver.task(t_qual) == AgentTask(
        stage=Stage.QUALIFY,
        task_seq=3,
        input_hash=keccak256(b"".join(answer.reply.output_hash for answer in answers)),
        input=b"",
        timestamp=audited_at,
        expires_at=audited_at + WINDOW,
        prev_reply_hashes=(r_gas, r_sec, r_logic),
        workflow_run_id=run.id,
    )
    assert not driver.is_proven(t_qual)

    qualified = driver.reply_to(t_qual, qualifier, QUALIFICATION)
    r_qual = qualified.reply_hash
    assert qualified.task_hashes == ()
    assert driver.state(run.id).stage == Stage.QUALIFY
    driver.prove(r_qual, sender=prover)
    qualified_at = driver.now
    t_settle = open_task(driver, run.id)
    assert driver.task(t_settle) == AgentTask(
        stage=Stage.SETTLE,
        task_seq=4,
        input_hash=keccak256(QUALIFICATION),
        input=b"",
        timestamp=qualified_at,
        expires_at=qualified_at + WINDOW,
        prev_reply_hashes=(r_qual,),
        workflow_run_id=run.id,
    )
    assert driver.is_proven(t_settle)

    settled = driver.reply_to(t_settle, settler, SETTLEMENT)
    r_settle = settled.reply_hash
    assert driver.result(run.id) == RunResult(RunStatus.PENDING, bytes(32), 0)
    driver.prove(r_settle, sender=prover)
    completed_at = driver.now
    tf = driver.result(run.id).final_task_hash
    assert driver.result(run.id) == RunResult(RunStatus.SUCCESS, tf, completed_at)
    assert driver.task(tf) == AgentTask(
        stage=FINAL_STAGE,
        task_seq=5,
        input_hash=bytes(32),
        input=b"",
        timestamp=completed_at,
        expires_at=0,
        prev_reply_hashes=(r_settle,),
        workflow_run_id=run.id,
    )
    assert [driver.reply(answer.reply_hash) for answer in answers] == [unproven(a.reply) for a in answers]
    assert driver.reply(r_qual) == proven(qualified.reply, agent_verifier, driver.task(t_qual).input_hash)
    assert driver.reply(r_settle) == proven(settled.reply, agent_verifier, keccak256(QUALIFICATION))
    assert driver.events() == [
        NewAgentTask(run.id, Stage.AUDIT, t_gas),
        NewAgentTask(run.id, Stage.AUDIT, t_sec),
        NewAgentTask(run.id, Stage.AUDIT, t_logic),
        *(
            AgentReplyAnchored(run.id, answer.reply_hash, address_bytes(auditor))
            for answer, auditor in zip(answers, auditors, strict=True)
        ),
        NewAgentTask(run.id, Stage.QUALIFY, t_qual),
        AgentReplyAnchored(run.id, r_qual, address_bytes(qualifier)),
        NewAgentTask(run.id, Stage.SETTLE, t_settle),
        AgentReplyAnchored(run.id, r_settle, address_bytes(settler)),
        WorkflowCompleted(run.id, RunStatus.SUCCESS, tf, completed_at),
    ]
    assert_evidence_holds(driver, run.id)


@pytest.mark.requirement("EXE-064", "EXE-164", "EXE-166")
def test_stage_table__enumerated__names_the_five_dispatches_that_happen(
    driver: WorkflowDriver, agent_verifier: Any, requester: Any, auditors: Sequence[Any], prover: Any
) -> None:
    # A skeptic reads what is owed from the chain alone: from stage 0 along `next` until 255.
    workflow = driver.workflow
    assert workflow.stageCount() == 3
    asynchronous, synchronous = 0, 1
    owed: Counter[int] = Counter()
    stage, table = 0, []
    while stage != FINAL_STAGE:
        mode, verifier, window, tasks, following = workflow.stageAt(stage)
        table.append((stage, mode, verifier, window, tasks, list(following)))
        owed[stage] = tasks
        (stage,) = following
    assert table == [
        (Stage.AUDIT, asynchronous, agent_verifier.address, WINDOW, 3, [Stage.QUALIFY]),
        (Stage.QUALIFY, synchronous, agent_verifier.address, WINDOW, 1, [Stage.SETTLE]),
        (Stage.SETTLE, synchronous, agent_verifier.address, WINDOW, 1, [FINAL_STAGE]),
    ]
    assert owed.total() == 5
    for unknown in (3, FINAL_STAGE):
        with reverts_with(workflow.UnknownStage, stage=unknown):
            workflow.stageAt(unknown)

    run = driver.start_run(requester, CODE)
    audit(driver, run, auditors)
    for output in (QUALIFICATION, SETTLEMENT):
        answer = driver.reply_to(open_task(driver, run.id), prover, output)
        driver.prove(answer.reply_hash, sender=prover)

    assert driver.result(run.id).status is RunStatus.SUCCESS
    dispatched = [event for event in driver.events(run.id) if isinstance(event, NewAgentTask)]
    assert Counter(event.stage for event in dispatched) == owed


# ── The join ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "order", list(permutations(Dimension)), ids=lambda order: "-".join(d.name.lower() for d in order)
)
@pytest.mark.requirement("EXE-012", "EXE-117", "EXE-133")
def test_join__any_order__previous_replies_in_the_order_of_acceptance(
    driver: WorkflowDriver, requester: Any, auditors: Sequence[Any], order: tuple[Dimension, ...]
) -> None:
    run = driver.start_run(requester, CODE)
    answers = audit(driver, run, auditors, order)

    task = driver.task(answers[2].task_hash)
    assert task.prev_reply_hashes == tuple(answer.reply_hash for answer in answers)
    assert task.input_hash == keccak256(b"".join(keccak256(REPORTS[lane]) for lane in order))


@pytest.mark.requirement("EXE-069", "EXE-131", "EXE-164")
def test_join__dimension_omitted__run_stays_pending_in_audit(
    driver: WorkflowDriver, requester: Any, auditors: Sequence[Any], prover: Any
) -> None:
    for omitted in Dimension:
        run = driver.start_run(requester, CODE)
        answers = audit(driver, run, auditors, [lane for lane in Dimension if lane != omitted])
        for answer in answers:
            receipt = driver.prove(answer.reply_hash, sender=prover)
            assert driver.event_names(receipt) == []

        assert driver.state(run.id).stage == Stage.AUDIT
        assert lanes(driver, run.id) == {omitted: run.task_hashes[omitted]}
        assert driver.result(run.id) == RunResult(RunStatus.PENDING, bytes(32), 0)
        assert [event for event in driver.events(run.id) if isinstance(event, NewAgentTask)] == [
            NewAgentTask(run.id, Stage.AUDIT, task_hash) for task_hash in run.task_hashes
        ]


@pytest.mark.requirement("EXE-096")
def test_reply__second_one_to_a_consumed_dimension__refused(
    driver: WorkflowDriver, requester: Any, auditors: Sequence[Any], stranger: Any
) -> None:
    run = driver.start_run(requester, CODE)
    for lane in (Dimension.SECURITY, Dimension.GAS):
        audit(driver, run, auditors, [lane])
        for replier in (stranger, auditors[lane]):
            with (
                nothing_changes(driver),
                reverts_with(driver.workflow.TaskNotOpen, taskHash=run.task_hashes[lane]),
            ):
                driver.reply_to(run.task_hashes[lane], replier, b"a second opinion")


@pytest.mark.parametrize(
    "named",
    [
        (Dimension.GAS, Dimension.SECURITY),
        (Dimension.LOGIC, Dimension.GAS),
        (Dimension.GAS, Dimension.SECURITY, Dimension.LOGIC),
    ],
    ids=lambda named: "+".join(d.name.lower() for d in named),
)
@pytest.mark.requirement("EXE-058", "EXE-131")
def test_reply__several_dimensions_at_once__silent_and_consumes_nothing(
    driver: WorkflowDriver,
    requester: Any,
    auditors: Sequence[Any],
    stranger: Any,
    named: tuple[Dimension, ...],
) -> None:
    run = driver.start_run(requester, CODE)
    state = driver.state(run.id)

    greedy = driver.reply_to([run.task_hashes[lane] for lane in named], stranger, b"all is fine")

    assert driver.event_names(greedy.receipt) == ["AgentReplyAnchored"]
    assert driver.reply(greedy.reply_hash) == unproven(greedy.reply)
    assert driver.state(run.id) == state
    answers = audit(driver, run, auditors)
    assert driver.task(answers[2].task_hash).prev_reply_hashes == tuple(a.reply_hash for a in answers)


def test_reply__last_dimension_together_with_a_consumed_one__refused(
    driver: WorkflowDriver, requester: Any, auditors: Sequence[Any], stranger: Any
) -> None:
    run = driver.start_run(requester, CODE)
    audit(driver, run, auditors, [Dimension.GAS, Dimension.SECURITY])
    gas_task, _, logic_task = run.task_hashes

    with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=gas_task):
        driver.reply_to([logic_task, gas_task], stranger)
    assert lanes(driver, run.id) == {Dimension.LOGIC: logic_task}


def test_join__one_agent_for_all_dimensions__each_counts_once(
    driver: WorkflowDriver, requester: Any, agent: Any
) -> None:
    # Anyone may audit; what is asked for is one reply for each dimension.
    run = driver.start_run(requester, CODE)
    answers = [driver.reply_to(task_hash, agent, b"the same report") for task_hash in run.task_hashes]
    assert len({answer.reply_hash for answer in answers}) == 3
    assert driver.task(answers[2].task_hash).prev_reply_hashes == tuple(a.reply_hash for a in answers)


# ── Proofs ───────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-047", "EXE-157", "EXE-170")
def test_prove__audits_one_by_one__qualify_task_proven_with_the_last(
    driver: WorkflowDriver, requester: Any, auditors: Sequence[Any], prover: Any
) -> None:
    run = driver.start_run(requester, CODE)
    answers = [*audit(driver, run, auditors, [Dimension.LOGIC])]
    driver.prove(answers[0].reply_hash, sender=prover)  # before the Qualify task exists
    answers += audit(driver, run, auditors, [Dimension.GAS, Dimension.SECURITY])
    t_qual = answers[2].task_hash

    verdicts = [driver.is_proven(t_qual)]
    for answer in answers[1:]:
        receipt = driver.prove(answer.reply_hash, sender=prover)
        assert driver.event_names(receipt) == []
        verdicts.append(driver.is_proven(t_qual))

    assert verdicts == [False, False, True]
    assert driver.state(run.id).stage == Stage.QUALIFY


def test_prove__audits_in_one_proof__all_proven(
    driver: WorkflowDriver, agent_verifier: Any, requester: Any, auditors: Sequence[Any], prover: Any
) -> None:
    # The same report over the same code: one statement for all three.
    run = driver.start_run(requester, CODE)
    answers = [
        driver.reply_to(task_hash, auditor, b"no findings")
        for task_hash, auditor in zip(run.task_hashes, auditors, strict=True)
    ]

    driver.prove([answer.reply_hash for answer in answers], sender=prover)

    assert [driver.reply(answer.reply_hash) for answer in answers] == [
        proven(answer.reply, agent_verifier, keccak256(CODE)) for answer in answers
    ]
    assert driver.is_proven(answers[2].task_hash)


def test_prove__qualification_without_proof__no_settlement(
    driver: WorkflowDriver, requester: Any, auditors: Sequence[Any], qualifier: Any, stranger: Any
) -> None:
    run = driver.start_run(requester, CODE)
    t_qual = audit(driver, run, auditors)[2].task_hash
    qualified = driver.reply_to(t_qual, qualifier, QUALIFICATION)

    # A proof over the code instead of the reports.
    with (
        nothing_changes(driver),
        reverts_with(driver.workflow.ProofRejected, replyHash=qualified.reply_hash),
    ):
        driver.prove(
            qualified.reply_hash, sender=stranger, proof=keccak256(keccak256(CODE) + keccak256(QUALIFICATION))
        )
    assert driver.state(run.id).stage == Stage.QUALIFY


# ── Deadlines ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("late", Dimension, ids=lambda dimension: dimension.name.lower())
@pytest.mark.requirement("EXE-007", "EXE-129", "EXE-188")
def test_timeout__one_dimension_late__only_its_task_is_retried_and_the_join_completes(
    driver: WorkflowDriver, requester: Any, auditors: Sequence[Any], stranger: Any, late: Dimension
) -> None:
    run = driver.start_run(requester, CODE)
    first, other = (lane for lane in Dimension if lane != late)
    accepted = audit(driver, run, auditors, [first])
    expires_at = driver.task(run.task_hashes[late]).expires_at
    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.TaskNotExpired,
            taskHash=run.task_hashes[late],
            deadline=expires_at,
            blockTimestamp=expires_at,
        ),
    ):
        driver.time_out(run.task_hashes[late], stranger, at=expires_at)
    with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=run.task_hashes[first]):
        driver.time_out(run.task_hashes[first], stranger, at=expires_at + 1)

    receipt = driver.time_out(run.task_hashes[late], stranger, at=expires_at + 2)

    assert driver.event_names(receipt) == ["NewAgentTask"]
    open_lanes = lanes(driver, run.id)
    assert open_lanes.keys() == {other, late}
    assert open_lanes[other] == run.task_hashes[other]
    retried = open_lanes[late]
    assert driver.task(retried) == AgentTask(
        stage=Stage.AUDIT,
        task_seq=3,
        input_hash=keccak256(CODE),
        input=b"",
        timestamp=expires_at + 2,
        expires_at=expires_at + 2 + WINDOW,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )
    assert driver.is_proven(retried)

    # The other open dimension has expired too; its own timeout retries it.
    driver.time_out(run.task_hashes[other], stranger, at=expires_at + 3)
    open_lanes = lanes(driver, run.id)
    assert open_lanes == {late: retried, other: open_lanes[other]}
    accepted.append(driver.reply_to(retried, auditors[late], REPORTS[late]))
    assert driver.state(run.id).stage == Stage.AUDIT
    accepted.append(driver.reply_to(open_lanes[other], auditors[other], REPORTS[other]))
    task = driver.task(accepted[2].task_hash)
    assert (task.stage, task.task_seq) == (Stage.QUALIFY, 5)
    assert task.prev_reply_hashes == tuple(answer.reply_hash for answer in accepted)


@pytest.mark.requirement("EXE-130", "EXE-146", "EXE-150", "EXE-151")
def test_timeout__one_dimension_twice__fails_the_run(
    driver: WorkflowDriver, requester: Any, auditors: Sequence[Any], stranger: Any
) -> None:
    run = driver.start_run(requester, CODE)
    audit(driver, run, auditors, [Dimension.GAS])
    driver.time_out(run.task_hashes[Dimension.LOGIC], stranger)
    driver.time_out(lanes(driver, run.id)[Dimension.LOGIC], stranger)

    assert driver.result(run.id) == RunResult(RunStatus.FAILED, bytes(32), 0)
    assert driver.events()[-1] == WorkflowCompleted(run.id, RunStatus.FAILED, bytes(32), driver.now)
    assert driver.state(run.id) == RunState(RunStatus.FAILED, Stage.AUDIT, ())
    with (
        nothing_changes(driver),
        reverts_with(driver.workflow.RunNotPending, workflowRunId=run.id, status=RunStatus.FAILED),
    ):
        driver.reply_to(run.task_hashes[Dimension.SECURITY], auditors[Dimension.SECURITY])


@pytest.mark.parametrize("answered", [False, True], ids=["no reply", "a reply without its proof"])
@pytest.mark.parametrize("stage", [Stage.QUALIFY, Stage.SETTLE], ids=lambda stage: stage.name.lower())
def test_timeout__later_stage_twice__retries_then_fails(
    driver: WorkflowDriver,
    requester: Any,
    auditors: Sequence[Any],
    prover: Any,
    stage: Stage,
    answered: bool,
) -> None:
    run = driver.start_run(requester, CODE)
    audit(driver, run, auditors)
    if stage is Stage.SETTLE:
        qualified = driver.reply_to(open_task(driver, run.id), prover, QUALIFICATION)
        driver.prove(qualified.reply_hash, sender=prover)
    expired = open_task(driver, run.id)
    before, deadline = driver.task(expired), driver.task(expired).expires_at
    if answered:
        driver.reply_to(expired, prover)
        deadline += PROOF_WINDOW
    driver.time_out(expired, prover, at=deadline + 1)

    retried = open_task(driver, run.id)
    assert driver.task(retried) == AgentTask(
        stage=stage,
        task_seq=before.task_seq + 1,
        input_hash=before.input_hash,
        input=b"",
        timestamp=deadline + 1,
        expires_at=deadline + 1 + WINDOW,
        prev_reply_hashes=before.prev_reply_hashes,
        workflow_run_id=run.id,
    )
    driver.time_out(retried, prover)
    assert driver.result(run.id) == RunResult(RunStatus.FAILED, bytes(32), 0)


def test_runs__side_by_side__dimensions_are_counted_per_run(
    driver: WorkflowDriver, requester: Any, auditors: Sequence[Any]
) -> None:
    one, two = driver.start_run(requester, CODE), driver.start_run(requester, CODE)
    with only_changes(driver, one.id):
        audit(driver, one, auditors, [Dimension.GAS, Dimension.LOGIC])
    with only_changes(driver, two.id):
        audit(driver, two, auditors, [Dimension.SECURITY])

    # Three replies, but in two runs.
    assert lanes(driver, one.id).keys() == {Dimension.SECURITY}
    assert lanes(driver, two.id).keys() == {Dimension.GAS, Dimension.LOGIC}
    with only_changes(driver, one.id):
        audit(driver, one, auditors, [Dimension.SECURITY])
    assert [driver.state(run.id).stage for run in (one, two)] == [Stage.QUALIFY, Stage.AUDIT]
