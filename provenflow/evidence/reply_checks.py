"""Checks on replies: their hash, their event, their time, who sent them, and what is claimed about them."""

from __future__ import annotations

from provenflow.abi import AgentReplyAnchored
from provenflow.evidence.checks import CLAIM, CONTRACT, WITHHELD, CheckId
from provenflow.evidence.graph import RunGraph
from provenflow.evidence.model import ReplyRecord
from provenflow.evidence.report import Ledger
from provenflow.hashing import EMPTY_LIST_HASH, keccak256

_ZERO_ID = bytes(32)
_ZERO_ADDRESS = bytes(20)


def check_replies(graph: RunGraph, ledger: Ledger) -> None:
    """Write down what holds for every reply that is recorded, and for every one that is named."""
    for reply_hash in graph.anchored():
        ledger.expect(
            CheckId.REPLY_RECORD,
            reply_hash,
            reply_hash in graph.replies,
            "the contract did not return this reply",
        )
    _operations(graph, ledger)
    _repliers(graph, ledger)
    for record in graph.replies.values():
        _identity(graph, record, ledger)
        _event(graph, record, ledger)
        _links(graph, record, ledger)
        _times(graph, record, ledger)
        _output(record, ledger)
        _signer(graph, record, ledger)
        _proof(record, ledger)


def _identity(graph: RunGraph, record: ReplyRecord, ledger: Ledger) -> None:
    recomputed = record.reply.reply_hash()
    ledger.expect(
        CheckId.REPLY_HASH,
        record.reply_hash,
        recomputed == record.reply_hash,
        "its fields hash to {}",
        recomputed,
    )
    ledger.expect(
        CheckId.REPLY_RUN,
        record.reply_hash,
        record.reply.workflow_run_id == graph.evidence.workflow_run_id,
        "it belongs to run {}",
        record.reply.workflow_run_id,
    )


def _operations(graph: RunGraph, ledger: Ledger) -> None:
    bound: dict[tuple[bytes, bytes], bytes] = {}
    for record in graph.replies.values():
        operation = record.reply.operation_id
        first = bound.setdefault((record.reply.replier, operation), record.reply_hash)
        if operation == _ZERO_ID:
            holds, reason = False, "its operationId is zero"
        else:
            holds, reason = first == record.reply_hash, "its operationId is bound to the reply {}"
        ledger.expect(CheckId.REPLY_OPERATION, record.reply_hash, holds, reason, first)


def _repliers(graph: RunGraph, ledger: Ledger) -> None:
    for sighting in graph.sightings:
        event = sighting.event
        if not isinstance(event, AgentReplyAnchored):
            continue
        record = graph.replies.get(event.reply_hash)
        if record is not None:
            ledger.expect(
                CheckId.REPLY_REPLIER,
                event.reply_hash,
                event.replier == record.reply.replier,
                "its replier is {}, its event says {}",
                record.reply.replier,
                event.replier,
            )


def _event(graph: RunGraph, record: ReplyRecord, ledger: Ledger) -> None:
    count = len(graph.anchors.get(record.reply_hash, ()))
    ledger.expect(
        CheckId.REPLY_EVENT, record.reply_hash, count == 1, "it has {} AgentReplyAnchored events", count
    )


def _links(graph: RunGraph, record: ReplyRecord, ledger: Ledger) -> None:
    links = record.reply.prev_task_hashes
    ledger.expect(CheckId.REPLY_TASKS, record.reply_hash, bool(links), "it answers no task")
    if len(set(links)) < len(links):
        ledger.note(record.reply_hash, "it names a previous task more than once")
    own = graph.anchor(record.reply_hash)
    for link in links:
        known = link in graph.tasks
        is_reply = link in graph.replies
        ledger.expect(
            CheckId.CHAIN_ALTERNATES, record.reply_hash, not is_reply, "it links to the reply {}", link
        )
        ledger.expect(
            CheckId.REPLY_LINKS,
            record.reply_hash,
            known or is_reply,
            "the task {} is not in the evidence",
            link,
        )
        dispatch = graph.dispatch(link)
        if own is not None and dispatch is not None:
            ledger.expect(
                CheckId.REPLY_ORDER,
                record.reply_hash,
                dispatch.position < own.position,
                "it was anchored before its task {} was dispatched",
                link,
            )


def _times(graph: RunGraph, record: ReplyRecord, ledger: Ledger) -> None:
    """``max(anchor_time(h)) < reply.timestamp <= block.timestamp`` (ERC-8301, ``onAgentReply``, step 4)."""
    reply = record.reply
    anchored = graph.time_of(graph.anchor(record.reply_hash))
    for link in reply.prev_task_hashes:
        dispatched = graph.time_of(graph.dispatch(link))
        if dispatched is None:
            ledger.leave_open(
                CheckId.REPLY_AFTER_TASKS, record.reply_hash, "", "the time of its task {} is not known", link
            )
        else:
            ledger.expect(
                CheckId.REPLY_AFTER_TASKS,
                record.reply_hash,
                dispatched < reply.timestamp,
                "its timestamp {} is not later than {}, the time of its task {}",
                reply.timestamp,
                dispatched,
                link,
            )
        _lateness(graph, record, link, anchored, ledger)
    if anchored is None:
        ledger.leave_open(
            CheckId.REPLY_NOT_FUTURE, record.reply_hash, "", "the time of its event is not known"
        )
    else:
        ledger.expect(
            CheckId.REPLY_NOT_FUTURE,
            record.reply_hash,
            reply.timestamp <= anchored,
            "its timestamp {} is later than {}, the time of its block",
            reply.timestamp,
            anchored,
        )


def _lateness(
    graph: RunGraph, record: ReplyRecord, link: bytes, anchored: int | None, ledger: Ledger
) -> None:
    """A late reply is a note: the ERC says that it SHOULD be rejected, not that it MUST."""
    task = graph.tasks.get(link)
    if task is None or anchored is None or task.task.expires_at == 0:
        return
    if anchored > task.task.expires_at:
        ledger.note(
            record.reply_hash,
            "it was anchored at {}, after its task {} expired at {}; the contract SHOULD have refused it",
            anchored,
            link,
            task.task.expires_at,
        )


def _output(record: ReplyRecord, ledger: Ledger) -> None:
    reply = record.reply
    if not reply.output and reply.output_hash != EMPTY_LIST_HASH:
        ledger.leave_open(CheckId.REPLY_OUTPUT, record.reply_hash, WITHHELD, "its output is not on chain")
        return
    hashed = keccak256(reply.output)
    ledger.expect(
        CheckId.REPLY_OUTPUT,
        record.reply_hash,
        hashed == reply.output_hash,
        "its output hashes to {}, its outputHash is {}",
        hashed,
        reply.output_hash,
    )


def _signer(graph: RunGraph, record: ReplyRecord, ledger: Ledger) -> None:
    """A replier that is a smart account, or that used a forwarder, did not sign the transaction: that is allowed."""
    log = graph.anchor(record.reply_hash)
    transaction = graph.transactions.get(log.transaction_hash) if log is not None else None
    replier = record.reply.replier
    if transaction is None:
        ledger.leave_open(
            CheckId.REPLY_SIGNER, record.reply_hash, "", "the transaction that anchored it is not known"
        )
    elif transaction.sender != replier:
        ledger.leave_open(
            CheckId.REPLY_SIGNER,
            record.reply_hash,
            f"{CONTRACT} of msg.sender",
            "its replier {} is not the signer {} of the transaction: a smart account or a forwarder",
            replier,
            transaction.sender,
        )
    elif transaction.to != graph.evidence.contract:
        ledger.leave_open(
            CheckId.REPLY_SIGNER,
            record.reply_hash,
            f"{CONTRACT} of msg.sender",
            "its replier {} signed a transaction to {}, not to the contract: a forwarder",
            replier,
            transaction.to if transaction.to is not None else "a new contract",
        )
    else:
        ledger.expect(CheckId.REPLY_SIGNER, record.reply_hash, True, "")


def _proof(record: ReplyRecord, ledger: Ledger) -> None:
    if record.proven:
        ledger.leave_open(
            CheckId.REPLY_PROOF,
            record.reply_hash,
            CLAIM,
            "claimed proven by the verifier {}; its proof was not run again",
            record.verifier,
        )
    elif record.verification_digest != _ZERO_ID or record.verifier != _ZERO_ADDRESS:
        ledger.note(record.reply_hash, "the contract names a verifier or a digest for it, but not as proven")
