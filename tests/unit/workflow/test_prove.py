"""``onAgentProve`` accepts: what the verifier is asked, what is stored, how proofs spread, and when the gate is asked."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest
from eth_abi import encode

from provenflow.abi import NewAgentTask, RunStatus, WorkflowCompleted
from provenflow.hashing import keccak256, verification_digest
from tests.support.observation import nothing_changes
from tests.support.reverts import reverts_with
from tests.support.scripted import (
    FINAL_STAGE,
    METADATA,
    NOBODY,
    Decision,
    Reached,
    ScriptedDriver,
    Stage,
    abort,
    passes,
    retry,
    silent,
    split_proofs,
)
from tests.support.workflow import StoredReply, Submission

VERIFY_A = bytes.fromhex("f2fd7e98")
VERIFY_B = bytes.fromhex("fc2b4271")
MOCK_PROFILE = keccak256(b"mock-test-only-v1")
HOSTILE_PROFILE = keccak256(b"misbehaving-test-only-v1")


def _agent_id(account: Any) -> bytes:
    return bytes(12) + bytes.fromhex(account.address[2:])


def _assert_proven_means_what_it_says(flow: ScriptedDriver) -> None:
    """Of every task on the chain: it is proven exactly when all its previous replies are."""
    for event in flow.events():
        if isinstance(event, NewAgentTask):
            expected = all(
                flow.reply(reply_hash).proven for reply_hash in flow.task(event.task_hash).prev_reply_hashes
            )
            assert flow.is_proven(event.task_hash) == expected


# ── What the verifier is asked ───────────────────────────────────────────────


@pytest.mark.requirement("EXE-114", "EXE-115", "EXE-119", "EXE-120", "EXE-122", "EXE-156")
@pytest.mark.parametrize("proof", [b"\x01", b"p" * 32, bytes(range(256)) * 4], ids=len)
def test_on_agent_prove__option_a__asks_about_the_identity_and_keeps_verifier_and_digest(
    proof: bytes, flow: ScriptedDriver, requester: Any, agent: Any, prover: Any, hostile_verifier: Any
) -> None:
    reached = flow.reach(Stage.HOSTILE, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)
    assert flow.reply(answer.reply_hash) == StoredReply(answer.reply, NOBODY, False, bytes(32))

    flow.prove(answer.reply_hash, prover, proof=proof)

    input_hash = flow.task(reached.task_hash).input_hash
    assert [bytes(question) for question in hostile_verifier.questions()] == [
        VERIFY_A
        + encode(
            ["bytes32", "bytes32", "bytes32", "bytes32", "bytes"],
            [reached.run_id, _agent_id(agent), input_hash, answer.reply.output_hash, proof],
        )
    ]
    digest = verification_digest(
        reached.run_id, _agent_id(agent), input_hash, answer.reply.output_hash, True, HOSTILE_PROFILE
    )
    assert flow.reply(answer.reply_hash) == StoredReply(answer.reply, hostile_verifier.address, True, digest)


@pytest.mark.requirement("EXE-114", "EXE-118", "EXE-121", "EXE-122")
@pytest.mark.parametrize("proof", [b"\x01", b"p" * 32, bytes(range(256)) * 4], ids=len)
def test_on_agent_prove__option_b__asks_about_the_metadata_and_keeps_no_digest(
    proof: bytes, flow: ScriptedDriver, requester: Any, agent: Any, prover: Any, hostile_verifier: Any
) -> None:
    reached = flow.reach(Stage.HOSTILE_B, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)

    flow.prove(answer.reply_hash, prover, proof=proof)

    input_hash = flow.task(reached.task_hash).input_hash
    assert [bytes(question) for question in hostile_verifier.questions()] == [
        VERIFY_B
        + encode(
            ["bytes32", "bytes32", "bytes", "bytes"], [input_hash, answer.reply.output_hash, METADATA, proof]
        )
    ]
    assert flow.reply(answer.reply_hash) == StoredReply(
        answer.reply, hostile_verifier.address, True, bytes(32)
    )


@pytest.mark.requirement("EXE-068", "EXE-118", "EXE-120")
@pytest.mark.parametrize("stage", [Stage.SYNC, Stage.SYNC_B], ids=lambda value: value.name)
def test_on_agent_prove__mock_of_either_option__takes_exactly_its_statement(
    stage: Stage,
    flow: ScriptedDriver,
    requester: Any,
    agent: Any,
    prover: Any,
    agent_verifier: Any,
    proof_verifier: Any,
) -> None:
    reached = flow.reach(stage, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)
    metadata = METADATA if stage is Stage.SYNC_B else b""

    flow.prove(answer.reply_hash, prover, proof=flow.proof_for(answer.reply_hash, metadata))

    input_hash, output_hash = flow.task(reached.task_hash).input_hash, answer.reply.output_hash
    if stage is Stage.SYNC:
        verifier = agent_verifier
        digest = verification_digest(
            reached.run_id, _agent_id(agent), input_hash, output_hash, True, MOCK_PROFILE
        )
    else:
        verifier, digest = proof_verifier, bytes(32)
    assert flow.reply(answer.reply_hash) == StoredReply(answer.reply, verifier.address, True, digest)


def test_on_agent_prove__child_names_its_own_task_and_agent__asks_with_those(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any, deployer: Any, hostile_verifier: Any
) -> None:
    task_id, agent_id = keccak256(b"task id"), keccak256(b"agent id")
    flow.workflow.nameProofs(task_id, agent_id, sender=deployer)
    reached = flow.reach(Stage.HOSTILE, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)

    flow.prove(answer.reply_hash, prover, proof=b"proof")

    (question,) = hostile_verifier.questions()
    assert bytes(question)[4:68] == task_id + agent_id


@pytest.mark.requirement("EXE-114", "EXE-115")
@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_on_agent_prove__reply_to_several_tasks__is_about_the_input_of_the_first(
    order: Sequence[int], flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, prover: Any
) -> None:
    inputs = [keccak256(b"one input"), bytes(32), keccak256(b"another input")]
    flow.plan_begin(Stage.SYNC, *inputs)
    run = flow.start_run(requester)
    answer = flow.reply_to([run.task_hashes[number] for number in order], agent)

    for number in order[1:]:
        with reverts_with(errors.ProofRejected, replyHash=answer.reply_hash):
            flow.call_prove(
                answer.reply_hash, prover, proof=keccak256(inputs[number] + answer.reply.output_hash)
            )
    flow.prove(answer.reply_hash, prover, proof=keccak256(inputs[order[0]] + answer.reply.output_hash))

    assert flow.reply(answer.reply_hash).proven


@pytest.mark.requirement("EXE-117")
def test_on_agent_prove__task_with_several_parents__is_about_their_joint_input(
    flow: ScriptedDriver, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    run = flow.start_run(requester)
    first = flow.reply_to(run.task_hash, agent, b"one")
    second = flow.build_reply(run.task_hash, other_agent, b"two")
    flow.script(passes(Stage.SYNC, [first.reply_hash, second.reply_hash()]))
    task_hash = flow.submit(second).task_hash
    answer = flow.reply_to(task_hash, agent)

    joint = keccak256(keccak256(b"one") + keccak256(b"two"))
    flow.prove(answer.reply_hash, prover, proof=keccak256(joint + answer.reply.output_hash))

    assert flow.reply(answer.reply_hash).proven


# ── Who, and how often ───────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-111")
@pytest.mark.parametrize("sender", ["agent", "prover", "requester", "deployer"])
def test_on_agent_prove__by_anyone__is_accepted(
    sender: str, flow: ScriptedDriver, requester: Any, agent: Any, request: pytest.FixtureRequest
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)
    # Who may reply does not matter to a proof.
    flow.bar(request.getfixturevalue(sender))

    flow.prove(answer.reply_hash, request.getfixturevalue(sender))

    assert flow.reply(answer.reply_hash).proven


@pytest.fixture
def hostile_answers(
    flow: ScriptedDriver, requester: Any, agent: Any, other_agent: Any, stranger: Any
) -> list[Submission]:
    """Three replies to one sync task of the verifier that keeps what it was asked."""
    reached = flow.reach(Stage.HOSTILE, requester, agent)
    return [flow.reply_to(reached.task_hash, replier) for replier in (agent, other_agent, stranger)]


@pytest.mark.requirement("EXE-124")
def test_on_agent_prove__all_proven_already__does_nothing_whatever_the_proof(
    flow: ScriptedDriver, hostile_answers: list[Submission], prover: Any, hostile_verifier: Any
) -> None:
    hashes = [answer.reply_hash for answer in hostile_answers]
    flow.prove(hashes, prover, proof=b"proof")
    asked = len(flow.gate_inputs)

    with nothing_changes(flow):
        receipt = flow.prove(hashes, prover, proof=b"")

    assert receipt.events == []
    assert len(hostile_verifier.questions()) == 3
    assert len(flow.gate_inputs) == asked


@pytest.mark.requirement("EXE-124", "EXE-125")
@pytest.mark.parametrize("proven", range(3))
def test_on_agent_prove__some_proven_already__asks_verifier_and_gate_about_the_others_only(
    proven: int, flow: ScriptedDriver, hostile_answers: list[Submission], prover: Any, hostile_verifier: Any
) -> None:
    hashes = [answer.reply_hash for answer in hostile_answers]
    others = [reply_hash for reply_hash in hashes if reply_hash != hashes[proven]]
    flow.prove(hashes[proven], prover, proof=b"proof")
    before = len(flow.gate_inputs)

    flow.prove(hashes, prover, proof=b"proof")

    assert [flow.reply(reply_hash).proven for reply_hash in hashes] == [True] * 3
    agents = [bytes(question)[36:68] for question in hostile_verifier.questions()]
    assert agents == [
        bytes(12) + flow.reply(reply_hash).reply.replier for reply_hash in [hashes[proven], *others]
    ]
    assert [question.reply_hash for question in flow.gate_inputs[before:]] == others


# ── Batches and the gate ─────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-122", "EXE-125")
@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_on_agent_prove__several_replies__each_has_its_proof_and_its_turn_in_list_order(
    order: Sequence[int],
    flow: ScriptedDriver,
    hostile_answers: list[Submission],
    prover: Any,
    deployer: Any,
    hostile_verifier: Any,
) -> None:
    flow.workflow.splitProofs(True, sender=deployer)
    hashes = [hostile_answers[number].reply_hash for number in order]
    before = len(flow.gate_inputs)
    proofs = [b"for the first", b"for the second", b"for the third"]

    flow.prove(hashes, prover, proof=split_proofs(proofs))

    for question, proof, reply_hash in zip(hostile_verifier.questions(), proofs, hashes, strict=True):
        reply = flow.reply(reply_hash).reply
        input_hash = flow.task(reply.prev_task_hashes[0]).input_hash
        assert bytes(question) == VERIFY_A + encode(
            ["bytes32", "bytes32", "bytes32", "bytes32", "bytes"],
            [reply.workflow_run_id, bytes(12) + reply.replier, input_hash, reply.output_hash, proof],
        )
    questions = flow.gate_inputs[before:]
    assert [question.reply_hash for question in questions] == hashes
    # All were marked before the gate was asked about the first.
    assert [question.proven for question in questions] == [True] * 3


# The decision on the first of three, how many are asked about, and where the run is then.
MOVES = {
    "silent": (silent(), 3, Stage.HOSTILE, RunStatus.PENDING),
    "consumed": (silent(consume=True), 1, Stage.HOSTILE, RunStatus.PENDING),
    "passed": (passes(Stage.NEXT), 1, Stage.NEXT, RunStatus.PENDING),
    "looped": (passes(Stage.HOSTILE), 1, Stage.HOSTILE, RunStatus.PENDING),
    "retried": (retry(), 1, Stage.HOSTILE, RunStatus.PENDING),
    "aborted": (abort(), 1, Stage.HOSTILE, RunStatus.FAILED),
    "completed": (passes(FINAL_STAGE), 1, Stage.HOSTILE, RunStatus.SUCCESS),
}


@pytest.mark.requirement("EXE-122", "EXE-125")
@pytest.mark.parametrize("move", MOVES)
def test_on_agent_prove__first_of_a_batch_moves_the_run__the_others_are_proven_but_not_judged(
    move: str, flow: ScriptedDriver, hostile_answers: list[Submission], prover: Any
) -> None:
    decision, judged, stage, status = MOVES[move]
    hashes = [answer.reply_hash for answer in hostile_answers]
    before = len(flow.gate_inputs)
    flow.script(decision, abort() if judged == 1 else silent())

    flow.prove(hashes, prover, proof=b"proof")

    assert [flow.reply(reply_hash).proven for reply_hash in hashes] == [True] * 3
    assert [question.reply_hash for question in flow.gate_inputs[before:]] == hashes[:judged]
    state = flow.state(hostile_answers[0].reply.workflow_run_id)
    assert (state.status, state.stage) == (status, stage)


@pytest.mark.requirement("EXE-125")
def test_on_agent_prove__second_of_a_batch_answers_another_open_task__is_judged_after_a_retry_of_the_first(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.HOSTILE, requester, agent, tasks=3)
    answers = [flow.reply_to(task_hash, agent) for task_hash in reached.task_hashes]
    flow.script(retry(), silent(consume=True))

    flow.prove([answer.reply_hash for answer in answers], prover, proof=b"proof")

    assert [question.lane for question in flow.gate_inputs[1:]] == [0, 1, 2]
    open_tasks = flow.state(reached.run_id).open_tasks
    # The retried lane has a new task, the second was consumed.
    assert [(task.lane, task.task_seq) for task in open_tasks] == [(2, 3), (0, 4)]


# ── When the gate is not asked ───────────────────────────────────────────────


@pytest.mark.requirement("EXE-066", "EXE-122")
def test_on_agent_prove__async_stage_that_is_still_open__the_gate_is_not_asked_again(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    run = flow.start_run(requester)
    answer = flow.reply_to(run.task_hash, agent)
    flow.script(passes(Stage.NEXT))

    flow.prove(answer.reply_hash, prover)

    assert flow.reply(answer.reply_hash).proven
    assert len(flow.gate_inputs) == 1
    assert flow.state(run.id).stage == Stage.OPEN


@pytest.mark.requirement("EXE-066", "EXE-123")
@pytest.mark.parametrize("stage", [Stage.NEXT, Stage.SYNC], ids=lambda value: value.name)
def test_on_agent_prove__late_proof_of_an_async_reply__does_not_move_the_run(
    stage: Stage, flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(stage, requester, agent)
    flow.reply_to(reached.task_hash, agent)
    flow.script(abort())
    before, asked = flow.state(reached.run_id), len(flow.gate_inputs)

    receipt = flow.prove(reached.first_reply, prover)

    assert flow.reply(reached.first_reply).proven
    assert flow.event_names(receipt) == []
    assert (flow.state(reached.run_id), len(flow.gate_inputs)) == (before, asked)


@pytest.mark.requirement("EXE-058", "EXE-066", "EXE-122")
@pytest.mark.parametrize("how", ["passed", "looped", "retried", "consumed"])
def test_on_agent_prove__reply_that_lost__is_proven_without_effect_on_the_run(
    how: str, flow: ScriptedDriver, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent)
    winner, loser = (flow.reply_to(reached.task_hash, replier) for replier in (agent, other_agent))
    decisions = {
        "passed": passes(Stage.SYNC_B),
        "looped": passes(Stage.SYNC),
        "retried": retry(),
        "consumed": silent(consume=True),
    }
    flow.script(decisions[how], abort())
    flow.prove(winner.reply_hash, prover)
    before, asked = flow.state(reached.run_id), len(flow.gate_inputs)

    flow.prove(loser.reply_hash, prover)

    assert flow.reply(loser.reply_hash).proven
    assert (flow.state(reached.run_id), len(flow.gate_inputs)) == (before, asked)


@pytest.mark.requirement("EXE-066")
@pytest.mark.parametrize("position", [0, 1])
def test_on_agent_prove__one_of_the_answered_tasks_is_closed__the_gate_is_not_asked(
    position: int, flow: ScriptedDriver, requester: Any, agent: Any, other_agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent, tasks=2)
    both = flow.reply_to(reached.task_hashes, agent)
    flow.script(silent(consume=True), abort())
    flow.prove(flow.reply_to(reached.task_hashes[position], other_agent).reply_hash, prover)
    asked = len(flow.gate_inputs)

    flow.prove(both.reply_hash, prover)

    assert flow.reply(both.reply_hash).proven
    assert len(flow.gate_inputs) == asked


@pytest.mark.requirement("EXE-127")
def test_on_agent_prove__sync_stage__nothing_moves_before_the_proof(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent)
    flow.script(passes(FINAL_STAGE))

    answer = flow.reply_to(reached.task_hash, agent)

    assert flow.event_names(answer.receipt) == ["AgentReplyAnchored"]
    assert len(flow.gate_inputs) == 1
    assert flow.result(reached.run_id).status is RunStatus.PENDING
    flow.prove(answer.reply_hash, prover)
    assert flow.result(reached.run_id).status is RunStatus.SUCCESS


# ── How proofs spread ────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-047", "EXE-123", "EXE-157", "EXE-170")
@pytest.mark.parametrize("children", [1, 2, 5, 64])
def test_on_agent_prove__late_proof__reaches_every_task_that_waits(
    children: int, flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.NEXT, requester, agent, tasks=children)
    assert [flow.is_proven(task_hash) for task_hash in reached.task_hashes] == [False] * children

    flow.prove(reached.first_reply, prover)

    assert [flow.is_proven(task_hash) for task_hash in reached.task_hashes] == [True] * children


@pytest.mark.requirement("EXE-047", "EXE-123", "EXE-157", "EXE-170")
@pytest.mark.parametrize("order", list(permutations(range(3))), ids=str)
def test_on_agent_prove__task_with_several_parents__is_proven_with_the_last_of_them(
    order: Sequence[int], flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    run = flow.start_run(requester)
    hashes = [flow.reply_to(run.task_hash, agent).reply_hash for _ in range(2)]
    last = flow.build_reply(run.task_hash, agent)
    hashes.append(last.reply_hash())
    flow.script(passes(Stage.NEXT, hashes))
    task_hash = flow.submit(last).task_hash

    for number in order[:2]:
        flow.prove(hashes[number], prover)
        assert not flow.is_proven(task_hash)
    flow.prove(hashes[order[2]], prover)
    assert flow.is_proven(task_hash)


@pytest.mark.requirement("EXE-047", "EXE-157", "EXE-170")
@pytest.mark.parametrize("proven_before", [[], [0], [1], [0, 1]], ids=str)
def test_on_agent_prove__replies_proven_before_the_task_exists__count_at_once(
    proven_before: list[int], flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    run = flow.start_run(requester)
    hashes = [flow.reply_to(run.task_hash, agent).reply_hash for _ in range(2)]
    for number in proven_before:
        flow.prove(hashes[number], prover)
    flow.script(passes(Stage.NEXT, hashes))

    task_hash = flow.reply_to(run.task_hash, agent).task_hash

    assert flow.is_proven(task_hash) == (len(proven_before) == 2)
    # Both at once: one that is proven already does not count twice.
    flow.prove(hashes, prover)
    assert flow.is_proven(task_hash)
    _assert_proven_means_what_it_says(flow)


@pytest.mark.requirement("EXE-123", "EXE-157", "EXE-170")
def test_on_agent_prove__one_reply_triggers_tasks_of_several_stages__all_are_proven_with_it(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.OPEN, requester, agent, tasks=2)
    unproven = flow.reply_to(reached.task_hashes[0], agent).reply_hash
    flow.script(
        passes(Stage.NEXT, [reached.first_reply]),
        passes(Stage.UNPROVABLE, [unproven, reached.first_reply], tasks=2),
        retry([reached.first_reply]),
    )
    first = flow.reply_to(reached.task_hashes[1], agent).task_hash
    second = flow.reply_to(first, agent).task_hashes
    third = flow.reply_to(second[0], agent).task_hash

    flow.prove(reached.first_reply, prover)

    assert [flow.is_proven(task) for task in (*reached.task_hashes, first, third)] == [True] * 4
    assert [flow.is_proven(task) for task in second] == [False] * 2
    flow.prove(unproven, prover)
    assert [flow.is_proven(task) for task in second] == [True] * 2
    _assert_proven_means_what_it_says(flow)


@pytest.mark.requirement("EXE-047", "EXE-156", "EXE-170")
def test_on_agent_prove__proof_of_a_later_reply__says_nothing_about_an_earlier_one(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.NEXT, requester, agent)
    flow.script(passes(Stage.SYNC))
    second = flow.reply_to(reached.task_hash, agent)

    flow.prove(second.reply_hash, prover)

    assert flow.is_proven(second.task_hash)
    assert not flow.is_proven(reached.task_hash)
    assert not flow.reply(reached.first_reply).proven


@pytest.mark.requirement("EXE-047", "EXE-123")
def test_on_agent_prove__final_task__is_proven_by_the_proof_that_completed(
    flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)
    flow.script(passes(FINAL_STAGE))

    flow.prove(answer.reply_hash, prover)

    assert flow.is_proven(flow.result(reached.run_id).final_task_hash)
    # The async reply before it never was.
    assert not flow.is_proven(reached.task_hash)


# ── requireUpstreamProven in a sync stage ────────────────────────────────────


@pytest.fixture
def strict(flow: ScriptedDriver, requester: Any, agent: Any) -> Reached:
    """A run in the sync stage that requires proven upstream tasks; its task is not proven."""
    return flow.reach(Stage.STRICT_SYNC, requester, agent)


@pytest.mark.requirement("EXE-158")
def test_on_agent_prove__upstream_must_be_proven__is_refused_until_it_is(
    flow: ScriptedDriver, errors: Any, strict: Reached, agent: Any, prover: Any
) -> None:
    answer = flow.reply_to(strict.task_hash, agent)

    with nothing_changes(flow), reverts_with(errors.UpstreamNotProven, taskHash=strict.task_hash):
        flow.prove(answer.reply_hash, prover)
    flow.prove(strict.first_reply, prover)
    flow.prove(answer.reply_hash, prover)

    assert flow.gate_inputs[-1].reply_hash == answer.reply_hash
    assert len(flow.gate_inputs) == 2


@pytest.mark.requirement("EXE-158")
def test_on_agent_prove__upstream_of_the_second_task_must_be_proven_too(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.STRICT_SYNC, requester, agent, tasks=2)
    first, second = reached.task_hashes
    flow.prove(reached.first_reply, prover)
    failed = flow.reply_to(second, agent)
    unproven_trigger = flow.reply_to(first, agent)
    flow.script(retry([unproven_trigger.reply_hash]))
    flow.prove(failed.reply_hash, prover)
    (retried,) = (task.task_hash for task in flow.state(reached.run_id).open_tasks if task.lane == 1)
    both = flow.reply_to([first, retried], agent)

    with nothing_changes(flow), reverts_with(errors.UpstreamNotProven, taskHash=retried):
        flow.prove(both.reply_hash, prover)


def test_on_agent_prove__upstream_must_be_proven__a_reply_to_a_closed_task_needs_it_not(
    flow: ScriptedDriver, strict: Reached, agent: Any, prover: Any
) -> None:
    late = flow.reply_to(strict.task_hash, agent)
    flow.script_timeouts(passes(Stage.NEXT, [strict.first_reply]))
    flow.time_out(strict.task_hash, prover)

    flow.prove(late.reply_hash, prover)

    assert flow.reply(late.reply_hash).proven
    assert not flow.is_proven(strict.task_hash)


@pytest.mark.requirement("EXE-158")
@pytest.mark.parametrize("stage", [Stage.SYNC, Stage.NEXT], ids=lambda value: value.name)
def test_on_agent_prove__upstream_need_not_be_proven__the_gate_is_asked_anyway(
    stage: Stage, flow: ScriptedDriver, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(stage, requester, agent)

    answer = flow.reply_to(reached.task_hash, agent)
    flow.prove(answer.reply_hash, prover)

    assert not flow.is_proven(reached.task_hash)
    assert flow.gate_inputs[-1].reply_hash == answer.reply_hash


# ── The order of events ──────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-192", "EXE-195")
@pytest.mark.parametrize(
    ("decision", "own"),
    [
        pytest.param(silent(), [], id="silent"),
        pytest.param(passes(Stage.NEXT, tasks=2), ["NewAgentTask"] * 2, id="pass"),
        pytest.param(passes(FINAL_STAGE), ["WorkflowCompleted"], id="complete"),
    ],
)
def test_on_agent_prove__events__follow_the_verifiers(
    decision: Decision,
    own: list[str],
    flow: ScriptedDriver,
    requester: Any,
    agent: Any,
    prover: Any,
    agent_verifier: Any,
) -> None:
    reached = flow.reach(Stage.SYNC, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)
    flow.script(decision)

    receipt = flow.prove(answer.reply_hash, prover)

    addresses = [log["address"].lower() for log in receipt.logs]
    assert addresses == [agent_verifier.address.lower()] + [flow.workflow.address.lower()] * len(own)
    assert flow.event_names(receipt) == own
    if decision.next_stage == FINAL_STAGE:
        assert isinstance(flow.events(reached.run_id)[-1], WorkflowCompleted)
