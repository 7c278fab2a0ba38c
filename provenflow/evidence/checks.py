"""The checks that :func:`provenflow.evidence.verify` makes: their ids, what each one states, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

RECORDS: Final = "the records alone"
NODE: Final = "the node's word"
CONTRACT: Final = "the contract's own check"
CLAIM: Final = "the contract's claim"
WITHHELD: Final = "those who hold the plaintext"


class CheckId(StrEnum):
    """Stable ids of the checks, for programs."""

    RECORD_UNIQUE = "record.unique"
    RECORD_BLOCK = "record.block"
    RECORD_TRANSACTION = "record.transaction"
    RECORD_USED = "record.used"
    BLOCK_ORDER = "block.order"
    LOG_CONTRACT = "log.contract"
    LOG_RUN = "log.run"
    LOG_EVENT = "log.event"
    LOG_ORDER = "log.order"
    RUN_STARTED = "run.started"
    TASK_RECORD = "task.record"
    TASK_HASH = "task.hash"
    TASK_RUN = "task.run"
    TASK_EVENT = "task.event"
    TASK_STAGE = "task.stage"
    TASK_SEQUENCE = "task.sequence"
    TASK_TIME = "task.time"
    TASK_INITIAL = "task.initial"
    TASK_LINKS = "task.links"
    TASK_ORDER = "task.order"
    TASK_INPUT = "task.input"
    TASK_PROVEN = "task.proven"
    REPLY_RECORD = "reply.record"
    REPLY_HASH = "reply.hash"
    REPLY_RUN = "reply.run"
    REPLY_EVENT = "reply.event"
    REPLY_REPLIER = "reply.replier"
    REPLY_OPERATION = "reply.operation"
    REPLY_TASKS = "reply.tasks"
    REPLY_LINKS = "reply.links"
    REPLY_ORDER = "reply.order"
    REPLY_AFTER_TASKS = "reply.after-tasks"
    REPLY_NOT_FUTURE = "reply.not-future"
    REPLY_OUTPUT = "reply.output"
    REPLY_SIGNER = "reply.signer"
    REPLY_PROOF = "reply.proof"
    CHAIN_ALTERNATES = "chain.alternates"
    CHAIN_ACYCLIC = "chain.acyclic"
    CHAIN_WALK = "chain.walk"
    RESULT_FIELDS = "result.fields"
    COMPLETION_EVENT = "completion.event"
    COMPLETION_RESULT = "completion.result"
    COMPLETION_TIME = "completion.time"
    COMPLETION_LAST = "completion.last"
    FINAL_EVENT = "final.event"
    FINAL_INPUT = "final.input"
    FINAL_REPLIES = "final.replies"
    FINAL_TIME = "final.time"
    FINAL_PROVEN = "final.proven"


@dataclass(frozen=True)
class CheckDefinition:
    """What a check states and rests on.

    Parameters
    ----------
    id:
        Stable id.
    statement:
        What holds when the check holds.
    rests_on:
        Whose word a "holds" takes: that of the records (recomputed from them), of the node, or of the contract.
    may_stay_open:
        True if evidence can be whole although this check could not be made, for instance because a plaintext was
        withheld. Such a check is reported as unchecked and does not change the verdict of the whole.
    """

    id: CheckId
    statement: str
    rests_on: str
    may_stay_open: bool = False


_DEFINITIONS: Final = (
    CheckDefinition(CheckId.RECORD_UNIQUE, "no task, reply, block or transaction is recorded twice", RECORDS),
    CheckDefinition(
        CheckId.RECORD_BLOCK,
        "every log's block is recorded, with its hash, and not after the pinned block",
        NODE,
    ),
    CheckDefinition(
        CheckId.RECORD_TRANSACTION, "every log's transaction is recorded, in the log's block", NODE
    ),
    CheckDefinition(CheckId.RECORD_USED, "every recorded block and transaction is named by a log", RECORDS),
    CheckDefinition(CheckId.BLOCK_ORDER, "time does not run backwards from block to block", NODE),
    CheckDefinition(CheckId.LOG_CONTRACT, "every log comes from the contract", NODE),
    CheckDefinition(CheckId.LOG_RUN, "every log belongs to the run", NODE),
    CheckDefinition(CheckId.LOG_EVENT, "every log is exactly one of the interface's three events", NODE),
    CheckDefinition(CheckId.LOG_ORDER, "logs stand in chain order, each place in the chain once", NODE),
    CheckDefinition(CheckId.RUN_STARTED, "the run began with a NewAgentTask", NODE),
    CheckDefinition(
        CheckId.TASK_RECORD, "the contract returned every task that an event or result() names", NODE
    ),
    CheckDefinition(CheckId.TASK_HASH, "every task has the hash under which it was asked for", RECORDS),
    CheckDefinition(CheckId.TASK_RUN, "every task belongs to the run", RECORDS),
    CheckDefinition(CheckId.TASK_EVENT, "every task but the final one has exactly one NewAgentTask", NODE),
    CheckDefinition(CheckId.TASK_STAGE, "every task has the stage that its event announced", NODE),
    CheckDefinition(CheckId.TASK_SEQUENCE, "taskSeq counts 0, 1, 2 … in the order of the events", NODE),
    CheckDefinition(CheckId.TASK_TIME, "every task has the time of the block of its event", NODE),
    CheckDefinition(
        CheckId.TASK_INITIAL, "tasks without previous replies come from run(), or repeat one that does", NODE
    ),
    CheckDefinition(CheckId.TASK_LINKS, "every previous reply of a task is in the evidence", RECORDS),
    CheckDefinition(
        CheckId.TASK_ORDER, "every task was dispatched after its previous replies were anchored", NODE
    ),
    CheckDefinition(
        CheckId.TASK_INPUT,
        "every input given in plaintext has the hash inputHash",
        RECORDS,
        may_stay_open=True,
    ),
    CheckDefinition(
        CheckId.TASK_PROVEN,
        "every task's proven is that of its previous replies, true if there are none",
        CLAIM,
    ),
    CheckDefinition(CheckId.REPLY_RECORD, "the contract returned every reply that an event names", NODE),
    CheckDefinition(CheckId.REPLY_HASH, "every reply has the hash under which it was asked for", RECORDS),
    CheckDefinition(CheckId.REPLY_RUN, "every reply belongs to the run", RECORDS),
    CheckDefinition(CheckId.REPLY_EVENT, "every reply has exactly one AgentReplyAnchored", NODE),
    CheckDefinition(CheckId.REPLY_REPLIER, "every reply has the replier that its event announced", NODE),
    CheckDefinition(
        CheckId.REPLY_OPERATION, "every operationId is non-zero and anchored once per replier", RECORDS
    ),
    CheckDefinition(CheckId.REPLY_TASKS, "every reply answers at least one task", RECORDS),
    CheckDefinition(CheckId.REPLY_LINKS, "every previous task of a reply is in the evidence", RECORDS),
    CheckDefinition(CheckId.REPLY_ORDER, "every reply was anchored after its tasks were dispatched", NODE),
    CheckDefinition(
        CheckId.REPLY_AFTER_TASKS, "every reply's timestamp is later than the blocks of all its tasks", NODE
    ),
    CheckDefinition(
        CheckId.REPLY_NOT_FUTURE, "no reply's timestamp is later than the block that anchored it", NODE
    ),
    CheckDefinition(
        CheckId.REPLY_OUTPUT,
        "every output given in plaintext has the hash outputHash",
        RECORDS,
        may_stay_open=True,
    ),
    CheckDefinition(
        CheckId.REPLY_SIGNER,
        "every replier signed the transaction, to the contract, that anchored the reply",
        NODE,
        may_stay_open=True,
    ),
    CheckDefinition(
        CheckId.REPLY_PROOF,
        "the proof of every reply that is claimed proven is valid",
        CLAIM,
        may_stay_open=True,
    ),
    CheckDefinition(
        CheckId.CHAIN_ALTERNATES, "tasks link only to replies and replies only to tasks", RECORDS
    ),
    CheckDefinition(CheckId.CHAIN_ACYCLIC, "no task or reply leads back to itself", RECORDS),
    CheckDefinition(
        CheckId.CHAIN_WALK,
        "the walk from result().finalTaskHash ends in initial tasks on every branch",
        RECORDS,
    ),
    CheckDefinition(
        CheckId.RESULT_FIELDS, "result() has a final task and a time exactly when it says Success", NODE
    ),
    CheckDefinition(
        CheckId.COMPLETION_EVENT, "an ended run has exactly one WorkflowCompleted, a pending one none", NODE
    ),
    CheckDefinition(CheckId.COMPLETION_RESULT, "WorkflowCompleted says the same as result()", NODE),
    CheckDefinition(CheckId.COMPLETION_TIME, "WorkflowCompleted carries the time of its block", NODE),
    CheckDefinition(CheckId.COMPLETION_LAST, "nothing of the run comes after WorkflowCompleted", NODE),
    CheckDefinition(CheckId.FINAL_EVENT, "the final task was not announced by NewAgentTask", NODE),
    CheckDefinition(CheckId.FINAL_INPUT, "the final task's inputHash is zero", RECORDS),
    CheckDefinition(CheckId.FINAL_REPLIES, "the final task names at least one reply", RECORDS),
    CheckDefinition(CheckId.FINAL_TIME, "the final task has the time of completion", NODE),
    CheckDefinition(CheckId.FINAL_PROVEN, "every reply that the final task names is claimed proven", CLAIM),
)

CHECKS: Final = {definition.id: definition for definition in _DEFINITIONS}
"""Every check by its id, in the order of the report."""
