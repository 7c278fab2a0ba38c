"""ERC-8301 Scenario 2, node selection: agents bid, the lowest bid executes, the others are discarded silently."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import pytest
from eth_abi import encode

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
from tests.support.workflow import OpenTask, RunState, StartedRun, Submission, WorkflowDriver

HIGHEST_PRICE = 2**256 - 1


class Stage(IntEnum):
    BID = 0
    EXECUTE = 1


def bid(price: int, payload: bytes = b"") -> bytes:
    """Output of a bid: ``abi.encode(uint256 price, bytes payload)``."""
    return encode(["uint256", "bytes"], [price, payload])


def words(*values: int) -> bytes:
    return b"".join(value.to_bytes(32, "big") for value in values)


# Near misses of bid(1, …). Most of them a lenient decoder would read as a price of 1.
MALFORMED = {
    "empty": b"",
    "price only": words(1),
    "price and offset only": words(1, 64),
    "95 bytes": bid(1)[:-1],
    "packed": words(1) + b"payload",
    "offset too low": words(1, 32, 0),
    "offset too high": words(1, 96, 0, 0),
    "offset far out": words(1, 2**255, 0),
    "length past the end": words(1, 64, 33, 0),
    "length without payload": words(1, 64, 1),
    "length far out": words(1, 64, 2**256 - 1),
    "padding missing": words(1, 64, 1) + b"p",
    "padding short": bid(1, b"p")[:-1],
    "padding dirty": bid(1, b"p")[:-1] + b"\x01",
    "one byte more": bid(1) + b"\0",
    "one word more": bid(1, b"payload") + bytes(32),
}


@pytest.fixture
def driver(drive: Drive, competitive_selection: Any) -> WorkflowDriver:
    return drive(competitive_selection)


@pytest.fixture
def bidders(agent: Any, other_agent: Any, third_agent: Any) -> tuple[Any, ...]:
    return (agent, other_agent, third_agent)


def place_bids(
    driver: WorkflowDriver, run: StartedRun, bidders: Sequence[Any], prices: Sequence[int]
) -> list[Submission]:
    """One bid of each bidder, in order; there may be fewer prices than bidders."""
    return [
        driver.reply_to(run.task_hash, bidder, bid(price))
        for bidder, price in zip(bidders, prices, strict=False)
    ]


@pytest.mark.requirement("EXE-174", "EXE-058", "EXE-131")
def test_scenario_2__as_drawn__lowest_bid_executes(
    driver: WorkflowDriver,
    agent_verifier: Any,
    requester: Any,
    agent: Any,
    other_agent: Any,
    third_agent: Any,
    prover: Any,
) -> None:
    run = driver.start_run(requester, b"a job")
    t0, started, expires_at = run.task_hash, driver.now, driver.now - 1 + WINDOW
    assert driver.task(t0) == AgentTask(
        stage=Stage.BID,
        task_seq=0,
        input_hash=keccak256(b"a job"),
        input=b"a job",
        timestamp=started,
        expires_at=expires_at,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )

    a = driver.reply_to(t0, agent, bid(100))
    b = driver.reply_to(t0, other_agent, bid(80, b"cheap and good"))
    assert (a.task_hashes, b.task_hashes) == ((), ())
    assert driver.state(run.id) == RunState(
        RunStatus.PENDING, Stage.BID, (OpenTask(t0, 0, 0, expires_at, expires_at),)
    )
    c = driver.reply_to(t0, third_agent, bid(120))
    selected_at = driver.now
    t1 = c.task_hash

    assert driver.task(t1) == AgentTask(
        stage=Stage.EXECUTE,
        task_seq=1,
        input_hash=b.reply.output_hash,
        input=b"",
        timestamp=selected_at,
        expires_at=selected_at + WINDOW,
        prev_reply_hashes=(b.reply_hash,),
        workflow_run_id=run.id,
    )
    assert not driver.is_proven(t1)
    # Discarded bids stay on record.
    assert [driver.reply(answer.reply_hash) for answer in (a, b, c)] == [
        unproven(answer.reply) for answer in (a, b, c)
    ]

    executed = driver.reply_to(t1, other_agent, b"the job, done")
    r1 = executed.reply_hash
    assert driver.result(run.id) == RunResult(RunStatus.PENDING, bytes(32), 0)
    driver.prove(r1, sender=prover)
    completed_at = driver.now
    tf = driver.result(run.id).final_task_hash

    assert driver.result(run.id) == RunResult(RunStatus.SUCCESS, tf, completed_at)
    assert driver.task(tf) == AgentTask(
        stage=FINAL_STAGE,
        task_seq=2,
        input_hash=bytes(32),
        input=b"",
        timestamp=completed_at,
        expires_at=0,
        prev_reply_hashes=(r1,),
        workflow_run_id=run.id,
    )
    assert driver.is_proven(tf)
    assert driver.reply(r1) == proven(executed.reply, agent_verifier, b.reply.output_hash)
    assert driver.events() == [
        NewAgentTask(run.id, Stage.BID, t0),
        AgentReplyAnchored(run.id, a.reply_hash, address_bytes(agent)),
        AgentReplyAnchored(run.id, b.reply_hash, address_bytes(other_agent)),
        AgentReplyAnchored(run.id, c.reply_hash, address_bytes(third_agent)),
        NewAgentTask(run.id, Stage.EXECUTE, t1),
        AgentReplyAnchored(run.id, r1, address_bytes(other_agent)),
        WorkflowCompleted(run.id, RunStatus.SUCCESS, tf, completed_at),
    ]
    assert_evidence_holds(driver, run.id)


# ── Which bid wins ───────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("prices", "winner"),
    [
        ((80, 100, 120), 0),
        ((120, 100, 80), 2),
        ((80, 80, 80), 0),
        ((100, 80, 80), 1),
        ((80, 100, 80), 0),
        ((1, 0, 1), 1),
        ((HIGHEST_PRICE, HIGHEST_PRICE - 1, HIGHEST_PRICE), 1),
        ((HIGHEST_PRICE, HIGHEST_PRICE, HIGHEST_PRICE), 0),
    ],
    ids=lambda value: str(value).replace(str(HIGHEST_PRICE), "max").replace(str(HIGHEST_PRICE - 1), "max-1"),
)
def test_select__three_bids__lowest_and_of_equals_the_earliest(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], prices: tuple[int, ...], winner: int
) -> None:
    run = driver.start_run(requester)
    bids = place_bids(driver, run, bidders, prices)

    task = driver.task(bids[2].task_hash)
    assert task.prev_reply_hashes == (bids[winner].reply_hash,)
    assert task.input_hash == bids[winner].reply.output_hash


@pytest.mark.requirement("EXE-186")
def test_reply__second_bid_of_one_replier__silent_and_not_counted(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any]
) -> None:
    run = driver.start_run(requester)
    first, second = place_bids(driver, run, bidders, (100, 80))

    undercut = driver.reply_to(run.task_hash, bidders[0], bid(1))

    assert driver.event_names(undercut.receipt) == ["AgentReplyAnchored"]
    assert driver.reply(undercut.reply_hash) == unproven(undercut.reply)
    assert open_task(driver, run.id) == run.task_hash
    third = driver.reply_to(run.task_hash, bidders[2], bid(90))
    assert driver.task(third.task_hash).prev_reply_hashes == (second.reply_hash,)
    assert driver.task(third.task_hash).input_hash != first.reply.output_hash


@pytest.mark.parametrize("output", MALFORMED.values(), ids=MALFORMED.keys())
@pytest.mark.requirement("EXE-056", "EXE-058", "EXE-131", "EXE-185")
def test_reply__malformed_bid__silent_and_not_counted(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], stranger: Any, output: bytes
) -> None:
    run = driver.start_run(requester)
    place_bids(driver, run, bidders, (100, 80))
    state = driver.state(run.id)

    malformed = driver.reply_to(run.task_hash, stranger, output, output_hash=keccak256(output))

    assert driver.event_names(malformed.receipt) == ["AgentReplyAnchored"]
    assert driver.reply(malformed.reply_hash) == unproven(malformed.reply)
    assert driver.state(run.id) == state
    # Neither its price nor its place counts, and its replier may still bid.
    repaired = driver.reply_to(run.task_hash, stranger, bid(79, b"repaired"))
    assert driver.task(repaired.task_hash).prev_reply_hashes == (repaired.reply_hash,)


@pytest.mark.parametrize(
    "payload", [b"", b"p", bytes(31), b"\xff" * 32, b"p" * 33], ids=lambda p: f"{len(p)} bytes"
)
def test_reply__bid_with_any_payload__counted(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], payload: bytes
) -> None:
    run = driver.start_run(requester)
    place_bids(driver, run, bidders, (100, 80))
    third = driver.reply_to(run.task_hash, bidders[2], bid(79, payload))
    assert driver.task(third.task_hash).prev_reply_hashes == (third.reply_hash,)


@pytest.mark.requirement("EXE-020", "EXE-131")
def test_reply__bid_with_withheld_output__silent(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any]
) -> None:
    run = driver.start_run(requester)
    place_bids(driver, run, bidders, (100, 80))

    withheld = driver.reply_to(run.task_hash, bidders[2], b"", output_hash=keccak256(bid(1)))

    assert driver.event_names(withheld.receipt) == ["AgentReplyAnchored"]
    assert open_task(driver, run.id) == run.task_hash


# ── Losers, winners, strangers ───────────────────────────────────────────────


@pytest.mark.requirement("EXE-111", "EXE-122", "EXE-156")
def test_prove__losing_and_malformed_bids__proven_and_nothing_moves(
    driver: WorkflowDriver,
    agent_verifier: Any,
    requester: Any,
    bidders: Sequence[Any],
    stranger: Any,
    prover: Any,
) -> None:
    run = driver.start_run(requester)
    malformed = driver.reply_to(run.task_hash, stranger, b"no bid")
    bids = place_bids(driver, run, bidders, (100, 80, 120))
    state, events = driver.state(run.id), driver.events()

    for answer in (malformed, bids[0], bids[2]):
        driver.prove(answer.reply_hash, sender=prover)
        assert driver.reply(answer.reply_hash) == proven(
            answer.reply, agent_verifier, driver.task(run.task_hash).input_hash
        )

    assert (driver.state(run.id), driver.events()) == (state, events)
    assert not driver.is_proven(bids[2].task_hash)
    driver.prove(bids[1].reply_hash, sender=prover)
    assert driver.is_proven(bids[2].task_hash)


def test_prove__bid_while_bidding__execute_task_is_proven_from_the_start(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], prover: Any
) -> None:
    run = driver.start_run(requester)
    bids = place_bids(driver, run, bidders, (80, 100))
    receipt = driver.prove(bids[0].reply_hash, sender=prover)
    assert driver.event_names(receipt) == []
    assert open_task(driver, run.id) == run.task_hash

    third = driver.reply_to(run.task_hash, bidders[2], bid(120))

    assert driver.is_proven(third.task_hash)


@pytest.mark.requirement("EXE-180")
def test_reply__execute_by_anyone_but_the_winner__refused(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], stranger: Any
) -> None:
    run = driver.start_run(requester)
    t1 = place_bids(driver, run, bidders, (100, 80, 120))[2].task_hash

    for other in (bidders[0], bidders[2], stranger, requester):
        with (
            nothing_changes(driver),
            reverts_with(
                driver.workflow.ReplierNotAllowed,
                workflowRunId=run.id,
                stage=Stage.EXECUTE,
                replier=other.address,
            ),
        ):
            driver.reply_to(t1, other)
    assert driver.reply_to(t1, bidders[1]).reply_hash != bytes(32)


def test_reply__bid_after_selection__refused(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], stranger: Any
) -> None:
    run = driver.start_run(requester)
    place_bids(driver, run, bidders, (100, 80, 120))

    with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=run.task_hash):
        driver.reply_to(run.task_hash, stranger, bid(1))


def test_runs__side_by_side__bids_and_winners_are_kept_apart(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], prover: Any
) -> None:
    one, two = driver.start_run(requester), driver.start_run(requester)
    with only_changes(driver, one.id):
        place_bids(driver, one, bidders, (100, 80))
    with only_changes(driver, two.id):
        place_bids(driver, two, bidders, (80, 100))

    # Two bids in each of two runs are not three bids in any.
    assert (open_task(driver, one.id), open_task(driver, two.id)) == (one.task_hash, two.task_hash)
    t1 = driver.reply_to(one.task_hash, bidders[2], bid(120)).task_hash
    t2 = driver.reply_to(two.task_hash, bidders[2], bid(120)).task_hash
    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.ReplierNotAllowed,
            workflowRunId=two.id,
            stage=Stage.EXECUTE,
            replier=bidders[1].address,
        ),
    ):
        driver.reply_to(t2, bidders[1])

    for run, task_hash, winner in ((one, t1, bidders[1]), (two, t2, bidders[0])):
        with only_changes(driver, run.id):
            driver.prove(driver.reply_to(task_hash, winner).reply_hash, sender=prover)
        assert driver.result(run.id).status is RunStatus.SUCCESS


# ── Deadlines ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("prices", "winner"), [((120,), 0), ((120, 100), 1), ((100, 100), 0)], ids=["one bid", "two bids", "tie"]
)
@pytest.mark.requirement("EXE-188")
def test_timeout__bids_placed__best_is_selected(
    driver: WorkflowDriver,
    requester: Any,
    bidders: Sequence[Any],
    stranger: Any,
    prices: tuple[int, ...],
    winner: int,
) -> None:
    run = driver.start_run(requester)
    bids = place_bids(driver, run, bidders, prices)
    expires_at = driver.task(run.task_hash).expires_at
    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.TaskNotExpired,
            taskHash=run.task_hash,
            deadline=expires_at,
            blockTimestamp=expires_at,
        ),
    ):
        driver.time_out(run.task_hash, stranger, at=expires_at)

    driver.time_out(run.task_hash, stranger, at=expires_at + 1)

    t1 = open_task(driver, run.id)
    assert driver.task(t1) == AgentTask(
        stage=Stage.EXECUTE,
        task_seq=1,
        input_hash=bids[winner].reply.output_hash,
        input=b"",
        timestamp=expires_at + 1,
        expires_at=expires_at + 1 + WINDOW,
        prev_reply_hashes=(bids[winner].reply_hash,),
        workflow_run_id=run.id,
    )
    executed = driver.reply_to(t1, bidders[winner])
    driver.prove(executed.reply_hash, sender=stranger)
    assert driver.result(run.id).status is RunStatus.SUCCESS
    assert_evidence_holds(driver, run.id)


def test_timeout__malformed_bids_only__retries_as_without_any(
    driver: WorkflowDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    run = driver.start_run(requester)
    driver.reply_to(run.task_hash, agent, b"no bid")

    driver.time_out(run.task_hash, stranger)

    assert driver.state(run.id).stage == Stage.BID
    assert driver.task(open_task(driver, run.id)).prev_reply_hashes == ()


@pytest.mark.requirement("EXE-129", "EXE-130", "EXE-149", "EXE-150")
def test_timeout__no_bid_twice__retries_then_fails(
    driver: WorkflowDriver, requester: Any, stranger: Any
) -> None:
    run = driver.start_run(requester)
    driver.time_out(run.task_hash, stranger)
    retried, retried_at = open_task(driver, run.id), driver.now
    assert driver.task(retried) == AgentTask(
        stage=Stage.BID,
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
        NewAgentTask(run.id, Stage.BID, run.task_hash),
        NewAgentTask(run.id, Stage.BID, retried),
        WorkflowCompleted(run.id, RunStatus.FAILED, bytes(32), retried_at + WINDOW + 1),
    ]
    assert driver.result(run.id) == RunResult(RunStatus.FAILED, bytes(32), 0)


def test_timeout__bid_after_the_retry__selected_at_its_expiry(
    driver: WorkflowDriver, requester: Any, agent: Any, stranger: Any
) -> None:
    run = driver.start_run(requester)
    driver.time_out(run.task_hash, stranger)
    placed = driver.reply_to(open_task(driver, run.id), agent, bid(80))

    driver.time_out(open_task(driver, run.id), stranger)

    assert driver.task(open_task(driver, run.id)).prev_reply_hashes == (placed.reply_hash,)


@pytest.mark.requirement("EXE-101")
def test_reply__bid_after_expiry__refused(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], stranger: Any
) -> None:
    run = driver.start_run(requester)
    place_bids(driver, run, bidders, (100, 80))
    expires_at = driver.task(run.task_hash).expires_at
    late = driver.build_reply(run.task_hash, stranger, bid(1))

    with (
        nothing_changes(driver),
        reverts_with(
            driver.workflow.TaskExpired,
            taskHash=run.task_hash,
            expiresAt=expires_at,
            blockTimestamp=expires_at + 1,
        ),
    ):
        driver.submit(late, at=expires_at + 1)
    assert driver.state(run.id).stage == Stage.BID


@pytest.mark.requirement("EXE-052", "EXE-130")
def test_timeout__winners_late_one_after_the_other__next_best_until_none_is_left(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], stranger: Any
) -> None:
    run = driver.start_run(requester)
    bids = place_bids(driver, run, bidders, (90, 80, 90))
    tasks = [bids[2].task_hash]

    # 80 first, then of the two at 90 the earlier, then the last.
    for rank, (best, late) in enumerate([(0, 1), (2, 0)], start=2):
        driver.time_out(tasks[-1], stranger)
        moved_at = driver.now
        tasks.append(open_task(driver, run.id))
        assert driver.task(tasks[-1]) == AgentTask(
            stage=Stage.EXECUTE,
            task_seq=rank,
            input_hash=bids[best].reply.output_hash,
            input=b"",
            timestamp=moved_at,
            expires_at=moved_at + WINDOW,
            prev_reply_hashes=(bids[best].reply_hash,),
            workflow_run_id=run.id,
        )
        with (
            nothing_changes(driver),
            reverts_with(
                driver.workflow.ReplierNotAllowed,
                workflowRunId=run.id,
                stage=Stage.EXECUTE,
                replier=bidders[late].address,
            ),
        ):
            driver.reply_to(tasks[-1], bidders[late])
        with nothing_changes(driver), reverts_with(driver.workflow.TaskNotOpen, taskHash=tasks[-2]):
            driver.reply_to(tasks[-2], bidders[late])

    driver.time_out(tasks[-1], stranger)

    assert driver.result(run.id) == RunResult(RunStatus.FAILED, bytes(32), 0)
    assert driver.events() == [
        NewAgentTask(run.id, Stage.BID, run.task_hash),
        *(AgentReplyAnchored(run.id, answer.reply_hash, answer.reply.replier) for answer in bids),
        *(NewAgentTask(run.id, Stage.EXECUTE, task_hash) for task_hash in tasks),
        WorkflowCompleted(run.id, RunStatus.FAILED, bytes(32), driver.now),
    ]


def test_timeout__late_winner__next_best_completes(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], prover: Any
) -> None:
    run = driver.start_run(requester)
    bids = place_bids(driver, run, bidders, (100, 80, 120))
    driver.time_out(bids[2].task_hash, prover)

    executed = driver.reply_to(open_task(driver, run.id), bidders[0])
    driver.prove(executed.reply_hash, sender=prover)

    final_task = driver.task(driver.result(run.id).final_task_hash)
    assert (final_task.task_seq, final_task.prev_reply_hashes) == (3, (executed.reply_hash,))
    assert_evidence_holds(driver, run.id)


@pytest.mark.requirement("EXE-125", "EXE-156")
def test_timeout__winner_replied_without_proof__judged_after_the_proof_window(
    driver: WorkflowDriver, agent_verifier: Any, requester: Any, bidders: Sequence[Any], prover: Any
) -> None:
    run = driver.start_run(requester)
    bids = place_bids(driver, run, bidders, (100, 80, 120))
    t1 = bids[2].task_hash
    executed = driver.reply_to(t1, bidders[1])
    deadline = driver.task(t1).expires_at + PROOF_WINDOW

    for early in (deadline - PROOF_WINDOW + 1, deadline):
        with (
            nothing_changes(driver),
            reverts_with(
                driver.workflow.TaskNotExpired, taskHash=t1, deadline=deadline, blockTimestamp=early
            ),
        ):
            driver.time_out(t1, prover, at=early)
    driver.time_out(t1, prover, at=deadline + 1)

    t2 = open_task(driver, run.id)
    assert driver.task(t2).prev_reply_hashes == (bids[0].reply_hash,)
    # The proof that comes too late is recorded, but the run has gone on without it.
    driver.prove(executed.reply_hash, sender=prover)
    assert driver.reply(executed.reply_hash) == proven(
        executed.reply, agent_verifier, bids[1].reply.output_hash
    )
    assert open_task(driver, run.id) == t2
    assert driver.result(run.id).status is RunStatus.PENDING


def test_prove__winner_in_time_and_proof_after_expiry__completes(
    driver: WorkflowDriver, requester: Any, bidders: Sequence[Any], prover: Any
) -> None:
    run = driver.start_run(requester)
    t1 = place_bids(driver, run, bidders, (100, 80, 120))[2].task_hash
    executed = driver.reply_to(t1, bidders[1])

    driver.prove(executed.reply_hash, sender=prover, at=driver.task(t1).expires_at + PROOF_WINDOW)

    assert driver.result(run.id).status is RunStatus.SUCCESS
