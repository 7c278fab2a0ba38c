"""A static ERC-8301 workflow as a finite state machine in plain Python: what the contract should be.

Written from the text of the ERC and from this project's reading of it where the text is silent, not from the contract:
it stores whole records and recomputes everything else whenever it is asked. It knows neither a chain nor storage, and
its hashes come from :mod:`tests.support.reference_hashing`.

Every action takes the block it happens in. It returns the events that it emits, or raises :class:`Refusal` and changes
nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tests.support import reference_hashing as hashing

DAY = 24 * 60 * 60
FINAL_STAGE = 255
MAX_PREV_TASKS = 8
MAX_PROOF_BATCH = 32
PENDING, SUCCESS, FAILED = 0, 1, 2
ZERO = bytes(32)
# The profile of the verifier that the examples are tested with.
MOCK_PROFILE = hashing.keccak(b"mock-test-only-v1")

Event = tuple[Any, ...]


class Block(NamedTuple):
    """Where an action happens."""

    number: int
    timestamp: int


class Refusal(Exception):
    """The action is refused with this error and these values."""

    def __init__(self, name: str, **values: Any) -> None:
        super().__init__(f"{name}({values})")
        self.name = name
        self.values = values


@dataclass(frozen=True)
class Stage:
    """One stage of a static path: its successor is the next in the list, and the last one ends the run.

    Parameters
    ----------
    sync:
        Whether the gate waits for the proof.
    tasks:
        Tasks dispatched in parallel; each wants one reply.
    window:
        Seconds that a task of this stage stays open, but for those of ``run``.
    proof_window:
        Seconds more that an answered task waits for its proof.
    max_retries:
        How often a task is dispatched anew when it times out.
    """

    sync: bool
    tasks: int = 1
    window: int = 7 * DAY
    proof_window: int = 0
    max_retries: int = 1


PIPELINE = (Stage(False), Stage(False), Stage(True, proof_window=DAY))
AUDIT = (Stage(False, tasks=3), Stage(True, proof_window=DAY), Stage(True, proof_window=DAY))


@dataclass
class Task:
    """A dispatched or final task."""

    stage: int
    task_seq: int
    input_hash: bytes
    input: bytes
    timestamp: int
    expires_at: int
    prev_reply_hashes: tuple[bytes, ...]
    run_id: bytes
    lane: int = 0
    attempt: int = 0
    is_open: bool = True

    @property
    def hash(self) -> bytes:
        """``taskHash``."""
        return hashing.task_hash(
            hashing.Task(
                self.stage,
                self.task_seq,
                self.input_hash,
                self.timestamp,
                self.expires_at,
                self.prev_reply_hashes,
                self.run_id,
            )
        )


@dataclass(frozen=True)
class Reply:
    """A reply as an agent submits it; ``replier`` is 20 bytes."""

    operation_id: bytes
    output_hash: bytes
    output: bytes
    timestamp: int
    replier: bytes
    prev_task_hashes: tuple[bytes, ...]
    run_id: bytes

    @property
    def _hashed(self) -> hashing.Reply:
        return hashing.Reply(
            self.operation_id,
            self.output_hash,
            self.timestamp,
            self.replier,
            self.prev_task_hashes,
            self.run_id,
        )

    @property
    def hash(self) -> bytes:
        """``replyHash``."""
        return hashing.reply_hash(self._hashed)

    @property
    def digest(self) -> bytes:
        """``replyDigest``."""
        return hashing.reply_digest(self._hashed)


@dataclass
class Anchored:
    """An anchored reply and what became of it."""

    reply: Reply
    anchored_at: int
    proven: bool = False


@dataclass
class Run:
    """A run."""

    id: bytes
    stage: int = 0
    status: int = PENDING
    tasks: list[Task] = field(default_factory=list)
    accepted: list[bytes] = field(default_factory=list)  # replies that passed in the present stage
    final_task: bytes = ZERO
    completed_at: int = 0

    def open_tasks(self) -> list[Task]:
        """Tasks that still take a reply or a proof, in order of dispatch."""
        return [task for task in self.tasks if task.is_open] if self.status == PENDING else []


class StaticWorkflowModel:
    """The whole state of one static workflow contract whose every reply passes.

    Parameters
    ----------
    stages:
        Its path.
    verifier:
        20 bytes; the verifier of every stage, which accepts the proof ``keccak256(inputHash ‖ outputHash)``.
    """

    def __init__(self, stages: Sequence[Stage], verifier: bytes) -> None:
        self.stages = tuple(stages)
        self.verifier = verifier
        self.runs: dict[bytes, Run] = {}
        self.tasks: dict[bytes, Task] = {}
        self.replies: dict[bytes, Anchored] = {}
        self.operations: dict[tuple[bytes, bytes, bytes], bytes] = {}

    # ── Actions ──────────────────────────────────────────────────────────────

    def run(
        self, sender: bytes, input_hash: bytes, plaintext: bytes, expires_at: int, block: Block
    ) -> list[Event]:
        """``run()``."""
        if plaintext and hashing.keccak(plaintext) != input_hash:
            raise Refusal("InputHashMismatch", declared=input_hash, actual=hashing.keccak(plaintext))
        if expires_at == 0:
            raise Refusal("ExpiryRequired")
        if expires_at <= block.timestamp:
            raise Refusal("ExpiryNotInFuture", expiresAt=expires_at, blockTimestamp=block.timestamp)
        run = Run(hashing.run_id(sender, block.number, len(self.runs)))
        self.runs[run.id] = run
        return [
            # The plaintext goes with the first task of its hash.
            self._dispatch(
                run, input_hash, block, (), expires_at, lane=lane, plaintext=b"" if lane else plaintext
            )
            for lane in range(self.stages[0].tasks)
        ]

    def reply(self, reply: Reply, sender: bytes, block: Block) -> tuple[bytes, list[Event]]:
        """``onAgentReply()``: the canonical reply hash, and the events."""
        if reply.replier != sender:
            raise Refusal("ReplierMismatch", replier=reply.replier, sender=sender)
        if reply.operation_id == ZERO:
            raise Refusal("ZeroOperationId")
        operation = (reply.run_id, reply.replier, reply.operation_id)
        if operation in self.operations:
            return self._retry(operation, reply), []
        tasks = self._check_tasks(reply)
        self._check_open(reply, tasks)
        self._check_times(reply, tasks, block)
        if reply.output and hashing.keccak(reply.output) != reply.output_hash:
            raise Refusal(
                "OutputHashMismatch", declared=reply.output_hash, actual=hashing.keccak(reply.output)
            )
        self.operations[operation] = reply.hash
        self.replies[reply.hash] = Anchored(reply, block.timestamp)
        events: list[Event] = [("AgentReplyAnchored", reply.run_id, reply.hash, reply.replier)]
        run = self.runs[reply.run_id]
        if not self.stages[run.stage].sync:
            events += self._gate(run, reply, block)
        return reply.hash, events

    def prove(self, reply_hashes: Sequence[bytes], proof: bytes, block: Block) -> list[Event]:
        """``onAgentProve()``."""
        if not reply_hashes:
            raise Refusal("EmptyReplyHashes")
        if len(reply_hashes) > MAX_PROOF_BATCH:
            raise Refusal("TooManyReplyHashes", count=len(reply_hashes), max=MAX_PROOF_BATCH)
        for reply_hash in reply_hashes:
            if reply_hash not in self.replies:
                raise Refusal("UnknownReply", replyHash=reply_hash)
        batch = [self.replies[reply_hash] for reply_hash in reply_hashes]
        run = self.runs[batch[0].reply.run_id]
        stage = self._primary(batch[0].reply).stage
        for place, anchored in enumerate(batch):
            reply_hash, run_id = anchored.reply.hash, anchored.reply.run_id
            if reply_hash in reply_hashes[:place]:
                raise Refusal("DuplicateReplyHash", replyHash=reply_hash)
            if run_id != run.id:
                values = {"workflowRunId": run_id, "expectedWorkflowRunId": run.id}
                raise Refusal("MixedRuns", replyHash=reply_hash, **values)
            other = self._primary(anchored.reply).stage
            if other != stage:
                raise Refusal("MixedStages", replyHash=reply_hash, stage=other, expectedStage=stage)
        self._require_pending(run)
        fresh = [anchored for anchored in batch if not anchored.proven]
        for anchored in fresh:
            statement = self._primary(anchored.reply).input_hash + anchored.reply.output_hash
            if proof != hashing.keccak(statement):
                raise Refusal("ProofRejected", replyHash=anchored.reply.hash)
        for anchored in fresh:
            anchored.proven = True
        events: list[Event] = []
        if self.stages[stage].sync:
            for anchored in fresh:
                answered = [self.tasks[task_hash] for task_hash in anchored.reply.prev_task_hashes]
                if run.status == PENDING and all(task.is_open for task in answered):
                    events += self._gate(run, anchored.reply, block)
        return events

    def time_out(self, task_hash: bytes, block: Block) -> list[Event]:
        """``replyTimeout()``."""
        if task_hash not in self.tasks:
            raise Refusal("UnknownTask", taskHash=task_hash)
        task = self.tasks[task_hash]
        run = self.runs[task.run_id]
        self._require_pending(run)
        if not task.is_open:
            raise Refusal("TaskNotOpen", taskHash=task_hash)
        # Every task of these workflows expires.
        deadline = self.deadline(task)
        if block.timestamp <= deadline:
            raise Refusal(
                "TaskNotExpired", taskHash=task_hash, deadline=deadline, blockTimestamp=block.timestamp
            )
        stage = self.stages[run.stage]
        if task.attempt >= stage.max_retries:
            return self._end(run, FAILED, ZERO, block)
        task.is_open = False
        return [
            self._dispatch(
                run,
                task.input_hash,
                block,
                task.prev_reply_hashes,
                block.timestamp + stage.window,
                lane=task.lane,
                attempt=task.attempt + 1,
            )
        ]

    # ── Views ────────────────────────────────────────────────────────────────

    def is_task_proven(self, task: Task) -> bool:
        """``proven`` of a task: all its previous replies are, or it has none."""
        return all(self.replies[reply_hash].proven for reply_hash in task.prev_reply_hashes)

    def is_chain_proven(self, task: Task) -> bool:
        """Whether everything that led to a task is proven."""
        return self.is_task_proven(task) and all(
            self.is_chain_proven(self.tasks[before])
            for reply_hash in task.prev_reply_hashes
            for before in self.replies[reply_hash].reply.prev_task_hashes
        )

    def deadline(self, task: Task) -> int:
        """When an open task may be timed out: after its expiry, and after the proof window once it was answered."""
        stage = self.stages[task.stage]
        answered = any(task.hash in anchored.reply.prev_task_hashes for anchored in self.replies.values())
        return task.expires_at + (stage.proof_window if stage.sync and answered else 0)

    def verification(self, anchored: Anchored) -> tuple[bytes, bytes]:
        """``verifier`` and ``verificationDigest`` of a reply: zero until it is proven."""
        if not anchored.proven:
            return bytes(20), ZERO
        reply = anchored.reply
        return self.verifier, hashing.verification_digest(
            reply.run_id,
            hashing.address_word(reply.replier),
            self._primary(reply).input_hash,
            reply.output_hash,
            True,
            MOCK_PROFILE,
        )

    # ── Checks of a reply, in the ERC's order ────────────────────────────────

    def _retry(self, operation: tuple[bytes, bytes, bytes], reply: Reply) -> bytes:
        bound = self.replies[self.operations[operation]].reply
        if bound.digest != reply.digest:
            raise Refusal(
                "OperationConflict",
                operationKey=hashing.operation_key(*operation),
                boundReplyDigest=bound.digest,
                submittedReplyDigest=reply.digest,
            )
        return bound.hash

    def _check_tasks(self, reply: Reply) -> list[Task]:
        hashes = reply.prev_task_hashes
        if not hashes:
            raise Refusal("EmptyPrevTaskHashes")
        if len(hashes) > MAX_PREV_TASKS:
            raise Refusal("TooManyPrevTaskHashes", count=len(hashes), max=MAX_PREV_TASKS)
        for place, task_hash in enumerate(hashes):
            if task_hash not in self.tasks:
                raise Refusal("UnknownTask", taskHash=task_hash)
            if self.tasks[task_hash].run_id != reply.run_id:
                raise Refusal(
                    "ForeignTask",
                    taskHash=task_hash,
                    taskWorkflowRunId=self.tasks[task_hash].run_id,
                    replyWorkflowRunId=reply.run_id,
                )
            if task_hash in hashes[:place]:
                raise Refusal("DuplicateTaskHash", taskHash=task_hash)
        return [self.tasks[task_hash] for task_hash in hashes]

    def _check_open(self, reply: Reply, tasks: list[Task]) -> None:
        self._require_pending(self.runs[reply.run_id])
        for task in tasks:
            if not task.is_open:
                raise Refusal("TaskNotOpen", taskHash=task.hash)

    @staticmethod
    def _check_times(reply: Reply, tasks: list[Task], block: Block) -> None:
        anchor_time = max(task.timestamp for task in tasks)
        if not anchor_time < reply.timestamp:
            raise Refusal("TimestampNotAfterTask", timestamp=reply.timestamp, anchorTime=anchor_time)
        if not reply.timestamp <= block.timestamp:
            raise Refusal("TimestampInFuture", timestamp=reply.timestamp, blockTimestamp=block.timestamp)
        for task in tasks:
            if block.timestamp > task.expires_at:
                raise Refusal(
                    "TaskExpired",
                    taskHash=task.hash,
                    expiresAt=task.expires_at,
                    blockTimestamp=block.timestamp,
                )

    @staticmethod
    def _require_pending(run: Run) -> None:
        if run.status != PENDING:
            raise Refusal("RunNotPending", workflowRunId=run.id, status=run.status)

    # ── The machine ──────────────────────────────────────────────────────────

    def _primary(self, reply: Reply) -> Task:
        return self.tasks[reply.prev_task_hashes[0]]

    def _gate(self, run: Run, reply: Reply, block: Block) -> list[Event]:
        """Every reply passes. A stage of several tasks takes one reply for each, and none that answers several."""
        stage = self.stages[run.stage]
        if stage.tasks > 1 and len(reply.prev_task_hashes) > 1:
            return []
        run.accepted.append(reply.hash)
        if len(run.accepted) < stage.tasks:
            for task_hash in reply.prev_task_hashes:
                self.tasks[task_hash].is_open = False
            return []
        triggers = tuple(run.accepted)
        run.accepted = []
        for task in run.tasks:
            task.is_open = False
        if run.stage + 1 == len(self.stages):
            final = Task(FINAL_STAGE, len(run.tasks), ZERO, b"", block.timestamp, 0, triggers, run.id)
            final.is_open = False
            run.tasks.append(final)
            self.tasks[final.hash] = final
            return self._end(run, SUCCESS, final.hash, block)
        run.stage += 1
        following = self.stages[run.stage]
        outputs = [self.replies[trigger].reply.output_hash for trigger in triggers]
        input_hash = outputs[0] if len(outputs) == 1 else hashing.packed_hash(outputs)
        expires_at = block.timestamp + following.window
        return [
            self._dispatch(run, input_hash, block, triggers, expires_at, lane=lane)
            for lane in range(following.tasks)
        ]

    def _dispatch(
        self,
        run: Run,
        input_hash: bytes,
        block: Block,
        triggers: tuple[bytes, ...],
        expires_at: int,
        *,
        lane: int,
        plaintext: bytes = b"",
        attempt: int = 0,
    ) -> Event:
        task = Task(
            run.stage,
            len(run.tasks),
            input_hash,
            plaintext,
            block.timestamp,
            expires_at,
            triggers,
            run.id,
            lane,
            attempt,
        )
        run.tasks.append(task)
        self.tasks[task.hash] = task
        return ("NewAgentTask", run.id, task.stage, task.hash)

    @staticmethod
    def _end(run: Run, status: int, final_task: bytes, block: Block) -> list[Event]:
        run.status = status
        run.final_task = final_task
        run.completed_at = block.timestamp if status == SUCCESS else 0
        return [("WorkflowCompleted", run.id, status, final_task, block.timestamp)]
