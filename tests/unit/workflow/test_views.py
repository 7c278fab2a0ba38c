"""What can be asked of a workflow: results, states, whether a reply would be taken, whether a chain is proven."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from provenflow.abi import AgentReply, RunResult, RunStatus
from provenflow.hashing import keccak256
from tests.support.observation import nothing_changes
from tests.support.reverts import reverts_with
from tests.support.scripted import FINAL_STAGE, ScriptedDriver, Stage, abort, passes, retry, silent
from tests.support.workflow import DAY, OpenTask, RunState
from tests.unit.workflow.refusals import REFUSALS, Refusal, Scene

UNKNOWN = keccak256(b"nothing has this hash")
INPUT = keccak256(b"the input")


def _check(flow: ScriptedDriver, reply: AgentReply) -> bytes:
    """``checkReply``, by anyone."""
    *fields, _ = reply.as_tuple()
    fields[4] = "0x" + reply.replier.hex()
    return bytes(flow.workflow.checkReply((*fields, reply.workflow_run_id)))


# ── Unknown hashes ───────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-203", "EXE-204")
@pytest.mark.parametrize("run_id", [UNKNOWN, bytes(32), b"\xff" * 32], ids=["unknown", "zero", "all ones"])
def test_result__unknown_run__is_pending_without_anything(run_id: bytes, flow: ScriptedDriver) -> None:
    assert flow.result(run_id) == RunResult(RunStatus.PENDING, bytes(32), 0)
    assert not flow.workflow.runExists(run_id)


@pytest.mark.requirement("EXE-046", "EXE-049")
@pytest.mark.parametrize("value", [UNKNOWN, bytes(32)], ids=["unknown", "zero"])
@pytest.mark.parametrize(
    ("view", "error", "argument"),
    [
        ("getAgentTask", "UnknownTask", "taskHash"),
        ("getAgentReply", "UnknownReply", "replyHash"),
        ("replyAnchorTime", "UnknownReply", "replyHash"),
        ("isChainProven", "UnknownTask", "taskHash"),
        ("runState", "UnknownRun", "workflowRunId"),
    ],
)
def test_view__unknown_hash__reverts(
    view: str, error: str, argument: str, value: bytes, flow: ScriptedDriver, errors: Any
) -> None:
    with reverts_with(getattr(errors, error), **{argument: value}):
        getattr(flow.workflow, view)(value)


@pytest.mark.requirement("EXE-046", "EXE-049")
def test_view__hash_of_another_kind__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester)
    reply_hash = flow.reply_to(run.task_hash, agent).reply_hash

    for value in (reply_hash, run.id):
        with reverts_with(errors.UnknownTask, taskHash=value):
            flow.workflow.getAgentTask(value)
    for value in (run.task_hash, run.id):
        with reverts_with(errors.UnknownReply, replyHash=value):
            flow.workflow.getAgentReply(value)
    for value in (run.task_hash, reply_hash):
        assert not flow.workflow.runExists(value)
        with reverts_with(errors.UnknownRun, workflowRunId=value):
            flow.workflow.runState(value)


# ── runExists and runState ───────────────────────────────────────────────────


@pytest.mark.requirement("EXE-002")
def test_run_exists__run_that_was_started__is_told_from_an_unknown_one(
    flow: ScriptedDriver, requester: Any
) -> None:
    run = flow.start_run(requester)

    assert flow.workflow.runExists(run.id)
    assert flow.result(run.id) == flow.result(UNKNOWN)


def test_run_state__open_tasks__are_listed_in_order_of_dispatch_with_their_deadlines(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    flow.plan_begin(Stage.SYNC, *[INPUT] * 4)
    run = flow.start_run(requester, expires_at=flow.now + 50 * DAY)
    expires_at = flow.task(run.task_hashes[0]).expires_at
    consumed, retried, answered, untouched = run.task_hashes
    flow.script(silent(consume=True), retry())
    flow.prove(flow.reply_to(consumed, agent).reply_hash, prover)
    receipt = flow.prove(flow.reply_to(retried, agent).reply_hash, prover)
    ((_, _, new_task),) = flow.dispatched(receipt)
    flow.reply_to(answered, agent)

    new_expiry = receipt.timestamp + 5 * DAY
    assert flow.state(run.id) == RunState(
        RunStatus.PENDING,
        Stage.SYNC,
        (
            OpenTask(answered, 2, 2, expires_at, expires_at + DAY),
            OpenTask(untouched, 3, 3, expires_at, expires_at),
            OpenTask(new_task, 4, 1, new_expiry, new_expiry),
        ),
    )


@pytest.mark.parametrize("status", [RunStatus.SUCCESS, RunStatus.FAILED], ids=lambda value: value.name)
def test_run_state__ended_run__has_no_open_task_and_the_stage_it_ended_in(
    status: RunStatus, flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent, tasks=3)
    flow.script(passes(FINAL_STAGE) if status is RunStatus.SUCCESS else abort())

    flow.prove(flow.reply_to(reached.task_hashes[1], agent).reply_hash, prover)

    assert flow.state(reached.run_id) == RunState(status, Stage.SYNC, ())
    assert flow.workflow.runExists(reached.run_id)


def test_run_state__every_task_consumed__has_none_open_and_is_pending(
    flow: ScriptedDriver, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester)
    flow.script(silent(consume=True))

    flow.reply_to(run.task_hash, agent)

    assert flow.state(run.id) == RunState(RunStatus.PENDING, Stage.OPEN, ())


# ── checkReply ───────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-079")
@pytest.mark.parametrize("row", [row for row in REFUSALS if not row.foreign], ids=lambda row: row.id)
def test_check_reply__every_refusal_of_on_agent_reply__is_the_same(
    row: Refusal, scene: Scene, errors: Any
) -> None:
    flow = scene.flow
    flow.bar(scene.agent, row.barred)
    reply = row.build(scene)
    # Both are called, so both see the latest block's time.
    arguments = row.arguments(scene, reply, flow.now)

    with reverts_with(getattr(errors, row.error), **arguments) as submitted:
        flow.call_reply(reply)
    with reverts_with(getattr(errors, row.error), **arguments) as checked:
        _check(flow, reply)
    assert submitted.data == checked.data


@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.SYNC, Stage.UNPROVABLE], ids=lambda value: value.name)
def test_check_reply__good_reply__is_the_hash_it_would_get_and_changes_nothing(
    stage: Stage, flow: ScriptedDriver, requester: Any, agent: Any
) -> None:
    reached = flow.reach(stage, requester, agent)
    reply = flow.build_reply(reached.task_hash, agent)

    with nothing_changes(flow):
        assert _check(flow, reply) == reply.reply_hash()
    assert flow.submit(reply).reply_hash == reply.reply_hash()


@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.SYNC], ids=lambda value: value.name)
def test_check_reply__gate_that_would_revert__is_left_out(
    stage: Stage, flow: ScriptedDriver, requester: Any, agent: Any, deployer: Any
) -> None:
    reached = flow.reach(stage, requester, agent)
    reply = flow.build_reply(reached.task_hash, agent)
    flow.workflow.failGate(1, sender=deployer)

    assert _check(flow, reply) == reply.reply_hash()


@pytest.mark.requirement("EXE-083", "EXE-097", "EXE-148")
@pytest.mark.parametrize("ended", [False, True], ids=["run pending", "run ended"])
def test_check_reply__matching_retry__is_the_canonical_hash(
    ended: bool, flow: ScriptedDriver, requester: Any, agent: Any
) -> None:
    run = flow.start_run(requester)
    flow.script(abort() if ended else silent())
    answer = flow.reply_to(run.task_hash, agent)

    assert _check(flow, replace(answer.reply, timestamp=2**200)) == answer.reply_hash


def test_check_reply__contract_agent_and_forwarder__do_not_matter(
    flow: ScriptedDriver, requester: Any, contract_agent: Any, deployer: Any
) -> None:
    run = flow.start_run(requester)
    flow.workflow.trustForwarder(contract_agent, sender=deployer)
    reply = flow.build_reply(run.task_hash, contract_agent)

    assert _check(flow, reply) == reply.reply_hash()


# ── replyAnchorTime ──────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-088", "EXE-106")
def test_reply_anchor_time__is_the_block_that_anchored_and_never_changes(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    run = flow.start_run(requester)
    reply = flow.build_reply(run.task_hash, agent)
    anchored_at = flow.now + 1000
    answer = flow.submit(reply, at=anchored_at)
    assert flow.workflow.replyAnchorTime(answer.reply_hash) == anchored_at

    flow.submit(replace(reply, timestamp=reply.timestamp + 7))
    flow.prove(answer.reply_hash, prover)

    assert flow.workflow.replyAnchorTime(answer.reply_hash) == anchored_at
    assert flow.reply(answer.reply_hash).reply.timestamp == reply.timestamp


# ── isChainProven ────────────────────────────────────────────────────────────


def test_is_chain_proven__initial_task__is(flow: ScriptedDriver, requester: Any) -> None:
    assert flow.workflow.isChainProven(flow.start_run(requester).task_hash)


@pytest.mark.requirement("EXE-047")
def test_is_chain_proven__async_reply_further_up_is_not_proven__is_not_although_the_task_is(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.NEXT, requester, agent)
    flow.script(passes(Stage.SYNC))
    second = flow.reply_to(reached.task_hash, agent)
    assert not flow.workflow.isChainProven(second.task_hash)
    flow.prove(second.reply_hash, prover)

    assert flow.is_proven(second.task_hash)
    assert not flow.workflow.isChainProven(second.task_hash)

    flow.prove(reached.first_reply, prover)
    assert flow.workflow.isChainProven(second.task_hash)


def test_is_chain_proven__final_task__speaks_of_the_whole_run(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    finals = []
    for prove_first in (True, False):
        reached = flow.reach(Stage.SYNC, requester, agent)
        if prove_first:
            flow.prove(reached.first_reply, prover)
        answer = flow.reply_to(reached.task_hash, agent)
        flow.script(passes(FINAL_STAGE))
        flow.prove(answer.reply_hash, prover)
        finals.append(flow.result(reached.run_id).final_task_hash)

    assert [flow.is_proven(final) for final in finals] == [True, True]
    assert [flow.workflow.isChainProven(final) for final in finals] == [True, False]


@pytest.mark.parametrize("missing", range(5))
def test_is_chain_proven__task_reached_by_several_ways__needs_every_one_of_them(
    missing: int, flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    # Two initial tasks, answered apart; two tasks over both answers, answered together and alone; one task over those.
    flow.plan_begin(Stage.OPEN, INPUT, INPUT)
    run = flow.start_run(requester)
    replies = [flow.reply_to(run.task_hashes[0], agent).reply_hash]
    last = flow.build_reply(run.task_hashes[1], agent)
    replies.append(last.reply_hash())
    flow.script(passes(Stage.NEXT, replies, tasks=2))
    middle = flow.submit(last).task_hashes
    replies.append(flow.reply_to(middle, agent).reply_hash)
    replies.append(flow.reply_to(middle[1], agent).reply_hash)
    last = flow.build_reply(middle[0], agent)
    replies.append(last.reply_hash())
    flow.script(passes(Stage.SYNC, replies[2:]))
    top = flow.submit(last).task_hash

    for number, reply_hash in enumerate(replies):
        if number != missing:
            flow.prove(reply_hash, prover)
    assert not flow.workflow.isChainProven(top)
    flow.prove(replies[missing], prover)
    assert flow.workflow.isChainProven(top)


@pytest.mark.parametrize("task_seq", [0, 1, 1023, 1024, 2**32 - 1])
def test_is_chain_proven__after_1024_tasks_of_the_run__reverts(
    task_seq: int, project: Any, errors: Any, deployer: Any
) -> None:
    harness = deployer.deploy(project.WorkflowQueriesHarness)

    if task_seq < 1024:
        assert harness.isChainProven(task_seq)
    else:
        with reverts_with(errors.ChainTooLong, max=1024):
            harness.isChainProven(task_seq)
