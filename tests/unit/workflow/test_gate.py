"""The gate of a dynamic workflow: what it is asked, and what the base makes of each of its answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import permutations
from typing import Any

import pytest
from ape.exceptions import OutOfGasError

from provenflow.abi import (
    AgentReplyAnchored,
    AgentTask,
    NewAgentTask,
    RunResult,
    RunStatus,
    WorkflowCompleted,
)
from provenflow.hashing import keccak256
from tests.support.fixtures import Drive
from tests.support.observation import nothing_changes
from tests.support.reverts import reverts_with
from tests.support.scripted import (
    FINAL_STAGE,
    MAX_TRIGGERS,
    Decision,
    GateInput,
    ScriptedDriver,
    Stage,
    StageConfig,
    Verdict,
    abort,
    passes,
    retry,
    silent,
)
from tests.support.workflow import OpenTask, RunState, StartedRun, Submission

INPUT = keccak256(b"the input")
OTHER = keccak256(b"another input")

BothModes = pytest.mark.parametrize("stage", [Stage.OPEN, Stage.SYNC], ids=["async", "sync"])


@pytest.fixture
def run(stage: Stage, flow: ScriptedDriver, requester: Any) -> StartedRun:
    """A run that begins at `stage` with one task."""
    flow.plan_begin(stage, INPUT)
    return flow.start_run(requester)


@pytest.fixture
def lanes(stage: Stage, flow: ScriptedDriver, requester: Any) -> StartedRun:
    """A run that begins at `stage` with three tasks."""
    flow.plan_begin(stage, INPUT, INPUT, INPUT)
    return flow.start_run(requester)


Judge = Callable[..., tuple[Submission, Any]]


@pytest.fixture
def judge(stage: Stage, flow: ScriptedDriver, agent: Any, prover: Any) -> Judge:
    """``judge(task_hashes, *decisions, …)``: the gate decides so on a reply to the task. Gives the reply and the receipt of
    the transaction in which the gate was asked: the reply's, or in a sync stage the proof's."""

    def judge(
        task_hashes: bytes | Sequence[bytes],
        *decisions: Decision,
        replier: Any = None,
        output: bytes = b"the output",
    ) -> tuple[Submission, Any]:
        flow.script(*decisions)
        answer = flow.reply_to(task_hashes, replier or agent, output)
        receipt = answer.receipt if stage is Stage.OPEN else flow.prove(answer.reply_hash, prover)
        return answer, receipt

    return judge


def _own_events(flow: ScriptedDriver, stage: Stage, receipt: Any) -> list[str]:
    """Of the transaction in which the gate was asked, what came after the reply was announced."""
    names = flow.event_names(receipt)
    if stage is Stage.OPEN:
        assert names.pop(0) == "AgentReplyAnchored"
    return names


# ── What the gate is asked ───────────────────────────────────────────────────


@pytest.mark.requirement("EXE-066", "EXE-104", "EXE-105", "EXE-106", "EXE-109", "EXE-125")
@BothModes
def test_gate__one_reply__is_asked_once_when_everything_is_stored(
    stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    answer, _ = judge(run.task_hash)

    assert flow.gate_inputs == [
        GateInput(
            workflow_run_id=run.id,
            stage=stage,
            task_hash=run.task_hash,
            lane=0,
            tally=0,
            reply_hash=answer.reply_hash,
            reply=answer.reply,
            anchored_at=answer.receipt.timestamp,
            stored=answer.reply,
            proven=stage is Stage.SYNC,
        )
    ]


@BothModes
def test_gate__reply_to_several_lanes__is_asked_about_the_first_named(
    stage: Stage, flow: ScriptedDriver, lanes: StartedRun, judge: Judge
) -> None:
    judge([lanes.task_hashes[2], lanes.task_hashes[0]])
    judge([lanes.task_hashes[1], lanes.task_hashes[2]])

    assert [(question.task_hash, question.lane) for question in flow.gate_inputs] == [
        (lanes.task_hashes[2], 2),
        (lanes.task_hashes[1], 1),
    ]


@BothModes
def test_gate__tally__adds_up_in_the_stage_and_starts_again_in_the_next(
    stage: Stage, flow: ScriptedDriver, lanes: StartedRun, judge: Judge
) -> None:
    first, second, third = lanes.task_hashes
    judge(first, silent(tally=3))
    judge(second, silent(tally=2**32 - 10, consume=True))
    judge(third, silent())
    judge(third, retry(tally=2))
    (retried,) = (task.task_hash for task in flow.state(lanes.id).open_tasks if task.lane == 2)
    judge(retried, silent(tally=1))
    judge(first, passes(stage))
    (looped,) = flow.state(lanes.id).open_tasks
    judge(looped.task_hash)

    assert [question.tally for question in flow.gate_inputs] == [
        0,
        3,
        2**32 - 7,
        2**32 - 7,
        2**32 - 5,
        2**32 - 4,
        0,
    ]


@BothModes
def test_gate__tally_of_one_run__is_not_that_of_another(
    stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge, requester: Any
) -> None:
    other = flow.start_run(requester)
    judge(run.task_hash, silent(tally=5))
    judge(other.task_hash, silent(tally=7))
    judge(run.task_hash)

    assert [question.tally for question in flow.gate_inputs] == [0, 0, 5]


# ── Silent ───────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-058", "EXE-131")
@BothModes
def test_gate__silent__leaves_the_stage_open_and_the_reply_readable(
    stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    before = flow.state(run.id)

    answer, receipt = judge(run.task_hash, silent(tally=1))

    assert _own_events(flow, stage, receipt) == []
    after = flow.state(run.id)
    assert (after.status, after.stage) == (RunStatus.PENDING, stage)
    assert [task.task_hash for task in after.open_tasks] == [task.task_hash for task in before.open_tasks]
    assert flow.result(run.id) == RunResult(RunStatus.PENDING, bytes(32), 0)
    assert flow.reply(answer.reply_hash).reply == answer.reply
    # Open for more.
    second, _ = judge(run.task_hash)
    assert flow.gate_inputs[-1].reply_hash == second.reply_hash


@pytest.mark.requirement("EXE-096")
@BothModes
@pytest.mark.parametrize("answered", [[0], [1], [2, 0], [0, 1, 2]], ids=str)
def test_gate__silent_and_consume__closes_the_answered_tasks_only(
    answered: list[int], stage: Stage, flow: ScriptedDriver, lanes: StartedRun, judge: Judge
) -> None:
    _, receipt = judge([lanes.task_hashes[lane] for lane in answered], silent(consume=True))

    assert _own_events(flow, stage, receipt) == []
    state = flow.state(lanes.id)
    assert (state.status, state.stage) == (RunStatus.PENDING, stage)
    assert [task.lane for task in state.open_tasks] == [lane for lane in range(3) if lane not in answered]


# ── Pass ─────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-012", "EXE-054", "EXE-065", "EXE-069", "EXE-110", "EXE-128", "EXE-195")
@BothModes
@pytest.mark.parametrize("target", Stage, ids=lambda target: target.name)
def test_gate__pass__dispatches_the_task_of_the_next_stage(
    target: Stage, stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge, table: list[StageConfig]
) -> None:
    answer, receipt = judge(run.task_hash, passes(target))

    window = table[target].window
    expected = AgentTask(
        stage=target,
        task_seq=1,
        input_hash=answer.reply.output_hash,
        input=b"",
        timestamp=receipt.timestamp,
        expires_at=receipt.timestamp + window if window else 0,
        prev_reply_hashes=(answer.reply_hash,),
        workflow_run_id=run.id,
    )
    assert flow.dispatched(receipt) == [(run.id, target, expected.task_hash())]
    assert flow.task(expected.task_hash()) == expected
    assert flow.is_proven(expected.task_hash()) == (stage is Stage.SYNC)
    assert _own_events(flow, stage, receipt) == ["NewAgentTask"]
    assert flow.state(run.id) == RunState(
        RunStatus.PENDING,
        target,
        (OpenTask(expected.task_hash(), 1, 0, expected.expires_at, expected.expires_at),),
    )


@pytest.mark.requirement("EXE-007", "EXE-071", "EXE-072", "EXE-096")
@BothModes
def test_gate__pass_to_parallel_tasks__closes_every_old_one_and_numbers_the_new_ones(
    stage: Stage, flow: ScriptedDriver, lanes: StartedRun, judge: Judge
) -> None:
    answer, receipt = judge(lanes.task_hashes[1], passes(Stage.NEXT, tasks=3))

    state = flow.state(lanes.id)
    assert [task.task_hash for task in state.open_tasks] == [task for _, _, task in flow.dispatched(receipt)]
    assert [(task.task_seq, task.lane) for task in state.open_tasks] == [(3, 0), (4, 1), (5, 2)]
    for task in state.open_tasks:
        stored = flow.task(task.task_hash)
        assert (stored.input_hash, stored.prev_reply_hashes) == (
            answer.reply.output_hash,
            (answer.reply_hash,),
        )


# ── The input of the next task ───────────────────────────────────────────────


@BothModes
@pytest.mark.parametrize(
    "hashes",
    [
        pytest.param([OTHER], id="another"),
        pytest.param([bytes(32)], id="zero"),
        pytest.param(
            [OTHER, keccak256(b"the output"), OTHER, bytes(32)], id="several, one of them the output's"
        ),
    ],
)
def test_gate__pass_with_input_hashes__dispatches_one_task_for_each(
    hashes: list[bytes], stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    # `tasks` counts only where no hashes are named.
    _, receipt = judge(run.task_hash, passes(Stage.NEXT, input_hashes=hashes, tasks=7))

    tasks = [flow.task(task_hash) for _, _, task_hash in flow.dispatched(receipt)]
    assert [task.input_hash for task in tasks] == hashes
    assert [task.input for task in tasks] == [b""] * len(hashes)
    assert [task.task_seq for task in tasks] == list(range(1, len(hashes) + 1))


@pytest.mark.requirement("EXE-012", "EXE-117")
@BothModes
@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_gate__pass_with_several_triggers__joins_their_outputs_in_order(
    order: Sequence[int], stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    answers = [judge(run.task_hash, silent(), output=f"output {number}".encode())[0] for number in range(3)]
    triggers = [answers[number].reply_hash for number in order]

    _, receipt = judge(run.task_hash, passes(Stage.NEXT, triggers))

    ((_, _, task_hash),) = flow.dispatched(receipt)
    task = flow.task(task_hash)
    assert task.prev_reply_hashes == tuple(triggers)
    assert task.input_hash == keccak256(b"".join(keccak256(f"output {number}".encode()) for number in order))


@BothModes
def test_gate__pass_triggered_by_another_reply__takes_its_output(
    stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    winner, _ = judge(run.task_hash, silent(), output=b"the winner's")
    _, receipt = judge(run.task_hash, passes(Stage.NEXT, [winner.reply_hash]), output=b"the last one's")

    ((_, _, task_hash),) = flow.dispatched(receipt)
    task = flow.task(task_hash)
    assert (task.prev_reply_hashes, task.input_hash) == ((winner.reply_hash,), keccak256(b"the winner's"))


@BothModes
def test_gate__child_derives_inputs_otherwise__its_hash_is_taken(
    stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge, deployer: Any
) -> None:
    flow.workflow.deriveInput(OTHER, sender=deployer)

    _, receipt = judge(run.task_hash, passes(Stage.NEXT, tasks=2))

    assert [flow.task(task_hash).input_hash for _, _, task_hash in flow.dispatched(receipt)] == [OTHER] * 2


# ── Retry ────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-007", "EXE-012", "EXE-096", "EXE-129")
@BothModes
def test_gate__retry__replaces_the_task_by_one_over_the_same_input(
    stage: Stage,
    flow: ScriptedDriver,
    errors: Any,
    requester: Any,
    agent: Any,
    judge: Judge,
    table: list[StageConfig],
) -> None:
    flow.plan_begin(stage, INPUT)
    run = flow.start_run(requester, b"the input", expires_at=flow.now + 10**9)

    answer, receipt = judge(run.task_hash, retry())

    expected = AgentTask(
        stage=stage,
        task_seq=1,
        input_hash=INPUT,
        input=b"",  # it stays with the first task of that input
        timestamp=receipt.timestamp,
        expires_at=receipt.timestamp + table[stage].window,
        prev_reply_hashes=(answer.reply_hash,),
        workflow_run_id=run.id,
    )
    assert flow.dispatched(receipt) == [(run.id, stage, expected.task_hash())]
    assert flow.task(expected.task_hash()) == expected
    assert _own_events(flow, stage, receipt) == ["NewAgentTask"]
    assert [task.task_hash for task in flow.state(run.id).open_tasks] == [expected.task_hash()]
    with reverts_with(errors.TaskNotOpen, taskHash=run.task_hash):
        flow.call_reply(flow.build_reply(run.task_hash, agent))


@pytest.mark.requirement("EXE-129")
@BothModes
@pytest.mark.parametrize("kind", ["derived", "named", "joined"])
def test_gate__retry_of_a_later_task__keeps_its_input_whatever_it_came_from(
    kind: str, stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    first, second = (
        judge(run.task_hash, silent(), output=output)[0].reply_hash for output in (b"one", b"two")
    )
    first_pass = {
        "derived": passes(stage, [first]),
        "named": passes(stage, input_hashes=[OTHER]),
        "joined": passes(stage, [first, second]),
    }
    _, receipt = judge(run.task_hash, first_pass[kind], output=b"three")
    ((_, _, task_hash),) = flow.dispatched(receipt)
    input_hash = {
        "derived": keccak256(b"one"),
        "named": OTHER,
        "joined": keccak256(keccak256(b"one") + keccak256(b"two")),
    }[kind]
    assert flow.task(task_hash).input_hash == input_hash

    failed, receipt = judge(task_hash, retry(), output=b"four")

    ((_, _, retried),) = flow.dispatched(receipt)
    task = flow.task(retried)
    assert (task.input_hash, task.prev_reply_hashes) == (input_hash, (failed.reply_hash,))


@BothModes
def test_gate__retry_whose_trigger_has_the_tasks_input_as_output__reads_back_exactly(
    stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    # The stored task needs no copy of its input hash then.
    answer, receipt = judge(run.task_hash, retry(), output=b"the input")

    ((_, _, retried),) = flow.dispatched(receipt)
    task = flow.task(retried)
    assert (task.input_hash, task.prev_reply_hashes) == (INPUT, (answer.reply_hash,))


@BothModes
def test_gate__retry_with_named_triggers__links_exactly_those(
    stage: Stage, flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    first, _ = judge(run.task_hash, silent())
    second, _ = judge(run.task_hash, silent())

    _, receipt = judge(run.task_hash, retry([second.reply_hash, first.reply_hash]))

    ((_, _, retried),) = flow.dispatched(receipt)
    assert flow.task(retried).prev_reply_hashes == (second.reply_hash, first.reply_hash)


@pytest.mark.requirement("EXE-129")
@BothModes
@pytest.mark.parametrize("lane", range(3))
def test_gate__retry_of_one_lane__keeps_its_lane_and_leaves_the_others(
    lane: int, stage: Stage, flow: ScriptedDriver, lanes: StartedRun, judge: Judge
) -> None:
    _, receipt = judge(lanes.task_hashes[lane], retry())

    ((_, _, retried),) = flow.dispatched(receipt)
    others = [(lanes.task_hashes[other], other) for other in range(3) if other != lane]
    open_tasks = flow.state(lanes.id).open_tasks
    assert [(task.task_hash, task.lane) for task in open_tasks] == [*others, (retried, lane)]


@pytest.mark.requirement("EXE-129")
@BothModes
@pytest.mark.parametrize("answered", [[0, 1], [2, 1], [1, 0, 2]], ids=str)
def test_gate__retry_of_a_reply_to_several_lanes__leaves_every_lane_with_an_open_task(
    answered: list[int], stage: Stage, flow: ScriptedDriver, lanes: StartedRun, judge: Judge
) -> None:
    judge([lanes.task_hashes[lane] for lane in answered], retry())

    # A lane without an open task could never be answered again, nor time out.
    assert sorted(task.lane for task in flow.state(lanes.id).open_tasks) == [0, 1, 2]


# ── Abort ────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-004", "EXE-043", "EXE-044", "EXE-060", "EXE-130", "EXE-149", "EXE-150")
@BothModes
def test_gate__abort__ends_the_run_as_failed(
    stage: Stage, flow: ScriptedDriver, lanes: StartedRun, judge: Judge
) -> None:
    answer, receipt = judge(lanes.task_hashes[1], abort())

    assert _own_events(flow, stage, receipt) == ["WorkflowCompleted"]
    assert flow.events(lanes.id)[-1] == WorkflowCompleted(
        lanes.id, RunStatus.FAILED, bytes(32), receipt.timestamp
    )
    assert flow.result(lanes.id) == RunResult(RunStatus.FAILED, bytes(32), 0)
    assert flow.state(lanes.id) == RunState(RunStatus.FAILED, stage, ())
    assert flow.reply(answer.reply_hash).proven == (stage is Stage.SYNC)


# ── Completion ───────────────────────────────────────────────────────────────


@pytest.mark.requirement(
    "EXE-003", "EXE-136", "EXE-137", "EXE-138", "EXE-139", "EXE-140", "EXE-141", "EXE-142"
)
@pytest.mark.parametrize("stage", [Stage.SYNC], ids=lambda value: value.name)
@pytest.mark.parametrize("order", [[0], [1, 0], [2, 0, 1]], ids=str)
def test_gate__pass_to_the_end__stores_the_final_task(
    order: list[int], flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    answers = [judge(run.task_hash, silent())[0] for _ in range(3)]
    triggers = tuple(answers[number].reply_hash for number in order)

    # Nothing else of the decision counts.
    _, receipt = judge(
        run.task_hash, Decision(passes(0).verdict, FINAL_STAGE, triggers, (OTHER, OTHER), 9, 9, True)
    )

    final = AgentTask(
        stage=FINAL_STAGE,
        task_seq=1,
        input_hash=bytes(32),
        input=b"",
        timestamp=receipt.timestamp,
        expires_at=0,
        prev_reply_hashes=triggers,
        workflow_run_id=run.id,
    )
    assert flow.task(final.task_hash()) == final
    assert flow.is_proven(final.task_hash())
    assert flow.result(run.id) == RunResult(RunStatus.SUCCESS, final.task_hash(), receipt.timestamp)


@pytest.mark.requirement("EXE-056", "EXE-060", "EXE-143", "EXE-144", "EXE-145", "EXE-162")
@pytest.mark.parametrize("stage", [Stage.SYNC], ids=lambda value: value.name)
def test_gate__pass_to_the_end__announces_completion_and_no_task(
    flow: ScriptedDriver, run: StartedRun, judge: Judge
) -> None:
    assert flow.result(run.id).final_task_hash == bytes(32)

    answer, receipt = judge(run.task_hash, passes(FINAL_STAGE))
    result = flow.result(run.id)

    assert result.final_task_hash != bytes(32)
    assert flow.events(run.id) == [
        NewAgentTask(run.id, Stage.SYNC, run.task_hash),
        AgentReplyAnchored(run.id, answer.reply_hash, answer.reply.replier),
        WorkflowCompleted(run.id, RunStatus.SUCCESS, result.final_task_hash, receipt.timestamp),
    ]
    assert flow.state(run.id) == RunState(RunStatus.SUCCESS, Stage.SYNC, ())
    # It stays so.
    flow.advance_time(10**6)
    assert flow.result(run.id) == result
    assert result.completed_at == receipt.timestamp


@pytest.mark.requirement("EXE-007", "EXE-138")
@pytest.mark.parametrize("stage", [Stage.SYNC], ids=lambda value: value.name)
def test_gate__final_task__takes_the_next_number_after_retries_and_parallel_tasks(
    flow: ScriptedDriver, lanes: StartedRun, judge: Judge
) -> None:
    _, receipt = judge(lanes.task_hashes[0], retry())
    ((_, _, retried),) = flow.dispatched(receipt)

    judge(retried, passes(FINAL_STAGE))

    assert flow.task(flow.result(lanes.id).final_task_hash).task_seq == 4


@pytest.mark.requirement("EXE-135")
@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.NEXT, Stage.UNPROVABLE], ids=lambda stage: stage.name)
def test_gate__async_stage_passes_to_the_end__reverts(
    stage: Stage, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(stage, requester, agent)
    flow.prove(reached.first_reply, prover)
    reply = flow.build_reply(reached.task_hash, agent)
    # Over a reply that is proven, so that the stage is all that is wrong.
    flow.script(passes(FINAL_STAGE, [reached.first_reply]))

    with nothing_changes(flow), reverts_with(errors.FinalGateNotSync, stage=stage):
        flow.submit(reply)


@pytest.mark.requirement("EXE-003", "EXE-135", "EXE-140")
@BothModes
def test_gate__pass_to_the_end_over_an_unproven_reply__reverts(
    stage: Stage, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    flow.plan_begin(stage, INPUT)
    run = flow.start_run(requester)
    unproven = flow.reply_to(run.task_hash, other_agent)
    reply = flow.build_reply(run.task_hash, agent)
    if stage is Stage.OPEN:
        # The judged reply itself is not proven here.
        flow.script(passes(FINAL_STAGE))
        with nothing_changes(flow), reverts_with(errors.UnprovenTrigger, replyHash=reply.reply_hash()):
            flow.submit(reply)
        return
    answer = flow.submit(reply)
    flow.script(passes(FINAL_STAGE, [answer.reply_hash, unproven.reply_hash]))

    with nothing_changes(flow), reverts_with(errors.UnprovenTrigger, replyHash=unproven.reply_hash):
        flow.prove(answer.reply_hash, prover)
    # Proven together, both may complete it. The gate is asked about each, in order.
    flow.prove([unproven.reply_hash, answer.reply_hash], prover)
    assert flow.result(run.id).status is RunStatus.SUCCESS


@pytest.mark.requirement("EXE-011", "EXE-129")
@pytest.mark.parametrize("expires_at", [0, 2**40 - 1, 2**40, 2**256 - 1], ids=hex)
def test_gate__retry_in_a_stage_without_window__keeps_the_expiry(
    expires_at: int, flow: ScriptedDriver, requester: Any, agent: Any, deployer: Any
) -> None:
    flow.workflow.allowNoExpiry(True, sender=deployer)
    flow.plan_begin(Stage.UNPROVABLE, INPUT)
    run = flow.start_run(requester, expires_at=expires_at)
    flow.script(retry(), retry())

    for _ in range(2):
        (task,) = flow.state(run.id).open_tasks
        retried = flow.reply_to(task.task_hash, agent).task_hash
        assert flow.task(retried).expires_at == expires_at


# ── Decisions that are refused ───────────────────────────────────────────────


@pytest.fixture
def refused(
    stage: Stage, flow: ScriptedDriver, run: StartedRun, agent: Any, prover: Any, errors: Any
) -> Callable[..., None]:
    """``refused(decision, error, …)``: the decision undoes the reply or the proof it is about; the next one stands."""

    def refused(decision: Decision, error: str, **arguments: Any) -> None:
        if stage is Stage.OPEN:
            reply = flow.build_reply(run.task_hash, agent)
            flow.script(decision)
            with nothing_changes(flow), reverts_with(getattr(errors, error), **arguments):
                flow.submit(reply)
            return
        answer = flow.reply_to(run.task_hash, agent)
        flow.script(decision)
        with nothing_changes(flow), reverts_with(getattr(errors, error), **arguments):
            flow.prove(answer.reply_hash, prover)

    return refused


@BothModes
@pytest.mark.parametrize(
    "decide", [lambda triggers: passes(Stage.NEXT, triggers), retry], ids=["pass", "retry"]
)
def test_gate__more_than_64_triggers__reverts(
    decide: Callable[[list[bytes]], Decision], run: StartedRun, refused: Callable[..., None]
) -> None:
    refused(decide([OTHER] * 65), "InvalidTriggerCount", count=65, max=64)


@pytest.mark.requirement("EXE-012", "EXE-153")
@BothModes
@pytest.mark.parametrize(
    "decide", [lambda triggers: passes(Stage.NEXT, triggers), retry], ids=["pass", "retry"]
)
@pytest.mark.parametrize("what", ["nothing", "zero", "a task", "a reply of another run"])
def test_gate__trigger_that_is_no_reply_of_the_run__reverts(
    what: str,
    decide: Callable[[list[bytes]], Decision],
    flow: ScriptedDriver,
    run: StartedRun,
    requester: Any,
    agent: Any,
    judge: Judge,
    refused: Callable[..., None],
) -> None:
    own, _ = judge(run.task_hash, silent())
    foreign = flow.reply_to(flow.start_run(requester).task_hash, agent).reply_hash
    trigger = {
        "nothing": OTHER,
        "zero": bytes(32),
        "a task": run.task_hash,
        "a reply of another run": foreign,
    }[what]

    refused(decide([own.reply_hash, trigger]), "ForeignTrigger", replyHash=trigger, workflowRunId=run.id)


@pytest.mark.requirement("EXE-140")
@pytest.mark.parametrize("stage", [Stage.SYNC], ids=lambda value: value.name)
def test_gate__foreign_trigger_at_the_end__reverts(run: StartedRun, refused: Callable[..., None]) -> None:
    refused(passes(FINAL_STAGE, [OTHER]), "ForeignTrigger", replyHash=OTHER, workflowRunId=run.id)


@BothModes
@pytest.mark.parametrize(
    "decide", [lambda triggers: passes(Stage.NEXT, triggers), retry], ids=["pass", "retry"]
)
def test_gate__trigger_named_twice__reverts(
    decide: Callable[[list[bytes]], Decision], run: StartedRun, judge: Judge, refused: Callable[..., None]
) -> None:
    first, second = (judge(run.task_hash, silent())[0].reply_hash for _ in range(2))

    refused(decide([first, second, first]), "DuplicateTrigger", replyHash=first)


@pytest.mark.requirement("EXE-064")
@BothModes
@pytest.mark.parametrize("target", [len(Stage), FINAL_STAGE - 1])
def test_gate__pass_to_no_stage__reverts(target: int, run: StartedRun, refused: Callable[..., None]) -> None:
    refused(passes(target), "UnknownStage", stage=target)


@BothModes
@pytest.mark.parametrize("how", ["count", "hashes"])
def test_gate__more_than_64_tasks__reverts(how: str, run: StartedRun, refused: Callable[..., None]) -> None:
    decision = (
        passes(Stage.NEXT, tasks=65) if how == "count" else passes(Stage.NEXT, input_hashes=[OTHER] * 65)
    )

    refused(decision, "TooManyTasks", count=65, max=64)


@pytest.mark.parametrize("stage", [Stage.OPEN], ids=lambda value: value.name)
def test_gate__64_triggers_and_64_tasks__are_the_most(
    flow: ScriptedDriver, run: StartedRun, contract_agent: Any, judge: Judge
) -> None:
    moment = flow.advance_time(1)
    replies = [flow.build_reply(run.task_hash, contract_agent, timestamp=moment) for _ in range(MAX_TRIGGERS)]
    for first in range(0, MAX_TRIGGERS, 16):
        assert all(success for success, _ in flow.reply_through(contract_agent, *replies[first : first + 16]))
    triggers = tuple(reply.reply_hash() for reply in replies)
    _, receipt = judge(run.task_hash, passes(Stage.NEXT, triggers))
    ((_, _, task_hash),) = flow.dispatched(receipt)

    answer, receipt = judge(task_hash, passes(Stage.SYNC, tasks=64))

    assert flow.task(task_hash).prev_reply_hashes == triggers
    assert [task.lane for task in flow.state(run.id).open_tasks] == list(range(64))
    assert {flow.task(task).prev_reply_hashes for _, _, task in flow.dispatched(receipt)[::21]} == {
        (answer.reply_hash,)
    }


@pytest.mark.requirement("EXE-123")
@pytest.mark.parametrize("stage", [Stage.OPEN], ids=lambda value: value.name)
def test_gate__more_than_256_tasks_wait_for_one_reply__reverts_until_it_is_proven(
    flow: ScriptedDriver, errors: Any, run: StartedRun, agent: Any, judge: Judge, prover: Any
) -> None:
    first, receipt = judge(run.task_hash, passes(Stage.OPEN, tasks=64))
    waiting = [task_hash for _, _, task_hash in flow.dispatched(receipt)]
    for _ in range(3):
        _, receipt = judge(waiting[-1], passes(Stage.OPEN, [first.reply_hash], tasks=64))
        waiting += [task_hash for _, _, task_hash in flow.dispatched(receipt)]
    reply = flow.build_reply(waiting[-1], agent)
    flow.script(passes(Stage.OPEN, [first.reply_hash]))

    with nothing_changes(flow), reverts_with(errors.TooManyWaitingTasks, replyHash=first.reply_hash, max=256):
        flow.submit(reply)

    flow.prove(first.reply_hash, prover)
    assert [flow.is_proven(task_hash) for task_hash in waiting[::15]] == [True] * 18
    flow.submit(reply)


# ── Gates that fail ──────────────────────────────────────────────────────────

GateFault = {"none": 0, "revert": 1, "burn gas": 2}


@pytest.mark.requirement("EXE-104", "EXE-191")
@pytest.mark.parametrize("stage", [Stage.OPEN], ids=lambda value: value.name)
def test_gate__reverts_on_a_reply__the_reply_is_undone_and_can_come_again(
    flow: ScriptedDriver, run: StartedRun, agent: Any, deployer: Any
) -> None:
    reply = flow.build_reply(run.task_hash, agent)
    flow.workflow.failGate(GateFault["revert"], sender=deployer)

    with nothing_changes(flow), reverts_with(flow.workflow.GateFailed, replyHash=reply.reply_hash()):
        flow.submit(reply)

    flow.workflow.failGate(GateFault["none"], sender=deployer)
    assert flow.submit(reply).reply_hash == reply.reply_hash()


@pytest.mark.requirement("EXE-192", "EXE-196", "EXE-198")
@pytest.mark.parametrize("stage", [Stage.SYNC], ids=lambda value: value.name)
def test_gate__reverts_on_a_proof__the_proof_is_undone_and_can_come_again(
    flow: ScriptedDriver, run: StartedRun, agent: Any, prover: Any, deployer: Any
) -> None:
    answer = flow.reply_to(run.task_hash, agent)
    flow.workflow.failGate(GateFault["revert"], sender=deployer)

    with nothing_changes(flow), reverts_with(flow.workflow.GateFailed, replyHash=answer.reply_hash):
        flow.prove(answer.reply_hash, prover)

    flow.workflow.failGate(GateFault["none"], sender=deployer)
    flow.prove(answer.reply_hash, prover)
    assert flow.reply(answer.reply_hash).proven


@pytest.mark.requirement("EXE-196", "EXE-198")
@pytest.mark.parametrize("stage", [Stage.SYNC], ids=lambda value: value.name)
def test_gate__burns_all_gas__the_proof_is_undone_and_can_come_again(
    flow: ScriptedDriver, run: StartedRun, agent: Any, prover: Any, deployer: Any
) -> None:
    answer = flow.reply_to(run.task_hash, agent)
    flow.workflow.failGate(GateFault["burn gas"], sender=deployer)

    with nothing_changes(flow), pytest.raises(OutOfGasError):
        flow.prove_within(500_000, answer.reply_hash, prover, flow.proof_for(answer.reply_hash))

    flow.workflow.failGate(GateFault["none"], sender=deployer)
    flow.prove(answer.reply_hash, prover)
    assert flow.reply(answer.reply_hash).proven


@pytest.mark.requirement("EXE-058", "EXE-105", "EXE-128", "EXE-153")
@pytest.mark.parametrize("sync", [False, True], ids=["async", "sync"])
@pytest.mark.parametrize(
    "verdict", [Verdict.SILENT, Verdict.PASS, Verdict.RETRY], ids=lambda verdict: verdict.name
)
def test_gate__writes_over_what_it_was_given__changes_nothing(
    verdict: Verdict,
    sync: bool,
    drive: Drive,
    project: Any,
    deployer: Any,
    agent_verifier: Any,
    requester: Any,
    agent: Any,
) -> None:
    flow = drive(deployer.deploy(project.TamperingWorkflow, agent_verifier, sync))
    run = flow.start_run(requester)
    first, second, third = run.task_hashes
    flow.workflow.decide(verdict, sender=deployer)

    answer = flow.reply_to([third, second], agent)
    receipt = flow.prove(answer.reply_hash, agent) if sync else answer.receipt

    assert flow.reply(answer.reply_hash).reply == answer.reply
    open_tasks = [(task.task_hash, task.lane) for task in flow.state(run.id).open_tasks]
    if verdict is Verdict.SILENT:
        assert open_tasks == [(first, 0)]
        return
    ((run_id, _, task_hash),) = flow.dispatched(receipt)
    task = flow.task(task_hash)
    assert (run_id, task.prev_reply_hashes) == (run.id, (answer.reply_hash,))
    if verdict is Verdict.PASS:
        assert task.input_hash == answer.reply.output_hash
        assert open_tasks == [(task_hash, 0)]
    else:
        assert task.input_hash == INPUT
        assert open_tasks == [(first, 0), (second, 1), (task_hash, 2)]
