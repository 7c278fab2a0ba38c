"""``onAgentReply`` accepts: what is stored and announced, the scope of an operation, retries, conflicts.

Several transactions in one block: test_races.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from provenflow.abi import (
    AgentReply,
    AgentReplyAnchored,
    AgentTask,
    NewAgentTask,
    RunStatus,
    decode_on_agent_reply,
    encode_on_agent_reply,
)
from provenflow.hashing import keccak256, operation_key, reply_digest
from tests.support.observation import nothing_changes
from tests.support.reverts import reverts_with
from tests.support.scripted import FINAL_STAGE, NOBODY, ScriptedDriver, Stage, abort, passes, retry, silent
from tests.support.workflow import DAY, StartedRun, StoredReply, Submission

OPERATION = keccak256(b"an operation")


def _address(account: Any) -> bytes:
    return bytes.fromhex(account.address[2:])


def _digest(reply: AgentReply) -> bytes:
    return reply_digest(reply.output_hash, reply.replier, reply.prev_task_hashes, reply.workflow_run_id)


@pytest.fixture
def run(flow: ScriptedDriver, requester: Any) -> StartedRun:
    """A run with one open async task."""
    return flow.start_run(requester)


@pytest.fixture
def run_of_eight(flow: ScriptedDriver, requester: Any) -> StartedRun:
    """A run with eight open async tasks."""
    flow.plan_begin(Stage.OPEN, *[keccak256(b"the input")] * 8)
    return flow.start_run(requester)


@pytest.fixture
def wide_run(flow: ScriptedDriver, requester: Any) -> StartedRun:
    """A run with 64 open async tasks."""
    flow.plan_begin(Stage.OPEN, *[keccak256(b"the input")] * 64)
    return flow.start_run(requester)


# ── Acceptance ───────────────────────────────────────────────────────────────


@pytest.mark.requirement(
    "EXE-024", "EXE-025", "EXE-056", "EXE-057", "EXE-103", "EXE-106", "EXE-107", "EXE-108"
)
@pytest.mark.parametrize(
    "stage", [Stage.OPEN, Stage.SYNC, Stage.SYNC_B, Stage.UNPROVABLE], ids=lambda value: value.name
)
def test_on_agent_reply__new_operation__is_stored_and_announced(
    stage: Stage, flow: ScriptedDriver, requester: Any, agent: Any
) -> None:
    flow.plan_begin(stage, keccak256(b"the input"))
    run = flow.start_run(requester)
    reply = flow.build_reply(run.task_hash, agent, b"the output", timestamp=flow.now + 1)
    flow.advance_time(100)
    would_return = flow.call_reply(reply)

    answer = flow.submit(reply)

    assert would_return == answer.reply_hash == reply.reply_hash()
    assert flow.reply(answer.reply_hash) == StoredReply(reply, NOBODY, False, bytes(32))
    assert flow.workflow.replyAnchorTime(answer.reply_hash) == answer.receipt.timestamp
    assert answer.receipt.timestamp == reply.timestamp + 100
    assert flow.events() == [
        NewAgentTask(run.id, stage, run.task_hash),
        AgentReplyAnchored(run.id, answer.reply_hash, _address(agent)),
    ]
    # The gate was silent, or waits for a proof: the task stays open.
    assert [task.task_hash for task in flow.state(run.id).open_tasks] == [run.task_hash]


@pytest.mark.requirement("EXE-018", "EXE-020", "EXE-024", "EXE-105")
@pytest.mark.parametrize("length", [0, 1, 31, 32, 33, 5000])
def test_on_agent_reply__output_of_any_length__comes_back_as_it_was(
    length: int, flow: ScriptedDriver, run: StartedRun, agent: Any
) -> None:
    output = bytes(number % 251 + 1 for number in range(length))

    answer = flow.reply_to(run.task_hash, agent, output)

    assert flow.reply(answer.reply_hash).reply == answer.reply
    assert answer.reply.output == output


@pytest.mark.requirement("EXE-020")
@pytest.mark.parametrize(
    "output_hash", [keccak256(b"withheld"), bytes(32), b"\xff" * 32], ids=["some", "zero", "all ones"]
)
def test_on_agent_reply__output_withheld__any_output_hash_is_taken(
    output_hash: bytes, flow: ScriptedDriver, run: StartedRun, agent: Any
) -> None:
    answer = flow.reply_to(run.task_hash, agent, b"", output_hash=output_hash)

    stored = flow.reply(answer.reply_hash).reply
    assert (stored.output, stored.output_hash) == (b"", output_hash)


@pytest.mark.requirement("EXE-027")
@pytest.mark.parametrize("operation_id", [1, 2**255, 2**256 - 1, 2**160 + 7], ids=hex)
def test_on_agent_reply__any_operation_id_but_zero__is_taken(
    operation_id: int, flow: ScriptedDriver, run: StartedRun, agent: Any
) -> None:
    answer = flow.reply_to(run.task_hash, agent, operation_id=operation_id.to_bytes(32))

    assert flow.reply(answer.reply_hash).reply.operation_id == operation_id.to_bytes(32)


@pytest.mark.requirement("EXE-032", "EXE-184")
def test_on_agent_reply__two_operations_of_the_same_content__are_two_replies(
    flow: ScriptedDriver, run: StartedRun, agent: Any
) -> None:
    reply = flow.build_reply(run.task_hash, agent)
    twin = replace(reply, operation_id=flow.fresh_operation_id())

    first, second = flow.submit(reply), flow.submit(twin)

    assert first.reply_hash != second.reply_hash
    assert flow.reply(first.reply_hash).reply == reply
    assert flow.reply(second.reply_hash).reply == twin
    assert [question.reply_hash for question in flow.gate_inputs] == [first.reply_hash, second.reply_hash]


@pytest.mark.requirement("EXE-169", "EXE-179")
def test_on_agent_reply__anyone_at_all__may_reply(
    flow: ScriptedDriver, run: StartedRun, agent: Any, other_agent: Any, requester: Any, stranger: Any
) -> None:
    for account in (agent, other_agent, requester, stranger):
        answer = flow.reply_to(run.task_hash, account)

        assert flow.reply(answer.reply_hash).reply.replier == _address(account)


# ── Several tasks ────────────────────────────────────────────────────────────

# Positions in a run of 64 tasks: 0 away from the front, ends, descending, no two lists alike.
TASK_ORDERS = [
    [1, 0],
    [0, 1],
    [63, 0, 62],
    [9, 8, 7, 6],
    [0, 63, 1, 62, 2],
    [5, 40, 0, 33, 63, 1],
    [63, 62, 61, 60, 59, 58, 0],
    [63, 0, 1, 2, 3, 4, 5, 6],
    [0, 9, 18, 27, 36, 45, 54, 63],
]


@pytest.mark.requirement("EXE-018", "EXE-025", "EXE-093", "EXE-153")
@pytest.mark.parametrize("order", TASK_ORDERS, ids=str)
def test_on_agent_reply__several_tasks__are_kept_in_order(
    order: list[int], flow: ScriptedDriver, wide_run: StartedRun, agent: Any
) -> None:
    tasks = [wide_run.task_hashes[position] for position in order]

    answer = flow.reply_to(tasks, agent)

    assert flow.reply(answer.reply_hash).reply.prev_task_hashes == tuple(tasks)
    assert flow.gate_inputs[-1].task_hash == tasks[0]
    assert flow.gate_inputs[-1].lane == order[0]
    # A retry compares with the stored list.
    assert flow.call_reply(answer.reply) == answer.reply_hash


@pytest.mark.requirement("EXE-025", "EXE-037")
def test_on_agent_reply__same_tasks_in_another_order__is_another_reply(
    flow: ScriptedDriver, run_of_eight: StartedRun, agent: Any
) -> None:
    first, second = run_of_eight.task_hashes[:2]

    answer = flow.reply_to([first, second], agent)
    other = flow.submit(
        replace(answer.reply, prev_task_hashes=(second, first), operation_id=flow.fresh_operation_id())
    )

    assert flow.reply(answer.reply_hash).reply.prev_task_hashes == (first, second)
    assert flow.reply(other.reply_hash).reply.prev_task_hashes == (second, first)


# ── The scope of an operation ────────────────────────────────────────────────


@pytest.mark.requirement("EXE-034", "EXE-035", "EXE-061", "EXE-062", "EXE-063")
def test_on_agent_reply__same_operation_id_of_another_replier_or_run__is_another_operation(
    flow: ScriptedDriver, run: StartedRun, requester: Any, agent: Any, other_agent: Any
) -> None:
    other_run = flow.start_run(requester)
    answers: dict[tuple[bytes, Any], Submission] = {}
    for task_hash, replier in [
        (run.task_hash, agent),
        (run.task_hash, other_agent),
        (other_run.task_hash, agent),
    ]:
        answer = flow.reply_to(task_hash, replier, operation_id=OPERATION)
        answers[answer.reply.workflow_run_id, replier] = answer

    assert len({answer.reply_hash for answer in answers.values()}) == 3
    for (run_id, replier), answer in answers.items():
        assert bytes(flow.workflow.getReplyHashByOperation(run_id, replier, OPERATION)) == answer.reply_hash
        assert flow.reply(answer.reply_hash).reply == answer.reply
    assert bytes(flow.workflow.getReplyHashByOperation(other_run.id, other_agent, OPERATION)) == bytes(32)


@pytest.mark.requirement("EXE-063")
def test_get_reply_hash_by_operation__nothing_bound__is_zero(
    flow: ScriptedDriver, run: StartedRun, agent: Any, other_agent: Any
) -> None:
    flow.reply_to(run.task_hash, agent, operation_id=OPERATION)
    lookup = flow.workflow.getReplyHashByOperation

    assert bytes(lookup(run.id, agent, OPERATION)) != bytes(32)
    for arguments in [
        (keccak256(b"no run"), agent, OPERATION),
        (run.id, other_agent, OPERATION),
        (run.id, NOBODY, OPERATION),
        (run.id, agent, keccak256(b"another operation")),
        (run.id, agent, bytes(32)),
    ]:
        assert bytes(lookup(*arguments)) == bytes(32)


# ── Retries ──────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Anchored:
    """A reply to a task of ``Stage.OPEN`` that left it open, and what is needed to go on."""

    flow: ScriptedDriver
    run: StartedRun
    answer: Submission
    agent: Any
    other_agent: Any
    prover: Any

    def go_on(self, *decisions: Any) -> Submission:
        """Another agent's reply, which the gate decides so."""
        self.flow.script(*decisions)
        return self.flow.reply_to(self.run.task_hash, self.other_agent)


def _finish(state: Anchored, last: Any) -> None:
    reply = state.go_on(passes(Stage.SYNC), last)
    (task,) = state.flow.state(state.run.id).open_tasks
    assert task.task_hash == reply.task_hash
    state.flow.prove(state.flow.reply_to(task.task_hash, state.other_agent).reply_hash, state.prover)


def _succeed(state: Anchored) -> None:
    _finish(state, passes(FINAL_STAGE))
    assert state.flow.result(state.run.id).status is RunStatus.SUCCESS


def _fail(state: Anchored) -> None:
    _finish(state, abort())
    assert state.flow.result(state.run.id).status is RunStatus.FAILED


def _prove(state: Anchored) -> None:
    state.flow.prove(state.answer.reply_hash, state.prover)


def _expire(state: Anchored) -> None:
    state.flow.set_time(state.flow.task(state.run.task_hash).expires_at + 1)


SINCE: dict[str, Callable[[Anchored], object]] = {
    "nothing happened": lambda state: None,
    "it was proven": _prove,
    "its task was consumed": lambda state: state.go_on(silent(consume=True)),
    "its task was retried": lambda state: state.go_on(retry()),
    "its task timed out": lambda state: state.flow.time_out(state.run.task_hash, state.prover),
    "the stage advanced": lambda state: state.go_on(passes(Stage.NEXT)),
    "its task expired": _expire,
    "its replier was barred": lambda state: state.flow.bar(state.agent),
    "the run succeeded": _succeed,
    "the run failed": _fail,
}

CHANGES: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a later timestamp": {"timestamp": 2**200},
    "an earlier timestamp": {"timestamp": 0},
    "the plaintext withheld": {"output": b""},
    "another plaintext": {"output": b"of another hash"},
}


@pytest.fixture
def anchored(flow: ScriptedDriver, run: StartedRun, agent: Any, other_agent: Any, prover: Any) -> Anchored:
    return Anchored(flow, run, flow.reply_to(run.task_hash, agent), agent, other_agent, prover)


def _assert_retry_has_no_effect(flow: ScriptedDriver, answer: Submission, again: AgentReply) -> None:
    asked = len(flow.gate_inputs)
    with nothing_changes(flow):
        assert flow.call_reply(again) == answer.reply_hash
        retried = flow.submit(again)
    assert retried.reply_hash == answer.reply_hash
    assert retried.receipt.events == []
    assert len(flow.gate_inputs) == asked


@pytest.mark.requirement(
    "EXE-083", "EXE-085", "EXE-086", "EXE-087", "EXE-097", "EXE-102", "EXE-148", "EXE-152"
)
@pytest.mark.parametrize("since", SINCE)
def test_on_agent_reply__retry__returns_the_canonical_hash_whatever_happened_since(
    since: str, anchored: Anchored
) -> None:
    SINCE[since](anchored)

    # Later by a second, as a client that builds its reply anew would send it.
    again = replace(anchored.answer.reply, timestamp=anchored.answer.reply.timestamp + 1)
    _assert_retry_has_no_effect(anchored.flow, anchored.answer, again)


@pytest.mark.requirement("EXE-038", "EXE-039", "EXE-083", "EXE-084", "EXE-088")
@pytest.mark.parametrize("change", CHANGES)
def test_on_agent_reply__retry_that_differs_in_what_is_not_bound__returns_the_canonical_hash(
    change: str, anchored: Anchored
) -> None:
    again = replace(anchored.answer.reply, **CHANGES[change])

    _assert_retry_has_no_effect(anchored.flow, anchored.answer, again)

    assert anchored.flow.reply(anchored.answer.reply_hash).reply == anchored.answer.reply


@pytest.mark.requirement("EXE-084", "EXE-088")
def test_on_agent_reply__retry_that_adds_the_plaintext__does_not_store_it(
    flow: ScriptedDriver, run: StartedRun, agent: Any
) -> None:
    answer = flow.reply_to(run.task_hash, agent, b"", output_hash=keccak256(b"the output"))

    _assert_retry_has_no_effect(flow, answer, replace(answer.reply, output=b"the output"))

    assert flow.reply(answer.reply_hash).reply.output == b""


@pytest.mark.requirement("EXE-086", "EXE-128")
def test_on_agent_reply__retry_of_the_reply_that_passed__dispatches_nothing_again(
    flow: ScriptedDriver, run: StartedRun, agent: Any
) -> None:
    flow.script(passes(Stage.NEXT), passes(Stage.SYNC))
    answer = flow.reply_to(run.task_hash, agent)

    _assert_retry_has_no_effect(flow, answer, answer.reply)

    assert flow.state(run.id).stage == Stage.NEXT


# ── Conflicts ────────────────────────────────────────────────────────────────

CONFLICTS: dict[str, Callable[[AgentReply, StartedRun], AgentReply]] = {
    "another output hash": lambda reply, run: replace(reply, output=b"", output_hash=bytes(32)),
    "another output": lambda reply, run: replace(reply, output=b"else", output_hash=keccak256(b"else")),
    "another task": lambda reply, run: replace(reply, prev_task_hashes=run.task_hashes[5:8]),
    "one task more": lambda reply, run: replace(reply, prev_task_hashes=run.task_hashes[:4]),
    "one task less": lambda reply, run: replace(reply, prev_task_hashes=run.task_hashes[:2]),
    "another order": lambda reply, run: replace(reply, prev_task_hashes=reply.prev_task_hashes[::-1]),
    "unknown tasks": lambda reply, run: replace(reply, prev_task_hashes=(bytes(32),) * 3),
    "no task": lambda reply, run: replace(reply, prev_task_hashes=()),
}


@pytest.mark.requirement("EXE-037", "EXE-039", "EXE-089", "EXE-090")
@pytest.mark.parametrize("ended", [False, True], ids=["run pending", "run ended"])
@pytest.mark.parametrize("change", CONFLICTS)
def test_on_agent_reply__operation_bound_to_other_content__reverts_and_keeps_the_binding(
    change: str,
    ended: bool,
    flow: ScriptedDriver,
    errors: Any,
    run_of_eight: StartedRun,
    agent: Any,
    other_agent: Any,
) -> None:
    answer = flow.reply_to(run_of_eight.task_hashes[:3], agent)
    if ended:
        flow.script(abort())
        flow.reply_to(run_of_eight.task_hashes[0], other_agent)
    conflicting = CONFLICTS[change](answer.reply, run_of_eight)

    with (
        nothing_changes(flow),
        reverts_with(
            errors.OperationConflict,
            operationKey=operation_key(run_of_eight.id, _address(agent), answer.reply.operation_id),
            boundReplyDigest=_digest(answer.reply),
            submittedReplyDigest=_digest(conflicting),
        ),
    ):
        flow.submit(conflicting)
    assert flow.call_reply(answer.reply) == answer.reply_hash


# ── Agents that are contracts, and forwarders ────────────────────────────────


@pytest.mark.requirement("EXE-080", "EXE-179")
def test_on_agent_reply__agent_is_a_contract__replies_as_itself(
    flow: ScriptedDriver, errors: Any, run: StartedRun, contract_agent: Any, agent: Any
) -> None:
    reply = flow.build_reply(run.task_hash, contract_agent)
    # Its owner is not it.
    with reverts_with(errors.ReplierMismatch, replier=contract_agent, sender=agent):
        flow.submit(reply, agent)

    ((success, returned),) = flow.reply_through(contract_agent, reply)

    assert success
    assert decode_on_agent_reply(returned) == reply.reply_hash()
    assert flow.reply(reply.reply_hash()).reply == reply


@pytest.mark.requirement("EXE-199", "EXE-200", "EXE-201")
def test_on_agent_reply__through_a_trusted_forwarder__acts_for_the_account_at_the_end(
    flow: ScriptedDriver, errors: Any, run: StartedRun, contract_agent: Any, deployer: Any, agent: Any
) -> None:
    reply = flow.build_reply(run.task_hash, agent)
    forwarded = encode_on_agent_reply(reply) + _address(agent)
    # Nobody is trusted yet: the forwarder is just another sender.
    with (
        nothing_changes(flow),
        reverts_with(errors.ReplierMismatch, replier=agent, sender=contract_agent),
    ):
        contract_agent.execute(flow.workflow, forwarded, sender=deployer)

    flow.workflow.trustForwarder(contract_agent, sender=deployer)
    contract_agent.execute(flow.workflow, forwarded, sender=deployer)

    assert flow.reply(reply.reply_hash()).reply == reply
    assert flow.events()[-1] == AgentReplyAnchored(run.id, reply.reply_hash(), _address(agent))
    # One operation, whichever way it comes.
    with nothing_changes(flow):
        assert flow.submit(reply, agent).reply_hash == reply.reply_hash()
        contract_agent.execute(flow.workflow, forwarded, sender=deployer)


@pytest.mark.requirement("EXE-200")
def test_on_agent_reply__through_a_trusted_forwarder_for_another__reverts(
    flow: ScriptedDriver,
    errors: Any,
    run: StartedRun,
    contract_agent: Any,
    deployer: Any,
    agent: Any,
    stranger: Any,
) -> None:
    flow.workflow.trustForwarder(contract_agent, sender=deployer)
    reply = flow.build_reply(run.task_hash, agent)

    with nothing_changes(flow), reverts_with(errors.ReplierMismatch, replier=agent, sender=stranger):
        contract_agent.execute(
            flow.workflow, encode_on_agent_reply(reply) + _address(stranger), sender=deployer
        )


# ── Several calls in one transaction ─────────────────────────────────────────


@pytest.mark.requirement("EXE-091", "EXE-194")
def test_on_agent_reply__many_calls_in_one_transaction__each_sees_what_the_one_before_did(
    flow: ScriptedDriver, errors: Any, run: StartedRun, contract_agent: Any
) -> None:
    flow.script(silent(), passes(Stage.NEXT))
    first = flow.build_reply(run.task_hash, contract_agent)
    second, third = (replace(first, operation_id=flow.fresh_operation_id()) for _ in range(2))

    outcomes = flow.reply_through(contract_agent, first, first, second, third, first)

    not_open = errors.TaskNotOpen.abi.selector.encode()
    assert outcomes == [
        (True, first.reply_hash()),
        (True, first.reply_hash()),
        (True, second.reply_hash()),
        (False, keccak256(not_open)[:4] + run.task_hash),
        (True, first.reply_hash()),
    ]
    assert [type(event) for event in flow.events(run.id)] == [
        NewAgentTask,
        AgentReplyAnchored,
        AgentReplyAnchored,
        NewAgentTask,
    ]


@pytest.mark.requirement("EXE-098")
def test_on_agent_reply__to_a_task_of_the_same_second__is_refused_even_in_the_same_transaction(
    flow: ScriptedDriver, errors: Any, run: StartedRun, contract_agent: Any
) -> None:
    flow.script(passes(Stage.UNPROVABLE))
    reply = flow.build_reply(run.task_hash, contract_agent)
    block_time = flow.now + 1
    # What the pass will dispatch is known beforehand.
    dispatched = AgentTask(
        Stage.UNPROVABLE, 1, reply.output_hash, b"", block_time, 0, (reply.reply_hash(),), run.id
    ).task_hash()
    answer = replace(
        reply, operation_id=flow.fresh_operation_id(), prev_task_hashes=(dispatched,), timestamp=block_time
    )

    outcomes = flow.reply_through(contract_agent, reply, answer, at=block_time)

    selector = keccak256(errors.TimestampNotAfterTask.abi.selector.encode())[:4]
    assert outcomes == [
        (True, reply.reply_hash()),
        (False, selector + block_time.to_bytes(32) + block_time.to_bytes(32)),
    ]
    assert [task.task_hash for task in flow.state(run.id).open_tasks] == [dispatched]


@pytest.mark.requirement("EXE-187")
def test_on_agent_reply__long_after_expiry__nothing_ends_by_itself(
    flow: ScriptedDriver, run: StartedRun
) -> None:
    flow.advance_time(1000 * DAY)

    assert flow.result(run.id).status is RunStatus.PENDING
    assert [task.task_hash for task in flow.state(run.id).open_tasks] == [run.task_hash]
