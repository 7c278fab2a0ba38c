"""What the evidence verifier says about honest runs, about what it cannot check, and about deep ones."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from provenflow.abi import RunStatus
from provenflow.evidence import CHECKS, CheckId, EvidenceReport, verify
from provenflow.evidence.tree import render
from provenflow.hashing import keccak256
from tests.support.evidence_builder import (
    AGENTS,
    BLOCK_SECONDS,
    HONEST,
    REQUESTER,
    START,
    VERIFIER,
    RunBuilder,
    failed,
    fan_in,
    long_chain,
    name,
    pending,
    pipeline,
    retry,
    single_stage,
    timed_out,
)

FORWARDER = bytes.fromhex("f0" * 20)


@pytest.mark.requirement("EXE-155", "EXE-160")
@pytest.mark.parametrize("make", HONEST.values(), ids=HONEST.keys())
def test_verify__honest_run__holds(make: Callable[[], RunBuilder]) -> None:
    report = verify(make().evidence())

    assert report.verdict == "holds"
    assert {result.id for result in report.checks if result.verdict == "fails"} == set()
    open_checks = {result.id for result in report.checks if result.verdict == "unchecked"}
    assert all(CHECKS[check].may_stay_open for check in open_checks)
    assert all(node.verdict == "holds" for node in report.nodes)


@pytest.mark.parametrize(
    ("make", "status", "complete"),
    [
        (single_stage, RunStatus.SUCCESS, True),
        (pipeline, RunStatus.SUCCESS, True),
        (fan_in, RunStatus.SUCCESS, True),
        (retry, RunStatus.SUCCESS, True),
        (timed_out, RunStatus.SUCCESS, True),
        (failed, RunStatus.FAILED, False),
        (pending, RunStatus.PENDING, False),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_verify__run__complete_only_after_success(
    make: Callable[[], RunBuilder], status: RunStatus, complete: bool
) -> None:
    report = verify(make().evidence())
    assert (report.status, report.complete) == (status, complete)


def test_verify__last_event_in_the_pinned_block__holds() -> None:
    found = pipeline().evidence()
    assert verify(replace(found, block=found.blocks[-1])).verdict == "holds"


def test_verify__reply_at_the_very_time_of_its_block__holds() -> None:
    run = RunBuilder()
    run.reply(AGENTS[0], run.run(), timestamp=START + BLOCK_SECONDS)
    assert verify(run.evidence()).verdict == "holds"


def test_verify__walk_interrupted__not_complete() -> None:
    found = pipeline().evidence()
    report = verify(replace(found, replies=found.replies[1:]))
    assert not report.complete


@pytest.mark.requirement("EXE-161")
def test_verify__everything_claimed_proven__nothing_pruned() -> None:
    # The reply of the first stage was altered; every node on the way to it claims to be proven.
    run = RunBuilder()
    first = run.reply(AGENTS[0], run.run())
    run.prove(first)
    second = run.reply(AGENTS[1], (run.dispatch(1, (first,)),))
    run.prove(second)
    run.complete((second,))
    found = run.evidence()
    assert all(record.proven for record in (*found.tasks, *found.replies))

    altered = replace(found.replies[0], reply=replace(found.replies[0].reply, operation_id=name("forged")))
    report = verify(replace(found, replies=(altered, found.replies[1])))

    node = report.node(first)
    assert node is not None
    assert node.on_path
    assert [finding.check for finding in node.findings if finding.verdict == "fails"] == [CheckId.REPLY_HASH]


def test_verify__nodes__labelled_in_the_order_of_events() -> None:
    report = verify(fan_in().evidence())
    assert [node.label for node in report.nodes] == [
        "T0",
        "T1",
        "T2",
        "R0",
        "R1",
        "R2",
        "R3",
        "T3",
        "R4",
        "Tf",
    ]


def test_verify__loser__verified_and_off_the_path() -> None:
    run = fan_in()
    loser = list(run.replies)[3]
    report = verify(run.evidence())
    assert [node.label for node in report.nodes if not node.on_path] == ["R3"]

    found = run.evidence()
    altered = replace(found.replies[3], reply=replace(found.replies[3].reply, operation_id=name("forged")))
    report = verify(replace(found, replies=(*found.replies[:3], altered, *found.replies[4:])))
    node = report.node(loser)
    assert node is not None
    assert node.verdict == "fails"
    assert report.verdict == "fails"


def test_verify__pending_run__all_nodes_off_any_path() -> None:
    report = verify(pending().evidence())
    assert [(node.label, node.on_path) for node in report.nodes] == [
        ("T0", False),
        ("R0", False),
        ("T1", False),
    ]


# ── What cannot be checked ───────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("sender", "to", "reason"),
    [
        (REQUESTER, None, "is not the signer"),
        (REQUESTER, FORWARDER, "is not the signer"),
        (AGENTS[0], FORWARDER, "not to the contract"),
        (AGENTS[0], None, "to a new contract"),
    ],
    ids=[
        "another signer",
        "a relayer",
        "the replier through a forwarder",
        "the replier through a deployment",
    ],
)
def test_verify__replier_did_not_sign_to_the_contract__rests_on_the_contract(
    sender: bytes, to: bytes | None, reason: str
) -> None:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run(), sender=sender, to=to)

    report = verify(run.evidence())

    result, node = report.check(CheckId.REPLY_SIGNER), report.node(reply)
    assert result is not None
    assert node is not None
    assert result.verdict == "unchecked"
    assert report.verdict == node.verdict == "holds"
    assert node.rests_on == ("the contract's own check of msg.sender",)
    assert reason in node.findings[0].detail


def test_verify__replier_signed_to_the_contract__holds() -> None:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run())
    report = verify(run.evidence())
    result, node = report.check(CheckId.REPLY_SIGNER), report.node(reply)
    assert result is not None
    assert node is not None
    assert (result.verdict, node.rests_on) == ("holds", ())


def test_verify__plaintexts_withheld__unchecked_not_holding() -> None:
    run = RunBuilder()
    tasks = run.run(input=b"", input_hash=keccak256(b"secret input"))
    run.reply(AGENTS[0], tasks, output=b"", output_hash=keccak256(b"secret output"))

    report = verify(run.evidence())

    for check in (CheckId.TASK_INPUT, CheckId.REPLY_OUTPUT):
        result = report.check(check)
        assert result is not None
        assert result.verdict == "unchecked"
    assert report.verdict == "holds"
    assert {node.rests_on for node in report.nodes} == {("those who hold the plaintext",)}


def test_verify__empty_plaintext_that_is_committed__holds() -> None:
    run = RunBuilder()
    run.reply(AGENTS[0], run.run(input=b""), output=b"")
    report = verify(run.evidence())
    for check in (CheckId.TASK_INPUT, CheckId.REPLY_OUTPUT):
        result = report.check(check)
        assert result is not None
        assert result.verdict == "holds"


@pytest.mark.requirement("EXE-159")
def test_verify__reply_claimed_proven__claim_is_never_said_to_hold() -> None:
    run = single_stage()
    reply = next(iter(run.replies))
    report = verify(run.evidence())
    result, node = report.check(CheckId.REPLY_PROOF), report.node(reply)
    assert result is not None
    assert node is not None
    assert result.verdict == "unchecked"
    assert "the contract's claim" in node.rests_on
    assert f"0x{VERIFIER.hex()}" in node.findings[0].detail


def test_verify__block_of_an_event_missing__its_times_are_unchecked() -> None:
    found = pending().evidence()
    report = verify(replace(found, blocks=found.blocks[1:]))
    task_time, after_tasks = report.check(CheckId.TASK_TIME), report.check(CheckId.REPLY_AFTER_TASKS)
    assert task_time is not None
    assert after_tasks is not None
    assert (task_time.verdict, after_tasks.verdict) == ("unchecked", "unchecked")
    assert report.verdict == "fails"


def test_verify__end_of_the_run_in_a_missing_block__its_time_is_unchecked() -> None:
    found = failed().evidence()
    report = verify(replace(found, blocks=found.blocks[:-1]))
    for check in (CheckId.COMPLETION_TIME, CheckId.REPLY_NOT_FUTURE):
        result = report.check(check)
        assert result is not None
        assert result.verdict == "unchecked"


def test_verify__transaction_of_a_reply_missing__its_signer_is_unchecked() -> None:
    found = failed().evidence()
    report = verify(replace(found, transactions=found.transactions[:1]))
    result = report.check(CheckId.REPLY_SIGNER)
    assert result is not None
    assert result.verdict == "unchecked"


def test_verify__task_or_reply_named_by_two_events__its_time_is_unchecked() -> None:
    run = pending()
    task, reply = list(run.tasks)[-1], next(iter(run.replies))
    run.announce(task, 1)
    run.anchor(reply, AGENTS[0])
    report = verify(run.evidence())
    for node_hash, check in ((task, CheckId.TASK_TIME), (reply, CheckId.REPLY_NOT_FUTURE)):
        node = report.node(node_hash)
        assert node is not None
        assert check in {finding.check for finding in node.findings if finding.verdict == "unchecked"}


# ── What a result says in words ──────────────────────────────────────────────


def _detail(report: EvidenceReport, check: CheckId) -> str:
    result = report.check(check)
    assert result is not None
    return result.detail


@pytest.mark.parametrize(("count", "more"), [(1, ""), (3, ""), (4, "; and 1 more"), (6, "; and 3 more")])
def test_check_result__fails__says_for_how_many_and_names_three(count: int, more: str) -> None:
    run = RunBuilder()
    run.run((0,) * 6)
    found = run.evidence()
    claimed = tuple(replace(record, proven=place >= count) for place, record in enumerate(found.tasks))
    detail = _detail(verify(replace(found, tasks=claimed)), CheckId.TASK_PROVEN)
    named = "; ".join(
        f"0x{record.task_hash.hex()}: the contract says proven = false, its previous replies say true"
        for record in claimed[: min(count, 3)]
    )
    statement = CHECKS[CheckId.TASK_PROVEN].statement
    assert detail == f"{statement}: not so for {count} of 6 ({named}{more})"


def test_check_result__some_fail_and_some_are_unchecked__says_which_fail() -> None:
    run = RunBuilder()
    run.transact(REQUESTER)
    run.dispatch(0, input=b"", input_hash=name("withheld"))
    forged = run.dispatch(0, input=b"forged", input_hash=name("committed"))
    report = verify(run.evidence())
    result = report.check(CheckId.TASK_INPUT)
    assert result is not None
    assert (result.verdict, len(result.findings)) == ("fails", 2)
    assert f"not so for 1 of 2 (0x{forged.hex()}: its input hashes to" in result.detail


def test_check_result__unchecked__says_that_it_was_not_checked() -> None:
    run = RunBuilder()
    (task,) = run.run(input=b"", input_hash=name("withheld"))
    detail = _detail(verify(run.evidence()), CheckId.TASK_INPUT)
    assert detail.endswith(f": not checked for 1 of 1 (0x{task.hex()}: its input is not on chain)")


def test_check_result__holds__says_of_how_many() -> None:
    detail = _detail(verify(pipeline().evidence()), CheckId.TASK_HASH)
    assert detail == f"{CHECKS[CheckId.TASK_HASH].statement} (4 looked at)"


# ── Notes ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("expires_at", "noted"), [(START + 11, True), (START + 12, False), (0, False)])
def test_verify__reply_after_expiry__noted_and_no_failure(expires_at: int, noted: bool) -> None:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run(expires_at=expires_at))
    report = verify(run.evidence())
    assert report.verdict == "holds"
    assert [note.subject for note in report.notes if "SHOULD have refused" in note.detail] == (
        [f"0x{reply.hex()}"] if noted else []
    )


@pytest.mark.parametrize(("stage", "noted"), [(254, True), (255, False)])
def test_verify__final_stage_no_sentinel__noted_and_no_failure(stage: int, noted: bool) -> None:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run())
    run.prove(reply)
    run.complete((reply,), stage=stage)
    report = verify(run.evidence())
    assert report.verdict == "holds"
    assert any("terminal sentinel" in note.detail for note in report.notes) is noted


def test_verify__final_task_with_an_input__noted() -> None:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run())
    run.prove(reply)
    run.complete((reply,), input=b"uncommitted")
    report = verify(run.evidence())
    assert [note.detail for note in report.notes] == [
        "the final task carries an input, which no hash commits to"
    ]


def test_verify__link_named_twice__noted() -> None:
    run = RunBuilder()
    tasks = run.run()
    reply = run.reply(AGENTS[0], tasks + tasks)
    run.dispatch(1, (reply, reply))
    report = verify(run.evidence())
    assert report.verdict == "holds"
    assert [note.detail for note in report.notes] == [
        "it names a previous reply more than once",
        "it names a previous task more than once",
    ]


def test_verify__initial_task_dispatched_again__noted() -> None:
    report = verify(timed_out().evidence())
    assert [note.subject for note in report.notes] == [f"0x{report.nodes[1].hash.hex()}"]
    assert verify(fan_in().evidence()).notes == ()


def test_verify__task_that_nothing_led_to__fails_and_is_not_noted_as_a_repetition() -> None:
    run = pending()
    run.transact(REQUESTER)
    run.dispatch(2)
    report = verify(run.evidence())
    assert (report.verdict, report.notes) == ("fails", ())


@pytest.mark.parametrize("fields", [{"verifier": VERIFIER}, {"verification_digest": name("digest")}])
def test_verify__verifier_or_digest_of_an_unproven_reply__noted(fields: dict[str, bytes]) -> None:
    found = pending().evidence()
    report = verify(replace(found, replies=(replace(found.replies[0], **fields),)))
    assert [note.detail for note in report.notes] == [
        "the contract names a verifier or a digest for it, but not as proven"
    ]


# ── Size ─────────────────────────────────────────────────────────────────────


@pytest.fixture
def _usual_recursion_limit() -> Iterator[None]:
    """Python's default: some libraries raise it for the whole process, and would hide a recursion."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1_000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("_usual_recursion_limit")
def test_verify__chain_far_deeper_than_the_recursion_limit__holds() -> None:
    evidence = long_chain(5_000).evidence()
    assert len(evidence.tasks) + len(evidence.replies) == 10_001

    report = verify(evidence)

    assert (report.verdict, report.complete) == ("holds", True)
    assert sum(node.on_path for node in report.nodes) == 10_001
    assert len(render(evidence, report).splitlines()) > 10_001


@pytest.mark.usefixtures("_usual_recursion_limit")
def test_verify__cycle_far_longer_than_the_recursion_limit__found() -> None:
    found = long_chain(3_000).evidence()
    first = replace(
        found.tasks[0], task=replace(found.tasks[0].task, prev_reply_hashes=(found.replies[-1].reply_hash,))
    )
    report = verify(replace(found, tasks=(first, *found.tasks[1:])))
    result = report.check(CheckId.CHAIN_ACYCLIC)
    assert result is not None
    # Everything but the final task, which nothing links to, runs in a circle.
    assert len(result.findings) == 6_000


def test_verify__node_behind_a_cycle__not_on_it() -> None:
    run = RunBuilder()
    tasks = run.run((0, 0))
    first = run.reply(AGENTS[0], tasks)
    last = run.dispatch(1, (first,))
    found = run.evidence()
    circled = replace(found.tasks[0], task=replace(found.tasks[0].task, prev_reply_hashes=(first,)))
    report = verify(replace(found, tasks=(circled, *found.tasks[1:])))
    result = report.check(CheckId.CHAIN_ACYCLIC)
    assert result is not None
    assert {finding.subject for finding in result.findings} == {f"0x{tasks[0].hex()}", f"0x{first.hex()}"}
    assert f"0x{last.hex()}" not in {finding.subject for finding in result.findings}


def test_verify__wide_joins_at_every_step__each_link_walked_once() -> None:
    """64 replies a step: paths grow as 64**steps, so a walk by paths would never end."""
    run = RunBuilder()
    tasks: tuple[bytes, ...] = run.run((0,) * 8)
    for stage in range(1, 12):
        run.mine()
        replies = tuple(run.reply(AGENTS[place % 10], tasks, mine=False) for place in range(64))
        tasks = tuple(run.dispatch(stage, replies) for _ in range(8))
    evidence = run.evidence()
    report = verify(evidence)
    assert report.verdict == "holds"
    lines = render(evidence, report).splitlines()
    nodes = len(evidence.tasks) + len(evidence.replies)
    links = sum(len(record.task.prev_reply_hashes) for record in evidence.tasks)
    links += sum(len(record.reply.prev_task_hashes) for record in evidence.replies)
    assert len(lines) < nodes + links + 200
