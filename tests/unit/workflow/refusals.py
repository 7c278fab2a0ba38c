"""The refusals of ``onAgentReply`` in their order: each row breaks one rule and every later one, and is refused for the
first.

A reply cannot be before its task and in the future at once, and an empty list names no unknown task; apart from such
pairs every row breaks everything that comes after its rule.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from provenflow.abi import AgentReply, RunStatus
from provenflow.hashing import keccak256, operation_key, reply_digest
from tests.support.scripted import Reached, ScriptedDriver, Stage

UNKNOWN = keccak256(b"no task has this hash")
WRONG_OUTPUT = b"a plaintext that does not hash to the output hash"
OUTPUT_HASH = keccak256(b"the output")
FAR_FUTURE = 2**255


@dataclass(frozen=True)
class Scene:
    """Three runs of a scripted workflow, all in the stage that requires proven upstream tasks, none of which are.

    `ended`: its task timed out twice, so that it failed. `late`: its task timed out once, and the task that took its place
    has expired too. `fresh`: its task is open.
    """

    flow: ScriptedDriver
    agent: Any
    stranger: Any
    ended: Reached
    late: Reached
    late_task: bytes  # open, but expired
    fresh: Reached

    def reply(self, run: Reached, *tasks: bytes, **fields: Any) -> AgentReply:
        """A reply of the agent that is as wrong as it can be: too old, and its plaintext is another's."""
        wrong = {"output_hash": OUTPUT_HASH, "timestamp": 0, "workflow_run_id": run.run_id}
        return self.flow.build_reply(tasks, self.agent, WRONG_OUTPUT, **(wrong | fields))

    def bound_operation(self, run: Reached) -> bytes:
        """Id of the operation that answered the run's first task."""
        return self.flow.reply(run.first_reply).reply.operation_id


def set_scene(flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any) -> Scene:
    """Play the three runs; afterwards `late` has expired."""
    ended = flow.reach(Stage.STRICT, requester, agent)
    late = flow.reach(Stage.STRICT, requester, agent)
    for run in (ended, late):
        flow.time_out(run.task_hash, stranger)
    (ended_task,) = flow.state(ended.run_id).open_tasks
    (late_task,) = flow.state(late.run_id).open_tasks
    flow.time_out(ended_task.task_hash, stranger)
    flow.set_time(late_task.expires_at + 1)
    fresh = flow.reach(Stage.STRICT, requester, agent)
    return Scene(flow, agent, stranger, ended, late, late_task.task_hash, fresh)


@dataclass(frozen=True)
class Refusal:
    """One row: the rule by name, the reply that breaks it and all later ones, and the arguments of its error.

    `arguments` takes the reply and the time of the block. `barred`: the workflow does not admit the agent. `foreign`: the
    reply is sent by someone else.
    """

    error: str
    build: Callable[[Scene], AgentReply]
    arguments: Callable[[Scene, AgentReply, int], dict[str, Any]]
    barred: bool = True
    foreign: bool = False
    note: str = ""

    @property
    def id(self) -> str:
        """Name of the test's parameter."""
        return self.error + (f" ({self.note})" if self.note else "")


def _conflict(scene: Scene, reply: AgentReply, _: int) -> dict[str, Any]:
    bound = scene.flow.reply(scene.ended.first_reply).reply
    return {
        "operationKey": operation_key(reply.workflow_run_id, reply.replier, reply.operation_id),
        "boundReplyDigest": _digest(bound),
        "submittedReplyDigest": _digest(reply),
    }


def _digest(reply: AgentReply) -> bytes:
    return reply_digest(reply.output_hash, reply.replier, reply.prev_task_hashes, reply.workflow_run_id)


REFUSALS = [
    Refusal(
        "ReplierMismatch",
        lambda scene: scene.reply(scene.ended, operation_id=bytes(32)),
        lambda scene, reply, _: {"replier": scene.agent, "sender": scene.stranger},
        foreign=True,
    ),
    Refusal(
        "ReplierMismatch",
        lambda scene: scene.reply(scene.ended, operation_id=scene.bound_operation(scene.ended)),
        lambda scene, reply, _: {"replier": scene.agent, "sender": scene.stranger},
        foreign=True,
        note="bound operation",
    ),
    Refusal(
        "ZeroOperationId",
        lambda scene: scene.reply(scene.ended, operation_id=bytes(32)),
        lambda scene, reply, _: {},
    ),
    Refusal(
        "OperationConflict",
        lambda scene: scene.reply(scene.ended, operation_id=scene.bound_operation(scene.ended)),
        _conflict,
        note="no task",
    ),
    Refusal(
        "OperationConflict",
        lambda scene: scene.reply(
            scene.ended, *[UNKNOWN] * 9, operation_id=scene.bound_operation(scene.ended)
        ),
        _conflict,
        note="nine unknown tasks",
    ),
    Refusal("EmptyPrevTaskHashes", lambda scene: scene.reply(scene.ended), lambda scene, reply, _: {}),
    Refusal(
        "TooManyPrevTaskHashes",
        lambda scene: scene.reply(scene.ended, *[UNKNOWN] * 9),
        lambda scene, reply, _: {"count": 9, "max": 8},
    ),
    Refusal(
        "UnknownTask",
        lambda scene: scene.reply(scene.ended, UNKNOWN, UNKNOWN, scene.late.task_hash),
        lambda scene, reply, _: {"taskHash": UNKNOWN},
    ),
    Refusal(
        "ForeignTask",
        lambda scene: scene.reply(scene.ended, scene.late.task_hash, scene.late.task_hash),
        lambda scene, reply, _: {
            "taskHash": scene.late.task_hash,
            "taskWorkflowRunId": scene.late.run_id,
            "replyWorkflowRunId": scene.ended.run_id,
        },
    ),
    Refusal(
        "DuplicateTaskHash",
        lambda scene: scene.reply(scene.ended, scene.ended.task_hash, scene.ended.task_hash),
        lambda scene, reply, _: {"taskHash": scene.ended.task_hash},
    ),
    Refusal(
        "RunNotPending",
        lambda scene: scene.reply(scene.ended, scene.ended.task_hash),
        lambda scene, reply, _: {"workflowRunId": scene.ended.run_id, "status": RunStatus.FAILED},
    ),
    Refusal(
        "TaskNotOpen",
        lambda scene: scene.reply(scene.late, scene.late.task_hash),
        lambda scene, reply, _: {"taskHash": scene.late.task_hash},
    ),
    Refusal(
        "ReplierNotAllowed",
        lambda scene: scene.reply(scene.late, scene.late_task),
        lambda scene, reply, _: {
            "workflowRunId": scene.late.run_id,
            "stage": Stage.STRICT,
            "replier": scene.agent,
        },
    ),
    Refusal(
        "TimestampNotAfterTask",
        lambda scene: scene.reply(scene.late, scene.late_task),
        lambda scene, reply, _: {"timestamp": 0, "anchorTime": scene.flow.task(scene.late_task).timestamp},
        barred=False,
    ),
    Refusal(
        "TimestampInFuture",
        lambda scene: scene.reply(scene.late, scene.late_task, timestamp=FAR_FUTURE),
        lambda scene, reply, block_time: {"timestamp": FAR_FUTURE, "blockTimestamp": block_time},
        barred=False,
    ),
    Refusal(
        "TaskExpired",
        lambda scene: scene.reply(scene.late, scene.late_task, timestamp=scene.flow.now),
        lambda scene, reply, block_time: {
            "taskHash": scene.late_task,
            "expiresAt": scene.flow.task(scene.late_task).expires_at,
            "blockTimestamp": block_time,
        },
        barred=False,
    ),
    Refusal(
        "OutputHashMismatch",
        lambda scene: scene.reply(scene.fresh, scene.fresh.task_hash, timestamp=scene.flow.advance_time(1)),
        lambda scene, reply, _: {"declared": OUTPUT_HASH, "actual": keccak256(WRONG_OUTPUT)},
        barred=False,
    ),
    Refusal(
        "UpstreamNotProven",
        lambda scene: scene.reply(
            scene.fresh,
            scene.fresh.task_hash,
            timestamp=scene.flow.advance_time(1),
            output_hash=keccak256(WRONG_OUTPUT),
        ),
        lambda scene, reply, _: {"taskHash": scene.fresh.task_hash},
        barred=False,
    ),
]
