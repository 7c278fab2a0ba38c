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
    RESULT,
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

# The columns that do: what comes of a reply of the right replier, of the same by an outsider, of the proof of a reply
# that waits, and of a timeout after the deadline. In the lines without cells the run has ended.
TABLE = """
SingleStage: Execute                           | anchored            | anchored            | Success  | > Execute
SingleStage: Execute, retried                  | anchored            | anchored            | Success  | Failed
SingleStage: Success
SingleStage: Failed

InputProvenance: Sanitize                      | anchored            | anchored            | > Infer  | > Sanitize
InputProvenance: Sanitize, retried             | anchored            | anchored            | > Infer  | Failed
InputProvenance: Infer                         | anchored            | anchored            | Success  | > Infer
InputProvenance: Infer, retried                | anchored            | anchored            | Success  | Failed
InputProvenance: Success
InputProvenance: Failed

CompetitiveSelection: Bid                      | anchored            | anchored            | recorded | > Bid
CompetitiveSelection: Bid, retried             | anchored            | anchored            | recorded | Failed
CompetitiveSelection: Bid, one placed          | anchored            | anchored            | recorded | > Execute
CompetitiveSelection: Bid, two placed          | anchored > Execute  | anchored > Execute  | recorded | > Execute
CompetitiveSelection: Execute                  | anchored            | ReplierNotAllowed   | Success  | > Execute
CompetitiveSelection: Execute, second best     | anchored            | ReplierNotAllowed   | Success  | > Execute
CompetitiveSelection: Execute, last            | anchored            | ReplierNotAllowed   | Success  | Failed
CompetitiveSelection: Success
CompetitiveSelection: Failed

SequentialPipeline: StepA                      | anchored > StepB    | anchored > StepB    | -        | > StepA
SequentialPipeline: StepA, retried             | anchored > StepB    | anchored > StepB    | -        | Failed
SequentialPipeline: StepB                      | anchored > StepC    | anchored > StepC    | -        | > StepB
SequentialPipeline: StepB, retried             | anchored > StepC    | anchored > StepC    | -        | Failed
SequentialPipeline: StepC                      | anchored            | anchored            | Success  | > StepC
SequentialPipeline: StepC, retried             | anchored            | anchored            | Success  | Failed
SequentialPipeline: Success
SequentialPipeline: Failed

CommitReveal: Commit                           | anchored            | anchored            | recorded | > Commit
CommitReveal: Commit, one made                 | anchored > Reveal   | anchored > Reveal   | recorded | > Commit
CommitReveal: Commit, one made and retried     | anchored > Reveal   | anchored > Reveal   | recorded | Failed
CommitReveal: Reveal                           | anchored            | anchored            | recorded | Failed
CommitReveal: Reveal, one made                 | anchored > Finalize | anchored            | recorded | Failed
CommitReveal: Finalize                         | anchored            | anchored            | Success  | > Finalize
CommitReveal: Finalize, retried                | anchored            | anchored            | Success  | Failed
CommitReveal: Finalize, with another result    | anchored            | anchored            | recorded | > Finalize
CommitReveal: Success
CommitReveal: Failed

ParallelAudit: Audit                           | anchored            | anchored            | recorded | > Audit
ParallelAudit: Audit, one answered             | anchored            | anchored            | recorded | > Audit
ParallelAudit: Audit, two answered             | anchored > Qualify  | anchored > Qualify  | -        | > Audit
ParallelAudit: Audit, two answered and retried | anchored > Qualify  | anchored > Qualify  | -        | Failed
ParallelAudit: Qualify                         | anchored            | anchored            | > Settle | > Qualify
ParallelAudit: Qualify, retried                | anchored            | anchored            | > Settle | Failed
ParallelAudit: Settle                          | anchored            | anchored            | Success  | > Settle
ParallelAudit: Settle, retried                 | anchored            | anchored            | Success  | Failed
ParallelAudit: Success
ParallelAudit: Failed
"""
OWN_COLUMNS = ("reply", "reply of an outsider", "proof", "timeout")

# What a position may lack.
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


@dataclass(frozen=True)
class Way:
    """How a position is reached, how a reply waits there, and the actions that have nothing to be tried on."""

    steps: tuple[Step, ...]
    waits: Waits = Waits.FOR_ITS_PROOF
    absent: tuple[str, ...] = ()


def prove_first(position: Position) -> None:
    """The oldest reply is proven."""
    position.prove(position.answers[0].reply_hash())


PASSED = (answer, prove)  # a sync stage
RETRIED = (answer, time_out)
BIDS = (bid("agent", 100), answer, bid("other_agent", 80), answer, bid("third_agent", 120), answer)
COMMITS = (commit("agent"), answer, commit("other_agent"), answer)
REVEALS = (reveal("agent"), answer, reveal("other_agent"), answer)
FINALIZE = (*COMMITS, *REVEALS, by("third_agent", output=RESULT))
AUDITED = (answer, answer, answer)
NONSENSE, TWO_IN_ONE, NEVER = Waits.AS_NONSENSE, Waits.AS_TWO_IN_ONE, Waits.NEVER

WAYS = {
    "SingleStage: Execute": Way((), absent=(*AT_THE_START, *NO_SECOND_PROOF)),
    "SingleStage: Execute, retried": Way(RETRIED),
    "SingleStage: Success": Way((answer, *PASSED)),
    "SingleStage: Failed": Way((*RETRIED, prove, *RETRIED)),
    "InputProvenance: Sanitize": Way((), absent=(*AT_THE_START, *NO_SECOND_PROOF)),
    "InputProvenance: Sanitize, retried": Way(RETRIED),
    "InputProvenance: Infer": Way(PASSED, absent=NO_LATE_PROOF),
    "InputProvenance: Infer, retried": Way((*PASSED, *RETRIED)),
    "InputProvenance: Success": Way((*PASSED, answer, *PASSED)),
    "InputProvenance: Failed": Way((*PASSED, *RETRIED, *RETRIED)),
    "CompetitiveSelection: Bid": Way(BIDS[:1], NONSENSE, (*AT_THE_START, *ASYNC)),
    "CompetitiveSelection: Bid, retried": Way((*BIDS[:1], time_out), NONSENSE, (*NO_LATE_PROOF, *ASYNC)),
    "CompetitiveSelection: Bid, one placed": Way(BIDS[:3], NONSENSE, (*AT_THE_START, *ASYNC)),
    "CompetitiveSelection: Bid, two placed": Way(BIDS[:5], NONSENSE, (*AT_THE_START, *ASYNC)),
    "CompetitiveSelection: Execute": Way((*BIDS, by("other_agent"))),
    "CompetitiveSelection: Execute, second best": Way((*BIDS, by("other_agent"), *RETRIED, by("agent"))),
    "CompetitiveSelection: Execute, last": Way((*BIDS, time_out, time_out, by("third_agent"))),
    "CompetitiveSelection: Success": Way((*BIDS, by("other_agent"), *PASSED)),
    "CompetitiveSelection: Failed": Way((*BIDS[:2], time_out, by("agent"), answer, prove_first, time_out)),
    "SequentialPipeline: StepA": Way(
        (), NEVER, (*AT_THE_START, *NO_SECOND_PROOF, *NO_REPLY_YET, *NOTHING_WAITS, *ASYNC)
    ),
    "SequentialPipeline: StepA, retried": Way(
        (time_out,), NEVER, (*NO_LATE_PROOF, *NO_SECOND_PROOF, *NO_REPLY_YET, *NOTHING_WAITS, *ASYNC)
    ),
    "SequentialPipeline: StepB": Way((answer,), NEVER, (*NOTHING_WAITS, *ASYNC)),
    "SequentialPipeline: StepB, retried": Way((answer, time_out), NEVER, (*NOTHING_WAITS, *ASYNC)),
    "SequentialPipeline: StepC": Way((answer, answer)),
    "SequentialPipeline: StepC, retried": Way((answer, answer, *RETRIED)),
    "SequentialPipeline: Success": Way((answer, answer, *PASSED)),
    "SequentialPipeline: Failed": Way((answer, prove, answer, *RETRIED, *RETRIED)),
    "CommitReveal: Commit": Way(COMMITS[:1], NONSENSE, (*AT_THE_START, *ASYNC)),
    "CommitReveal: Commit, one made": Way(COMMITS[:3], NONSENSE, (*AT_THE_START, *ASYNC)),
    "CommitReveal: Commit, one made and retried": Way((*COMMITS[:2], time_out, COMMITS[2]), NONSENSE, ASYNC),
    "CommitReveal: Reveal": Way((*COMMITS, REVEALS[0]), NONSENSE, ASYNC),
    "CommitReveal: Reveal, one made": Way((*COMMITS, *REVEALS[:3]), NONSENSE, ASYNC),
    "CommitReveal: Finalize": Way(FINALIZE),
    "CommitReveal: Finalize, retried": Way((*FINALIZE, *RETRIED)),
    "CommitReveal: Finalize, with another result": Way((*FINALIZE, by("agent", output=b"another result"))),
    "CommitReveal: Success": Way((*FINALIZE, *PASSED)),
    "CommitReveal: Failed": Way((*COMMITS, prove, REVEALS[0], *RETRIED)),
    "ParallelAudit: Audit": Way((), TWO_IN_ONE, (*AT_THE_START, *ASYNC)),
    "ParallelAudit: Audit, one answered": Way((answer,), TWO_IN_ONE, ASYNC),
    "ParallelAudit: Audit, two answered": Way((answer, answer), NEVER, (*NOTHING_WAITS, *ASYNC)),
    "ParallelAudit: Audit, two answered and retried": Way(
        (answer, answer, time_out), NEVER, (*NOTHING_WAITS, *ASYNC)
    ),
    "ParallelAudit: Qualify": Way(AUDITED),
    "ParallelAudit: Qualify, retried": Way((*AUDITED, *RETRIED)),
    "ParallelAudit: Settle": Way((*AUDITED, *PASSED)),
    "ParallelAudit: Settle, retried": Way((*AUDITED, *PASSED, *RETRIED)),
    "ParallelAudit: Success": Way((*AUDITED, *PASSED, *PASSED)),
    "ParallelAudit: Failed": Way((*AUDITED, *PASSED, *RETRIED, time_out)),
}


@dataclass(frozen=True)
class Row:
    """One position and the outcome of every action there, by the action's name."""

    name: str
    way: Way
    cells: dict[str, str]

    @property
    def workflow(self) -> str:
        return self.name.split(":")[0] + "Workflow"


def _rows() -> Iterator[Row]:
    for line in filter(None, TABLE.splitlines()):
        name, *cells = (part.strip() for part in line.split("|"))
        common = PENDING | dict(zip(OWN_COLUMNS, cells, strict=True)) if cells else ENDED
        yield Row(name, WAYS[name], common | dict.fromkeys(WAYS[name].absent, "-"))


ROWS = tuple(_rows())


def test_table__every_position_and_action__has_a_cell() -> None:
    assert [row.name for row in ROWS] == list(WAYS)
    assert all(row.cells.keys() == ACTIONS.keys() for row in ROWS)
    # Every stage of every example is there, and both ends.
    assert {row.name.split(",")[0] for row in ROWS} == {
        f"{workflow.removesuffix('Workflow')}: {stage}"
        for workflow, stages in STAGES.items()
        for stage in (*stages, "Success", "Failed")
    }


@fixture(scope="module", chain_isolation=True, params=ROWS, ids=lambda row: row.name)
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
    twin = stand(driver, cast, row.way.steps)  # first, so that the run's own tasks are the fresh ones
    position = stand(driver, cast, row.way.steps)
    position.twin_id = twin.run_id
    yield row, position
    chain.restore(snapshot)


@pytest.mark.parametrize("action", ACTIONS, ids=lambda name: name.replace(" ", "_"))
@pytest.mark.requirement("EXE-066", "EXE-069", "EXE-095", "EXE-096", "EXE-146", "EXE-147", "EXE-151")
def test_transition__cell_of_the_table__as_it_says(position: tuple[Row, Position], action: str) -> None:
    row, here = position[0], position[1].copy()
    cell = row.cells[action]
    if cell == "-":
        with pytest.raises(Absent):
            ACTIONS[action](here, row.way.waits)
        return
    attempt = ACTIONS[action](here, row.way.waits)
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
    dispatched = {task.task_hash for task in after.open_tasks} - {
        task.task_hash for task in before.open_tasks
    }
    if not move:
        assert (after.stage, dispatched) == (before.stage, set())
        return tuple(events)
    (task_hash,) = dispatched
    stage = stages.index(move.removeprefix("> "))
    task = here.driver.task(task_hash)
    assert after.stage == task.stage == stage
    assert (task.task_seq, task.timestamp) == (len(here.tasks), now)
    return (*events, NewAgentTask(here.run_id, stage, task_hash))
