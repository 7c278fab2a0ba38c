"""Everything that a workflow shows to the outside, read back at once, so that "nothing changed" speaks of all of it.

with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=task_hash):
    driver.submit(reply)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from provenflow import abi
from provenflow.abi import AgentReplyAnchored, NewAgentTask, WorkflowCompleted, WorkflowEvent
from tests.support.workflow import WorkflowDriver


@dataclass
class RunObservation:
    """One run: its events in log order, and what every getter returns about it, by call, in hex."""

    events: list[WorkflowEvent] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)


def observe(driver: WorkflowDriver) -> dict[bytes, RunObservation]:
    """Every run of the workflow by its id.

    Of each run: its events, ``result`` and ``runState`` (stage, open tasks, deadlines), ``getAgentTask`` of every task
    that an event names, and ``getAgentReply``, ``replyAnchorTime`` and ``getReplyHashByOperation`` of every reply that
    one names.
    """
    runs: dict[bytes, RunObservation] = {}
    for event in driver.events():
        runs.setdefault(event.workflow_run_id, RunObservation()).events.append(event)
    calls: list[tuple[RunObservation, str, bytes]] = []
    for run_id, run in runs.items():
        calls.append((run, "result", abi.encode_result(run_id)))
        calls.append((run, "runState", _calldata(driver, "runState", run_id)))
        for event in run.events:
            match event:
                case NewAgentTask(task_hash=task_hash):
                    calls.append((run, _key("getAgentTask", task_hash), abi.encode_get_agent_task(task_hash)))
                case AgentReplyAnchored(reply_hash=reply_hash):
                    key = _key("getAgentReply", reply_hash)
                    calls.append((run, key, abi.encode_get_agent_reply(reply_hash)))
                    key = _key("replyAnchorTime", reply_hash)
                    calls.append((run, key, _calldata(driver, "replyAnchorTime", reply_hash)))
                case WorkflowCompleted(final_task_hash=task_hash) if any(task_hash):
                    calls.append((run, _key("getAgentTask", task_hash), abi.encode_get_agent_task(task_hash)))
    _ask(driver, calls)
    _ask(driver, [call for run in runs.values() for call in _operation_lookups(run)])
    return runs


@contextmanager
def nothing_changes(driver: WorkflowDriver) -> Iterator[None]:
    """The block changes nothing that :func:`observe` sees, in any run, and adds no event."""
    before = observe(driver)
    yield
    assert observe(driver) == before


@contextmanager
def only_changes(driver: WorkflowDriver, workflow_run_id: bytes) -> Iterator[None]:
    """The block changes this run, and no other."""
    before = observe(driver)
    yield
    after = observe(driver)
    assert after.keys() == before.keys()
    assert [run_id for run_id in before if after[run_id] != before[run_id]] == [workflow_run_id]


def _operation_lookups(run: RunObservation) -> list[tuple[RunObservation, str, bytes]]:
    lookups = []
    for key, answer in run.answers.items():
        if key.startswith("getAgentReply "):
            reply, _, _, _ = abi.decode_get_agent_reply(bytes.fromhex(answer[2:]))
            call = abi.encode_get_reply_hash_by_operation(
                reply.workflow_run_id, reply.replier, reply.operation_id
            )
            lookups.append((run, _key("getReplyHashByOperation", reply.operation_id), call))
    return lookups


def _ask(driver: WorkflowDriver, calls: list[tuple[RunObservation, str, bytes]]) -> None:
    """Fill in the answers; one that fails is kept as the error it is."""
    answers = driver.rpc.batch(
        ("eth_call", [{"to": driver.workflow.address, "data": f"0x{calldata.hex()}"}, "latest"])
        for _, _, calldata in calls
    )
    for (run, key, _), answer in zip(calls, answers, strict=True):
        run.answers[key] = str(answer)


def _calldata(driver: WorkflowDriver, function: str, argument: bytes) -> bytes:
    return bytes(getattr(driver.workflow, function).encode_input(argument))


def _key(function: str, argument: bytes) -> str:
    return f"{function} 0x{argument.hex()}"
