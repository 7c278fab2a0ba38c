"""Positions of a run: where the transition table starts from.

A position is reached by a short script of steps. Beside the run a twin stands in the same position, so that a test can
see that only one of them moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from eth_abi import encode

from provenflow.abi import AgentReply, NewAgentTask, WorkflowCompleted
from provenflow.hashing import FINAL_STAGE, keccak256
from tests.support.blocks import Transaction, mine_together, proving, replying, timing_out
from tests.support.scenario import address_bytes
from tests.support.workflow import OpenTask, RunState, WorkflowDriver

RESULT = b"the result"


@dataclass(frozen=True)
class Cast:
    """Who acts. The outsider replies in no script."""

    requester: Any
    agent: Any
    other_agent: Any
    third_agent: Any
    outsider: Any
    prover: Any


@dataclass
class Position:
    """A run in the middle of its life.

    Parameters
    ----------
    driver, cast:
        To act with.
    run_id:
        32 bytes.
    tasks:
        Hashes of the tasks dispatched so far, oldest first; of a completed run the final task too.
    replier:
        Who may reply to the open task now.
    content:
        ``output`` and, where it is withheld, ``output_hash`` of a reply that the gate of this stage takes from
        `replier`.
    answers:
        Replies anchored so far, oldest first.
    twin_id:
        A run in the same position.
    """

    driver: WorkflowDriver
    cast: Cast
    run_id: bytes
    tasks: list[bytes]
    replier: Any
    content: dict[str, bytes] = field(default_factory=lambda: {"output": b"an answer"})
    answers: list[AgentReply] = field(default_factory=list)
    twin_id: bytes = b""

    def copy(self) -> Position:
        """The same position, to be moved on from."""
        return replace(self, tasks=list(self.tasks), answers=list(self.answers))

    @property
    def state(self) -> RunState:
        return self.driver.state(self.run_id)

    @property
    def open_tasks(self) -> tuple[OpenTask, ...]:
        return self.state.open_tasks

    @property
    def task(self) -> bytes:
        """The first open task; of an ended run the last one that was open."""
        for task in self.open_tasks:
            return task.task_hash
        return [task for task in self.tasks if self.driver.task(task).stage != FINAL_STAGE][-1]

    @property
    def closed_tasks(self) -> list[bytes]:
        """Tasks that take no replies, oldest first; of an ended run all but :attr:`task`."""
        taking = {task.task_hash for task in self.open_tasks} | {self.task}
        return [task for task in self.tasks if task not in taking]

    def answers_to_closed_tasks(self, *, proven: bool) -> list[bytes]:
        """Replies that answer no open task, by whether they are proven, oldest first."""
        open_now = {task.task_hash for task in self.open_tasks}
        return [
            answer.reply_hash()
            for answer in self.answers
            if not open_now & set(answer.prev_task_hashes)
            and self.driver.reply(answer.reply_hash()).proven == proven
        ]

    def is_answered(self, task: bytes) -> bool:
        """Whether a reply names the task."""
        return any(task in answer.prev_task_hashes for answer in self.answers)

    def build(
        self, replier: Any = None, *, tasks: bytes | list[bytes] | None = None, **content: bytes
    ) -> AgentReply:
        """A reply that contract and gate take, unless a parameter says otherwise."""
        return self.driver.build_reply(
            self.task if tasks is None else tasks,
            replier or self.replier,
            **(content or self.content),
            workflow_run_id=self.run_id,
        )

    def submit(self, reply: AgentReply) -> bytes:
        """Anchor a reply; returns its hash."""
        self._move(replying(reply))
        self.answers.append(reply)
        return reply.reply_hash()

    def prove(self, reply_hash: bytes) -> None:
        self._move(proving(reply_hash, self.driver.proof_for(reply_hash), self.cast.prover))

    def time_out(self, task: bytes) -> None:
        (deadline,) = (open_task.deadline for open_task in self.open_tasks if open_task.task_hash == task)
        self._move(timing_out(self.driver, task, self.cast.prover), at=deadline + 1)

    def _move(self, transaction: Transaction, *, at: int | None = None) -> None:
        (outcome,) = mine_together(self.driver, [transaction], at=at)
        assert outcome.succeeded
        for event in outcome.events:
            match event:
                case NewAgentTask(task_hash=task):
                    self.tasks.append(task)
                case WorkflowCompleted(final_task_hash=task) if any(task):
                    self.tasks.append(task)


Step = Callable[[Position], object]


def stand(driver: WorkflowDriver, cast: Cast, steps: Iterable[Step]) -> Position:
    """A new run, after these steps."""
    run = driver.start_run(cast.requester)
    position = Position(driver, cast, run.id, list(run.task_hashes), cast.agent)
    for step in steps:
        step(position)
    return position


# ── Steps ────────────────────────────────────────────────────────────────────


def answer(position: Position) -> None:
    """The replier replies to the open task."""
    position.submit(position.build())


def prove(position: Position) -> None:
    """The last reply is proven."""
    position.prove(position.answers[-1].reply_hash())


def time_out(position: Position) -> None:
    """The open task is timed out."""
    position.time_out(position.task)


def by(role: str, **content: bytes) -> Step:
    """The next reply comes from this role, with this content."""

    def step(position: Position) -> None:
        position.replier = getattr(position.cast, role)
        position.content = content or {"output": b"an answer"}

    return step


def bid(role: str, price: int) -> Step:
    """The next reply is a bid of this role (Scenario 2)."""
    return by(role, output=encode(["uint256", "bytes"], [price, b""]))


def opening(result: bytes, account: Any) -> bytes:
    """``result ‖ 32 secret bytes ‖ replier``; the secret does not matter here (Scenario 4)."""
    return result + bytes(32) + address_bytes(account)


def commit(role: str) -> Step:
    """The next reply is a commit of this role (Scenario 4)."""

    def step(position: Position) -> None:
        account = getattr(position.cast, role)
        by(role, output=b"", output_hash=keccak256(opening(RESULT, account)))(position)

    return step


def reveal(role: str) -> Step:
    """The next reply is a reveal of this role (Scenario 4)."""

    def step(position: Position) -> None:
        by(role, output=opening(RESULT, getattr(position.cast, role)))(position)

    return step
