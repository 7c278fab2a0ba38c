"""What evidence of a run consists of: records exactly as a node and a contract gave them.

Nothing here is judged. Each record says where it comes from, so that a verdict can say what it rests on.
Ids and hashes are 32 bytes, addresses 20 bytes, times Unix seconds.
"""

from __future__ import annotations

from dataclasses import dataclass

from provenflow.abi import AgentReply, AgentTask, RunResult


@dataclass(frozen=True, slots=True)
class BlockRecord:
    """A block as the node described it."""

    number: int
    hash: bytes
    timestamp: int


@dataclass(frozen=True, slots=True)
class TransactionRecord:
    """A transaction as the node described it.

    `sender` is who signed it (``from``) and `to` whom it calls, ``None`` for a deployment.
    """

    hash: bytes
    sender: bytes
    to: bytes | None
    block_number: int
    block_hash: bytes
    index: int


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A log as the node described it, with all its fields; `log_index` counts within the block."""

    address: bytes
    topics: tuple[bytes, ...]
    data: bytes
    block_number: int
    block_hash: bytes
    transaction_hash: bytes
    transaction_index: int
    log_index: int

    @property
    def position(self) -> tuple[int, int]:
        """Where it stands in the chain: (block number, log index)."""
        return self.block_number, self.log_index


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """What ``getAgentTask(task_hash)`` returned. `proven` is the contract's claim."""

    task_hash: bytes
    task: AgentTask
    proven: bool


@dataclass(frozen=True, slots=True)
class ReplyRecord:
    """What ``getAgentReply(reply_hash)`` returned.

    `verifier`, `proven` and `verification_digest` are the contract's claims.
    """

    reply_hash: bytes
    reply: AgentReply
    verifier: bytes
    proven: bool
    verification_digest: bytes


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that was read about one run.

    Parameters
    ----------
    chain_id, contract, workflow_run_id:
        Together they name the run; none of them is enough alone.
    code_hash:
        keccak256 of the contract's code.
    block:
        The block at which the contract was read; logs were read up to it.
    result:
        What ``result(workflow_run_id)`` returned.
    tasks, replies:
        Every task and reply that a log or a link names and the contract knows.
    logs:
        The run's ``NewAgentTask``, ``AgentReplyAnchored`` and ``WorkflowCompleted`` logs, in chain order.
    blocks, transactions:
        Those that the logs name.
    """

    chain_id: int
    contract: bytes
    code_hash: bytes
    workflow_run_id: bytes
    block: BlockRecord
    result: RunResult
    tasks: tuple[TaskRecord, ...]
    replies: tuple[ReplyRecord, ...]
    logs: tuple[LogRecord, ...]
    blocks: tuple[BlockRecord, ...]
    transactions: tuple[TransactionRecord, ...]
