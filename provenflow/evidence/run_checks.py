"""Checks on the run as a whole: its result, its end, its final task, and the walk back to ``run()``."""

from __future__ import annotations

from provenflow.abi import AgentReplyAnchored, NewAgentTask, RunStatus, WorkflowCompleted
from provenflow.evidence.checks import CheckId
from provenflow.evidence.graph import RunGraph, Sighting
from provenflow.evidence.record_checks import log_name
from provenflow.evidence.report import RUN, Ledger

_ZERO = bytes(32)


def check_run(graph: RunGraph, ledger: Ledger) -> None:
    """Write down what holds for the result, the end and the shape of the run."""
    _result(graph, ledger)
    _completion(graph, ledger)
    _final_task(graph, ledger)
    _shape(graph, ledger)
    _walk(graph, ledger)


def _result(graph: RunGraph, ledger: Ledger) -> None:
    result = graph.evidence.result
    if result.status is RunStatus.SUCCESS:
        holds = result.final_task_hash != _ZERO and result.completed_at != 0
    else:
        holds = result.final_task_hash == _ZERO and result.completed_at == 0
    ledger.expect(
        CheckId.RESULT_FIELDS,
        RUN,
        holds,
        "result() says {} with finalTaskHash {} and completedAt {}",
        result.status.label,
        result.final_task_hash,
        result.completed_at,
    )


def _completion(graph: RunGraph, ledger: Ledger) -> None:
    status = graph.evidence.result.status
    expected = 0 if status is RunStatus.PENDING else 1
    count = len(graph.completions)
    ledger.expect(
        CheckId.COMPLETION_EVENT,
        RUN,
        count == expected,
        "result() says {}, and there are {} WorkflowCompleted events",
        status.label,
        count,
    )
    for sighting in graph.completions:
        if isinstance(sighting.event, WorkflowCompleted):
            _completion_event(graph, sighting, sighting.event, ledger)
    if graph.completions:
        _after_the_end(graph, graph.completions[0], ledger)


def _completion_event(graph: RunGraph, sighting: Sighting, event: WorkflowCompleted, ledger: Ledger) -> None:
    result = graph.evidence.result
    same_time = event.timestamp == result.completed_at or result.status is not RunStatus.SUCCESS
    ledger.expect(
        CheckId.COMPLETION_RESULT,
        log_name(sighting.log),
        (event.status, event.final_task_hash) == (result.status, result.final_task_hash) and same_time,
        "it says {}, {} at {}; result() says {}, {} at {}",
        event.status.label,
        event.final_task_hash,
        event.timestamp,
        result.status.label,
        result.final_task_hash,
        result.completed_at,
    )
    time = graph.time_of(sighting.log)
    if time is None:
        ledger.leave_open(
            CheckId.COMPLETION_TIME, log_name(sighting.log), "", "the time of its block is not known"
        )
        return
    ledger.expect(
        CheckId.COMPLETION_TIME,
        log_name(sighting.log),
        event.timestamp == time,
        "it carries the time {}, its block has {}",
        event.timestamp,
        time,
    )


def _after_the_end(graph: RunGraph, end: Sighting, ledger: Ledger) -> None:
    for sighting in graph.sightings:
        match sighting.event:
            case NewAgentTask(task_hash=node) | AgentReplyAnchored(reply_hash=node):
                ledger.expect(
                    CheckId.COMPLETION_LAST,
                    node,
                    sighting.log.position < end.log.position,
                    "its event {} comes after the end of the run",
                    log_name(sighting.log),
                )


def _final_task(graph: RunGraph, ledger: Ledger) -> None:
    record = graph.tasks.get(graph.final_hash) if graph.final_hash is not None else None
    if record is None:
        return
    final, task = record.task_hash, record.task
    ledger.expect(
        CheckId.FINAL_EVENT, final, final not in graph.dispatches, "a NewAgentTask event announced it"
    )
    ledger.expect(
        CheckId.FINAL_INPUT, final, task.input_hash == _ZERO, "its inputHash is {}", task.input_hash
    )
    ledger.expect(CheckId.FINAL_REPLIES, final, bool(task.prev_reply_hashes), "it names no reply")
    completed_at = graph.evidence.result.completed_at
    ledger.expect(
        CheckId.FINAL_TIME,
        final,
        task.timestamp == completed_at,
        "its timestamp is {}, the run completed at {}",
        task.timestamp,
        completed_at,
    )
    for link in task.prev_reply_hashes:
        reply = graph.replies.get(link)
        if reply is not None:
            ledger.expect(
                CheckId.FINAL_PROVEN,
                link,
                reply.proven,
                "the final gate accepted it, and the contract says that it is not proven",
            )


def _shape(graph: RunGraph, ledger: Ledger) -> None:
    circling = graph.on_cycles()
    for node in graph.nodes():
        ledger.expect(CheckId.CHAIN_ACYCLIC, node, node not in circling, "its links lead back to itself")
        ledger.expect(
            CheckId.CHAIN_ALTERNATES,
            node,
            not (node in graph.tasks and node in graph.replies),
            "it is recorded both as a task and as a reply",
        )


def _walk(graph: RunGraph, ledger: Ledger) -> None:
    """ERC-8301, Evidence Chain, "Trustless (full traversal)", without pruning at nodes that claim to be proven."""
    if graph.final_hash is None:
        return
    met = graph.reach([graph.final_hash])
    missing = [node for node in met if not graph.knows(node)]
    # A task that names no reply ends a branch, and only run() may have dispatched it; a reply must not end one.
    ends = [node for node in met if not graph.previous(node)]
    wrong = [node for node in ends if node in graph.replies or node == graph.final_hash]
    if missing:
        reason, where = "it stops at {}, which is not in the evidence", missing[0]
    elif wrong:
        reason, where = "a branch ends in {}, which is not an initial task", wrong[0]
    else:
        reason, where = "it never ends ({} and its like lead back to themselves)", graph.final_hash
    ledger.expect(CheckId.CHAIN_WALK, RUN, bool(ends) and not missing and not wrong, reason, where)
