"""Races: several transactions in one block, and several calls in one transaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from eth_abi import encode

from provenflow import abi
from provenflow.abi import AgentReplyAnchored, NewAgentTask, RunStatus, WorkflowCompleted
from provenflow.hashing import keccak256, operation_key, reply_digest, run_id, task_hash
from tests.support.blocks import Outcome, Transaction, mine_together, proving, replying, timing_out
from tests.support.fixtures import Drive
from tests.support.observation import only_changes
from tests.support.reverts import error_data, reverts_with
from tests.support.scenario import PROOF_WINDOW, WINDOW, address_bytes, open_task
from tests.support.workflow import StartedRun, WorkflowDriver


def both_orders(function: Any) -> Any:
    """The test runs twice: with its two transactions as listed, and swapped."""
    return pytest.mark.parametrize("swapped", [False, True], ids=["in order", "swapped"])(function)


def bid(price: int) -> bytes:
    return encode(["uint256", "bytes"], [price, b""])


def opening(result: bytes, account: Any) -> bytes:
    """``result ‖ secret ‖ replier``; the secret does not matter here."""
    return result + bytes(32) + address_bytes(account)


def anchored(reply: abi.AgentReply) -> AgentReplyAnchored:
    return AgentReplyAnchored(reply.workflow_run_id, reply.reply_hash(), reply.replier)


# ── One operation, twice ─────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-083", "EXE-085", "EXE-086", "EXE-088", "EXE-091", "EXE-092", "EXE-097")
def test_race__one_operation_twice_in_a_block__one_reply_and_one_canonical_hash(
    drive: Drive, pipeline: Any, requester: Any, agent: Any
) -> None:
    driver = drive(pipeline)
    run = driver.start_run(requester)
    early = driver.build_reply(run.task_hash, agent)
    late = replace(early, timestamp=driver.advance_time(1))

    # The later one comes first, passes the gate, and is canonical.
    first, second = mine_together(driver, [replying(late), replying(early)])

    assert first.returned == second.returned == late.reply_hash()
    assert first.events == (anchored(late), NewAgentTask(run.id, 1, open_task(driver, run.id)))
    assert (second.events, second.foreign_logs) == ((), 0)
    assert driver.reply(late.reply_hash()).reply == late
    with reverts_with(driver.workflow.UnknownReply, replyHash=early.reply_hash()):
        driver.reply(early.reply_hash())


@pytest.mark.requirement("EXE-089", "EXE-090", "EXE-092")
def test_race__one_operation_with_two_contents_in_a_block__first_binds_and_second_conflicts(
    drive: Drive, single_stage: Any, requester: Any, agent: Any
) -> None:
    driver = drive(single_stage)
    run = driver.start_run(requester)
    one = driver.build_reply(run.task_hash, agent, b"one content")
    other = replace(one, output=b"other content", output_hash=keccak256(b"other content"))

    first, second = mine_together(driver, [replying(one), replying(other)])

    assert first.returned == one.reply_hash()
    digests = [
        reply_digest(reply.output_hash, reply.replier, reply.prev_task_hashes, run.id)
        for reply in (one, other)
    ]
    second.assert_reverted_with(
        driver.workflow.OperationConflict,
        operationKey=operation_key(run.id, one.replier, one.operation_id),
        boundReplyDigest=digests[0],
        submittedReplyDigest=digests[1],
    )
    assert driver.reply(first.returned).reply == one


@pytest.mark.requirement("EXE-032", "EXE-184")
def test_race__same_content_under_two_operations_in_a_block__two_replies(
    drive: Drive, single_stage: Any, requester: Any, agent: Any
) -> None:
    driver = drive(single_stage)
    run = driver.start_run(requester)
    one = driver.build_reply(run.task_hash, agent)
    two = replace(one, operation_id=driver.fresh_operation_id())

    outcomes = mine_together(driver, [replying(one), replying(two)])

    assert [outcome.returned for outcome in outcomes] == [one.reply_hash(), two.reply_hash()]
    assert [outcome.events for outcome in outcomes] == [(anchored(one),), (anchored(two),)]
    assert [driver.reply(reply.reply_hash()).reply for reply in (one, two)] == [one, two]


# ── One task, two agents ─────────────────────────────────────────────────────


@both_orders
@pytest.mark.requirement("EXE-096", "EXE-194", "EXE-195")
def test_race__two_agents_for_one_async_task__first_wins_and_second_is_refused(
    drive: Drive, pipeline: Any, requester: Any, agent: Any, other_agent: Any, swapped: bool
) -> None:
    driver = drive(pipeline)
    run = driver.start_run(requester)
    winner, loser = driver.build_reply(run.task_hash, agent), driver.build_reply(run.task_hash, other_agent)
    if swapped:
        winner, loser = loser, winner

    first, second = mine_together(driver, [replying(winner), replying(loser)])

    assert first.returned == winner.reply_hash()
    second.assert_reverted_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash)
    assert driver.task(open_task(driver, run.id)).prev_reply_hashes == (winner.reply_hash(),)
    assert driver.events() == [
        NewAgentTask(run.id, 0, run.task_hash),
        anchored(winner),
        NewAgentTask(run.id, 1, open_task(driver, run.id)),
    ]


@both_orders
@pytest.mark.requirement("EXE-131", "EXE-147")
def test_race__two_agents_and_their_proofs_in_one_sync_stage__first_proof_wins(
    drive: Drive, single_stage: Any, requester: Any, agent: Any, other_agent: Any, prover: Any, swapped: bool
) -> None:
    driver = drive(single_stage)
    run = driver.start_run(requester)
    replies = [
        driver.build_reply(run.task_hash, account, str(account.address).encode())
        for account in (agent, other_agent)
    ]
    outcomes = mine_together(driver, [replying(reply) for reply in replies])
    assert [outcome.returned for outcome in outcomes] == [reply.reply_hash() for reply in replies]
    if swapped:
        replies.reverse()

    proofs = [proving(reply.reply_hash(), driver.proof_for(reply.reply_hash()), prover) for reply in replies]
    first, second = mine_together(driver, proofs)

    final_task_hash = driver.result(run.id).final_task_hash
    assert first.events == (WorkflowCompleted(run.id, RunStatus.SUCCESS, final_task_hash, driver.now),)
    second.assert_reverted_with(driver.workflow.RunNotPending, workflowRunId=run.id, status=RunStatus.SUCCESS)
    assert driver.task(final_task_hash).prev_reply_hashes == (replies[0].reply_hash(),)


# ── Proofs ───────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-196", "EXE-197")
def test_race__bad_proof_in_front_of_the_good_one__good_one_completes(
    drive: Drive, single_stage: Any, requester: Any, agent: Any, prover: Any, stranger: Any
) -> None:
    driver = drive(single_stage)
    run = driver.start_run(requester)
    reply_hash = driver.reply_to(run.task_hash, agent).reply_hash

    bad, good = mine_together(
        driver,
        [
            proving(reply_hash, b"", stranger),
            proving(reply_hash, driver.proof_for(reply_hash), prover),
        ],
    )

    bad.assert_reverted_with(driver.workflow.ProofRejected, replyHash=reply_hash)
    assert good.returned == b""
    assert driver.result(run.id).status is RunStatus.SUCCESS


@pytest.mark.requirement("EXE-124")
def test_race__one_async_reply_proven_twice_in_a_block__verifier_called_once(
    drive: Drive, pipeline: Any, requester: Any, agent: Any, prover: Any, stranger: Any
) -> None:
    driver = drive(pipeline)
    run = driver.start_run(requester)
    reply_hash = driver.reply_to(run.task_hash, agent).reply_hash
    proof = driver.proof_for(reply_hash)

    # Even a bad proof of a proven reply is no refusal: nobody is asked.
    outcomes = mine_together(
        driver, [proving(reply_hash, proof, prover), proving(reply_hash, b"not looked at", stranger)]
    )

    assert [outcome.returned for outcome in outcomes] == [b"", b""]
    assert [outcome.events for outcome in outcomes] == [(), ()]
    assert [outcome.foreign_logs for outcome in outcomes] == [1, 0]


@pytest.mark.requirement("EXE-124", "EXE-198")
def test_race__element_of_a_batch_proven_in_front_of_it__batch_still_proves_the_rest(
    drive: Drive, parallel_audit: Any, requester: Any, agent: Any, prover: Any, stranger: Any
) -> None:
    driver = drive(parallel_audit)
    run = driver.start_run(requester)
    hashes = [driver.reply_to(task, agent, b"no findings").reply_hash for task in run.task_hashes]
    proof = driver.proof_for(hashes[0])

    griefing, batch = mine_together(
        driver, [proving(hashes[1], proof, stranger), proving(hashes, proof, prover)]
    )

    assert (griefing.foreign_logs, batch.foreign_logs) == (1, 2)
    assert batch.returned == b""
    assert all(driver.reply(reply_hash).proven for reply_hash in hashes)
    assert driver.is_proven(open_task(driver, run.id))


@pytest.mark.requirement("EXE-147", "EXE-188")
def test_race__proof_in_front_of_the_timeout__run_completes(
    drive: Drive, single_stage: Any, requester: Any, agent: Any, prover: Any, stranger: Any
) -> None:
    driver = drive(single_stage)
    run = driver.start_run(requester)
    reply_hash = driver.reply_to(run.task_hash, agent).reply_hash
    deadline = driver.task(run.task_hash).expires_at + PROOF_WINDOW

    proof, timeout = mine_together(
        driver,
        [
            proving(reply_hash, driver.proof_for(reply_hash), prover),
            timing_out(driver, run.task_hash, stranger),
        ],
        at=deadline + 1,
    )

    assert proof.events == (
        WorkflowCompleted(run.id, RunStatus.SUCCESS, driver.result(run.id).final_task_hash, deadline + 1),
    )
    timeout.assert_reverted_with(
        driver.workflow.RunNotPending, workflowRunId=run.id, status=RunStatus.SUCCESS
    )


@pytest.mark.requirement("EXE-125", "EXE-156")
def test_race__timeout_in_front_of_the_proof__task_is_retried_and_the_proof_only_recorded(
    drive: Drive, single_stage: Any, requester: Any, agent: Any, prover: Any, stranger: Any
) -> None:
    driver = drive(single_stage)
    run = driver.start_run(requester)
    reply_hash = driver.reply_to(run.task_hash, agent).reply_hash
    deadline = driver.task(run.task_hash).expires_at + PROOF_WINDOW

    timeout, proof = mine_together(
        driver,
        [
            timing_out(driver, run.task_hash, stranger),
            proving(reply_hash, driver.proof_for(reply_hash), prover),
        ],
        at=deadline + 1,
    )

    retried = open_task(driver, run.id)
    assert timeout.events == (NewAgentTask(run.id, 0, retried),)
    assert (proof.returned, proof.events) == (b"", ())
    assert driver.reply(reply_hash).proven
    assert driver.task(retried).task_seq == 1
    assert driver.result(run.id).status is RunStatus.PENDING


@pytest.mark.requirement("EXE-151")
def test_race__last_timeout_in_front_of_the_proof__run_fails_and_the_proof_is_refused(
    drive: Drive, single_stage: Any, requester: Any, agent: Any, prover: Any, stranger: Any
) -> None:
    driver = drive(single_stage)
    run = driver.start_run(requester)
    driver.time_out(run.task_hash, stranger)
    retried = open_task(driver, run.id)
    reply_hash = driver.reply_to(retried, agent).reply_hash
    deadline = driver.task(retried).expires_at + PROOF_WINDOW

    timeout, proof = mine_together(
        driver,
        [
            timing_out(driver, retried, stranger),
            proving(reply_hash, driver.proof_for(reply_hash), prover),
        ],
        at=deadline + 1,
    )

    assert timeout.events == (WorkflowCompleted(run.id, RunStatus.FAILED, bytes(32), deadline + 1),)
    proof.assert_reverted_with(driver.workflow.RunNotPending, workflowRunId=run.id, status=RunStatus.FAILED)
    assert not driver.reply(reply_hash).proven


# ── Replies and timeouts ─────────────────────────────────────────────────────


@both_orders
@pytest.mark.parametrize("expired", [False, True], ids=["at the deadline", "a second later"])
@pytest.mark.requirement("EXE-101", "EXE-188")
def test_race__reply_and_timeout__exactly_one_of_them_whatever_the_order(
    drive: Drive,
    pipeline: Any,
    requester: Any,
    agent: Any,
    stranger: Any,
    swapped: bool,
    expired: bool,
) -> None:
    driver = drive(pipeline)
    run = driver.start_run(requester)
    reply = driver.build_reply(run.task_hash, agent)
    expires_at = driver.task(run.task_hash).expires_at
    at = expires_at + 1 if expired else expires_at

    transactions = [replying(reply), timing_out(driver, run.task_hash, stranger)]
    outcomes = mine_together(driver, transactions[::-1] if swapped else transactions, at=at)
    replied, timed_out = outcomes[::-1] if swapped else outcomes

    dispatched = open_task(driver, run.id)
    if expired:
        assert timed_out.events == (NewAgentTask(run.id, 0, dispatched),)
        if swapped:
            replied.assert_reverted_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash)
        else:
            replied.assert_reverted_with(
                driver.workflow.TaskExpired,
                taskHash=run.task_hash,
                expiresAt=expires_at,
                blockTimestamp=at,
            )
    else:
        assert replied.events == (anchored(reply), NewAgentTask(run.id, 1, dispatched))
        if swapped:
            timed_out.assert_reverted_with(
                driver.workflow.TaskNotExpired,
                taskHash=run.task_hash,
                deadline=expires_at,
                blockTimestamp=at,
            )
        else:
            timed_out.assert_reverted_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash)


def test_race__one_task_timed_out_twice_in_a_block__retried_once(
    drive: Drive, pipeline: Any, requester: Any, prover: Any, stranger: Any
) -> None:
    driver = drive(pipeline)
    run = driver.start_run(requester)
    deadline = driver.task(run.task_hash).expires_at

    first, second = mine_together(
        driver, [timing_out(driver, run.task_hash, sender) for sender in (prover, stranger)], at=deadline + 1
    )

    assert first.events == (NewAgentTask(run.id, 0, open_task(driver, run.id)),)
    second.assert_reverted_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash)


# ── Runs ─────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-073", "EXE-074", "EXE-182", "EXE-202")
def test_race__runs_of_one_requester_in_one_block__distinct_ids(
    drive: Drive, single_stage: Any, requester: Any
) -> None:
    driver = drive(single_stage)
    start = Transaction(requester.address, abi.encode_run(keccak256(b"input"), b"input", driver.now + WINDOW))

    outcomes = mine_together(driver, [start] * 3)

    block = int(driver.rpc.call("eth_blockNumber"), 16)
    expected = [run_id(address_bytes(requester), block, nonce) for nonce in range(3)]
    assert [outcome.returned for outcome in outcomes] == expected
    assert len(set(expected)) == 3
    # Tasks alike in everything but their run.
    for workflow_run_id, outcome in zip(expected, outcomes, strict=True):
        assert outcome.events == (NewAgentTask(workflow_run_id, 0, open_task(driver, workflow_run_id)),)


# ── Scenarios in one block ───────────────────────────────────────────────────


@pytest.mark.requirement("EXE-174", "EXE-194")
def test_race__four_equal_bids_in_one_block__earliest_wins_and_the_fourth_is_refused(
    drive: Drive,
    competitive_selection: Any,
    requester: Any,
    agent: Any,
    other_agent: Any,
    third_agent: Any,
    stranger: Any,
) -> None:
    driver = drive(competitive_selection)
    run = driver.start_run(requester)
    bidders = (third_agent, agent, other_agent, stranger)
    timestamp = driver.advance_time(1)
    bids = [
        driver.build_reply(run.task_hash, bidder, bid(price), timestamp=timestamp)
        for bidder, price in zip(bidders, (80, 80, 80, 1), strict=True)
    ]

    outcomes = mine_together(driver, [replying(reply) for reply in bids])

    t1 = open_task(driver, run.id)
    assert [outcome.events for outcome in outcomes[:3]] == [
        (anchored(bids[0]),),
        (anchored(bids[1]),),
        (anchored(bids[2]), NewAgentTask(run.id, 1, t1)),
    ]
    outcomes[3].assert_reverted_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash)
    assert driver.task(t1).prev_reply_hashes == (bids[0].reply_hash(),)


def test_race__commit_that_opens_reveal_and_a_reveal_in_one_block__reveal_is_refused(
    drive: Drive, commit_reveal: Any, requester: Any, agent: Any, other_agent: Any, third_agent: Any
) -> None:
    # Nobody can answer a task in the block that dispatches it, even knowing its hash beforehand.
    driver = drive(commit_reveal)
    run = driver.start_run(requester)
    agents = (agent, other_agent, third_agent)
    commits = [
        driver.build_reply(run.task_hash, account, b"", output_hash=keccak256(opening(b"result", account)))
        for account in agents
    ]
    driver.submit(commits[0])
    at = driver.now + 5
    hashes = [reply.reply_hash() for reply in commits[:2]]
    commitments = keccak256(b"".join(reply.output_hash for reply in commits[:2]))
    t1 = task_hash(1, 1, commitments, at, at + WINDOW, hashes, run.id)
    reveal = driver.build_reply(t1, agent, opening(b"result", agent), workflow_run_id=run.id, timestamp=at)

    opened, revealed, committed_late = mine_together(
        driver, [replying(commits[1]), replying(reveal), replying(commits[2])], at=at
    )

    assert opened.events == (anchored(commits[1]), NewAgentTask(run.id, 1, t1))
    revealed.assert_reverted_with(driver.workflow.TimestampNotAfterTask, timestamp=at, anchorTime=at)
    committed_late.assert_reverted_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash)

    # One second later both reveals fit one block.
    reveals = [
        driver.build_reply(t1, account, opening(b"result", account), timestamp=at + 1)
        for account in agents[:2]
    ]
    outcomes = mine_together(driver, [replying(reply) for reply in reveals], at=at + 1)
    assert [outcome.events for outcome in outcomes] == [
        (anchored(reveals[0]),),
        (anchored(reveals[1]), NewAgentTask(run.id, 2, open_task(driver, run.id))),
    ]


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1)], ids=str)
@pytest.mark.requirement("EXE-177", "EXE-194")
def test_race__all_dimensions_and_a_rival_in_one_block__joined_in_block_order(
    drive: Drive, parallel_audit: Any, requester: Any, agent: Any, stranger: Any, order: Sequence[int]
) -> None:
    driver = drive(parallel_audit)
    run = driver.start_run(requester)
    timestamp = driver.advance_time(1)
    replies = [
        driver.build_reply(run.task_hashes[lane], agent, f"report {lane}".encode(), timestamp=timestamp)
        for lane in order
    ]
    rival = driver.build_reply(run.task_hashes[order[0]], stranger, timestamp=timestamp)

    one, refused, two, three = mine_together(
        driver, [replying(reply) for reply in (replies[0], rival, *replies[1:])]
    )

    t_qual = open_task(driver, run.id)
    assert [outcome.events for outcome in (one, two, three)] == [
        (anchored(replies[0]),),
        (anchored(replies[1]),),
        (anchored(replies[2]), NewAgentTask(run.id, 1, t_qual)),
    ]
    refused.assert_reverted_with(driver.workflow.TaskNotOpen, taskHash=run.task_hashes[order[0]])
    assert driver.task(t_qual).prev_reply_hashes == tuple(reply.reply_hash() for reply in replies)


def test_race__two_dimensions_timed_out_in_one_block__both_retried(
    drive: Drive, parallel_audit: Any, requester: Any, stranger: Any
) -> None:
    driver = drive(parallel_audit)
    run = driver.start_run(requester)
    deadline = driver.task(run.task_hashes[0]).expires_at

    mine_together(
        driver,
        [timing_out(driver, run.task_hashes[lane], stranger) for lane in (2, 0)],
        at=deadline + 1,
    )

    # In order of dispatch: the one that was not timed out, then the retried ones.
    state = driver.state(run.id)
    assert [(task.task_seq, task.lane) for task in state.open_tasks] == [(1, 1), (3, 2), (4, 0)]
    assert state.status is RunStatus.PENDING


# ── Several calls in one transaction ─────────────────────────────────────────


def in_one_transaction(
    driver: WorkflowDriver,
    contract_agent: Any,
    sender: Any,
    calls: Sequence[Transaction],
    at: int | None = None,
) -> tuple[Outcome, list[tuple[bool, bytes]]]:
    """The contract makes the calls one after the other; (success, data) of each."""
    data = contract_agent.tryAll.encode_input(driver.workflow.address, [call.data for call in calls])
    (outcome,) = mine_together(
        driver, [Transaction(sender.address, bytes(data), contract_agent.address)], at=at
    )
    assert outcome.succeeded
    answers = [(bool(success), bytes(data)) for success, data in contract_agent.outcomes()]
    return outcome, answers


def returned(reply: abi.AgentReply) -> tuple[bool, bytes]:
    return True, reply.reply_hash()


@pytest.mark.requirement("EXE-056", "EXE-148", "EXE-172")
def test_transaction__reply_proof_and_retry_at_once__run_completes_and_the_retry_resolves(
    drive: Drive, single_stage: Any, contract_agent: Any, requester: Any, stranger: Any
) -> None:
    driver = drive(single_stage)
    run = driver.start_run(requester)
    reply = driver.build_reply(run.task_hash, contract_agent)
    proof = keccak256(driver.task(run.task_hash).input_hash + reply.output_hash)

    outcome, answers = in_one_transaction(
        driver,
        contract_agent,
        stranger,
        [replying(reply), proving(reply.reply_hash(), proof, contract_agent), replying(reply)],
    )

    assert answers == [returned(reply), (True, b""), returned(reply)]
    final_task_hash = driver.result(run.id).final_task_hash
    assert outcome.events == (
        anchored(reply),
        WorkflowCompleted(run.id, RunStatus.SUCCESS, final_task_hash, driver.now),
    )
    assert driver.task(final_task_hash).prev_reply_hashes == (reply.reply_hash(),)


@pytest.mark.requirement("EXE-098", "EXE-100", "EXE-181")
def test_transaction__run_and_reply_at_once__reply_is_refused(
    drive: Drive, pipeline: Any, contract_agent: Any, stranger: Any
) -> None:
    driver = drive(pipeline)
    at = driver.now + 7
    block = int(driver.rpc.call("eth_blockNumber"), 16) + 1
    workflow_run_id = run_id(address_bytes(contract_agent), block, 0)
    t0 = task_hash(0, 0, keccak256(b"input"), at, at + WINDOW, [], workflow_run_id)
    reply = driver.build_reply(t0, contract_agent, workflow_run_id=workflow_run_id, timestamp=at)
    run = Transaction(stranger.address, abi.encode_run(keccak256(b"input"), b"input", at + WINDOW))

    outcome, answers = in_one_transaction(driver, contract_agent, stranger, [run, replying(reply)], at=at)

    assert answers == [
        (True, workflow_run_id),
        (False, error_data(driver.workflow.TimestampNotAfterTask, timestamp=at, anchorTime=at)),
    ]
    assert outcome.events == (NewAgentTask(workflow_run_id, 0, t0),)


def test_transaction__two_stages_at_once__second_reply_is_refused(
    drive: Drive, pipeline: Any, contract_agent: Any, requester: Any, stranger: Any
) -> None:
    driver = drive(pipeline)
    run = driver.start_run(requester)
    first = driver.build_reply(run.task_hash, contract_agent)
    at = driver.now + 3
    t1 = task_hash(1, 1, first.output_hash, at, at + WINDOW, [first.reply_hash()], run.id)
    second = driver.build_reply(t1, contract_agent, workflow_run_id=run.id, timestamp=at)

    outcome, answers = in_one_transaction(
        driver, contract_agent, stranger, [replying(first), replying(second)], at=at
    )

    assert answers == [
        returned(first),
        (False, error_data(driver.workflow.TimestampNotAfterTask, timestamp=at, anchorTime=at)),
    ]
    assert outcome.events == (anchored(first), NewAgentTask(run.id, 1, t1))


def test_transaction__timeout_and_reply_at_once__neither_task_can_be_answered(
    drive: Drive, pipeline: Any, contract_agent: Any, requester: Any, stranger: Any
) -> None:
    driver = drive(pipeline)
    run = driver.start_run(requester)
    task = driver.task(run.task_hash)
    at = task.expires_at + 1
    retried = task_hash(0, 1, task.input_hash, at, at + WINDOW, [], run.id)
    replies = [
        driver.build_reply(answered, contract_agent, workflow_run_id=run.id, timestamp=at)
        for answered in (run.task_hash, retried)
    ]

    outcome, answers = in_one_transaction(
        driver,
        contract_agent,
        stranger,
        [timing_out(driver, run.task_hash, stranger), *(replying(reply) for reply in replies)],
        at=at,
    )

    assert answers == [
        (True, b""),
        (False, error_data(driver.workflow.TaskNotOpen, taskHash=run.task_hash)),
        (False, error_data(driver.workflow.TimestampNotAfterTask, timestamp=at, anchorTime=at)),
    ]
    assert outcome.events == (NewAgentTask(run.id, 0, retried),)


@pytest.mark.requirement("EXE-186")
def test_transaction__three_bids_of_one_contract_at_once__count_as_one(
    drive: Drive, competitive_selection: Any, contract_agent: Any, requester: Any, stranger: Any
) -> None:
    driver = drive(competitive_selection)
    run = driver.start_run(requester)
    bids = [driver.build_reply(run.task_hash, contract_agent, bid(price)) for price in (90, 80, 70)]

    outcome, answers = in_one_transaction(
        driver, contract_agent, stranger, [replying(reply) for reply in bids]
    )

    assert answers == [returned(reply) for reply in bids]
    assert outcome.events == tuple(anchored(reply) for reply in bids)
    driver.time_out(run.task_hash, stranger)
    assert driver.task(open_task(driver, run.id)).prev_reply_hashes == (bids[0].reply_hash(),)


@pytest.mark.requirement("EXE-177")
def test_transaction__all_dimensions_at_once__joined(
    drive: Drive, parallel_audit: Any, contract_agent: Any, requester: Any, stranger: Any
) -> None:
    driver = drive(parallel_audit)
    run = driver.start_run(requester)
    replies = [driver.build_reply(task, contract_agent) for task in run.task_hashes]

    outcome, answers = in_one_transaction(
        driver, contract_agent, stranger, [replying(reply) for reply in replies]
    )

    assert answers == [returned(reply) for reply in replies]
    t_qual = open_task(driver, run.id)
    assert outcome.events == (*map(anchored, replies), NewAgentTask(run.id, 1, t_qual))


def test_transaction__replies_to_two_runs_at_once__each_moves_its_own(
    drive: Drive, pipeline: Any, contract_agent: Any, requester: Any, stranger: Any
) -> None:
    driver = drive(pipeline)
    runs: list[StartedRun] = [driver.start_run(requester) for _ in range(3)]
    replies = [driver.build_reply(run.task_hash, contract_agent) for run in runs[:2]]
    untouched = driver.state(runs[2].id)

    outcome, _ = in_one_transaction(driver, contract_agent, stranger, [replying(reply) for reply in replies])

    assert outcome.events == (
        anchored(replies[0]),
        NewAgentTask(runs[0].id, 1, open_task(driver, runs[0].id)),
        anchored(replies[1]),
        NewAgentTask(runs[1].id, 1, open_task(driver, runs[1].id)),
    )
    assert driver.state(runs[2].id) == untouched


def test_transaction__one_call_among_refused_ones__only_it_counts(
    drive: Drive, single_stage: Any, contract_agent: Any, requester: Any, agent: Any, stranger: Any
) -> None:
    driver = drive(single_stage)
    run = driver.start_run(requester)
    mine = driver.build_reply(run.task_hash, contract_agent)
    theirs = driver.build_reply(run.task_hash, agent)

    with only_changes(driver, run.id):
        outcome, answers = in_one_transaction(
            driver,
            contract_agent,
            stranger,
            [replying(theirs), replying(mine), timing_out(driver, run.task_hash, stranger)],
        )

    assert answers == [
        (
            False,
            error_data(driver.workflow.ReplierMismatch, replier=agent.address, sender=contract_agent.address),
        ),
        returned(mine),
        (
            False,
            error_data(
                driver.workflow.TaskNotExpired,
                taskHash=run.task_hash,
                deadline=driver.task(run.task_hash).expires_at + PROOF_WINDOW,
                blockTimestamp=driver.now,
            ),
        ),
    ]
    assert outcome.events == (anchored(mine),)
