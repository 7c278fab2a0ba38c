"""Actions of the transition table: what anyone may try in a position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from eth_utils import to_checksum_address

from provenflow.abi import AgentReply, NewAgentTask
from provenflow.hashing import keccak256, operation_key, reply_digest
from tests.support.blocks import Transaction, proving, replying, timing_out
from tests.support.positions import Position
from tests.support.scenario import PROOF_WINDOW


class Waits(StrEnum):
    """How a reply can be had that is anchored and moves nothing."""

    FOR_ITS_PROOF = "sync stage: any reply"
    AS_NONSENSE = "the gate discards nonsense"
    AS_TWO_IN_ONE = "the gate discards a reply to two tasks"
    NEVER = "the gate passes every reply"


class Absent(Exception):
    """The position has nothing that the action could be tried on."""


@dataclass(frozen=True)
class Attempt:
    """One thing that is tried.

    Parameters
    ----------
    transaction:
        What is sent.
    at:
        Timestamp of its block; None: one second after the last.
    reply:
        Of ``onAgentReply``.
    reply_hash:
        The reply that is proven, or that a retry must resolve to.
    task:
        The task that is answered or timed out.
    deadline:
        After which the task can be timed out.
    """

    transaction: Transaction
    at: int | None = None
    reply: AgentReply | None = None
    reply_hash: bytes = b""
    task: bytes = b""
    deadline: int = 0


Action = Callable[[Position, Waits], Attempt]
ACTIONS: dict[str, Action] = {}


def action(function: Action) -> Action:
    """The function's name, in words, is the action's."""
    ACTIONS[function.__name__.strip("_").replace("_", " ")] = function
    return function


def expected_arguments(error: str, attempt: Attempt, position: Position) -> dict[str, Any]:
    """The arguments of the error with which the contract has to refuse an attempt that was just mined."""
    reply, run_id, now = attempt.reply, position.run_id, position.driver.now
    match error:
        case "EmptyReplyHashes":
            return {}
        case "ForeignTask":
            return {
                "taskHash": attempt.task,
                "taskWorkflowRunId": position.twin_id,
                "replyWorkflowRunId": run_id,
            }
        case "OperationConflict":
            assert reply is not None
            bound = position.driver.reply(attempt.reply_hash).reply
            digests = [
                reply_digest(one.output_hash, one.replier, one.prev_task_hashes, run_id)
                for one in (bound, reply)
            ]
            return {
                "operationKey": operation_key(run_id, reply.replier, reply.operation_id),
                "boundReplyDigest": digests[0],
                "submittedReplyDigest": digests[1],
            }
        case "ProofRejected" | "UnknownReply":
            return {"replyHash": attempt.reply_hash}
        case "ReplierMismatch":
            assert reply is not None
            return {"replier": to_checksum_address(reply.replier), "sender": attempt.transaction.sender}
        case "ReplierNotAllowed":
            assert reply is not None
            return {
                "workflowRunId": run_id,
                "stage": position.state.stage,
                "replier": to_checksum_address(reply.replier),
            }
        case "RunNotPending":
            return {"workflowRunId": run_id, "status": position.state.status}
        case "TaskExpired":
            expires_at = position.driver.task(attempt.task).expires_at
            return {"taskHash": attempt.task, "expiresAt": expires_at, "blockTimestamp": now}
        case "TaskNotExpired":
            return {"taskHash": attempt.task, "deadline": attempt.deadline, "blockTimestamp": now}
        case "TaskNotOpen" | "UnknownTask":
            return {"taskHash": attempt.task}
    raise AssertionError(f"nobody said which arguments {error} has")


# ── onAgentReply ─────────────────────────────────────────────────────────────


def _reply(reply: AgentReply, sender: Any = None, *, at: int | None = None) -> Attempt:
    return Attempt(replying(reply, sender), at, reply, reply.reply_hash(), reply.prev_task_hashes[0])


@action
def reply(position: Position, _: Waits) -> Attempt:
    return _reply(position.build())


@action
def reply_of_an_outsider(position: Position, _: Waits) -> Attempt:
    return _reply(position.build(position.cast.outsider))


@action
def reply_in_the_name_of_another(position: Position, _: Waits) -> Attempt:
    return _reply(position.build(), position.cast.outsider)


@action
def reply_to_a_closed_task(position: Position, _: Waits) -> Attempt:
    if not position.closed_tasks:
        raise Absent
    return _reply(position.build(tasks=position.closed_tasks[-1]))


@action
def reply_to_an_open_and_a_closed_task(position: Position, _: Waits) -> Attempt:
    if not position.closed_tasks:
        raise Absent
    closed = position.closed_tasks[-1]
    return replace(_reply(position.build(tasks=[position.task, closed])), task=closed)


@action
def reply_to_a_task_of_another_run(position: Position, _: Waits) -> Attempt:
    dispatched = position.driver.events(position.twin_id)[0]
    assert isinstance(dispatched, NewAgentTask)
    return _reply(position.build(tasks=dispatched.task_hash))


@action
def reply_to_an_unknown_task(position: Position, _: Waits) -> Attempt:
    return _reply(position.build(tasks=keccak256(b"no task")))


@action
def reply_after_expiry(position: Position, _: Waits) -> Attempt:
    return _reply(position.build(), at=_later(position, position.driver.task(position.task).expires_at + 1))


@action
def retry(position: Position, waits: Waits) -> Attempt:
    earlier = _earlier_reply(position, waits)
    retried = replace(earlier, timestamp=position.driver.advance_time(1))
    return replace(_reply(retried), reply_hash=earlier.reply_hash())


@action
def retry_with_other_content(position: Position, waits: Waits) -> Attempt:
    earlier = _earlier_reply(position, waits)
    other = replace(earlier, output=b"other content", output_hash=keccak256(b"other content"))
    return replace(_reply(other), reply_hash=earlier.reply_hash())


# ── onAgentProve ─────────────────────────────────────────────────────────────


def _proof(position: Position, reply_hash: bytes, proof: bytes | None = None) -> Attempt:
    if proof is None:
        proof = position.driver.proof_for(reply_hash)
    return Attempt(proving(reply_hash, proof, position.cast.prover), reply_hash=reply_hash)


@action
def proof(position: Position, waits: Waits) -> Attempt:
    return _proof(position, _waiting_reply(position, waits))


@action
def wrong_proof(position: Position, waits: Waits) -> Attempt:
    return _proof(position, _waiting_reply(position, waits), b"wrong")


@action
def late_proof(position: Position, _: Waits) -> Attempt:
    late = position.answers_to_closed_tasks(proven=False)
    if not late:
        raise Absent
    return _proof(position, late[-1])


@action
def second_proof(position: Position, waits: Waits) -> Attempt:
    proven = position.answers_to_closed_tasks(proven=True)
    if not proven:
        # Prove something first whose proof moves nothing.
        late = position.answers_to_closed_tasks(proven=False)
        if not late and waits not in (Waits.AS_NONSENSE, Waits.AS_TWO_IN_ONE):
            raise Absent
        proven = [late[-1] if late else _waiting_reply(position, waits)]
        position.prove(proven[0])
    return _proof(position, proven[-1])


@action
def proof_of_an_unknown_reply(position: Position, _: Waits) -> Attempt:
    return _proof(position, keccak256(b"no reply"), b"a proof")


@action
def proof_of_nothing(position: Position, _: Waits) -> Attempt:
    return Attempt(proving([], b"a proof", position.cast.prover))


# ── replyTimeout ─────────────────────────────────────────────────────────────


def _timeout(position: Position, task: bytes, deadline: int = 0, at: int | None = None) -> Attempt:
    transaction = timing_out(position.driver, task, position.cast.outsider)
    return Attempt(transaction, at, task=task, deadline=deadline)


def _deadline(position: Position, waits: Waits) -> int:
    expires_at = position.driver.task(position.task).expires_at
    awaits_proof = waits is Waits.FOR_ITS_PROOF and position.is_answered(position.task)
    return expires_at + PROOF_WINDOW if awaits_proof else expires_at


@action
def timeout(position: Position, waits: Waits) -> Attempt:
    deadline = _deadline(position, waits)
    return _timeout(position, position.task, deadline, _later(position, deadline + 1))


@action
def timeout_at_the_deadline(position: Position, waits: Waits) -> Attempt:
    deadline = _deadline(position, waits)
    return _timeout(position, position.task, deadline, _later(position, deadline))


@action
def timeout_while_a_proof_is_awaited(position: Position, waits: Waits) -> Attempt:
    if waits is not Waits.FOR_ITS_PROOF:
        raise Absent
    if position.open_tasks:
        position.submit(position.build())
    just_expired = position.driver.task(position.task).expires_at + 1
    return _timeout(position, position.task, _deadline(position, waits), _later(position, just_expired))


@action
def timeout_of_a_closed_task(position: Position, _: Waits) -> Attempt:
    if not position.closed_tasks:
        raise Absent
    return _timeout(position, position.closed_tasks[-1])


@action
def timeout_of_an_unknown_task(position: Position, _: Waits) -> Attempt:
    return _timeout(position, keccak256(b"no task"))


# ── What the actions need ────────────────────────────────────────────────────


def _later(position: Position, at: int) -> int | None:
    """That moment; of an ended run, which may have ended after it, any."""
    return at if position.open_tasks else None


def _earlier_reply(position: Position, waits: Waits) -> AgentReply:
    """A reply that has been anchored, if need be one that waits."""
    if not position.answers:
        _waiting_reply(position, waits)
    return position.answers[-1]


def _waiting_reply(position: Position, waits: Waits) -> bytes:
    """A reply that is not proven and has not moved the run: of an ended run any, else one to an open task."""
    open_tasks = position.open_tasks
    if not open_tasks:
        return position.answers_to_closed_tasks(proven=False)[-1]
    match waits:
        case Waits.FOR_ITS_PROOF:
            waiting = position.build()
        case Waits.AS_NONSENSE:
            waiting = position.build(position.cast.outsider, output=b"nonsense")
        case Waits.AS_TWO_IN_ONE:
            waiting = position.build(tasks=[task.task_hash for task in open_tasks[:2]])
        case Waits.NEVER:
            raise Absent
    return position.submit(waiting)
