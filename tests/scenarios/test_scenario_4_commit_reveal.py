"""ERC-8301 Scenario 4, BFT commit-reveal: agents commit to hidden results and reveal them; the majority counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import pytest
from eth_utils import to_checksum_address

from provenflow.abi import (
    AgentReplyAnchored,
    AgentTask,
    NewAgentTask,
    RunResult,
    RunStatus,
    WorkflowCompleted,
)
from provenflow.hashing import FINAL_STAGE, keccak256
from tests.support.fixtures import Drive
from tests.support.observation import nothing_changes, only_changes
from tests.support.reverts import reverts_with
from tests.support.scenario import (
    PROOF_WINDOW,
    WINDOW,
    address_bytes,
    assert_evidence_holds,
    open_task,
    proven,
    unproven,
)
from tests.support.vectors import load_vectors
from tests.support.workflow import OpenTask, RunState, Submission, WorkflowDriver

VECTORS = load_vectors()
RESULT = b"the result"
OTHER_RESULT = b"another result"


class Stage(IntEnum):
    COMMIT = 0
    REVEAL = 1
    FINALIZE = 2


def secret_of(account: Any) -> bytes:
    """32 bytes that only this agent would know."""
    return keccak256(b"secret of " + address_bytes(account))


def opening(result: bytes, account: Any) -> bytes:
    """``result ‖ nonce`` with ``nonce = 32 secret bytes ‖ 20 replier bytes``: what the agent reveals."""
    return result + secret_of(account) + address_bytes(account)


def commit(driver: WorkflowDriver, task_hash: bytes, account: Any, revealed: bytes) -> Submission:
    """Commit to what will be revealed."""
    return driver.reply_to(task_hash, account, b"", output_hash=keccak256(revealed))


def open_reveal(driver: WorkflowDriver, requester: Any, revealed: dict[Any, bytes]) -> tuple[bytes, bytes]:
    """A run in its Reveal stage: everyone has committed to what they will reveal. Returns run id and Reveal task."""
    run = driver.start_run(requester)
    for account, output in revealed.items():
        committed = commit(driver, run.task_hash, account, output)
    return run.id, committed.task_hash


def open_finalize(
    driver: WorkflowDriver, requester: Any, agents: Sequence[Any], result: bytes = RESULT
) -> tuple[bytes, bytes]:
    """A run in its Finalize stage, all agents agreeing. Returns run id and Finalize task."""
    run_id, reveal_task = open_reveal(
        driver, requester, {account: opening(result, account) for account in agents}
    )
    for account in agents:
        revealed = driver.reply_to(reveal_task, account, opening(result, account))
    return run_id, revealed.task_hash


@pytest.fixture
def driver(drive: Drive, commit_reveal: Any) -> WorkflowDriver:
    return drive(commit_reveal)


@pytest.fixture
def quorum_of(drive: Drive, project: Any, deployer: Any, agent_verifier: Any) -> Any:
    """``quorum_of(3)`` gives a driver of a workflow with that quorum."""

    def deploy(quorum: int) -> WorkflowDriver:
        return drive(deployer.deploy(project.CommitRevealWorkflow, agent_verifier, quorum))

    return deploy


@pytest.fixture
def agents(agent: Any, other_agent: Any, third_agent: Any, stranger: Any) -> tuple[Any, ...]:
    return (agent, other_agent, third_agent, stranger)


@pytest.mark.requirement("EXE-176", "EXE-012", "EXE-117", "EXE-153")
def test_scenario_4__as_drawn__majority_is_finalized(
    driver: WorkflowDriver,
    agent_verifier: Any,
    requester: Any,
    agent: Any,
    other_agent: Any,
    aggregator: Any,
    prover: Any,
) -> None:
    run = driver.start_run(requester, b"a question")
    t0, started, expires_at = run.task_hash, driver.now, driver.now - 1 + WINDOW
    assert driver.task(t0) == AgentTask(
        stage=Stage.COMMIT,
        task_seq=0,
        input_hash=keccak256(b"a question"),
        input=b"a question",
        timestamp=started,
        expires_at=expires_at,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )

    committed_a = commit(driver, t0, agent, opening(RESULT, agent))
    assert committed_a.task_hashes == ()
    assert driver.state(run.id) == RunState(
        RunStatus.PENDING, Stage.COMMIT, (OpenTask(t0, 0, 0, expires_at, expires_at),)
    )
    committed_b = commit(driver, t0, other_agent, opening(RESULT, other_agent))
    reveal_opened_at = driver.now
    t1 = committed_b.task_hash
    commitments = committed_a.reply.output_hash + committed_b.reply.output_hash
    assert driver.task(t1) == AgentTask(
        stage=Stage.REVEAL,
        task_seq=1,
        input_hash=keccak256(commitments),
        input=b"",
        timestamp=reveal_opened_at,
        expires_at=reveal_opened_at + WINDOW,
        prev_reply_hashes=(committed_a.reply_hash, committed_b.reply_hash),
        workflow_run_id=run.id,
    )

    revealed_a = driver.reply_to(t1, agent, opening(RESULT, agent))
    assert revealed_a.task_hashes == ()
    revealed_b = driver.reply_to(t1, other_agent, opening(RESULT, other_agent))
    finalize_opened_at = driver.now
    t2 = revealed_b.task_hash
    # The nonces differ, so the reveals' hashes do; the majority's is that of the result alone.
    assert driver.task(t2) == AgentTask(
        stage=Stage.FINALIZE,
        task_seq=2,
        input_hash=keccak256(RESULT),
        input=b"",
        timestamp=finalize_opened_at,
        expires_at=finalize_opened_at + WINDOW,
        prev_reply_hashes=(revealed_a.reply_hash, revealed_b.reply_hash),
        workflow_run_id=run.id,
    )
    assert [driver.is_proven(task_hash) for task_hash in (t0, t1, t2)] == [True, False, False]

    finalized = driver.reply_to(t2, aggregator, RESULT)
    assert finalized.task_hashes == ()
    driver.prove(finalized.reply_hash, sender=prover)
    completed_at = driver.now
    tf = driver.result(run.id).final_task_hash
    assert driver.result(run.id) == RunResult(RunStatus.SUCCESS, tf, completed_at)
    assert driver.task(tf) == AgentTask(
        stage=FINAL_STAGE,
        task_seq=3,
        input_hash=bytes(32),
        input=b"",
        timestamp=completed_at,
        expires_at=0,
        prev_reply_hashes=(finalized.reply_hash,),
        workflow_run_id=run.id,
    )
    assert [driver.reply(a.reply_hash) for a in (committed_a, committed_b, revealed_a, revealed_b)] == [
        unproven(a.reply) for a in (committed_a, committed_b, revealed_a, revealed_b)
    ]
    assert driver.reply(finalized.reply_hash) == proven(finalized.reply, agent_verifier, keccak256(RESULT))
    assert driver.events() == [
        NewAgentTask(run.id, Stage.COMMIT, t0),
        AgentReplyAnchored(run.id, committed_a.reply_hash, address_bytes(agent)),
        AgentReplyAnchored(run.id, committed_b.reply_hash, address_bytes(other_agent)),
        NewAgentTask(run.id, Stage.REVEAL, t1),
        AgentReplyAnchored(run.id, revealed_a.reply_hash, address_bytes(agent)),
        AgentReplyAnchored(run.id, revealed_b.reply_hash, address_bytes(other_agent)),
        NewAgentTask(run.id, Stage.FINALIZE, t2),
        AgentReplyAnchored(run.id, finalized.reply_hash, address_bytes(aggregator)),
        WorkflowCompleted(run.id, RunStatus.SUCCESS, tf, completed_at),
    ]
    assert_evidence_holds(driver, run.id)


def test_reveal__golden_vectors__accepted_and_tallied_by_the_result(
    driver: WorkflowDriver, accounts: Any, requester: Any, agent: Any
) -> None:
    bound, key = VECTORS["commit-bound-suffix-form"], VECTORS["commit-result-key"]
    account = accounts[to_checksum_address(bound.inputs["replier"])]
    result = bound.inputs["result"]
    run = driver.start_run(requester)

    # The other agent goes first, so that each stage moves on with the golden reply.
    commit(driver, run.task_hash, agent, opening(result, agent))
    committed = driver.reply_to(run.task_hash, account, b"", output_hash=bound.expected)
    driver.reply_to(committed.task_hash, agent, opening(result, agent))
    revealed = driver.reply_to(committed.task_hash, account, bound.inputs["revealOutput"])

    assert revealed.reply.output_hash == bound.expected
    assert driver.task(revealed.task_hash).input_hash == key.expected


# ── Commit ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "fields",
    [{"output": b"in plain sight"}, {"output": b"", "output_hash": bytes(32)}],
    ids=["with plaintext", "zero output hash"],
)
@pytest.mark.requirement("EXE-131", "EXE-185")
def test_reply__bad_commit__silent_and_not_counted(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, fields: dict[str, bytes]
) -> None:
    run = driver.start_run(requester)
    bad = driver.reply_to(run.task_hash, agent, **fields)
    assert driver.event_names(bad.receipt) == ["AgentReplyAnchored"]

    first = commit(driver, run.task_hash, other_agent, opening(RESULT, other_agent))
    assert first.task_hashes == ()
    assert open_task(driver, run.id) == run.task_hash

    # The same agent can still commit properly.
    second = commit(driver, run.task_hash, agent, opening(RESULT, agent))
    assert driver.task(second.task_hash).prev_reply_hashes == (first.reply_hash, second.reply_hash)


@pytest.mark.parametrize("result", [RESULT, OTHER_RESULT], ids=["to the same", "to something else"])
@pytest.mark.requirement("EXE-184", "EXE-186")
def test_reply__second_commit_of_one_replier__silent_and_the_first_stands(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, result: bytes
) -> None:
    run = driver.start_run(requester)
    first = commit(driver, run.task_hash, agent, opening(RESULT, agent))

    again = commit(driver, run.task_hash, agent, opening(result, agent))

    assert driver.event_names(again.receipt) == ["AgentReplyAnchored"]
    assert again.reply_hash != first.reply_hash
    assert open_task(driver, run.id) == run.task_hash
    second = commit(driver, run.task_hash, other_agent, opening(RESULT, other_agent))
    assert driver.task(second.task_hash).prev_reply_hashes == (first.reply_hash, second.reply_hash)
    driver.reply_to(second.task_hash, other_agent, opening(RESULT, other_agent))
    revealed = driver.reply_to(second.task_hash, agent, opening(RESULT, agent))
    assert driver.task(revealed.task_hash).stage == Stage.FINALIZE


def test_reply__commit_after_the_quorum__refused(
    driver: WorkflowDriver, requester: Any, agents: Sequence[Any]
) -> None:
    run = driver.start_run(requester)
    for account in agents[:2]:
        commit(driver, run.task_hash, account, opening(RESULT, account))

    with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash):
        commit(driver, run.task_hash, agents[2], opening(RESULT, agents[2]))


@pytest.mark.requirement("EXE-129", "EXE-150", "EXE-186")
def test_timeout__commits_below_the_quorum__retries_then_fails(
    driver: WorkflowDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    run = driver.start_run(requester)
    committed = commit(driver, run.task_hash, agent, opening(RESULT, agent))
    driver.time_out(run.task_hash, stranger)
    retried, retried_at = open_task(driver, run.id), driver.now
    assert driver.task(retried) == AgentTask(
        stage=Stage.COMMIT,
        task_seq=1,
        input_hash=driver.task(run.task_hash).input_hash,
        input=b"",
        timestamp=retried_at,
        expires_at=retried_at + WINDOW,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )

    driver.time_out(retried, stranger)

    assert driver.events() == [
        NewAgentTask(run.id, Stage.COMMIT, run.task_hash),
        AgentReplyAnchored(run.id, committed.reply_hash, address_bytes(agent)),
        NewAgentTask(run.id, Stage.COMMIT, retried),
        WorkflowCompleted(run.id, RunStatus.FAILED, bytes(32), retried_at + WINDOW + 1),
    ]
    assert driver.result(run.id) == RunResult(RunStatus.FAILED, bytes(32), 0)


def test_timeout__commit_before_the_retry__kept_and_counted_once(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, stranger: Any
) -> None:
    run = driver.start_run(requester)
    first = commit(driver, run.task_hash, agent, opening(RESULT, agent))
    driver.time_out(run.task_hash, stranger)
    retried = open_task(driver, run.id)

    again = commit(driver, retried, agent, opening(RESULT, agent))
    assert driver.event_names(again.receipt) == ["AgentReplyAnchored"]
    second = commit(driver, retried, other_agent, opening(RESULT, other_agent))

    assert driver.task(second.task_hash).prev_reply_hashes == (first.reply_hash, second.reply_hash)
    for account in (agent, other_agent):
        revealed = driver.reply_to(second.task_hash, account, opening(RESULT, account))
    finalized = driver.reply_to(revealed.task_hash, stranger, RESULT)
    driver.prove(finalized.reply_hash, sender=stranger)
    assert_evidence_holds(driver, run.id)


# ── Reveal ───────────────────────────────────────────────────────────────────


def test_reveal__copied_commitment__cannot_be_opened(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any
) -> None:
    honest, copied = opening(RESULT, agent), opening(RESULT, other_agent)
    run_id, t1 = open_reveal(driver, requester, {agent: honest, other_agent: honest})
    driver.reply_to(t1, agent, honest)

    # Neither the copied opening nor one of their own opens it.
    for output in (honest, copied):
        attempt = driver.reply_to(t1, other_agent, output)
        assert driver.event_names(attempt.receipt) == ["AgentReplyAnchored"]
        assert driver.state(run_id).stage == Stage.REVEAL
        assert open_task(driver, run_id) == t1


# What an agent committed to, and a reveal of it that does not count, given the agent and another.
BAD_REVEALS: dict[str, Callable[[Any, Any], tuple[bytes, bytes]]] = {
    "suffix of another": lambda who, other: (opening(RESULT, other), opening(RESULT, other)),
    "no suffix": lambda who, other: (RESULT + secret_of(who), RESULT + secret_of(who)),
    "51 bytes": lambda who, other: (opening(b"", who)[1:], opening(b"", who)[1:]),
    "suffix alone": lambda who, other: (address_bytes(who), address_bytes(who)),
    "other result": lambda who, other: (opening(RESULT, who), opening(OTHER_RESULT, who)),
    "other secret": lambda who, other: (opening(RESULT, who), RESULT + bytes(32) + address_bytes(who)),
    "one byte more": lambda who, other: (opening(RESULT, who), b"\0" + opening(RESULT, who)),
    "withheld": lambda who, other: (opening(RESULT, who), b""),
}


@pytest.mark.parametrize("case", BAD_REVEALS.values(), ids=BAD_REVEALS.keys())
@pytest.mark.requirement("EXE-058", "EXE-131", "EXE-185")
def test_reveal__does_not_open_the_commitment__silent_and_not_counted(
    driver: WorkflowDriver,
    requester: Any,
    agent: Any,
    other_agent: Any,
    case: Callable[[Any, Any], tuple[bytes, bytes]],
) -> None:
    committed, revealed = case(agent, other_agent)
    run_id, t1 = open_reveal(driver, requester, {agent: committed, other_agent: opening(RESULT, other_agent)})
    driver.reply_to(t1, other_agent, opening(RESULT, other_agent))
    state = driver.state(run_id)

    bad = driver.reply_to(t1, agent, revealed, output_hash=keccak256(revealed or committed))

    assert driver.event_names(bad.receipt) == ["AgentReplyAnchored"]
    assert driver.reply(bad.reply_hash) == unproven(bad.reply)
    assert driver.state(run_id) == state


def test_reveal__bad_attempt_first__the_right_opening_still_counts(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any
) -> None:
    good = opening(RESULT, agent)
    run_id, t1 = open_reveal(driver, requester, {agent: good, other_agent: opening(RESULT, other_agent)})
    driver.reply_to(t1, agent, opening(OTHER_RESULT, agent))
    first = driver.reply_to(t1, agent, good)
    second = driver.reply_to(t1, other_agent, opening(RESULT, other_agent))
    assert driver.task(second.task_hash).prev_reply_hashes == (first.reply_hash, second.reply_hash)
    assert driver.state(run_id).stage == Stage.FINALIZE


@pytest.mark.requirement("EXE-186")
def test_reveal__twice_by_one_replier_or_without_commitment__silent(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, stranger: Any
) -> None:
    run_id, t1 = open_reveal(
        driver, requester, {account: opening(RESULT, account) for account in (agent, other_agent)}
    )
    driver.reply_to(t1, agent, opening(RESULT, agent))

    for account in (agent, stranger):
        uncounted = driver.reply_to(t1, account, opening(RESULT, account))
        assert driver.event_names(uncounted.receipt) == ["AgentReplyAnchored"]

    assert driver.state(run_id).stage == Stage.REVEAL
    assert open_task(driver, run_id) == t1


def test_reveal__empty_result__counts(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any
) -> None:
    _, t2 = open_finalize(driver, requester, (agent, other_agent), result=b"")
    assert driver.task(t2).input_hash == keccak256(b"")


@pytest.mark.requirement("EXE-130", "EXE-131")
def test_reveal__disagreement__stays_open_and_the_timeout_fails_the_run(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, stranger: Any
) -> None:
    run_id, t1 = open_reveal(
        driver, requester, {agent: opening(RESULT, agent), other_agent: opening(OTHER_RESULT, other_agent)}
    )
    driver.reply_to(t1, agent, opening(RESULT, agent))
    second = driver.reply_to(t1, other_agent, opening(OTHER_RESULT, other_agent))
    assert driver.event_names(second.receipt) == ["AgentReplyAnchored"]
    assert open_task(driver, run_id) == t1

    receipt = driver.time_out(t1, stranger)

    assert driver.event_names(receipt) == ["WorkflowCompleted"]
    assert driver.events()[-1] == WorkflowCompleted(run_id, RunStatus.FAILED, bytes(32), driver.now)
    assert driver.state(run_id) == RunState(RunStatus.FAILED, Stage.REVEAL, ())


@pytest.mark.parametrize("reveals", [0, 1])
def test_timeout__reveals_below_the_quorum__fails_without_a_retry(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any, stranger: Any, reveals: int
) -> None:
    agents = (agent, other_agent)
    run_id, t1 = open_reveal(driver, requester, {account: opening(RESULT, account) for account in agents})
    for account in agents[:reveals]:
        driver.reply_to(t1, account, opening(RESULT, account))
    expires_at = driver.task(t1).expires_at
    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.TaskNotExpired, taskHash=t1, deadline=expires_at, blockTimestamp=expires_at
        ),
    ):
        driver.time_out(t1, stranger, at=expires_at)

    late = driver.build_reply(t1, other_agent, opening(RESULT, other_agent))
    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.TaskExpired,
            taskHash=t1,
            expiresAt=expires_at,
            blockTimestamp=expires_at + 2,
        ),
    ):
        driver.submit(late, at=expires_at + 2)
    driver.time_out(t1, stranger, at=expires_at + 3)

    assert driver.result(run_id) == RunResult(RunStatus.FAILED, bytes(32), 0)


# ── Finalize ─────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-131", "EXE-140", "EXE-156")
def test_finalize__other_output_hash__proven_yet_silent_and_the_majority_completes(
    driver: WorkflowDriver, agent_verifier: Any, requester: Any, agents: Sequence[Any], aggregator: Any
) -> None:
    run_id, t2 = open_finalize(driver, requester, agents[:2])
    wrong = driver.reply_to(t2, agents[0], opening(RESULT, agents[0]))

    receipt = driver.prove(wrong.reply_hash, sender=aggregator)

    assert driver.event_names(receipt) == []
    assert driver.reply(wrong.reply_hash) == proven(wrong.reply, agent_verifier, keccak256(RESULT))
    assert open_task(driver, run_id) == t2
    # The plaintext may be withheld: the hash says it all.
    right = driver.reply_to(t2, aggregator, b"", output_hash=keccak256(RESULT))
    driver.prove(right.reply_hash, sender=aggregator)
    assert driver.task(driver.result(run_id).final_task_hash).prev_reply_hashes == (right.reply_hash,)


def test_finalize__right_and_wrong_in_one_proof__the_right_one_completes(
    driver: WorkflowDriver, requester: Any, agents: Sequence[Any], prover: Any
) -> None:
    # One proof cannot speak of both, so the wrong one is proven first and the batch skips it.
    run_id, t2 = open_finalize(driver, requester, agents[:2])
    wrong = driver.reply_to(t2, agents[0], OTHER_RESULT)
    right = driver.reply_to(t2, agents[1], RESULT)
    driver.prove(wrong.reply_hash, sender=prover)

    driver.prove(
        [wrong.reply_hash, right.reply_hash], sender=prover, proof=driver.proof_for(right.reply_hash)
    )

    assert driver.task(driver.result(run_id).final_task_hash).prev_reply_hashes == (right.reply_hash,)


@pytest.mark.parametrize("answered", [False, True], ids=["no reply", "a wrong one"])
def test_timeout__finalize_twice__retries_over_the_same_majority_then_fails(
    driver: WorkflowDriver, requester: Any, agents: Sequence[Any], prover: Any, answered: bool
) -> None:
    run_id, t2 = open_finalize(driver, requester, agents[:2])
    deadline = driver.task(t2).expires_at
    if answered:
        driver.prove(driver.reply_to(t2, agents[2], OTHER_RESULT).reply_hash, sender=prover)
        deadline += PROOF_WINDOW
    driver.time_out(t2, prover, at=deadline + 1)

    retried = open_task(driver, run_id)
    assert driver.task(retried) == AgentTask(
        stage=Stage.FINALIZE,
        task_seq=3,
        input_hash=keccak256(RESULT),
        input=b"",
        timestamp=deadline + 1,
        expires_at=deadline + 1 + WINDOW,
        prev_reply_hashes=driver.task(t2).prev_reply_hashes,
        workflow_run_id=run_id,
    )
    driver.time_out(retried, prover)
    assert driver.result(run_id) == RunResult(RunStatus.FAILED, bytes(32), 0)


# ── Other quorums ────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-186")
def test_reveal__quorum_of_three_and_two_to_one__majority_wins_over_all_reveals(
    quorum_of: Any, requester: Any, agents: Sequence[Any], prover: Any
) -> None:
    driver = quorum_of(3)
    results = dict(zip(agents[:3], (RESULT, OTHER_RESULT, RESULT), strict=True))
    run_id, t1 = open_reveal(
        driver, requester, {account: opening(result, account) for account, result in results.items()}
    )
    reveals = [driver.reply_to(t1, account, opening(result, account)) for account, result in results.items()]

    assert [reveal.task_hashes for reveal in reveals[:2]] == [(), ()]
    t2 = reveals[2].task_hash
    task = driver.task(t2)
    assert (task.stage, task.input_hash) == (Stage.FINALIZE, keccak256(RESULT))
    assert task.prev_reply_hashes == tuple(reveal.reply_hash for reveal in reveals)

    loser = driver.reply_to(t2, agents[1], OTHER_RESULT)
    driver.prove(loser.reply_hash, sender=prover)
    assert driver.result(run_id).status is RunStatus.PENDING
    winner = driver.reply_to(t2, agents[0], RESULT)
    driver.prove(winner.reply_hash, sender=prover)
    assert_evidence_holds(driver, run_id)


def test_reveal__quorum_of_three_and_two_agree__waits_for_the_third(
    quorum_of: Any, requester: Any, agents: Sequence[Any], prover: Any
) -> None:
    driver = quorum_of(3)
    run_id, t1 = open_reveal(driver, requester, {account: opening(RESULT, account) for account in agents[:3]})
    for account in agents[:2]:
        assert driver.reply_to(t1, account, opening(RESULT, account)).task_hashes == ()

    driver.time_out(t1, prover)
    assert driver.result(run_id).status is RunStatus.FAILED


@pytest.mark.parametrize(
    "results",
    [(RESULT, OTHER_RESULT, b"a third result"), (RESULT, OTHER_RESULT, RESULT, OTHER_RESULT)],
    ids=["1:1:1", "2:2"],
)
def test_reveal__no_strict_majority__stays_open(
    quorum_of: Any, requester: Any, agents: Sequence[Any], results: tuple[bytes, ...]
) -> None:
    driver = quorum_of(len(results))
    revealed = {account: opening(result, account) for account, result in zip(agents, results, strict=False)}
    run_id, t1 = open_reveal(driver, requester, revealed)
    for account, output in revealed.items():
        assert driver.reply_to(t1, account, output).task_hashes == ()
    assert open_task(driver, run_id) == t1


def test_scenario_4__quorum_of_one__one_agent_suffices(
    quorum_of: Any, requester: Any, agent: Any, prover: Any
) -> None:
    driver = quorum_of(1)
    run_id, t1 = open_reveal(driver, requester, {agent: opening(RESULT, agent)})
    # Of a single commit the input is its own hash, not the hash of a list.
    assert driver.task(t1).input_hash == keccak256(opening(RESULT, agent))

    revealed = driver.reply_to(t1, agent, opening(RESULT, agent))
    assert driver.task(revealed.task_hash).input_hash == keccak256(RESULT)
    finalized = driver.reply_to(revealed.task_hash, agent, RESULT)
    driver.prove(finalized.reply_hash, sender=prover)
    assert_evidence_holds(driver, run_id)


def test_constructor__quorum_of_zero__refused(project: Any, deployer: Any, agent_verifier: Any) -> None:
    with reverts_with(project.IAgentWorkflowErrors.ZeroQuorum):
        deployer.deploy(project.CommitRevealWorkflow, agent_verifier, 0)


def test_constructor__quorum_above_the_trigger_limit__refused(
    project: Any, deployer: Any, agent_verifier: Any
) -> None:
    with reverts_with(project.IAgentWorkflowErrors.QuorumTooHigh, quorum=65, max=64):
        deployer.deploy(project.CommitRevealWorkflow, agent_verifier, 65)
    assert deployer.deploy(project.CommitRevealWorkflow, agent_verifier, 64).address


def test_runs__side_by_side__commitments_and_votes_are_kept_apart(
    driver: WorkflowDriver, requester: Any, agent: Any, other_agent: Any
) -> None:
    one, two = driver.start_run(requester), driver.start_run(requester)
    with only_changes(driver, one.id):
        commit(driver, one.task_hash, agent, opening(RESULT, agent))
    with only_changes(driver, two.id):
        commit(driver, two.task_hash, agent, opening(OTHER_RESULT, agent))
    assert (open_task(driver, one.id), open_task(driver, two.id)) == (one.task_hash, two.task_hash)

    for run, result in ((one, RESULT), (two, OTHER_RESULT)):
        with only_changes(driver, run.id):
            t1 = commit(driver, run.task_hash, other_agent, opening(result, other_agent)).task_hash
            driver.reply_to(t1, other_agent, opening(result, other_agent))
            revealed = driver.reply_to(t1, agent, opening(result, agent))
        assert driver.task(revealed.task_hash).input_hash == keccak256(result)
