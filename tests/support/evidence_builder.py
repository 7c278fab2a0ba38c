"""Honest evidence, built in memory, and the runs that the tests of the evidence verifier start from.

A :class:`RunBuilder` plays contract and node together. Everything it does is what the ERC asks for unless a test says
otherwise by name, so that evidence can be wrong in one place and consistent (hashes included) everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from eth_abi.abi import encode

from provenflow import abi
from provenflow.abi import AgentReply, AgentTask, RunResult, RunStatus
from provenflow.evidence import (
    BlockRecord,
    Evidence,
    LogRecord,
    ReplyRecord,
    TaskRecord,
    TransactionRecord,
)
from provenflow.hashing import keccak256

CHAIN_ID = 31337
CONTRACT = bytes.fromhex("c0" * 20)
VERIFIER = bytes.fromhex("fe" * 20)
REQUESTER = bytes.fromhex("01" * 20)
AGENTS = tuple(bytes([0xA0 + number]) * 20 for number in range(10))
RUN_ID = keccak256(b"run")
OTHER_RUN = keccak256(b"another run")
START = 1_700_000_000
BLOCK_SECONDS = 12
WINDOW = 7 * 24 * 3600


def name(text: str) -> bytes:
    """32 bytes that stand for `text`."""
    return keccak256(text.encode())


def word(value: bytes | int) -> bytes:
    """A value as an indexed topic."""
    return value.to_bytes(32, "big") if isinstance(value, int) else value.rjust(32, b"\0")


@dataclass
class RunBuilder:
    """A run that is being made; :meth:`evidence` is what a node would show of it."""

    status: RunStatus = RunStatus.PENDING
    final: bytes = bytes(32)
    completed_at: int = 0
    tasks: dict[bytes, TaskRecord] = field(default_factory=dict)
    replies: dict[bytes, ReplyRecord] = field(default_factory=dict)
    logs: list[LogRecord] = field(default_factory=list)
    blocks: list[BlockRecord] = field(default_factory=list)
    transactions: list[TransactionRecord] = field(default_factory=list)
    sequence: int = 0

    def __post_init__(self) -> None:
        self.mine()

    @property
    def now(self) -> int:
        return self.blocks[-1].timestamp

    def mine(self, seconds: int = BLOCK_SECONDS) -> None:
        """A new block; what happens next is in it."""
        number = 100 + len(self.blocks)
        time = self.blocks[-1].timestamp + seconds if self.blocks else START
        self.blocks.append(BlockRecord(number, name(f"block {number}"), time))

    def transact(self, sender: bytes, to: bytes | None = CONTRACT) -> TransactionRecord:
        """A new transaction in the current block; logs that follow belong to it."""
        block = self.blocks[-1]
        latest = self.transactions[-1] if self.transactions else None
        index = latest.index + 1 if latest is not None and latest.block_number == block.number else 0
        transaction = TransactionRecord(
            name(f"transaction {len(self.transactions)}"), sender, to, block.number, block.hash, index
        )
        self.transactions.append(transaction)
        return transaction

    def emit(self, topics: tuple[bytes, ...], data: bytes = b"") -> LogRecord:
        """A log of the latest transaction."""
        transaction = self.transactions[-1]
        latest = self.logs[-1] if self.logs else None
        same_block = latest is not None and latest.block_number == transaction.block_number
        index = latest.log_index + 1 if latest is not None and same_block else 0
        log = LogRecord(
            address=CONTRACT,
            topics=topics,
            data=data,
            block_number=transaction.block_number,
            block_hash=transaction.block_hash,
            transaction_hash=transaction.hash,
            transaction_index=transaction.index,
            log_index=index,
        )
        self.logs.append(log)
        return log

    def announce(self, task_hash: bytes, stage: int, run_id: bytes = RUN_ID) -> LogRecord:
        """``NewAgentTask``."""
        return self.emit((abi.NEW_AGENT_TASK.topic0, run_id, word(stage), task_hash))

    def anchor(self, reply_hash: bytes, replier: bytes, run_id: bytes = RUN_ID) -> LogRecord:
        """``AgentReplyAnchored``."""
        return self.emit((abi.AGENT_REPLY_ANCHORED.topic0, run_id, reply_hash, word(replier)))

    def announce_end(self, status: RunStatus, final: bytes, timestamp: int) -> LogRecord:
        """``WorkflowCompleted``."""
        data = encode(abi.WORKFLOW_COMPLETED.data, (status, final, timestamp))
        return self.emit((abi.WORKFLOW_COMPLETED.topic0, RUN_ID), data)

    def dispatch(
        self, stage: int, previous: tuple[bytes, ...] = (), event_stage: int | None = None, **fields: Any
    ) -> bytes:
        """A new task in the latest transaction, announced; `fields` replace those of an honest task."""
        values: dict[str, Any] = {
            "stage": stage,
            "task_seq": self.sequence,
            "input_hash": keccak256(fields.get("input", b"input")),
            "input": b"input",
            "timestamp": self.now,
            "expires_at": self.now + WINDOW,
            "prev_reply_hashes": previous,
            "workflow_run_id": RUN_ID,
        }
        task_hash = self._store_task(AgentTask(**(values | fields)))
        self.announce(task_hash, stage if event_stage is None else event_stage)
        return task_hash

    def run(self, stages: tuple[int, ...] = (0,), **fields: Any) -> tuple[bytes, ...]:
        """``run()``: the initial tasks, in one transaction."""
        self.transact(REQUESTER)
        return tuple(self.dispatch(stage, **fields) for stage in stages)

    def reply(
        self,
        agent: bytes,
        tasks: tuple[bytes, ...],
        *,
        sender: bytes | None = None,
        to: bytes | None = CONTRACT,
        event_replier: bytes | None = None,
        mine: bool = True,
        **fields: Any,
    ) -> bytes:
        """``onAgentReply`` in a block of its own; `fields` replace those of an honest reply."""
        if mine:
            self.mine()
        self.transact(agent if sender is None else sender, to)
        output = fields.get("output", b"output %d" % len(self.replies))
        values: dict[str, Any] = {
            "operation_id": name(f"operation {len(self.replies)}"),
            "output_hash": keccak256(output),
            "output": output,
            "timestamp": self.now - 1,
            "replier": agent,
            "prev_task_hashes": tasks,
            "workflow_run_id": RUN_ID,
        }
        reply = AgentReply(**(values | fields))
        reply_hash = reply.reply_hash()
        self.replies[reply_hash] = ReplyRecord(reply_hash, reply, bytes(20), False, bytes(32))
        self.anchor(reply_hash, reply.replier if event_replier is None else event_replier)
        return reply_hash

    def prove(self, *reply_hashes: bytes, mine: bool = True) -> None:
        """``onAgentProve`` by a third party, with propagation to the tasks."""
        if mine:
            self.mine()
        self.transact(REQUESTER)
        for reply_hash in reply_hashes:
            self.replies[reply_hash] = ReplyRecord(
                reply_hash, self.replies[reply_hash].reply, VERIFIER, True, name("digest")
            )
        for task_hash, record in self.tasks.items():
            self.tasks[task_hash] = TaskRecord(task_hash, record.task, self._proven(record.task))

    def complete(self, previous: tuple[bytes, ...], **fields: Any) -> bytes:
        """The final gate passes, in the latest transaction; `fields` replace those of an honest final task."""
        values: dict[str, Any] = {
            "stage": 255,
            "task_seq": self.sequence,
            "input_hash": bytes(32),
            "input": b"",
            "timestamp": self.now,
            "expires_at": 0,
            "prev_reply_hashes": previous,
            "workflow_run_id": RUN_ID,
        }
        self.final = self._store_task(AgentTask(**(values | fields)))
        self.status, self.completed_at = RunStatus.SUCCESS, self.now
        self.announce_end(RunStatus.SUCCESS, self.final, self.now)
        return self.final

    def abort(self) -> None:
        """The run fails, in the latest transaction."""
        self.status = RunStatus.FAILED
        self.announce_end(RunStatus.FAILED, bytes(32), self.now)

    def evidence(self) -> Evidence:
        """What a node shows of the run, read one block after the latest."""
        pinned = BlockRecord(self.blocks[-1].number + 1, name("pinned"), self.now + BLOCK_SECONDS)
        used = {log.block_number for log in self.logs}
        named = {log.transaction_hash for log in self.logs}
        return Evidence(
            chain_id=CHAIN_ID,
            contract=CONTRACT,
            code_hash=keccak256(b"code"),
            workflow_run_id=RUN_ID,
            block=pinned,
            result=RunResult(self.status, self.final, self.completed_at),
            tasks=tuple(self.tasks.values()),
            replies=tuple(self.replies.values()),
            logs=tuple(self.logs),
            blocks=tuple(block for block in self.blocks if block.number in used),
            transactions=tuple(item for item in self.transactions if item.hash in named),
        )

    def _store_task(self, task: AgentTask) -> bytes:
        task_hash = task.task_hash()
        self.tasks[task_hash] = TaskRecord(task_hash, task, self._proven(task))
        self.sequence += 1
        return task_hash

    def _proven(self, task: AgentTask) -> bool:
        known = [self.replies[link].proven for link in task.prev_reply_hashes if link in self.replies]
        return all(known)


def single_stage() -> RunBuilder:
    """Scenario 0: one task, one reply, one proof."""
    run = RunBuilder()
    tasks = run.run()
    reply = run.reply(AGENTS[0], tasks)
    run.prove(reply)
    run.complete((reply,))
    return run


def pipeline() -> RunBuilder:
    """Scenario 3: two asynchronous stages, whose replies are never proven, and a synchronous one."""
    run = RunBuilder()
    tasks = run.run()
    first = run.reply(AGENTS[0], tasks)
    second_task = run.dispatch(1, (first,))
    second = run.reply(AGENTS[1], (second_task,))
    third_task = run.dispatch(2, (second,))
    third = run.reply(AGENTS[2], (third_task,))
    run.prove(third)
    run.complete((third,))
    return run


def fan_in() -> RunBuilder:
    """Scenario 5 in small: three tasks in one block, three replies and one loser, then a joining stage."""
    run = RunBuilder()
    tasks = run.run((0, 0, 0))
    replies = tuple(run.reply(agent, (task,)) for agent, task in zip(AGENTS, tasks, strict=False))
    run.reply(AGENTS[5], (tasks[1],))
    run.prove(*replies)
    join = run.dispatch(1, replies)
    last = run.reply(AGENTS[3], (join,))
    run.prove(last)
    run.complete((last,))
    return run


def retry() -> RunBuilder:
    """The first answer is refused by the gate, the same stage is dispatched again, the second is accepted."""
    run = RunBuilder()
    tasks = run.run()
    refused = run.reply(AGENTS[0], tasks)
    run.prove(refused)
    again = run.dispatch(0, (refused,))
    accepted = run.reply(AGENTS[0], (again,))
    run.prove(accepted)
    run.complete((accepted,))
    return run


def timed_out() -> RunBuilder:
    """Nobody answers the initial task; after its expiry it is dispatched again, without previous replies."""
    run = RunBuilder()
    run.run()
    run.mine(WINDOW + 1)
    run.transact(REQUESTER)
    again = run.dispatch(0)
    accepted = run.reply(AGENTS[0], (again,))
    run.prove(accepted)
    run.complete((accepted,))
    return run


def failed() -> RunBuilder:
    """The run is aborted after its first reply."""
    run = RunBuilder()
    tasks = run.run()
    run.reply(AGENTS[0], tasks)
    run.abort()
    return run


def pending() -> RunBuilder:
    """The second stage waits for a reply."""
    run = RunBuilder()
    tasks = run.run()
    first = run.reply(AGENTS[0], tasks)
    run.dispatch(1, (first,))
    return run


def long_chain(replies: int) -> RunBuilder:
    """A deep run: `replies` stages one after the other."""
    run = RunBuilder()
    task = run.run()[0]
    for place in range(replies - 1):
        task = run.dispatch(place % 200, (run.reply(AGENTS[0], (task,)),))
    last = run.reply(AGENTS[0], (task,))
    run.replies[last] = ReplyRecord(last, run.replies[last].reply, VERIFIER, True, name("digest"))
    run.mine()
    run.transact(REQUESTER)
    run.complete((last,))
    return run


HONEST = {
    "single stage": single_stage,
    "pipeline": pipeline,
    "fan-in": fan_in,
    "retry": retry,
    "timed out": timed_out,
    "failed": failed,
    "pending": pending,
}
"""Every kind of honest run, by name."""
