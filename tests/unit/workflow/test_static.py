"""A static workflow takes its published path, stage by stage and lane by lane, whatever its judge says."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from provenflow.abi import NewAgentTask, RunStatus
from provenflow.hashing import keccak256
from tests.support.reverts import reverts_with
from tests.support.scripted import FINAL_STAGE, Mode, Option, StageConfig, StaticStage, Verdict
from tests.support.workflow import DAY, StartedRun, WorkflowDriver
from tests.unit.workflow.conftest import DeployStatic

AUDIT, REVIEW, SETTLE = range(3)


@pytest.fixture
def flow(deploy_static: DeployStatic, agent_verifier: Any) -> WorkflowDriver:
    """Stage 0: async, three lanes. Stage 1: sync, one. Stage 2: sync, two, the end. Each retries once."""
    option, verifier = Option.AGENT_VERIFIER, agent_verifier.address
    later = StageConfig(Mode.ASYNC, option, verifier, window=7 * DAY, max_retries=1)
    sync = StageConfig(Mode.SYNC, option, verifier, window=5 * DAY, max_retries=1)
    return deploy_static(
        [StaticStage(later, 3, REVIEW), StaticStage(sync, 1, SETTLE), StaticStage(sync, 2, FINAL_STAGE)]
    )


@pytest.fixture
def run(flow: WorkflowDriver, requester: Any) -> StartedRun:
    return flow.start_run(requester)


def _script(flow: WorkflowDriver, deployer: Any, *verdicts: Verdict) -> None:
    flow.workflow.scriptVerdicts(list(verdicts), sender=deployer)


def _lanes(flow: WorkflowDriver, run: StartedRun) -> dict[int, bytes]:
    """The open tasks by lane."""
    return {task.lane: task.task_hash for task in flow.state(run.id).open_tasks}


def _finish(flow: WorkflowDriver, run: StartedRun, agent: Any, prover: Any) -> None:
    """Answer, and prove, whatever is open until the run has ended. A run that is stuck has nothing open."""
    while flow.result(run.id).status is RunStatus.PENDING:
        state = flow.state(run.id)
        assert state.open_tasks
        answer = flow.reply_to(state.open_tasks[0].task_hash, agent)
        if state.stage != AUDIT:
            flow.prove(answer.reply_hash, prover)
    assert flow.result(run.id).status is RunStatus.SUCCESS


@pytest.mark.requirement("EXE-069", "EXE-071", "EXE-133", "EXE-163", "EXE-164")
def test_static__run__passes_every_stage_once_in_the_published_order(
    flow: WorkflowDriver, run: StartedRun, agent: Any, prover: Any
) -> None:
    _finish(flow, run, agent, prover)

    stages = [event.stage for event in flow.events(run.id) if isinstance(event, NewAgentTask)]
    assert stages == [AUDIT] * 3 + [REVIEW] + [SETTLE] * 2
    assert flow.task(flow.result(run.id).final_task_hash).task_seq == 6


@pytest.mark.requirement("EXE-012", "EXE-133", "EXE-140", "EXE-164")
@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_static__parallel_stage__passes_with_its_last_lane_and_links_all_in_order_of_acceptance(
    order: tuple[int, ...], flow: WorkflowDriver, run: StartedRun, agent: Any
) -> None:
    answers = []
    for number, lane in enumerate(order):
        assert flow.state(run.id).stage == AUDIT
        assert sorted(_lanes(flow, run)) == sorted(order[number:])
        answers.append(flow.reply_to(run.task_hashes[lane], agent, f"output {lane}".encode()))

    state = flow.state(run.id)
    assert (state.stage, len(state.open_tasks)) == (REVIEW, 1)
    task = flow.task(state.open_tasks[0].task_hash)
    assert task.prev_reply_hashes == tuple(answer.reply_hash for answer in answers)
    assert task.input_hash == keccak256(b"".join(answer.reply.output_hash for answer in answers))
    assert [len(answer.task_hashes) for answer in answers] == [0, 0, 1]


@pytest.mark.requirement("EXE-096")
def test_static__lane_that_has_its_answer__takes_no_other(
    flow: WorkflowDriver, errors: Any, run: StartedRun, agent: Any, other_agent: Any
) -> None:
    flow.reply_to(run.task_hashes[1], agent)

    reply = flow.build_reply(run.task_hashes[1], other_agent)

    with reverts_with(errors.TaskNotOpen, taskHash=run.task_hashes[1]):
        flow.submit(reply)


@pytest.mark.requirement("EXE-122", "EXE-125", "EXE-140")
@pytest.mark.parametrize("order", [[0, 1], [1, 0]], ids=str)
def test_static__last_stage_proven_in_one_batch__completes_with_all_its_replies_in_list_order(
    order: list[int], flow: WorkflowDriver, run: StartedRun, agent: Any, prover: Any
) -> None:
    for task_hash in run.task_hashes:
        review = flow.reply_to(task_hash, agent)
    settle = flow.prove(flow.reply_to(review.task_hash, agent).reply_hash, prover)
    tasks = [task_hash for _, _, task_hash in flow.dispatched(settle)]
    answers = [flow.reply_to(tasks[lane], agent).reply_hash for lane in order]

    flow.prove(answers, prover)

    result = flow.result(run.id)
    assert result.status is RunStatus.SUCCESS
    assert flow.task(result.final_task_hash).prev_reply_hashes == tuple(answers)


@pytest.mark.requirement("EXE-131", "EXE-133")
@pytest.mark.parametrize("verdict", [Verdict.PASS, Verdict.SILENT, Verdict.RETRY, Verdict.ABORT])
@pytest.mark.parametrize("answered", [[0, 1], [2, 0], [0, 1, 2]], ids=str)
def test_static__reply_to_several_lanes__is_discarded_and_the_run_can_still_complete(
    answered: list[int],
    verdict: Verdict,
    flow: WorkflowDriver,
    run: StartedRun,
    agent: Any,
    prover: Any,
    deployer: Any,
) -> None:
    _script(flow, deployer, verdict)

    answer = flow.reply_to([run.task_hashes[lane] for lane in answered], agent)

    assert flow.reply(answer.reply_hash).reply == answer.reply
    assert flow.event_names(answer.receipt) == ["AgentReplyAnchored"]
    assert sorted(_lanes(flow, run)) == [0, 1, 2]
    _script(flow, deployer)  # from here on everything passes
    _finish(flow, run, agent, prover)


@pytest.mark.requirement("EXE-129", "EXE-133")
def test_static__retry_of_a_lane__the_stage_still_needs_every_lane(
    flow: WorkflowDriver, run: StartedRun, agent: Any, deployer: Any
) -> None:
    _script(flow, deployer, Verdict.PASS, Verdict.RETRY)
    first = flow.reply_to(run.task_hashes[0], agent)
    flow.reply_to(run.task_hashes[1], agent)

    assert sorted(_lanes(flow, run)) == [1, 2]
    third = flow.reply_to(_lanes(flow, run)[2], agent)
    assert flow.state(run.id).stage == AUDIT
    second = flow.reply_to(_lanes(flow, run)[1], agent)

    assert flow.state(run.id).stage == REVIEW
    assert flow.task(second.task_hash).prev_reply_hashes == (
        first.reply_hash,
        third.reply_hash,
        second.reply_hash,
    )


@pytest.mark.requirement("EXE-131", "EXE-134")
def test_static__silent__leaves_the_lane_open(
    flow: WorkflowDriver, run: StartedRun, agent: Any, deployer: Any
) -> None:
    _script(flow, deployer, Verdict.SILENT)

    flow.reply_to(run.task_hashes[0], agent)

    assert sorted(_lanes(flow, run)) == [0, 1, 2]


@pytest.mark.requirement("EXE-130", "EXE-134")
def test_static__abort__fails_the_run(
    flow: WorkflowDriver, run: StartedRun, agent: Any, deployer: Any
) -> None:
    _script(flow, deployer, Verdict.ABORT)

    flow.reply_to(run.task_hashes[0], agent)

    assert flow.result(run.id).status is RunStatus.FAILED


@pytest.mark.requirement("EXE-164", "EXE-188")
def test_static__lane_that_times_out__is_dispatched_again_and_still_needed(
    flow: WorkflowDriver, run: StartedRun, agent: Any, prover: Any
) -> None:
    for lane in (0, 1):
        flow.reply_to(run.task_hashes[lane], agent)

    flow.time_out(run.task_hashes[2], prover)

    assert flow.state(run.id).stage == AUDIT
    last = flow.reply_to(_lanes(flow, run)[2], agent)
    assert flow.state(run.id).stage == REVIEW
    assert len(flow.task(last.task_hash).prev_reply_hashes) == 3


@pytest.mark.requirement("EXE-164", "EXE-188")
def test_static__lane_that_times_out_twice__fails_the_run_and_skips_nothing(
    flow: WorkflowDriver, run: StartedRun, agent: Any, prover: Any
) -> None:
    for lane in (0, 1):
        flow.reply_to(run.task_hashes[lane], agent)
    flow.time_out(run.task_hashes[2], prover)

    flow.time_out(_lanes(flow, run)[2], prover)

    assert flow.result(run.id).status is RunStatus.FAILED
    assert {event.stage for event in flow.events(run.id) if isinstance(event, NewAgentTask)} == {AUDIT}
