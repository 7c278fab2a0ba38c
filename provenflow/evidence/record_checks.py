"""Checks on the records as such: nothing twice, nothing missing, every log in its place."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from provenflow.abi import NewAgentTask
from provenflow.evidence.checks import CheckId
from provenflow.evidence.graph import RunGraph
from provenflow.evidence.model import LogRecord
from provenflow.evidence.report import RUN, Ledger


def check_records(graph: RunGraph, ledger: Ledger) -> None:
    """Write down what holds for logs, blocks and transactions, and for the records' uniqueness."""
    _unique(graph, ledger)
    _blocks(graph, ledger)
    _transactions(graph, ledger)
    _used(graph, ledger)
    _logs(graph, ledger)
    _order(graph, ledger)
    _started(graph, ledger)


def log_name(log: LogRecord) -> str:
    """How a log is named as the subject of a finding."""
    return f"log {log.block_number}/{log.log_index}"


def _block_name(number: int) -> str:
    return f"block {number}"


def _transaction_name(transaction_hash: bytes) -> str:
    return f"transaction 0x{transaction_hash.hex()}"


def _unique(graph: RunGraph, ledger: Ledger) -> None:
    evidence = graph.evidence
    keys: tuple[Iterable[bytes | str], ...] = (
        (record.task_hash for record in evidence.tasks),
        (record.reply_hash for record in evidence.replies),
        (_block_name(record.number) for record in evidence.blocks),
        (_transaction_name(record.hash) for record in evidence.transactions),
    )
    for names in keys:
        seen: set[bytes | str] = set()
        for name in names:
            ledger.expect(CheckId.RECORD_UNIQUE, name, name not in seen, "it is recorded twice")
            seen.add(name)


def _blocks(graph: RunGraph, ledger: Ledger) -> None:
    pinned = graph.evidence.block
    # The pinned block may also be a log's; then both records must say the same.
    for block in graph.evidence.blocks:
        if block.number == pinned.number:
            ledger.expect(
                CheckId.RECORD_BLOCK,
                _block_name(block.number),
                block == pinned,
                "it differs from the pinned block",
            )
    known = {block.number: block for block in reversed(graph.evidence.blocks)}
    for log in graph.evidence.logs:
        where = known.get(log.block_number)
        if where is None:
            holds, reason = False, "its block {0} is not recorded"
        elif where.hash != log.block_hash:
            holds, reason = False, "it names another hash for block {0} than the record"
        else:
            holds, reason = log.block_number <= pinned.number, "its block {0} is after the pinned block {1}"
        ledger.expect(CheckId.RECORD_BLOCK, log_name(log), holds, reason, log.block_number, pinned.number)
    for earlier, later in pairwise(sorted(graph.blocks.values(), key=lambda block: block.number)):
        ledger.expect(
            CheckId.BLOCK_ORDER,
            _block_name(later.number),
            earlier.timestamp <= later.timestamp,
            "its time {} is before the time {} of block {}",
            later.timestamp,
            earlier.timestamp,
            earlier.number,
        )


def _transactions(graph: RunGraph, ledger: Ledger) -> None:
    for log in graph.evidence.logs:
        transaction = graph.transactions.get(log.transaction_hash)
        if transaction is None:
            holds, reason = False, "its transaction {} is not recorded"
        else:
            place = (transaction.block_number, transaction.block_hash, transaction.index)
            holds = place == (log.block_number, log.block_hash, log.transaction_index)
            reason = "its transaction {} is recorded in another place of the chain"
        ledger.expect(CheckId.RECORD_TRANSACTION, log_name(log), holds, reason, log.transaction_hash)


def _used(graph: RunGraph, ledger: Ledger) -> None:
    blocks = {log.block_number for log in graph.evidence.logs}
    transactions = {log.transaction_hash for log in graph.evidence.logs}
    for block in graph.evidence.blocks:
        ledger.expect(
            CheckId.RECORD_USED, _block_name(block.number), block.number in blocks, "no log names it"
        )
    for transaction in graph.evidence.transactions:
        name = _transaction_name(transaction.hash)
        ledger.expect(CheckId.RECORD_USED, name, transaction.hash in transactions, "no log names it")


def _logs(graph: RunGraph, ledger: Ledger) -> None:
    contract = graph.evidence.contract
    for log in graph.evidence.logs:
        ledger.expect(
            CheckId.LOG_CONTRACT, log_name(log), log.address == contract, "it comes from {}", log.address
        )
    for log, reason in graph.unread:
        ledger.expect(CheckId.LOG_EVENT, log_name(log), False, "{}", reason)
    for sighting in graph.sightings:
        ledger.expect(CheckId.LOG_EVENT, log_name(sighting.log), True, "")
        run_id = sighting.event.workflow_run_id
        ledger.expect(
            CheckId.LOG_RUN,
            log_name(sighting.log),
            run_id == graph.evidence.workflow_run_id,
            "it belongs to run {}",
            run_id,
        )


def _order(graph: RunGraph, ledger: Ledger) -> None:
    for earlier, later in pairwise(graph.evidence.logs):
        ledger.expect(
            CheckId.LOG_ORDER,
            log_name(later),
            earlier.position < later.position and _same_transaction_order(earlier, later),
            "it does not come after {}",
            log_name(earlier),
        )


def _same_transaction_order(earlier: LogRecord, later: LogRecord) -> bool:
    """Within a block, logs stand in the order of their transactions, and a transaction has one place."""
    if earlier.block_number != later.block_number:
        return True
    if earlier.transaction_hash == later.transaction_hash:
        return earlier.transaction_index == later.transaction_index
    return earlier.transaction_index < later.transaction_index


def _started(graph: RunGraph, ledger: Ledger) -> None:
    first = graph.sightings[0].event if graph.sightings else None
    ledger.expect(
        CheckId.RUN_STARTED,
        RUN,
        isinstance(first, NewAgentTask),
        "there is no NewAgentTask event at its beginning; the run is unknown, or the logs begin too late",
    )
