"""``onAgentProve`` refuses in a fixed order, and a verifier that does not answer "valid" in every detail proves nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import pytest
from eth_abi import encode

from provenflow.abi import (
    AgentReplyAnchored,
    RunStatus,
    decode_get_agent_reply,
    encode_get_agent_reply,
    encode_on_agent_prove,
    encode_on_agent_reply,
    encode_run,
)
from provenflow.hashing import keccak256
from tests.support.observation import nothing_changes
from tests.support.reverts import reverts_with
from tests.support.scripted import FINAL_STAGE, Reached, ScriptedDriver, Stage, abort, passes, split_proofs
from tests.support.workflow import DAY, Submission

UNKNOWN = keccak256(b"no reply has this hash")
BAD_PROOF = bytes(32)
GUARD = keccak256(b"ReentrancyGuardReentrantCall()")[:4]

HostileStages = pytest.mark.parametrize(
    "stage", [Stage.HOSTILE, Stage.HOSTILE_B], ids=["option A", "option B"]
)


class Mode(IntEnum):
    """``MisbehavingVerifier.Mode``."""

    HONEST = 0
    SAY_NO = 1
    REVERT_WITH_REASON = 2
    REVERT_EMPTY = 3
    ANSWER_RAW = 4
    RETURN_BOMB = 5
    BURN_GAS = 6
    REENTER = 7
    CHANGE_MIND = 8


# ── The order ────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class ProofScene:
    """Two runs with the same replies, one that failed and one that is pending: the first in a stage that takes proofs, two
    more in a stage that takes none."""

    flow: ScriptedDriver
    ended: tuple[bytes, list[bytes]]
    pending: tuple[bytes, list[bytes]]


@pytest.fixture(scope="module")
def proof_scene(shared_flow: ScriptedDriver, requester: Any, agent: Any) -> ProofScene:
    flow = shared_flow
    runs: list[tuple[bytes, list[bytes]]] = []
    for last in (abort(), None):
        reached = flow.reach(Stage.UNPROVABLE, requester, agent)
        replies = [reached.first_reply, flow.reply_to(reached.task_hash, agent).reply_hash]
        flow.script(*([last] if last else []))
        replies.append(flow.reply_to(reached.task_hash, agent).reply_hash)
        runs.append((reached.run_id, replies))
    return ProofScene(flow, *runs)


@dataclass(frozen=True)
class Refusal:
    """One row: the rule by name, the list that breaks it and all later ones, and the arguments of its error.

    "Named once, one run, one stage" is checked entry by entry: the second entry breaks them.
    """

    error: str
    replies: Callable[[ProofScene], list[bytes]]
    arguments: Callable[[ProofScene], dict[str, Any]] = field(default=lambda scene: {})


REFUSALS = [
    Refusal("EmptyReplyHashes", lambda scene: []),
    Refusal("TooManyReplyHashes", lambda scene: [UNKNOWN] * 33, lambda scene: {"count": 33, "max": 32}),
    Refusal(
        "UnknownReply",
        lambda scene: [scene.ended[1][1], scene.ended[1][1], scene.pending[1][0], UNKNOWN],
        lambda scene: {"replyHash": UNKNOWN},
    ),
    Refusal(
        "DuplicateReplyHash",
        lambda scene: [scene.ended[1][1], scene.ended[1][1], scene.pending[1][0]],
        lambda scene: {"replyHash": scene.ended[1][1]},
    ),
    Refusal(
        "MixedRuns",
        lambda scene: [scene.ended[1][1], scene.pending[1][0]],
        lambda scene: {
            "replyHash": scene.pending[1][0],
            "workflowRunId": scene.pending[0],
            "expectedWorkflowRunId": scene.ended[0],
        },
    ),
    Refusal(
        "MixedStages",
        lambda scene: [scene.ended[1][1], scene.ended[1][0]],
        lambda scene: {
            "replyHash": scene.ended[1][0],
            "stage": Stage.OPEN,
            "expectedStage": Stage.UNPROVABLE,
        },
    ),
    Refusal(
        "RunNotPending",
        lambda scene: [scene.ended[1][1], scene.ended[1][2]],
        lambda scene: {"workflowRunId": scene.ended[0], "status": RunStatus.FAILED},
    ),
    Refusal(
        "StageWithoutVerifier",
        lambda scene: [scene.pending[1][1], scene.pending[1][2]],
        lambda scene: {"stage": Stage.UNPROVABLE},
    ),
    Refusal(
        "ProofRejected",
        lambda scene: [scene.pending[1][0]],
        lambda scene: {"replyHash": scene.pending[1][0]},
    ),
]


@pytest.mark.requirement("EXE-112", "EXE-113", "EXE-151", "EXE-198")
@pytest.mark.parametrize("row", REFUSALS, ids=lambda row: row.error)
def test_on_agent_prove__breaks_one_rule_and_all_later_ones__is_refused_for_the_first(
    row: Refusal, proof_scene: ProofScene, errors: Any, prover: Any
) -> None:
    flow = proof_scene.flow

    with nothing_changes(flow), reverts_with(getattr(errors, row.error), **row.arguments(proof_scene)):
        flow.prove(row.replies(proof_scene), prover, proof=BAD_PROOF)


# ── Each rule alone ──────────────────────────────────────────────────────────


@pytest.fixture
def answers(
    flow: ScriptedDriver, requester: Any, agent: Any, other_agent: Any, stranger: Any
) -> list[Submission]:
    """Three replies to one sync task, all provable with one proof."""
    reached = flow.reach(Stage.SYNC, requester, agent)
    return [flow.reply_to(reached.task_hash, replier) for replier in (agent, other_agent, stranger)]


@pytest.mark.requirement("EXE-113")
@pytest.mark.parametrize("position", range(3))
def test_on_agent_prove__unknown_reply_among_good_ones__reverts(
    position: int, flow: ScriptedDriver, errors: Any, answers: list[Submission], prover: Any
) -> None:
    hashes = [answer.reply_hash for answer in answers]
    proof = flow.proof_for(hashes[0])
    hashes[position] = UNKNOWN

    with nothing_changes(flow), reverts_with(errors.UnknownReply, replyHash=UNKNOWN):
        flow.prove(hashes, prover, proof=proof)


@pytest.mark.parametrize("order", [[0, 0], [0, 1, 1], [0, 1, 0], [2, 1, 0, 2]], ids=str)
def test_on_agent_prove__reply_named_twice__reverts(
    order: list[int], flow: ScriptedDriver, errors: Any, answers: list[Submission], prover: Any
) -> None:
    hashes = [answers[number].reply_hash for number in order]

    with nothing_changes(flow), reverts_with(errors.DuplicateReplyHash, replyHash=hashes[-1]):
        flow.prove(hashes, prover)


def test_on_agent_prove__reply_of_another_run__reverts(
    flow: ScriptedDriver, errors: Any, answers: list[Submission], requester: Any, agent: Any, prover: Any
) -> None:
    other = flow.reach(Stage.SYNC, requester, agent)
    foreign = flow.reply_to(other.task_hash, agent)
    hashes = [answers[0].reply_hash, answers[1].reply_hash, foreign.reply_hash]

    with (
        nothing_changes(flow),
        reverts_with(
            errors.MixedRuns,
            replyHash=foreign.reply_hash,
            workflowRunId=other.run_id,
            expectedWorkflowRunId=answers[0].reply.workflow_run_id,
        ),
    ):
        flow.prove(hashes, prover)


def test_on_agent_prove__reply_of_another_stage__reverts(
    flow: ScriptedDriver, errors: Any, answers: list[Submission], prover: Any
) -> None:
    run_id = answers[0].reply.workflow_run_id
    first_reply = next(
        event.reply_hash for event in flow.events(run_id) if isinstance(event, AgentReplyAnchored)
    )

    with (
        nothing_changes(flow),
        reverts_with(errors.MixedStages, replyHash=first_reply, stage=Stage.OPEN, expectedStage=Stage.SYNC),
    ):
        flow.prove([answers[0].reply_hash, first_reply], prover)


@pytest.mark.requirement("EXE-147", "EXE-151")
@pytest.mark.parametrize("status", [RunStatus.SUCCESS, RunStatus.FAILED], ids=lambda value: value.name)
def test_on_agent_prove__run_has_ended__reverts_for_proven_and_unproven_replies(
    status: RunStatus, flow: ScriptedDriver, errors: Any, answers: list[Submission], prover: Any
) -> None:
    flow.script(passes(FINAL_STAGE) if status is RunStatus.SUCCESS else abort())
    run_id = answers[0].reply.workflow_run_id
    flow.prove(answers[0].reply_hash, prover)
    assert flow.result(run_id).status is status

    for answer in answers[:2]:
        with (
            nothing_changes(flow),
            reverts_with(errors.RunNotPending, workflowRunId=run_id, status=status),
        ):
            flow.prove(answer.reply_hash, prover)


def test_on_agent_prove__stage_takes_no_proofs__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(Stage.UNPROVABLE, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)

    with nothing_changes(flow), reverts_with(errors.StageWithoutVerifier, stage=Stage.UNPROVABLE):
        flow.prove(answer.reply_hash, prover)


@pytest.mark.parametrize("count", [32, 33])
def test_on_agent_prove__32_replies__are_the_most(
    count: int,
    flow: ScriptedDriver,
    errors: Any,
    requester: Any,
    agent: Any,
    contract_agent: Any,
    prover: Any,
) -> None:
    reached = flow.reach(Stage.NEXT, requester, agent)
    replies = [
        flow.build_reply(reached.task_hash, contract_agent, timestamp=flow.now + 1) for _ in range(count)
    ]
    flow.advance_time(1)
    for first in range(0, count, 11):
        assert all(success for success, _ in flow.reply_through(contract_agent, *replies[first : first + 11]))
    hashes = [reply.reply_hash() for reply in replies]

    if count == 33:
        with nothing_changes(flow), reverts_with(errors.TooManyReplyHashes, count=33, max=32):
            flow.prove(hashes, prover)
    else:
        flow.prove(hashes, prover)
        assert all(flow.reply(reply_hash).proven for reply_hash in hashes)


# ── Wrong statements ─────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-115", "EXE-121", "EXE-196", "EXE-197", "EXE-198")
@pytest.mark.parametrize(
    "statement", ["swapped", "other input", "other output", "other metadata", "cut", "empty"]
)
@pytest.mark.parametrize("stage", [Stage.SYNC, Stage.SYNC_B], ids=["option A", "option B"])
def test_on_agent_prove__proof_of_another_statement__reverts_and_the_right_one_is_taken_afterwards(
    stage: Stage, statement: str, flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, prover: Any
) -> None:
    reached = flow.reach(stage, requester, agent)
    answer = flow.reply_to(reached.task_hash, agent)
    input_hash, output_hash = flow.task(reached.task_hash).input_hash, answer.reply.output_hash
    metadata = bytes(flow.workflow.stageConfig(stage)[0][-1])
    other = keccak256(b"something else")
    proofs = {
        "swapped": keccak256(output_hash + input_hash + metadata),
        "other input": keccak256(other + output_hash + metadata),
        "other output": keccak256(input_hash + other + metadata),
        "other metadata": keccak256(input_hash + output_hash + metadata + b"!"),
        "cut": flow.proof_for(answer.reply_hash, metadata)[:31],
        "empty": b"",
    }

    with nothing_changes(flow), reverts_with(errors.ProofRejected, replyHash=answer.reply_hash):
        flow.prove(answer.reply_hash, prover, proof=proofs[statement])
    assert len(flow.gate_inputs) == 1  # of the first stage

    flow.prove(answer.reply_hash, prover, proof=flow.proof_for(answer.reply_hash, metadata))
    assert flow.reply(answer.reply_hash).proven
    assert flow.gate_inputs[1].reply_hash == answer.reply_hash


@pytest.mark.requirement("EXE-198")
@pytest.mark.parametrize("bad", range(3))
def test_on_agent_prove__one_proof_of_a_batch_is_wrong__nothing_of_the_batch_is_proven(
    bad: int, flow: ScriptedDriver, errors: Any, answers: list[Submission], deployer: Any, prover: Any
) -> None:
    flow.workflow.splitProofs(True, sender=deployer)
    hashes = [answer.reply_hash for answer in answers]
    proofs = [BAD_PROOF if number == bad else flow.proof_for(hashes[number]) for number in range(3)]

    with nothing_changes(flow), reverts_with(errors.ProofRejected, replyHash=hashes[bad]):
        flow.prove(hashes, prover, proof=split_proofs(proofs))


# ── Verifiers that misbehave ─────────────────────────────────────────────────


@dataclass(frozen=True)
class Waiting:
    """A reply that waits for a proof from the misbehaving verifier."""

    reached: Reached
    answer: Submission

    @property
    def reply_hash(self) -> bytes:
        return self.answer.reply_hash


@pytest.fixture
def waiting(stage: Stage, flow: ScriptedDriver, requester: Any, agent: Any) -> Waiting:
    reached = flow.reach(stage, requester, agent)
    return Waiting(reached, flow.reply_to(reached.task_hash, agent))


def _word(value: int) -> bytes:
    return value.to_bytes(32)


# Beginning with a word that says "valid".
_LENGTHS = [0, 1, 31, 32, 33, 63, 64, 65, 96]
_DIRTY = {"0": 0, "2": 2, "2^255": 2**255, "2^256-1": 2**256 - 1, "1 at the left": 1 << 248}
RAW_ANSWERS = {
    **{(Stage.HOSTILE, f"{length} bytes"): (_word(1) * 3)[:length] for length in _LENGTHS if length != 64},
    **{(Stage.HOSTILE_B, f"{length} bytes"): (_word(1) * 3)[:length] for length in _LENGTHS if length != 32},
    **{(Stage.HOSTILE, f"bool {name}"): _word(value) + UNKNOWN for name, value in _DIRTY.items()},
    **{(Stage.HOSTILE_B, f"bool {name}"): _word(value) for name, value in _DIRTY.items()},
}


def _prove_honestly(
    flow: ScriptedDriver, waiting: Waiting, verifier: Any, prover: Any, deployer: Any
) -> None:
    """Nothing stands in the way of a proof that the verifier, honest again, accepts."""
    verifier.setMode(Mode.HONEST, sender=deployer)
    asked = len(flow.gate_inputs)
    flow.prove(waiting.reply_hash, prover, proof=b"proof")
    assert flow.reply(waiting.reply_hash).proven
    assert [question.reply_hash for question in flow.gate_inputs[asked:]] == [waiting.reply_hash]


@pytest.mark.requirement("EXE-122", "EXE-196", "EXE-197", "EXE-198")
@HostileStages
@pytest.mark.parametrize(
    "mode", [Mode.SAY_NO, Mode.REVERT_WITH_REASON, Mode.REVERT_EMPTY], ids=lambda mode: mode.name
)
def test_on_agent_prove__verifier_refuses__reverts_and_a_later_proof_is_taken(
    mode: Mode,
    flow: ScriptedDriver,
    errors: Any,
    waiting: Waiting,
    hostile_verifier: Any,
    prover: Any,
    deployer: Any,
) -> None:
    hostile_verifier.setMode(mode, sender=deployer)

    with nothing_changes(flow), reverts_with(errors.ProofRejected, replyHash=waiting.reply_hash):
        flow.prove(waiting.reply_hash, prover, proof=b"proof")

    _prove_honestly(flow, waiting, hostile_verifier, prover, deployer)


@pytest.mark.requirement("EXE-119", "EXE-121", "EXE-196", "EXE-198")
@pytest.mark.parametrize(("stage", "answer"), RAW_ANSWERS, ids=lambda value: getattr(value, "name", value))
def test_on_agent_prove__verifier_answers_outside_its_abi__reverts_and_a_later_proof_is_taken(
    stage: Stage,
    answer: str,
    flow: ScriptedDriver,
    errors: Any,
    waiting: Waiting,
    hostile_verifier: Any,
    prover: Any,
    deployer: Any,
) -> None:
    hostile_verifier.setRawAnswer(RAW_ANSWERS[stage, answer], sender=deployer)

    with nothing_changes(flow), reverts_with(errors.ProofRejected, replyHash=waiting.reply_hash):
        flow.prove(waiting.reply_hash, prover, proof=b"proof")

    _prove_honestly(flow, waiting, hostile_verifier, prover, deployer)


@pytest.mark.requirement("EXE-196", "EXE-198")
@HostileStages
def test_on_agent_prove__verifier_without_code_any_more__reverts_until_it_is_back(
    flow: ScriptedDriver, errors: Any, waiting: Waiting, hostile_verifier: Any, prover: Any, deployer: Any
) -> None:
    code = flow.rpc.call("eth_getCode", hostile_verifier.address, "latest")
    flow.rpc.call("anvil_setCode", hostile_verifier.address, "0x")

    with nothing_changes(flow), reverts_with(errors.ProofRejected, replyHash=waiting.reply_hash):
        flow.prove(waiting.reply_hash, prover, proof=b"proof")

    flow.rpc.call("anvil_setCode", hostile_verifier.address, code)
    _prove_honestly(flow, waiting, hostile_verifier, prover, deployer)


@pytest.mark.requirement("EXE-196", "EXE-198")
@HostileStages
def test_on_agent_prove__verifier_returns_a_megabyte__reverts_without_copying_it(
    flow: ScriptedDriver, errors: Any, waiting: Waiting, hostile_verifier: Any, prover: Any, deployer: Any
) -> None:
    hostile_verifier.setMode(Mode.RETURN_BOMB, sender=deployer)

    # Memory for a megabyte costs 2,000,000 gas: the verifier can pay that here, the workflow could not once more.
    with nothing_changes(flow), reverts_with(errors.ProofRejected, replyHash=waiting.reply_hash):
        flow.prove_within(3_500_000, waiting.reply_hash, prover, b"proof")

    _prove_honestly(flow, waiting, hostile_verifier, prover, deployer)


@pytest.mark.requirement("EXE-196", "EXE-198")
@HostileStages
def test_on_agent_prove__verifier_burns_all_gas__reverts_with_what_is_left(
    flow: ScriptedDriver, errors: Any, waiting: Waiting, hostile_verifier: Any, prover: Any, deployer: Any
) -> None:
    hostile_verifier.setMode(Mode.BURN_GAS, sender=deployer)

    with nothing_changes(flow), reverts_with(errors.ProofRejected, replyHash=waiting.reply_hash):
        flow.prove_within(500_000, waiting.reply_hash, prover, b"proof")

    _prove_honestly(flow, waiting, hostile_verifier, prover, deployer)


@pytest.mark.requirement("EXE-124", "EXE-198")
@HostileStages
def test_on_agent_prove__verifier_changes_its_mind__is_not_asked_again_about_a_proven_reply(
    flow: ScriptedDriver,
    errors: Any,
    waiting: Waiting,
    hostile_verifier: Any,
    agent: Any,
    prover: Any,
    deployer: Any,
) -> None:
    hostile_verifier.setMode(Mode.CHANGE_MIND, sender=deployer)
    second = flow.reply_to(waiting.reached.task_hash, agent)
    # Yes to the first and no to the second is no to both.
    with nothing_changes(flow), reverts_with(errors.ProofRejected, replyHash=second.reply_hash):
        flow.prove([waiting.reply_hash, second.reply_hash], prover, proof=b"proof")
    flow.prove(waiting.reply_hash, prover, proof=b"proof")

    with nothing_changes(flow):
        flow.prove(waiting.reply_hash, prover, proof=b"proof")

    assert len(hostile_verifier.questions()) == 1
    assert flow.reply(waiting.reply_hash).proven


# ── Re-entry ─────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Reentry:
    """What a call of the verifier back into the workflow needs, so that nothing but the guard stands in its way."""

    flow: ScriptedDriver
    waiting: Waiting
    other_reply: bytes  # to the same task, unproven
    expired_task: bytes  # of another run
    verifier: Any


REENTRIES: dict[str, Callable[[Reentry], bytes]] = {
    "run": lambda scene: encode_run(UNKNOWN, b"", scene.flow.now + DAY),
    "onAgentReply": lambda scene: encode_on_agent_reply(
        scene.flow.build_reply(scene.waiting.reached.task_hash, scene.verifier)
    ),
    "onAgentProve": lambda scene: encode_on_agent_prove([scene.other_reply], b"proof"),
    "onAgentProve of the same reply": lambda scene: encode_on_agent_prove(
        [scene.waiting.reply_hash], b"proof"
    ),
    "replyTimeout": lambda scene: bytes(scene.flow.workflow.replyTimeout.encode_input(scene.expired_task)),
    "a matching retry": lambda scene: encode_on_agent_reply(
        scene.flow.reply(_reply_of(scene.flow, scene.verifier)).reply
    ),
}


def _reply_of(flow: ScriptedDriver, verifier: Any) -> bytes:
    """The reply that the verifier, called as an agent would be, has anchored before."""
    address = bytes.fromhex(verifier.address[2:])
    return next(
        event.reply_hash
        for event in flow.events()
        if isinstance(event, AgentReplyAnchored) and event.replier == address
    )


@pytest.mark.requirement("EXE-192", "EXE-193")
@HostileStages
@pytest.mark.parametrize("entry", REENTRIES)
def test_on_agent_prove__verifier_calls_back__is_stopped_by_the_guard_and_the_proof_goes_through(
    entry: str,
    flow: ScriptedDriver,
    waiting: Waiting,
    hostile_verifier: Any,
    requester: Any,
    other_agent: Any,
    prover: Any,
    deployer: Any,
) -> None:
    other_reply = flow.reply_to(waiting.reached.task_hash, other_agent).reply_hash
    expired = flow.start_run(requester, expires_at=flow.now + 2)
    flow.submit_as(hostile_verifier, flow.build_reply(waiting.reached.task_hash, hostile_verifier))
    scene = Reentry(flow, waiting, other_reply, expired.task_hash, hostile_verifier)
    calldata = REENTRIES[entry](scene)
    # From outside the same call is in order.
    flow.advance_time(3)
    call = {"from": hostile_verifier.address, "to": flow.workflow.address, "data": f"0x{calldata.hex()}"}
    flow.rpc.call("eth_call", call, "latest")
    hostile_verifier.setReentry(flow.workflow, calldata, sender=deployer)
    events, asked = flow.events(), len(flow.gate_inputs)

    flow.prove(waiting.reply_hash, prover, proof=b"proof")

    assert hostile_verifier.reentries() == 1
    assert not hostile_verifier.reentrySucceeded()
    assert bytes(hostile_verifier.reentryReturn()) == GUARD
    assert flow.events() == events
    assert flow.reply(waiting.reply_hash).proven
    assert not flow.reply(other_reply).proven
    assert [question.reply_hash for question in flow.gate_inputs[asked:]] == [waiting.reply_hash]


@pytest.mark.requirement("EXE-192")
@HostileStages
def test_on_agent_prove__verifier_looks_while_it_is_asked__sees_nothing_proven_yet(
    flow: ScriptedDriver, waiting: Waiting, hostile_verifier: Any, agent: Any, prover: Any, deployer: Any
) -> None:
    second = flow.reply_to(waiting.reached.task_hash, agent)
    hostile_verifier.setReentry(flow.workflow, encode_get_agent_reply(waiting.reply_hash), sender=deployer)

    # The last look is during the second question, after "valid" to the first.
    flow.prove([waiting.reply_hash, second.reply_hash], prover, proof=b"proof")

    assert hostile_verifier.reentries() == 2
    assert hostile_verifier.reentrySucceeded()
    reply, verifier, proven, digest = decode_get_agent_reply(bytes(hostile_verifier.reentryReturn()))
    assert (reply, verifier, proven, digest) == (waiting.answer.reply, bytes(20), False, bytes(32))
    assert flow.reply(waiting.reply_hash).proven


@pytest.mark.requirement("EXE-193")
def test_on_agent_prove__guard__is_free_again_for_the_next_call_of_the_transaction(
    flow: ScriptedDriver, answers: list[Submission], contract_agent: Any
) -> None:
    batches = [([answer.reply_hash], flow.proof_for(answer.reply_hash)) for answer in answers]
    bad = ([answers[0].reply_hash], BAD_PROOF)

    outcomes = flow.prove_through(contract_agent, batches[0], batches[1], bad, batches[2])

    # The third is about a reply that the first has proven.
    assert outcomes == [(True, b"")] * 4
    assert [flow.reply(answer.reply_hash).proven for answer in answers] == [True] * 3


def test_hostile_verifier__called_by_an_account__behaves_as_it_is_told(
    hostile_verifier: Any, deployer: Any, flow: ScriptedDriver
) -> None:
    # The tests above mean nothing if the verifier does not misbehave.
    option_b = keccak256(b"verify(bytes32,bytes32,bytes,bytes)")[:4] + encode(
        ["bytes32", "bytes32", "bytes", "bytes"], [UNKNOWN, UNKNOWN, b"", b"proof"]
    )
    call = {"to": hostile_verifier.address, "data": f"0x{option_b.hex()}"}

    def answer() -> bytes:
        return bytes.fromhex(str(flow.rpc.call("eth_call", call, "latest"))[2:])

    assert answer() == _word(1)
    hostile_verifier.setMode(Mode.SAY_NO, sender=deployer)
    assert answer() == _word(0)
    hostile_verifier.setRawAnswer(b"\x07" * 33, sender=deployer)
    assert answer() == b"\x07" * 33
    hostile_verifier.setMode(Mode.RETURN_BOMB, sender=deployer)
    assert answer() == bytes(1_000_000)
