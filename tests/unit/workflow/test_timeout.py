"""``replyTimeout``: when a task's time is over, what becomes of it, and what a timeout policy may decide."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from provenflow.abi import AgentTask, RunResult, RunStatus, WorkflowCompleted
from provenflow.hashing import keccak256
from tests.support.observation import nothing_changes, only_changes
from tests.support.reverts import reverts_with
from tests.support.scripted import (
    FINAL_STAGE,
    Decision,
    Reached,
    ScriptedDriver,
    Stage,
    StageConfig,
    TimeoutInput,
    abort,
    passes,
    retry,
    silent,
)
from tests.support.workflow import DAY, OpenTask, RunState
from tests.unit.workflow.conftest import DeployScripted

INPUT = keccak256(b"the input")
OTHER = keccak256(b"something else")
MOST = 2**256 - 1


# ── Refusals ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class TimeoutScene:
    """Two runs in the stage whose tasks do not expire, one ended and one pending; in both a first task was replaced."""

    flow: ScriptedDriver
    ended: Reached
    pending: Reached
    open_task: bytes  # of `pending`


@pytest.fixture(scope="module")
def timeout_scene(shared_flow: ScriptedDriver, requester: Any, agent: Any) -> TimeoutScene:
    flow = shared_flow
    runs = [flow.reach(Stage.UNPROVABLE, requester, agent) for _ in range(2)]
    flow.script(retry(), abort(), retry())
    flow.reply_to(flow.reply_to(runs[0].task_hash, agent).task_hash, agent)
    open_task = flow.reply_to(runs[1].task_hash, agent).task_hash
    return TimeoutScene(flow, *runs, open_task)


REFUSALS: dict[str, tuple[Callable[[TimeoutScene], bytes], Callable[[TimeoutScene], dict[str, Any]]]] = {
    "UnknownTask": (lambda scene: OTHER, lambda scene: {"taskHash": OTHER}),
    "RunNotPending": (
        lambda scene: scene.ended.task_hash,
        lambda scene: {"workflowRunId": scene.ended.run_id, "status": RunStatus.FAILED},
    ),
    "TaskNotOpen": (
        lambda scene: scene.pending.task_hash,
        lambda scene: {"taskHash": scene.pending.task_hash},
    ),
    "TaskDoesNotExpire": (lambda scene: scene.open_task, lambda scene: {"taskHash": scene.open_task}),
}


@pytest.mark.requirement("EXE-188")
@pytest.mark.parametrize("error", REFUSALS)
def test_reply_timeout__breaks_one_rule_and_all_later_ones__is_refused_for_the_first(
    error: str, timeout_scene: TimeoutScene, errors: Any, stranger: Any
) -> None:
    task, arguments = REFUSALS[error]
    flow = timeout_scene.flow

    with nothing_changes(flow), reverts_with(getattr(errors, error), **arguments(timeout_scene)):
        flow.time_out(task(timeout_scene), stranger, at=flow.now + 1)


@pytest.mark.requirement("EXE-011", "EXE-101", "EXE-188")
@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.SYNC], ids=lambda value: value.name)
def test_reply_timeout__at_every_instant__either_a_reply_or_a_timeout_is_possible(
    stage: Stage, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, stranger: Any
) -> None:
    reached = flow.reach(stage, requester, agent)
    expires_at = flow.task(reached.task_hash).expires_at
    reply = flow.build_reply(reached.task_hash, agent)

    flow.set_time(expires_at)
    assert flow.call_reply(reply) == reply.reply_hash()
    refusal = {"taskHash": reached.task_hash, "deadline": expires_at}
    with reverts_with(errors.TaskNotExpired, **refusal, blockTimestamp=expires_at):
        flow.workflow.replyTimeout.call(reached.task_hash, sender=stranger)

    flow.set_time(expires_at + 1)
    with reverts_with(
        errors.TaskExpired,
        taskHash=reached.task_hash,
        expiresAt=expires_at,
        blockTimestamp=expires_at + 1,
    ):
        flow.call_reply(reply)
    flow.time_out(reached.task_hash, stranger)


@pytest.mark.requirement("EXE-188")
@pytest.mark.parametrize("early", [0, 1, 5 * DAY - 10])
def test_reply_timeout__deadline_not_over__reverts(
    early: int, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, stranger: Any
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent)
    deadline = flow.task(reached.task_hash).expires_at

    with (
        nothing_changes(flow),
        reverts_with(
            errors.TaskNotExpired,
            taskHash=reached.task_hash,
            deadline=deadline,
            blockTimestamp=deadline - early,
        ),
    ):
        flow.time_out(reached.task_hash, stranger, at=deadline - early)


@pytest.mark.requirement("EXE-011", "EXE-190")
def test_reply_timeout__run_without_expiry__never_comes(
    flow: ScriptedDriver, errors: Any, requester: Any, deployer: Any, stranger: Any
) -> None:
    flow.workflow.allowNoExpiry(True, sender=deployer)
    run = flow.start_run(requester, expires_at=0)

    with nothing_changes(flow), reverts_with(errors.TaskDoesNotExpire, taskHash=run.task_hash):
        flow.time_out(run.task_hash, stranger, at=flow.now + 10**9)


@pytest.mark.parametrize("expires_at", [2**40, 2**40 + 5, MOST], ids=hex)
def test_reply_timeout__far_expiry__is_not_cut_short(
    expires_at: int, flow: ScriptedDriver, errors: Any, requester: Any, stranger: Any
) -> None:
    run = flow.start_run(requester, expires_at=expires_at)
    at = flow.now + 10**9

    with (
        nothing_changes(flow),
        reverts_with(errors.TaskNotExpired, taskHash=run.task_hash, deadline=expires_at, blockTimestamp=at),
    ):
        flow.time_out(run.task_hash, stranger, at=at)


@pytest.mark.requirement("EXE-188")
@pytest.mark.parametrize("sender", ["stranger", "agent", "requester", "deployer"])
def test_reply_timeout__anyone__may_call(
    sender: str, flow: ScriptedDriver, requester: Any, request: pytest.FixtureRequest
) -> None:
    run = flow.start_run(requester)
    account = request.getfixturevalue(sender)
    # Who may reply does not matter.
    flow.bar(account)

    flow.time_out(run.task_hash, account)

    assert flow.state(run.id).open_tasks[0].task_seq == 1


# ── The default policy ───────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-007", "EXE-012", "EXE-129", "EXE-154", "EXE-188")
def test_reply_timeout__initial_task__is_dispatched_anew_and_still_looks_like_one(
    flow: ScriptedDriver, requester: Any, stranger: Any, table: list[StageConfig]
) -> None:
    run = flow.start_run(requester, b"the input", expires_at=flow.now + 100)

    receipt = flow.time_out(run.task_hash, stranger)

    expected = AgentTask(
        stage=Stage.OPEN,
        task_seq=1,
        input_hash=INPUT,
        input=b"",  # it stays with the first task of that input
        timestamp=receipt.timestamp,
        expires_at=receipt.timestamp + table[Stage.OPEN].window,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )
    assert flow.event_names(receipt) == ["NewAgentTask"]
    assert flow.dispatched(receipt) == [(run.id, Stage.OPEN, expected.task_hash())]
    assert flow.task(expected.task_hash()) == expected
    assert flow.is_proven(expected.task_hash())
    assert flow.state(run.id) == RunState(
        RunStatus.PENDING,
        Stage.OPEN,
        (OpenTask(expected.task_hash(), 1, 0, expected.expires_at, expected.expires_at),),
    )


@pytest.mark.requirement("EXE-012", "EXE-047", "EXE-123", "EXE-129")
def test_reply_timeout__later_task__keeps_what_it_was_triggered_by(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any, stranger: Any, table: list[StageConfig]
) -> None:
    run = flow.start_run(requester)
    first = flow.reply_to(run.task_hash, agent, b"one")
    second = flow.build_reply(run.task_hash, agent, b"two")
    triggers = (second.reply_hash(), first.reply_hash)
    flow.script(passes(Stage.SYNC, triggers))
    task_hash = flow.submit(second).task_hash

    receipt = flow.time_out(task_hash, stranger)

    ((_, _, retried),) = flow.dispatched(receipt)
    assert flow.task(retried) == replace(
        flow.task(task_hash),
        task_seq=2,
        timestamp=receipt.timestamp,
        expires_at=receipt.timestamp + table[Stage.SYNC].window,
    )
    # It waits for the same proofs.
    assert not flow.is_proven(retried)
    flow.prove([first.reply_hash], prover)
    assert not flow.is_proven(retried)
    flow.prove([second.reply_hash()], prover)
    assert flow.is_proven(retried)
    assert flow.is_proven(task_hash)


@pytest.mark.requirement("EXE-004", "EXE-149", "EXE-150", "EXE-188")
@pytest.mark.parametrize("retries", [0, 1, 3])
def test_reply_timeout__after_the_stages_retries__the_run_fails(
    retries: int, deploy_scripted: DeployScripted, table: list[StageConfig], requester: Any, stranger: Any
) -> None:
    flow = deploy_scripted([replace(table[Stage.OPEN], max_retries=retries)])
    run = flow.start_run(requester)
    for attempt in range(retries):
        (task,) = flow.state(run.id).open_tasks
        flow.time_out(task.task_hash, stranger)
        assert flow.state(run.id).open_tasks[0].task_seq == attempt + 1

    (task,) = flow.state(run.id).open_tasks
    receipt = flow.time_out(task.task_hash, stranger)

    assert flow.event_names(receipt) == ["WorkflowCompleted"]
    assert flow.events(run.id)[-1] == WorkflowCompleted(
        run.id, RunStatus.FAILED, bytes(32), receipt.timestamp
    )
    assert flow.result(run.id) == RunResult(RunStatus.FAILED, bytes(32), 0)
    assert flow.state(run.id) == RunState(RunStatus.FAILED, 0, ())
    assert [question.attempt for question in flow.timeout_inputs] == list(range(retries + 1))


@pytest.mark.requirement("EXE-096", "EXE-188")
def test_reply_timeout__task_that_timed_out__cannot_again(
    flow: ScriptedDriver, errors: Any, requester: Any, stranger: Any
) -> None:
    run = flow.start_run(requester)
    flow.time_out(run.task_hash, stranger)

    with nothing_changes(flow), reverts_with(errors.TaskNotOpen, taskHash=run.task_hash):
        flow.time_out(run.task_hash, stranger, at=flow.now + 1)


def test_reply_timeout__gate_retry_in_between__does_not_give_another_attempt(
    flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    run = flow.start_run(requester)
    flow.time_out(run.task_hash, stranger)
    (task,) = flow.state(run.id).open_tasks
    flow.script(retry())
    retried = flow.reply_to(task.task_hash, agent).task_hash

    flow.time_out(retried, stranger)

    assert [question.attempt for question in flow.timeout_inputs] == [0, 1]
    assert flow.result(run.id).status is RunStatus.FAILED


def test_reply_timeout__stage_entered_again__has_all_its_attempts(
    flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    run = flow.start_run(requester)
    flow.time_out(run.task_hash, stranger)
    (task,) = flow.state(run.id).open_tasks
    flow.script(passes(Stage.OPEN))
    again = flow.reply_to(task.task_hash, agent).task_hash

    flow.time_out(again, stranger)

    assert [question.attempt for question in flow.timeout_inputs] == [0, 0]
    assert flow.result(run.id).status is RunStatus.PENDING


def test_reply_timeout__parallel_lanes__time_out_one_by_one(
    flow: ScriptedDriver, requester: Any, stranger: Any
) -> None:
    flow.plan_begin(Stage.OPEN, INPUT, OTHER, INPUT)
    run = flow.start_run(requester)

    flow.time_out(run.task_hashes[1], stranger)

    tasks = flow.state(run.id).open_tasks
    assert [(task.lane, task.task_seq) for task in tasks] == [(0, 0), (2, 2), (1, 3)]
    assert flow.task(tasks[-1].task_hash).input_hash == OTHER
    flow.time_out(run.task_hashes[0], stranger, at=flow.now + 1)
    assert [(task.lane, task.task_seq) for task in flow.state(run.id).open_tasks] == [(2, 2), (1, 3), (0, 4)]
    # Each lane has its own attempts: the third's first is still to come, the second's is used up.
    flow.time_out(run.task_hashes[2], stranger, at=flow.now + 1)
    assert flow.result(run.id).status is RunStatus.PENDING
    flow.time_out(tasks[-1].task_hash, stranger)
    assert flow.result(run.id).status is RunStatus.FAILED
    assert [(question.lane, question.attempt) for question in flow.timeout_inputs] == [
        (1, 0),
        (0, 0),
        (2, 0),
        (1, 1),
    ]


def test_reply_timeout__one_run__leaves_the_others_alone(
    flow: ScriptedDriver, requester: Any, stranger: Any
) -> None:
    run, other = flow.start_run(requester), flow.start_run(requester)
    flow.set_time(flow.task(other.task_hash).expires_at + 1)

    with only_changes(flow, run.id):
        flow.time_out(run.task_hash, stranger, at=flow.now + 1)


# ── The proof window ─────────────────────────────────────────────────────────


@pytest.fixture
def answered(flow: ScriptedDriver, requester: Any, agent: Any) -> tuple[Reached, bytes, int]:
    """A sync task that has a reply; the reply's hash; the task's expiry."""
    reached = flow.reach(Stage.SYNC, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)
    return reached, answer.reply_hash, flow.task(reached.task_hash).expires_at


@pytest.mark.requirement("EXE-188")
def test_reply_timeout__answered_task__waits_for_its_proof_and_no_longer(
    flow: ScriptedDriver,
    errors: Any,
    answered: tuple[Reached, bytes, int],
    stranger: Any,
    table: list[StageConfig],
) -> None:
    reached, _, expires_at = answered
    deadline = expires_at + table[Stage.SYNC].proof_window
    (task,) = flow.state(reached.run_id).open_tasks
    assert (task.expires_at, task.deadline) == (expires_at, deadline)

    for at in (expires_at + 1, deadline):
        with (
            nothing_changes(flow),
            reverts_with(
                errors.TaskNotExpired, taskHash=reached.task_hash, deadline=deadline, blockTimestamp=at
            ),
        ):
            flow.time_out(reached.task_hash, stranger, at=at)
    flow.time_out(reached.task_hash, stranger, at=deadline + 1)

    assert flow.timeout_inputs == [TimeoutInput(reached.run_id, Stage.SYNC, reached.task_hash, 0, 0, 1, True)]


@pytest.mark.requirement("EXE-101", "EXE-125")
@pytest.mark.parametrize("late", ["at the expiry", "in the proof window", "at its end", "after it"])
def test_on_agent_prove__reply_on_time_proof_after_expiry__moves_the_run(
    late: str,
    flow: ScriptedDriver,
    answered: tuple[Reached, bytes, int],
    prover: Any,
    table: list[StageConfig],
) -> None:
    reached, reply_hash, expires_at = answered
    window = table[Stage.SYNC].proof_window
    at = {
        "at the expiry": expires_at,
        "in the proof window": expires_at + 1,
        "at its end": expires_at + window,
        "after it": expires_at + window + 10**6,  # nobody has timed the task out
    }[late]
    flow.script(passes(FINAL_STAGE))

    flow.prove(reply_hash, prover, at=at)

    assert flow.result(reached.run_id) == RunResult(
        RunStatus.SUCCESS, flow.result(reached.run_id).final_task_hash, at
    )


def test_reply_timeout__other_lane_is_answered__only_that_one_waits(
    flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any, table: list[StageConfig]
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent, tasks=4)
    flow.reply_to([reached.task_hashes[2], reached.task_hashes[1]], agent)
    expires_at = flow.task(reached.task_hashes[0]).expires_at
    deadline = expires_at + table[Stage.SYNC].proof_window
    deadlines = [task.deadline for task in flow.state(reached.run_id).open_tasks]
    assert deadlines == [expires_at, deadline, deadline, expires_at]

    flow.time_out(reached.task_hashes[0], stranger, at=expires_at + 1)

    assert flow.timeout_inputs[0].answered is False
    # The new task has no answer yet.
    assert flow.state(reached.run_id).open_tasks[-1].deadline == flow.now + table[Stage.SYNC].window


def test_reply_timeout__answered_task_is_dispatched_anew__the_new_one_is_unanswered(
    flow: ScriptedDriver,
    answered: tuple[Reached, bytes, int],
    prover: Any,
    stranger: Any,
    table: list[StageConfig],
) -> None:
    reached, reply_hash, _ = answered
    flow.time_out(reached.task_hash, stranger)
    (task,) = flow.state(reached.run_id).open_tasks
    assert task.deadline == task.expires_at == flow.now + table[Stage.SYNC].window

    # The old reply can still be proven, but its task is closed.
    flow.script(passes(FINAL_STAGE))
    flow.prove(reply_hash, prover)

    assert flow.result(reached.run_id).status is RunStatus.PENDING
    assert flow.reply(reply_hash).proven


@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.STRICT_SYNC], ids=["async", "sync without proof window"])
def test_reply_timeout__stage_without_proof_window__an_answer_changes_nothing(
    stage: Stage, flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    reached = flow.reach(stage, requester, agent)
    flow.reply_to(reached.task_hash, agent)
    (task,) = flow.state(reached.run_id).open_tasks
    assert task.deadline == task.expires_at

    flow.time_out(reached.task_hash, stranger, at=task.expires_at + 1)

    assert flow.timeout_inputs[0].answered is False


@pytest.mark.parametrize("expires_at", [2**40 - 1, 2**40, MOST - DAY, MOST], ids=hex)
def test_reply_timeout__far_expiry_and_proof_window__never_wraps_around(
    expires_at: int, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, stranger: Any
) -> None:
    flow.plan_begin(Stage.SYNC, INPUT)
    run = flow.start_run(requester, expires_at=expires_at)
    flow.reply_to(run.task_hash, agent)
    # Beyond the year 36,800 the proof window makes no difference.
    deadline = expires_at + DAY if expires_at < 2**40 else expires_at

    (task,) = flow.state(run.id).open_tasks
    assert (task.expires_at, task.deadline) == (expires_at, deadline)
    at = flow.now + 10**9
    with (
        nothing_changes(flow),
        reverts_with(errors.TaskNotExpired, taskHash=run.task_hash, deadline=deadline, blockTimestamp=at),
    ):
        flow.time_out(run.task_hash, stranger, at=at)


# ── Other policies ───────────────────────────────────────────────────────────


def test_timeout_policy__is_asked_about_the_task(
    flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    flow.plan_begin(Stage.SYNC, INPUT, INPUT, INPUT)
    run = flow.start_run(requester)
    flow.time_out(run.task_hashes[2], stranger)
    (retried,) = (task for task in flow.state(run.id).open_tasks if task.lane == 2)

    flow.time_out(retried.task_hash, stranger)

    assert flow.timeout_inputs == [
        TimeoutInput(run.id, Stage.SYNC, run.task_hashes[2], 2, 0, 1, False),
        TimeoutInput(run.id, Stage.SYNC, retried.task_hash, 2, 1, 1, False),
    ]


def test_timeout_policy__tally_of_its_decisions__is_kept_for_the_gate(
    flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    run = flow.start_run(requester)
    flow.script(silent(tally=3))
    flow.reply_to(run.task_hash, agent)
    flow.script_timeouts(silent(tally=4), retry(tally=5))
    flow.time_out(run.task_hash, stranger)
    flow.time_out(run.task_hash, stranger, at=flow.now + 1)
    (task,) = flow.state(run.id).open_tasks

    flow.reply_to(task.task_hash, agent)

    assert [question.tally for question in flow.gate_inputs] == [0, 12]


@pytest.mark.requirement("EXE-004", "EXE-149", "EXE-150")
@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.NEXT], ids=["one retry", "no retry"])
def test_timeout_policy__retries_for_ever__the_run_fails_after_the_stages_retries(
    stage: Stage, flow: ScriptedDriver, requester: Any, stranger: Any, table: list[StageConfig]
) -> None:
    flow.plan_begin(stage, INPUT)
    run = flow.start_run(requester)
    flow.script_timeouts(*[retry()] * 2)
    for _ in range(table[stage].max_retries):
        (task,) = flow.state(run.id).open_tasks
        flow.time_out(task.task_hash, stranger)
    (task,) = flow.state(run.id).open_tasks

    receipt = flow.time_out(task.task_hash, stranger)

    assert flow.event_names(receipt) == ["WorkflowCompleted"]
    assert flow.result(run.id) == RunResult(RunStatus.FAILED, bytes(32), 0)


@pytest.mark.requirement("EXE-012", "EXE-128", "EXE-188")
@pytest.mark.parametrize("target", [Stage.SYNC, Stage.UNPROVABLE, Stage.OPEN], ids=lambda target: target.name)
def test_timeout_policy__pass_with_triggers__moves_the_run(
    target: Stage, flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any, table: list[StageConfig]
) -> None:
    flow.plan_begin(Stage.OPEN, INPUT, INPUT)
    run = flow.start_run(requester)
    bid = flow.reply_to(run.task_hashes[0], agent, b"the best bid")
    flow.script_timeouts(passes(target, [bid.reply_hash]))

    receipt = flow.time_out(run.task_hashes[1], stranger)

    ((_, stage, task_hash),) = flow.dispatched(receipt)
    assert stage == target
    window = table[target].window
    assert flow.task(task_hash) == AgentTask(
        stage=target,
        task_seq=2,
        input_hash=keccak256(b"the best bid"),
        input=b"",
        timestamp=receipt.timestamp,
        expires_at=receipt.timestamp + window if window else 0,
        prev_reply_hashes=(bid.reply_hash,),
        workflow_run_id=run.id,
    )
    assert [task.task_hash for task in flow.state(run.id).open_tasks] == [task_hash]


@pytest.mark.requirement("EXE-129")
def test_timeout_policy__retry_with_triggers__links_those_instead(
    flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    run = flow.start_run(requester)
    failed = flow.reply_to(run.task_hash, agent)
    flow.script_timeouts(retry([failed.reply_hash]))

    receipt = flow.time_out(run.task_hash, stranger)

    ((_, _, retried),) = flow.dispatched(receipt)
    task = flow.task(retried)
    assert (task.prev_reply_hashes, task.input_hash) == ((failed.reply_hash,), INPUT)


@pytest.mark.requirement("EXE-130", "EXE-188")
def test_timeout_policy__abort__ends_the_run_at_the_first_timeout(
    flow: ScriptedDriver, requester: Any, stranger: Any
) -> None:
    run = flow.start_run(requester)
    flow.script_timeouts(abort())

    receipt = flow.time_out(run.task_hash, stranger)

    assert flow.event_names(receipt) == ["WorkflowCompleted"]
    assert flow.result(run.id).status is RunStatus.FAILED


@pytest.mark.parametrize("consume", [False, True])
def test_timeout_policy__silent__announces_nothing_and_closes_the_task_if_it_says_so(
    consume: bool, flow: ScriptedDriver, requester: Any, stranger: Any
) -> None:
    flow.plan_begin(Stage.OPEN, INPUT, INPUT)
    run = flow.start_run(requester)
    flow.script_timeouts(silent(consume=consume))

    receipt = flow.time_out(run.task_hashes[0], stranger)

    assert flow.event_names(receipt) == []
    assert [task.lane for task in flow.state(run.id).open_tasks] == ([1] if consume else [0, 1])


@pytest.mark.requirement("EXE-135", "EXE-153")
@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.SYNC], ids=["async", "sync"])
@pytest.mark.parametrize(
    ("decision", "error", "arguments"),
    [
        pytest.param(passes(FINAL_STAGE), "TimeoutCannotComplete", None, id="completion"),
        pytest.param(
            passes(FINAL_STAGE, [OTHER]), "TimeoutCannotComplete", None, id="completion with trigger"
        ),
        pytest.param(passes(Stage.NEXT), "InvalidTriggerCount", {"count": 0, "max": 64}, id="no trigger"),
        pytest.param(
            passes(Stage.NEXT, [OTHER] * 65),
            "InvalidTriggerCount",
            {"count": 65, "max": 64},
            id="65 triggers",
        ),
    ],
)
def test_timeout_policy__pass_that_it_may_not_decide__reverts_and_the_task_stays_open(
    decision: Decision,
    error: str,
    arguments: dict[str, Any] | None,
    stage: Stage,
    flow: ScriptedDriver,
    errors: Any,
    requester: Any,
    stranger: Any,
) -> None:
    flow.plan_begin(stage, INPUT)
    run = flow.start_run(requester)
    flow.script_timeouts(decision)
    expected = arguments or {"taskHash": run.task_hash}

    with nothing_changes(flow), reverts_with(getattr(errors, error), **expected):
        flow.time_out(run.task_hash, stranger)


@pytest.mark.parametrize(
    "decide", [lambda triggers: passes(Stage.NEXT, triggers), retry], ids=["pass", "retry"]
)
@pytest.mark.parametrize("what", ["foreign", "twice"])
def test_timeout_policy__bad_triggers__revert(
    what: str,
    decide: Callable[[list[bytes]], Decision],
    flow: ScriptedDriver,
    errors: Any,
    requester: Any,
    agent: Any,
    stranger: Any,
) -> None:
    run = flow.start_run(requester)
    own = flow.reply_to(run.task_hash, agent).reply_hash
    triggers, error, arguments = {
        "foreign": ([own, OTHER], errors.ForeignTrigger, {"replyHash": OTHER, "workflowRunId": run.id}),
        "twice": ([own, own], errors.DuplicateTrigger, {"replyHash": own}),
    }[what]
    flow.script_timeouts(decide(triggers))

    with nothing_changes(flow), reverts_with(error, **arguments):
        flow.time_out(run.task_hash, stranger)


@pytest.mark.requirement("EXE-064")
def test_timeout_policy__pass_to_no_stage__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, stranger: Any
) -> None:
    run = flow.start_run(requester)
    own = flow.reply_to(run.task_hash, agent).reply_hash
    flow.script_timeouts(passes(len(Stage), [own]))

    with nothing_changes(flow), reverts_with(errors.UnknownStage, stage=len(Stage)):
        flow.time_out(run.task_hash, stranger)
