"""Checks on tasks: their hash, their event, their place in the chain, and what they claim."""

from __future__ import annotations

from provenflow.abi import NewAgentTask
from provenflow.evidence.checks import WITHHELD, CheckId
from provenflow.evidence.graph import RunGraph
from provenflow.evidence.model import TaskRecord
from provenflow.evidence.report import Ledger
from provenflow.hashing import EMPTY_LIST_HASH, FINAL_STAGE, keccak256


def check_tasks(graph: RunGraph, ledger: Ledger) -> None:
    """Write down what holds for every task that is recorded, and for every one that is named."""
    for task_hash in _named(graph):
        ledger.expect(
            CheckId.TASK_RECORD, task_hash, task_hash in graph.tasks, "the contract did not return this task"
        )
    _sequence(graph, ledger)
    _stages(graph, ledger)
    entries = _entries(graph)
    for record in graph.tasks.values():
        _identity(graph, record, ledger)
        _links(graph, record, ledger)
        _claim(graph, record, ledger)
        _duplicates(record, ledger)
        if record.task_hash == graph.final_hash:
            _final_remarks(record, ledger)
        else:
            _event(graph, record, ledger)
            _input(record, ledger)
            _initial(record, entries, ledger)


def _named(graph: RunGraph) -> list[bytes]:
    final = [] if graph.final_hash is None else [graph.final_hash]
    return list(dict.fromkeys(graph.dispatched() + final))


def _identity(graph: RunGraph, record: TaskRecord, ledger: Ledger) -> None:
    recomputed = record.task.task_hash()
    ledger.expect(
        CheckId.TASK_HASH,
        record.task_hash,
        recomputed == record.task_hash,
        "its fields hash to {}",
        recomputed,
    )
    ledger.expect(
        CheckId.TASK_RUN,
        record.task_hash,
        record.task.workflow_run_id == graph.evidence.workflow_run_id,
        "it belongs to run {}",
        record.task.workflow_run_id,
    )


def _sequence(graph: RunGraph, ledger: Ledger) -> None:
    for place, task_hash in enumerate(_named(graph)):
        record = graph.tasks.get(task_hash)
        if record is not None:
            ledger.expect(
                CheckId.TASK_SEQUENCE,
                task_hash,
                record.task.task_seq == place,
                "its taskSeq is {}, it is number {}",
                record.task.task_seq,
                place,
            )


def _event(graph: RunGraph, record: TaskRecord, ledger: Ledger) -> None:
    count = len(graph.dispatches.get(record.task_hash, ()))
    ledger.expect(CheckId.TASK_EVENT, record.task_hash, count == 1, "it has {} NewAgentTask events", count)
    log = graph.dispatch(record.task_hash)
    time = graph.time_of(log)
    if time is None:
        ledger.leave_open(CheckId.TASK_TIME, record.task_hash, "", "the time of its event is not known")
        return
    ledger.expect(
        CheckId.TASK_TIME,
        record.task_hash,
        record.task.timestamp == time,
        "its timestamp is {}, that of its block {}",
        record.task.timestamp,
        time,
    )


def _stages(graph: RunGraph, ledger: Ledger) -> None:
    for sighting in graph.sightings:
        event = sighting.event
        if not isinstance(event, NewAgentTask):
            continue
        record = graph.tasks.get(event.task_hash)
        if record is not None:
            ledger.expect(
                CheckId.TASK_STAGE,
                event.task_hash,
                event.stage == record.task.stage,
                "its stage is {}, its event says {}",
                record.task.stage,
                event.stage,
            )


def _entries(graph: RunGraph) -> dict[bytes, tuple[int, bytes]]:
    """The tasks that ``run()`` dispatched, with stage and inputHash: those of the first event's transaction.

    A later task cannot be among them, because no reply can follow its task within one block.
    """
    dispatched = graph.dispatched()
    first = graph.dispatches[dispatched[0]][0].transaction_hash if dispatched else None
    return {
        task_hash: (graph.tasks[task_hash].task.stage, graph.tasks[task_hash].task.input_hash)
        for task_hash in dispatched
        if task_hash in graph.tasks and graph.dispatches[task_hash][0].transaction_hash == first
    }


def _initial(record: TaskRecord, entries: dict[bytes, tuple[int, bytes]], ledger: Ledger) -> None:
    task = record.task
    if task.prev_reply_hashes:
        return
    # Those that run() dispatched have their own stage and input, of course.
    repeats = (task.stage, task.input_hash) in entries.values()
    ledger.expect(
        CheckId.TASK_INITIAL,
        record.task_hash,
        repeats,
        "it names no previous reply, and run() dispatched neither it nor a task of its stage and input",
    )
    if repeats and record.task_hash not in entries:
        ledger.note(
            record.task_hash,
            "an initial task, dispatched again after run(); that nobody replied in time is the contract's word",
        )


def _links(graph: RunGraph, record: TaskRecord, ledger: Ledger) -> None:
    own = graph.dispatch(record.task_hash)
    for link in record.task.prev_reply_hashes:
        known = link in graph.replies
        is_task = link in graph.tasks
        ledger.expect(
            CheckId.CHAIN_ALTERNATES, record.task_hash, not is_task, "it links to the task {}", link
        )
        ledger.expect(
            CheckId.TASK_LINKS,
            record.task_hash,
            known or is_task,
            "the reply {} is not in the evidence",
            link,
        )
        anchor = graph.anchor(link)
        if own is not None and anchor is not None:
            ledger.expect(
                CheckId.TASK_ORDER,
                record.task_hash,
                anchor.position < own.position,
                "it was dispatched before its reply {} was anchored",
                link,
            )


def _claim(graph: RunGraph, record: TaskRecord, ledger: Ledger) -> None:
    links = record.task.prev_reply_hashes
    replies = [graph.replies[link] for link in links if link in graph.replies]
    if len(replies) < len(links):
        ledger.leave_open(
            CheckId.TASK_PROVEN, record.task_hash, "", "a previous reply is not in the evidence"
        )
        return
    expected = all(reply.proven for reply in replies)
    ledger.expect(
        CheckId.TASK_PROVEN,
        record.task_hash,
        record.proven == expected,
        "the contract says proven = {}, its previous replies say {}",
        _boolean(record.proven),
        _boolean(expected),
    )


def _input(record: TaskRecord, ledger: Ledger) -> None:
    task = record.task
    if not task.input and task.input_hash != EMPTY_LIST_HASH:
        ledger.leave_open(CheckId.TASK_INPUT, record.task_hash, WITHHELD, "its input is not on chain")
        return
    hashed = keccak256(task.input)
    ledger.expect(
        CheckId.TASK_INPUT,
        record.task_hash,
        hashed == task.input_hash,
        "its input hashes to {}, its inputHash is {}",
        hashed,
        task.input_hash,
    )


def _final_remarks(record: TaskRecord, ledger: Ledger) -> None:
    if record.task.stage != FINAL_STAGE:
        ledger.note(
            record.task_hash,
            "the final task has stage {}; it SHOULD be a terminal sentinel such as {}",
            record.task.stage,
            FINAL_STAGE,
        )
    if record.task.input:
        ledger.note(record.task_hash, "the final task carries an input, which no hash commits to")


def _duplicates(record: TaskRecord, ledger: Ledger) -> None:
    if len(set(record.task.prev_reply_hashes)) < len(record.task.prev_reply_hashes):
        ledger.note(record.task_hash, "it names a previous reply more than once")


def _boolean(value: bool) -> str:
    return "true" if value else "false"
