"""``onAgentReply`` refuses in a fixed order, each time with the values that explain it, and leaves no trace."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from provenflow.abi import RunStatus
from provenflow.hashing import keccak256
from tests.support.observation import nothing_changes
from tests.support.reverts import reverts_with
from tests.support.scripted import FINAL_STAGE, ScriptedDriver, Stage, abort, passes, retry, silent
from tests.unit.workflow.refusals import REFUSALS, UNKNOWN, Refusal, Scene

# ── The order ────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-079", "EXE-082")
@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row.id)
def test_on_agent_reply__breaks_one_rule_and_all_later_ones__is_refused_for_the_first(
    row: Refusal, scene: Scene, errors: Any
) -> None:
    flow = scene.flow
    flow.bar(scene.agent, row.barred)
    reply = row.build(scene)
    arguments = row.arguments(scene, reply, flow.now + 1)

    with nothing_changes(flow), reverts_with(getattr(errors, row.error), **arguments):
        flow.submit(reply, scene.stranger if row.foreign else scene.agent)


def test_on_agent_reply__all_rules_of_the_table_kept__is_accepted(scene: Scene, prover: Any) -> None:
    flow = scene.flow
    flow.prove(scene.fresh.first_reply, prover)

    answer = flow.reply_to(scene.fresh.task_hash, scene.agent)

    assert flow.reply(answer.reply_hash).reply == answer.reply


# ── Replier and operation ────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-080")
def test_on_agent_reply__sent_by_another__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, stranger: Any
) -> None:
    run = flow.start_run(requester)
    reply = flow.build_reply(run.task_hash, agent)

    with nothing_changes(flow), reverts_with(errors.ReplierMismatch, replier=agent, sender=stranger):
        flow.submit(reply, stranger)


@pytest.mark.requirement("EXE-080")
def test_on_agent_reply__retry_sent_by_another__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, stranger: Any
) -> None:
    run = flow.start_run(requester)
    answer = flow.reply_to(run.task_hash, agent)

    with nothing_changes(flow), reverts_with(errors.ReplierMismatch, replier=agent, sender=stranger):
        flow.submit(answer.reply, stranger)


@pytest.mark.requirement("EXE-026", "EXE-081")
def test_on_agent_reply__operation_id_zero__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester)
    reply = flow.build_reply(run.task_hash, agent, operation_id=bytes(32))

    with nothing_changes(flow), reverts_with(errors.ZeroOperationId):
        flow.submit(reply)


# ── Tasks ────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-023")
def test_on_agent_reply__no_task__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester)
    reply = flow.build_reply([], agent, workflow_run_id=run.id)

    with nothing_changes(flow), reverts_with(errors.EmptyPrevTaskHashes):
        flow.submit(reply)


def test_on_agent_reply__nine_open_tasks__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    flow.plan_begin(Stage.OPEN, *[keccak256(b"the input")] * 9)
    run = flow.start_run(requester)
    reply = flow.build_reply(run.task_hashes, agent)

    with nothing_changes(flow), reverts_with(errors.TooManyPrevTaskHashes, count=9, max=8):
        flow.submit(reply)


@pytest.mark.requirement("EXE-093")
@pytest.mark.parametrize("position", range(8))
def test_on_agent_reply__unknown_task_at_any_position__reverts(
    position: int, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    flow.plan_begin(Stage.OPEN, *[keccak256(b"the input")] * 8)
    run = flow.start_run(requester)
    tasks = list(run.task_hashes)
    tasks[position] = UNKNOWN
    reply = flow.build_reply(tasks, agent, workflow_run_id=run.id)

    with nothing_changes(flow), reverts_with(errors.UnknownTask, taskHash=UNKNOWN):
        flow.submit(reply)


@pytest.mark.requirement("EXE-094")
@pytest.mark.parametrize("position", range(3))
def test_on_agent_reply__task_of_another_run_at_any_position__reverts(
    position: int, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    flow.plan_begin(Stage.OPEN, *[keccak256(b"the input")] * 3)
    run, other = flow.start_run(requester), flow.start_run(requester)
    tasks = list(run.task_hashes)
    tasks[position] = other.task_hashes[0]
    reply = flow.build_reply(tasks, agent, workflow_run_id=run.id)

    with (
        nothing_changes(flow),
        reverts_with(
            errors.ForeignTask,
            taskHash=other.task_hashes[0],
            taskWorkflowRunId=other.id,
            replyWorkflowRunId=run.id,
        ),
    ):
        flow.submit(reply)


@pytest.mark.requirement("EXE-094")
def test_on_agent_reply__run_that_does_not_exist__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester)
    reply = flow.build_reply(run.task_hash, agent, workflow_run_id=UNKNOWN)

    with (
        nothing_changes(flow),
        reverts_with(
            errors.ForeignTask, taskHash=run.task_hash, taskWorkflowRunId=run.id, replyWorkflowRunId=UNKNOWN
        ),
    ):
        flow.submit(reply)


@pytest.mark.parametrize("order", [[0, 0], [0, 1, 1], [0, 1, 2, 0], [3, 2, 1, 0, 4, 5, 6, 3]], ids=str)
def test_on_agent_reply__task_named_twice__reverts(
    order: list[int], flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    flow.plan_begin(Stage.OPEN, *[keccak256(b"the input")] * 8)
    run = flow.start_run(requester)
    reply = flow.build_reply([run.task_hashes[number] for number in order], agent)

    with (
        nothing_changes(flow),
        reverts_with(errors.DuplicateTaskHash, taskHash=run.task_hashes[order[-1]]),
    ):
        flow.submit(reply)


# ── Run and eligibility ──────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-095", "EXE-146", "EXE-151")
@pytest.mark.parametrize("status", [RunStatus.SUCCESS, RunStatus.FAILED], ids=lambda value: value.name)
@pytest.mark.parametrize("task", ["first", "last", "final"])
def test_on_agent_reply__run_has_ended__reverts_for_each_of_its_tasks(
    task: str, status: RunStatus, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent)
    flow.script(passes(FINAL_STAGE) if status is RunStatus.SUCCESS else abort())
    answer = flow.reply_to(reached.task_hash, agent)
    flow.prove(answer.reply_hash, prover)
    # A failed run has no final task.
    final = flow.result(reached.run_id).final_task_hash if status is RunStatus.SUCCESS else reached.task_hash
    tasks = {"first": reached.first_task, "last": reached.task_hash, "final": final}
    reply = flow.build_reply(tasks[task], agent)

    with (
        nothing_changes(flow),
        reverts_with(errors.RunNotPending, workflowRunId=reached.run_id, status=status),
    ):
        flow.submit(reply)


@pytest.mark.requirement("EXE-096")
@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("how", ["passed", "looped", "retried", "consumed", "timed out"])
def test_on_agent_reply__closed_task__reverts(
    how: str, position: int, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    flow.plan_begin(Stage.OPEN, *[keccak256(b"the input")] * 2)
    run = flow.start_run(requester)
    closed, other = run.task_hashes
    if how == "timed out":
        flow.time_out(closed, requester)
    else:
        decisions = {
            "passed": passes(Stage.NEXT),
            "looped": passes(Stage.OPEN),
            "retried": retry(),
            "consumed": silent(consume=True),
        }
        flow.script(decisions[how])
        flow.reply_to(closed, agent)
    open_task = (
        other if how in ("retried", "consumed", "timed out") else flow.state(run.id).open_tasks[0].task_hash
    )
    if how == "timed out":
        # The other lane expires at the same time; what the retry dispatched is open.
        open_task = next(task.task_hash for task in flow.state(run.id).open_tasks if task.task_hash != other)
    tasks = [open_task]
    tasks.insert(position, closed)
    reply = flow.build_reply(tasks, agent)

    with nothing_changes(flow), reverts_with(errors.TaskNotOpen, taskHash=closed):
        flow.submit(reply)
    # Without the closed task it is a good reply.
    flow.submit(replace(reply, prev_task_hashes=(open_task,)))


@pytest.mark.requirement("EXE-180")
@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.SYNC], ids=lambda value: value.name)
def test_on_agent_reply__replier_that_the_workflow_bars__reverts(
    stage: Stage, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, other_agent: Any
) -> None:
    flow.plan_begin(stage, keccak256(b"the input"))
    run = flow.start_run(requester)
    flow.bar(agent)
    reply = flow.build_reply(run.task_hash, agent)

    with (
        nothing_changes(flow),
        reverts_with(errors.ReplierNotAllowed, workflowRunId=run.id, stage=stage, replier=agent),
    ):
        flow.submit(reply)
    assert flow.reply_to(run.task_hash, other_agent).reply_hash != bytes(32)


# ── Time ─────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-098", "EXE-100")
@pytest.mark.parametrize("after", [0, -1, -1000])
def test_on_agent_reply__not_later_than_its_task__reverts(
    after: int, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester)
    anchor_time = run.receipt.timestamp
    reply = flow.build_reply(run.task_hash, agent, timestamp=anchor_time + after)

    with (
        nothing_changes(flow),
        reverts_with(errors.TimestampNotAfterTask, timestamp=anchor_time + after, anchorTime=anchor_time),
    ):
        flow.submit(reply)


@pytest.mark.requirement("EXE-098", "EXE-181")
@pytest.mark.parametrize("late_first", [True, False])
def test_on_agent_reply__several_tasks__the_latest_one_bounds_the_time(
    late_first: bool, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    flow.plan_begin(Stage.OPEN, *[keccak256(b"the input")] * 2)
    run = flow.start_run(requester)
    flow.script(retry())
    flow.advance_time(100)
    late_task = flow.reply_to(run.task_hashes[0], agent).task_hash
    anchor_time = flow.task(late_task).timestamp
    tasks = [late_task, run.task_hashes[1]] if late_first else [run.task_hashes[1], late_task]
    reply = flow.build_reply(tasks, agent, timestamp=anchor_time)

    with (
        nothing_changes(flow),
        reverts_with(errors.TimestampNotAfterTask, timestamp=anchor_time, anchorTime=anchor_time),
    ):
        flow.submit(reply)
    flow.submit(replace(reply, timestamp=anchor_time + 1))


@pytest.mark.requirement("EXE-099")
@pytest.mark.parametrize("ahead", [1, 1000, 2**255], ids=["1s", "1000s", "2^255"])
def test_on_agent_reply__later_than_its_block__reverts(
    ahead: int, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester)
    block_time = flow.now + 50
    timestamp = block_time + ahead
    reply = flow.build_reply(run.task_hash, agent, timestamp=timestamp)

    with (
        nothing_changes(flow),
        reverts_with(errors.TimestampInFuture, timestamp=timestamp, blockTimestamp=block_time),
    ):
        flow.submit(reply, at=block_time)


@pytest.mark.requirement("EXE-098", "EXE-099", "EXE-101")
@pytest.mark.parametrize("timestamp", ["first moment", "last moment"])
@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.SYNC], ids=lambda value: value.name)
def test_on_agent_reply__bounds_of_time__are_accepted_up_to_the_expiry(
    stage: Stage, timestamp: str, flow: ScriptedDriver, requester: Any, agent: Any
) -> None:
    flow.plan_begin(stage, keccak256(b"the input"))
    run = flow.start_run(requester)
    expires_at = flow.task(run.task_hash).expires_at
    moment = run.receipt.timestamp + 1 if timestamp == "first moment" else expires_at
    reply = flow.build_reply(run.task_hash, agent, timestamp=moment)

    answer = flow.submit(reply, at=expires_at)

    assert answer.receipt.timestamp == expires_at
    assert flow.reply(answer.reply_hash).reply == reply
    assert flow.workflow.replyAnchorTime(answer.reply_hash) == expires_at


@pytest.mark.requirement("EXE-101")
@pytest.mark.parametrize("late", [1, 10**6])
@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.SYNC], ids=lambda value: value.name)
def test_on_agent_reply__after_expiry__reverts(
    stage: Stage, late: int, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    flow.plan_begin(stage, keccak256(b"the input"))
    run = flow.start_run(requester)
    expires_at = flow.task(run.task_hash).expires_at
    # Executed in time, submitted too late.
    reply = flow.build_reply(run.task_hash, agent)

    with (
        nothing_changes(flow),
        reverts_with(
            errors.TaskExpired, taskHash=run.task_hash, expiresAt=expires_at, blockTimestamp=expires_at + late
        ),
    ):
        flow.submit(reply, at=expires_at + late)


@pytest.mark.requirement("EXE-101")
@pytest.mark.parametrize("position", [0, 1])
def test_on_agent_reply__one_of_several_tasks_has_expired__reverts(
    position: int, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    flow.plan_begin(Stage.OPEN, *[keccak256(b"the input")] * 2)
    run = flow.start_run(requester)
    expired = run.task_hashes[0]
    flow.time_out(run.task_hashes[1], requester)
    (retried,) = (task.task_hash for task in flow.state(run.id).open_tasks if task.task_hash != expired)
    tasks = [retried]
    tasks.insert(position, expired)
    reply = flow.build_reply(tasks, agent)

    with (
        nothing_changes(flow),
        reverts_with(
            errors.TaskExpired,
            taskHash=expired,
            expiresAt=flow.task(expired).expires_at,
            blockTimestamp=flow.now + 1,
        ),
    ):
        flow.submit(reply)


@pytest.mark.requirement("EXE-011", "EXE-101")
@pytest.mark.parametrize("expires_at", [2**40 - 1, 2**40, 2**40 + 5, 2**256 - 1], ids=hex)
def test_on_agent_reply__far_expiry__is_not_cut_short(
    expires_at: int, flow: ScriptedDriver, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester, expires_at=expires_at)
    flow.advance_time(10**9)

    answer = flow.reply_to(run.task_hash, agent)

    assert flow.reply(answer.reply_hash).reply == answer.reply


# ── Output ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "declared",
    [bytes(32), keccak256(b""), keccak256(b"another output")],
    ids=["zero", "of nothing", "of another"],
)
def test_on_agent_reply__plaintext_of_another_hash__reverts(
    declared: bytes, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester)
    reply = flow.build_reply(run.task_hash, agent, b"the output", output_hash=declared)

    with (
        nothing_changes(flow),
        reverts_with(errors.OutputHashMismatch, declared=declared, actual=keccak256(b"the output")),
    ):
        flow.submit(reply)


# ── Upstream ─────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-158")
def test_on_agent_reply__stage_that_requires_proven_upstream__waits_for_the_proof(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.STRICT, requester, agent)
    reply = flow.build_reply(reached.task_hash, agent)

    with nothing_changes(flow), reverts_with(errors.UpstreamNotProven, taskHash=reached.task_hash):
        flow.submit(reply)
    flow.prove(reached.first_reply, prover)
    answer = flow.submit(reply)

    assert flow.gate_inputs[-1].reply_hash == answer.reply_hash


@pytest.mark.requirement("EXE-158")
def test_on_agent_reply__upstream_of_the_second_task_not_proven__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.STRICT, requester, agent, tasks=2)
    first, second = reached.task_hashes
    flow.prove(reached.first_reply, prover)
    # The second lane's task is now one whose previous reply is not proven.
    flow.script(retry())
    unproven = flow.reply_to(second, agent).task_hash
    reply = flow.build_reply([first, unproven], agent)

    with nothing_changes(flow), reverts_with(errors.UpstreamNotProven, taskHash=unproven):
        flow.submit(reply)
