"""The records of a run, indexed: who is named by which event, when, and by whom."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from provenflow.abi import (
    AgentReplyAnchored,
    NewAgentTask,
    RunStatus,
    WorkflowCompleted,
    WorkflowEvent,
    decode_event,
)
from provenflow.errors import EvidenceError
from provenflow.evidence.model import (
    BlockRecord,
    Evidence,
    LogRecord,
    ReplyRecord,
    TaskRecord,
    TransactionRecord,
)


@dataclass(frozen=True, slots=True)
class Sighting:
    """An event of the run with the log that carried it."""

    log: LogRecord
    event: WorkflowEvent


@dataclass(slots=True)
class RunGraph:
    """Evidence, ready to be walked. Where a key occurs twice the first record counts.

    `dispatches` and `anchors` hold the logs that name a task or reply, in the order recorded; `unread` the logs that
    are no event of the interface, each with the reason.
    """

    evidence: Evidence
    tasks: dict[bytes, TaskRecord] = field(default_factory=dict)
    replies: dict[bytes, ReplyRecord] = field(default_factory=dict)
    blocks: dict[int, BlockRecord] = field(default_factory=dict)
    transactions: dict[bytes, TransactionRecord] = field(default_factory=dict)
    sightings: list[Sighting] = field(default_factory=list)
    unread: list[tuple[LogRecord, str]] = field(default_factory=list)
    dispatches: dict[bytes, list[LogRecord]] = field(default_factory=lambda: defaultdict(list))
    anchors: dict[bytes, list[LogRecord]] = field(default_factory=lambda: defaultdict(list))
    completions: list[Sighting] = field(default_factory=list)

    @classmethod
    def of(cls, evidence: Evidence) -> RunGraph:
        """Index `evidence`."""
        graph = cls(evidence)
        for task in evidence.tasks:
            graph.tasks.setdefault(task.task_hash, task)
        for reply in evidence.replies:
            graph.replies.setdefault(reply.reply_hash, reply)
        for block in (*evidence.blocks, evidence.block):
            graph.blocks.setdefault(block.number, block)
        for transaction in evidence.transactions:
            graph.transactions.setdefault(transaction.hash, transaction)
        for log in evidence.logs:
            graph._read(log)
        return graph

    def _read(self, log: LogRecord) -> None:
        try:
            event = decode_event(log.topics, log.data)
        except EvidenceError as error:
            self.unread.append((log, error.message))
            return
        sighting = Sighting(log, event)
        self.sightings.append(sighting)
        match event:
            case NewAgentTask():
                self.dispatches[event.task_hash].append(log)
            case AgentReplyAnchored():
                self.anchors[event.reply_hash].append(log)
            case WorkflowCompleted():
                self.completions.append(sighting)

    @property
    def final_hash(self) -> bytes | None:
        """``finalTaskHash`` of a run that ended with Success, else ``None``."""
        result = self.evidence.result
        return result.final_task_hash if result.status is RunStatus.SUCCESS else None

    def dispatch(self, task_hash: bytes) -> LogRecord | None:
        """The log that announced a task, ``None`` if there is none or more than one."""
        return _only(self.dispatches.get(task_hash))

    def anchor(self, reply_hash: bytes) -> LogRecord | None:
        """The log that anchored a reply, ``None`` if there is none or more than one."""
        return _only(self.anchors.get(reply_hash))

    def time_of(self, log: LogRecord | None) -> int | None:
        """Time of a log's block, ``None`` if it is not in the evidence."""
        block = self.blocks.get(log.block_number) if log is not None else None
        return None if block is None else block.timestamp

    def dispatched(self) -> list[bytes]:
        """Hashes of the tasks that events name, in the order of the events, each once."""
        return list(self.dispatches)

    def anchored(self) -> list[bytes]:
        """Hashes of the replies that events name, in the order of the events, each once."""
        return list(self.anchors)

    def knows(self, node_hash: bytes) -> bool:
        """True if a task or a reply is recorded under this hash."""
        return node_hash in self.tasks or node_hash in self.replies

    def previous(self, node_hash: bytes) -> tuple[bytes, ...]:
        """The hashes that a task or reply links back to, empty if the node is not recorded."""
        if (task := self.tasks.get(node_hash)) is not None:
            return task.task.prev_reply_hashes
        if (reply := self.replies.get(node_hash)) is not None:
            return reply.reply.prev_task_hashes
        return ()

    def nodes(self) -> Iterator[bytes]:
        """The hash of every recorded task, then of every recorded reply."""
        yield from self.tasks
        yield from self.replies

    def reach(self, starts: Iterable[bytes]) -> dict[bytes, None]:
        """Every hash that the links lead to from `starts`, those included, in the order of the walk.

        Hashes without a record are in it too. Linear in nodes and links, and not recursive: chains may be long.
        """
        seen = dict.fromkeys(starts)
        todo = list(seen)
        while todo:
            for link in self.previous(todo.pop()):
                if link not in seen:
                    seen[link] = None
                    todo.append(link)
        return seen

    def on_cycles(self) -> set[bytes]:
        """The nodes that lie on a cycle of links, or between two cycles. Linear in nodes and links."""
        links = {node: [link for link in self.previous(node) if self.knows(link)] for node in self.nodes()}
        users: dict[bytes, list[bytes]] = defaultdict(list)
        for node, targets in links.items():
            for target in targets:
                users[target].append(node)
        alive = _strip(links, users)
        return _strip({node: users.get(node, []) for node in alive}, links, alive) if alive else alive


def _strip(
    links: dict[bytes, list[bytes]], users: dict[bytes, list[bytes]], within: set[bytes] | None = None
) -> set[bytes]:
    """What is left when nodes without links are removed again and again, counting only links among `within`."""
    alive = set(links)
    counts = {
        node: sum(1 for link in targets if within is None or link in within)
        for node, targets in links.items()
    }
    todo = [node for node, count in counts.items() if count == 0]
    while todo:
        node = todo.pop()
        alive.discard(node)
        for user in users.get(node, ()):
            if user in alive:
                counts[user] -= 1
                if counts[user] == 0:
                    todo.append(user)
    return alive


def _only(logs: list[LogRecord] | None) -> LogRecord | None:
    return logs[0] if logs is not None and len(logs) == 1 else None
