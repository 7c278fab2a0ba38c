"""The transition table: every position of every example × everything that anyone may try there.

An allowed cell moves exactly one run and emits exactly the events that the table names; any other cell reverts with the
exact error, or is without effect, and nothing that can be observed of any run changes.

A cell says what comes of the attempt:

    anchored            the reply is stored and announced, and nothing else happens
    > Infer             a task of stage Infer is dispatched; the run is in that stage
    anchored > StepB    both
    Success, Failed     the run ends
    recorded            a proof is stored; the run does not move
    nothing             it succeeds, without effect and without event
    SomeError           it is refused with that error
    -                   the position has nothing to try it on
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from ape import fixture

from provenflow.abi import AgentReplyAnchored, NewAgentTask, RunStatus, WorkflowCompleted, WorkflowEvent
from tests.support.blocks import mine_together
from tests.support.observation import observe
from tests.support.positions import (
    Cast,
    Position,
    Step,
    answer,
    bid,
    by,
    commit,
    prove,
    reveal,
    stand,
    time_out,
)
from tests.support.scenario import unproven
from tests.support.transitions import ACTIONS, Absent, Attempt, Waits, expected_arguments
from tests.support.workflow import RunState, WorkflowDriver

STAGES = {
    "SingleStageWorkflow": ("Execute",),
    "InputProvenanceWorkflow": ("Sanitize", "Infer"),
    "CompetitiveSelectionWorkflow": ("Bid", "Execute"),
    "SequentialPipelineWorkflow": ("StepA", "StepB", "StepC"),
    "CommitRevealWorkflow": ("Commit", "Reveal", "Finalize"),
    "ParallelAuditWorkflow": ("Audit", "Qualify", "Settle"),
}

# Columns that do not depend on the stage.
PENDING = {
    "reply in the name of another": "ReplierMismatch",
    "reply to a closed task": "TaskNotOpen",
    "reply to an open and a closed task": "TaskNotOpen",
    "reply to a task of another run": "ForeignTask",
    "reply to an unknown task": "UnknownTask",
    "reply after expiry": "TaskExpired",
    "retry": "nothing",
    "retry with other content": "OperationConflict",
    "wrong proof": "ProofRejected",
    "late proof": "recorded",
    "second proof": "nothing",
    "proof of an unknown reply": "UnknownReply",
    "proof of nothing": "EmptyReplyHashes",
    "timeout at the deadline": "TaskNotExpired",
    "timeout while a proof is awaited": "TaskNotExpired",
    "timeout of a closed task": "TaskNotOpen",
    "timeout of an unknown task": "UnknownTask",
}
ENDED = {
    "reply": "RunNotPending",
    "reply of an outsider": "RunNotPending",
    "reply in the name of another": "ReplierMismatch",
    "reply to a closed task": "RunNotPending",
    "reply to an open and a closed task": "RunNotPending",
    "reply to a task of another run": "ForeignTask",
    "reply to an unknown task": "UnknownTask",
    "reply after expiry": "RunNotPending",
    "retry": "nothing",
    "retry with other content": "OperationConflict",
    "proof": "RunNotPending",
    "wrong proof": "RunNotPending",
    "late proof": "RunNotPending",
    "second proof": "RunNotPending",
    "proof of an unknown reply": "UnknownReply",
    "proof of nothing": "EmptyReplyHashes",
    "timeout": "RunNotPending",
    "timeout at the deadline": "RunNotPending",
    "timeout while a proof is awaited": "RunNotPending",
    "timeout of a closed task": "RunNotPending",
    "timeout of an unknown task": "UnknownTask",
}

SYNC, NONSENSE, TWO_IN_ONE, NEVER = (
    Waits.FOR_ITS_PROOF,
    Waits.AS_NONSENSE,
    Waits.AS_TWO_IN_ONE,
    Waits.NEVER,
)


@dataclass(frozen=True)
class Row:
    """One position: how it is reached, and the cells that depend on the stage."""

    workflow: str
    name: str
    steps: tuple[Step, ...]
    waits: Waits = SYNC
    reply: str = ""
    outsider: str = ""
    proof: str = ""
    timeout: str = ""
    absent: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        return f"{self.workflow.removesuffix('Workflow')}: {self.name}"

    def cells(self) -> dict[str, str]:
        """Outcome by action."""
        if not self.reply:
            cells = dict(ENDED)
        else:
            own = {
                "reply": self.reply,
                "reply of an outsider": self.outsider,
                "proof": self.proof,
                "timeout": self.timeout,
            }
            cells = {**PENDING, **own}
        return cells | dict.fromkeys(self.absent, "-")


# Cells that a position lacks.
NO_CLOSED_TASK = (
    "reply to a closed task",
    "reply to an open and a closed task",
    "timeout of a closed task",
)
NO_LATE_PROOF = ("late proof",)
NO_SECOND_PROOF = ("second proof",)
NO_REPLY_YET = ("retry", "retry with other content")
NOTHING_WAITS = ("proof", "wrong proof")
ASYNC = ("timeout while a proof is awaited",)
AT_THE_START = (*NO_CLOSED_TASK, *NO_LATE_PROOF)


def prove_first(position: Position) -> None:
    """The oldest reply is proven."""
    position.prove(position.answers[0].reply_hash)


def _rows() -> Iterator[Row]:
    workflow = "SingleStageWorkflow"
    retried = (answer, time_out)
    yield Row(
        workflow, "Execute", (), SYNC, "anchored", "anchored", "Success", "> Execute",
        (*AT_THE_START, *NO_SECOND_PROOF),
    )  # fmt: skip
    yield Row(workflow, "Execute, retried", retried, SYNC, "anchored", "anchored", "Success", "Failed")
    yield Row(workflow, "Success", (answer, answer, prove))
    yield Row(workflow, "Failed", (*retried, prove, answer, time_out))

    workflow = "InputProvenanceWorkflow"
    infer = (answer, prove)
    yield Row(
        workflow, "Sanitize", (), SYNC, "anchored", "anchored", "> Infer", "> Sanitize",
        (*AT_THE_START, *NO_SECOND_PROOF),
    )  # fmt: skip
    yield Row(workflow, "Sanitize, retried", retried, SYNC, "anchored", "anchored", "> Infer", "Failed")
    yield Row(workflow, "Infer", infer, SYNC, "anchored", "anchored", "Success", "> Infer", NO_LATE_PROOF)
    yield Row(
        workflow, "Infer, retried", (*infer, *retried), SYNC, "anchored", "anchored", "Success", "Failed"
    )
    yield Row(workflow, "Success", (*infer, answer, answer, prove))
    yield Row(workflow, "Failed", (*infer, *retried, answer, time_out))

    workflow = "CompetitiveSelectionWorkflow"
    first, second, third = bid("agent", 100), bid("other_agent", 80), bid("third_agent", 120)
    bids = (first, answer, second, answer, third, answer)
    yield Row(
        workflow, "Bid", (first,), NONSENSE, "anchored", "anchored", "recorded", "> Bid",
        (*AT_THE_START, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "Bid, retried", (first, time_out), NONSENSE, "anchored", "anchored", "recorded", "Failed",
        (*NO_LATE_PROOF, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "Bid, one placed", (first, answer, second), NONSENSE,
        "anchored", "anchored", "recorded", "> Execute", (*AT_THE_START, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "Bid, two placed", bids[:5], NONSENSE,
        "anchored > Execute", "anchored > Execute", "recorded", "> Execute", (*AT_THE_START, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "Execute", (*bids, by("other_agent")), SYNC,
        "anchored", "ReplierNotAllowed", "Success", "> Execute",
    )  # fmt: skip
    yield Row(
        workflow, "Execute, second best", (*bids, by("other_agent"), *retried, by("agent")), SYNC,
        "anchored", "ReplierNotAllowed", "Success", "> Execute",
    )  # fmt: skip
    yield Row(
        workflow, "Execute, last", (*bids, time_out, time_out, by("third_agent")), SYNC,
        "anchored", "ReplierNotAllowed", "Success", "Failed",
    )  # fmt: skip
    yield Row(workflow, "Success", (*bids, by("other_agent"), answer, prove))
    yield Row(workflow, "Failed", (first, answer, time_out, by("agent"), answer, prove_first, time_out))

    workflow = "SequentialPipelineWorkflow"
    yield Row(
        workflow, "StepA", (), NEVER, "anchored > StepB", "anchored > StepB", "-", "> StepA",
        (*AT_THE_START, *NO_SECOND_PROOF, *NO_REPLY_YET, *NOTHING_WAITS, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "StepA, retried", (time_out,), NEVER, "anchored > StepB", "anchored > StepB", "-", "Failed",
        (*NO_LATE_PROOF, *NO_SECOND_PROOF, *NO_REPLY_YET, *NOTHING_WAITS, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "StepB", (answer,), NEVER, "anchored > StepC", "anchored > StepC", "-", "> StepB",
        (*NOTHING_WAITS, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "StepB, retried", (answer, time_out), NEVER, "anchored > StepC", "anchored > StepC", "-",
        "Failed", (*NOTHING_WAITS, *ASYNC),
    )  # fmt: skip
    yield Row(workflow, "StepC", (answer, answer), SYNC, "anchored", "anchored", "Success", "> StepC")
    yield Row(
        workflow, "StepC, retried", (answer, answer, *retried), SYNC,
        "anchored", "anchored", "Success", "Failed",
    )  # fmt: skip
    yield Row(workflow, "Success", (answer, answer, answer, prove))
    yield Row(workflow, "Failed", (answer, prove, answer, *retried, answer, time_out))

    workflow = "CommitRevealWorkflow"
    commits = (commit("agent"), answer, commit("other_agent"), answer)
    reveals = (reveal("agent"), answer, reveal("other_agent"), answer)
    finalize = (*commits, *reveals, by("third_agent", output=b"the result"))
    yield Row(
        workflow, "Commit", commits[:1], NONSENSE, "anchored", "anchored", "recorded", "> Commit",
        (*AT_THE_START, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "Commit, one made", commits[:3], NONSENSE,
        "anchored > Reveal", "anchored > Reveal", "recorded", "> Commit", (*AT_THE_START, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "Commit, retried", (*commits[:2], time_out, commits[2]), NONSENSE,
        "anchored > Reveal", "anchored > Reveal", "recorded", "Failed", ASYNC,
    )  # fmt: skip
    yield Row(
        workflow, "Reveal", (*commits, reveals[0]), NONSENSE,
        "anchored", "anchored", "recorded", "Failed", ASYNC,
    )  # fmt: skip
    yield Row(
        workflow, "Reveal, one made", (*commits, *reveals[:3]), NONSENSE,
        "anchored > Finalize", "anchored", "recorded", "Failed", ASYNC,
    )  # fmt: skip
    yield Row(workflow, "Finalize", finalize, SYNC, "anchored", "anchored", "Success", "> Finalize")
    yield Row(
        workflow, "Finalize, retried", (*finalize, *retried), SYNC, "anchored", "anchored", "Success", "Failed"
    )
    yield Row(
        workflow, "Finalize, another result", (*finalize, by("agent", output=b"another result")), SYNC,
        "anchored", "anchored", "recorded", "> Finalize",
    )  # fmt: skip
    yield Row(workflow, "Success", (*finalize, answer, prove))
    yield Row(workflow, "Failed", (*commits, prove, reveals[0], answer, time_out))

    workflow = "ParallelAuditWorkflow"
    audited = (answer, answer, answer)
    yield Row(
        workflow, "Audit", (), TWO_IN_ONE, "anchored", "anchored", "recorded", "> Audit",
        (*AT_THE_START, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "Audit, one answered", (answer,), TWO_IN_ONE, "anchored", "anchored", "recorded", "> Audit",
        ASYNC,
    )  # fmt: skip
    yield Row(
        workflow, "Audit, two answered", (answer, answer), NEVER,
        "anchored > Qualify", "anchored > Qualify", "-", "> Audit", (*NOTHING_WAITS, *ASYNC),
    )  # fmt: skip
    yield Row(
        workflow, "Audit, two answered and the last retried", (answer, answer, time_out), NEVER,
        "anchored > Qualify", "anchored > Qualify", "-", "Failed", (*NOTHING_WAITS, *ASYNC),
    )  # fmt: skip
    yield Row(workflow, "Qualify", audited, SYNC, "anchored", "anchored", "> Settle", "> Qualify")
    yield Row(
        workflow, "Qualify, retried", (*audited, *retried), SYNC, "anchored", "anchored", "> Settle", "Failed"
    )
    yield Row(
        workflow, "Settle", (*audited, answer, prove), SYNC, "anchored", "anchored", "Success", "> Settle"
    )
    yield Row(
        workflow, "Settle, retried", (*audited, answer, prove, *retried), SYNC,
        "anchored", "anchored", "Success", "Failed",
    )  # fmt: skip
    yield Row(workflow, "Success", (*audited, answer, prove, answer, prove))
    yield Row(workflow, "Failed", (*audited, answer, prove, *retried, time_out))


ROWS = tuple(_rows())


@fixture(scope="module", chain_isolation=True, params=ROWS, ids=lambda row: row.id)
def position(
    request: Any,
    suite: dict[str, Any],
    chain: Any,
    accounts: Any,
    requester: Any,
    agent: Any,
    other_agent: Any,
    third_agent: Any,
    stranger: Any,
    prover: Any,
) -> Iterator[tuple[Row, Position]]:
    """A run, and its twin, in the position of a row."""
    row: Row = request.param
    driver = WorkflowDriver(suite[row.workflow], chain, accounts)
    cast = Cast(requester, agent, other_agent, third_agent, stranger, prover)
    snapshot = chain.snapshot()
    twin = stand(driver, cast, row.steps)  # first, so that the run's own tasks are the fresh ones
    position = stand(driver, cast, row.steps)
    position.twin_id = twin.run_id
    yield row, position
    chain.restore(snapshot)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda name: name.replace(" ", "_"))
@pytest.mark.requirement("EXE-066", "EXE-069", "EXE-095", "EXE-096", "EXE-146", "EXE-147", "EXE-151")
def test_transition__cell_of_the_table__as_it_says(position: tuple[Row, Position], action: str) -> None:
    row, here = position[0], position[1].copy()
    cell = row.cells()[action]
    if cell == "-":
        with pytest.raises(Absent):
            ACTIONS[action](here, row.waits)
        return
    attempt = ACTIONS[action](here, row.waits)
    before, state = observe(here.driver), here.state

    (outcome,) = mine_together(here.driver, [attempt.transaction], at=attempt.at)

    after = observe(here.driver)
    changed = [run_id for run_id in before.keys() | after.keys() if before.get(run_id) != after.get(run_id)]
    if cell == "nothing" or is_error(cell):
        assert changed == []
    else:
        assert changed == [here.run_id]

    if is_error(cell):
        error = getattr(here.driver.workflow, cell)
        outcome.assert_reverted_with(error, **expected_arguments(cell, attempt, here))
        return
    # onAgentReply returns the canonical hash, the other two nothing.
    assert outcome.returned == (attempt.reply_hash if attempt.reply else b"")
    if cell == "nothing":
        assert (outcome.events, outcome.foreign_logs) == ((), 0)
    elif cell == "recorded":
        assert (outcome.events, outcome.foreign_logs) == ((), 1)
        assert here.driver.reply(attempt.reply_hash).proven
        assert here.state == state
    else:
        assert outcome.events == events_of_move(cell, attempt, here, state, STAGES[row.workflow])


def is_error(cell: str) -> bool:
    return cell[0].isupper() and cell not in ("Success", "Failed")


def events_of_move(
    cell: str, attempt: Attempt, here: Position, before: RunState, stages: tuple[str, ...]
) -> tuple[WorkflowEvent, ...]:
    """The events that the cell names, from what the contract shows after the move."""
    move = cell.removeprefix("anchored").strip()
    events: list[WorkflowEvent] = []
    if move != cell:
        assert attempt.reply is not None
        assert here.driver.reply(attempt.reply_hash) == unproven(attempt.reply)
        events.append(AgentReplyAnchored(here.run_id, attempt.reply_hash, attempt.reply.replier))
    result, now, after = here.driver.result(here.run_id), here.driver.now, here.state
    if move in ("Success", "Failed"):
        assert result.status is RunStatus[move.upper()]
        assert after.open_tasks == ()
        events.append(WorkflowCompleted(here.run_id, result.status, result.final_task_hash, now))
        return tuple(events)
    assert result.status is RunStatus.PENDING
    dispatched = {task.task_hash for task in after.open_tasks} - {task.task_hash for task in before.open_tasks}
    if not move:
        assert (after.stage, dispatched) == (before.stage, set())
        return tuple(events)
    (task_hash,) = dispatched
    stage = stages.index(move.removeprefix("> "))
    task = here.driver.task(task_hash)
    assert after.stage == task.stage == stage
    assert (task.task_seq, task.timestamp) == (len(here.tasks), now)
    return (*events, NewAgentTask(here.run_id, stage, task_hash))
