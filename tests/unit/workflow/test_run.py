"""``run``: the identifier, the initial tasks, the plaintext, the expiry, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from provenflow.abi import AgentTask, NewAgentTask, RunResult, RunStatus, decode_run, encode_run
from provenflow.hashing import keccak256, run_id
from tests.support.observation import nothing_changes
from tests.support.reverts import reverts_with
from tests.support.scripted import (
    FINAL_STAGE,
    MAX_PARALLEL_TASKS,
    ScriptedDriver,
    Stage,
    StageConfig,
    abort,
    passes,
)
from tests.support.workflow import DAY, OpenTask, RunState
from tests.unit.workflow.conftest import DeployScripted

# keccak256 of something that is delivered to the agents elsewhere.
SECRET = keccak256(b"a secret input")


def _hashes(count: int) -> list[bytes]:
    return [keccak256(f"input {number}".encode()) for number in range(count)]


# ── Identifiers ──────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-073", "EXE-074", "EXE-182")
def test_run__each_run__has_the_id_of_the_recommended_formula(
    deploy_scripted: DeployScripted, table: list[StageConfig], requester: Any, stranger: Any
) -> None:
    flow = deploy_scripted(table)

    runs = [flow.start_run(sender) for sender in (requester, requester, stranger)]

    assert [run.id for run in runs] == [
        run_id(sender.address, run.receipt.block_number, nonce)
        for nonce, (sender, run) in enumerate(zip((requester, requester, stranger), runs, strict=True))
    ]


@pytest.mark.requirement("EXE-074", "EXE-182", "EXE-202")
def test_run__two_runs_of_one_sender_in_one_block__differ_by_the_nonce_alone(
    flow: ScriptedDriver, contract_agent: Any, deployer: Any, chain: Any
) -> None:
    call = encode_run(SECRET, b"", flow.now + DAY)

    contract_agent.tryAll(flow.workflow, [call, call], sender=deployer)

    block = chain.blocks.head.number
    assert [(success, decode_run(bytes(data))) for success, data in contract_agent.outcomes()] == [
        (True, run_id(contract_agent.address, block, nonce)) for nonce in (0, 1)
    ]
    assert [event.workflow_run_id for event in flow.events()] == [
        run_id(contract_agent.address, block, nonce) for nonce in (0, 1)
    ]


@pytest.mark.requirement("EXE-202")
def test_run__after_every_other_action__the_nonce_has_counted_runs_only(
    flow: ScriptedDriver, errors: Any, requester: Any, agent: Any, prover: Any
) -> None:
    first = flow.start_run(requester)
    flow.script(passes(Stage.SYNC), abort())
    reply = flow.reply_to(first.task_hash, agent)
    flow.prove(reply.reply_hash, prover)
    flow.time_out(reply.task_hash, requester)
    with reverts_with(errors.ExpiryRequired):
        flow.start_run(requester, expires_at=0)
    aborted = flow.reply_to(flow.state(first.id).open_tasks[0].task_hash, agent)
    flow.prove(aborted.reply_hash, prover)
    assert flow.result(first.id).status is RunStatus.FAILED

    second = flow.start_run(requester)

    assert second.id == run_id(requester.address, second.receipt.block_number, 1)


@pytest.mark.requirement("EXE-199", "EXE-200")
def test_run__through_a_trusted_forwarder__the_id_is_of_the_account_that_acts(
    flow: ScriptedDriver, contract_agent: Any, deployer: Any, stranger: Any, chain: Any
) -> None:
    flow.workflow.trustForwarder(contract_agent, sender=deployer)
    calldata = encode_run(SECRET, b"", flow.now + DAY) + bytes.fromhex(stranger.address[2:])

    contract_agent.execute(flow.workflow, calldata, sender=deployer)

    assert flow.events()[0].workflow_run_id == run_id(stranger.address, chain.blocks.head.number, 0)


# ── The initial task ─────────────────────────────────────────────────────────


@pytest.mark.requirement(
    "EXE-002", "EXE-006", "EXE-010", "EXE-011", "EXE-012", "EXE-054", "EXE-075", "EXE-076"
)
@pytest.mark.parametrize("stage", [Stage.OPEN, Stage.SYNC, Stage.HOSTILE_B], ids=lambda value: value.name)
def test_run__accepted__dispatches_the_initial_task(
    stage: Stage, flow: ScriptedDriver, requester: Any
) -> None:
    flow.plan_begin(stage, keccak256(b"the input"))
    expires_at = flow.now + 1234

    run = flow.start_run(requester, b"the input", expires_at=expires_at)

    expected = AgentTask(
        stage=stage,
        task_seq=0,
        input_hash=keccak256(b"the input"),
        input=b"the input",
        timestamp=run.receipt.timestamp,
        expires_at=expires_at,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )
    assert run.task_hash == expected.task_hash()
    assert flow.task(run.task_hash) == expected
    assert flow.events() == [NewAgentTask(run.id, stage, run.task_hash)]
    assert flow.event_names(run.receipt) == ["NewAgentTask"]
    assert flow.result(run.id) == RunResult(RunStatus.PENDING, bytes(32), 0)
    assert flow.state(run.id) == RunState(
        RunStatus.PENDING, stage, (OpenTask(run.task_hash, 0, 0, expires_at, expires_at),)
    )


@pytest.mark.requirement("EXE-047", "EXE-154")
def test_run__initial_tasks__are_proven(flow: ScriptedDriver, requester: Any) -> None:
    flow.plan_begin(Stage.NEXT, *_hashes(3))

    run = flow.start_run(requester)

    assert [flow.is_proven(task_hash) for task_hash in run.task_hashes] == [True] * 3


@pytest.mark.requirement("EXE-016", "EXE-017")
def test_run__initial_task__its_hash_commits_to_keccak256_of_nothing(
    flow: ScriptedDriver, requester: Any
) -> None:
    run = flow.start_run(requester, b"", input_hash=SECRET, expires_at=2**50)

    words = (Stage.OPEN, 0, int.from_bytes(SECRET), run.receipt.timestamp, 2**50)
    nothing = bytes.fromhex("c5d2460186f7233c927e7db2dcc703c0e500b653ca82273b7bfad8045d85a470")
    assert run.task_hash == keccak256(b"".join(word.to_bytes(32) for word in words) + nothing + run.id)


@pytest.mark.requirement("EXE-009", "EXE-015")
@pytest.mark.parametrize("plaintext", [b"", b"\0", b"the input", bytes(range(256)) * 20], ids=len)
def test_run__plaintext_of_any_length__is_stored_and_leaves_the_hash_alone(
    plaintext: bytes, flow: ScriptedDriver, requester: Any
) -> None:
    run = flow.start_run(requester, plaintext)

    task = flow.task(run.task_hash)
    assert (task.input, task.input_hash) == (plaintext, keccak256(plaintext))
    withheld = AgentTask(
        stage=task.stage,
        task_seq=0,
        input_hash=keccak256(plaintext),
        input=b"",
        timestamp=task.timestamp,
        expires_at=task.expires_at,
        prev_reply_hashes=(),
        workflow_run_id=run.id,
    )
    assert withheld.task_hash() == run.task_hash


@pytest.mark.requirement("EXE-009")
@pytest.mark.parametrize("input_hash", [SECRET, bytes(32), b"\xff" * 32], ids=["some", "zero", "all ones"])
def test_run__plaintext_withheld__any_input_hash_is_taken(
    input_hash: bytes, flow: ScriptedDriver, requester: Any
) -> None:
    run = flow.start_run(requester, b"", input_hash=input_hash)

    task = flow.task(run.task_hash)
    assert (task.input, task.input_hash) == (b"", input_hash)


@pytest.mark.requirement("EXE-007")
def test_run__second_run__counts_its_tasks_from_zero(
    flow: ScriptedDriver, requester: Any, agent: Any
) -> None:
    first = flow.start_run(requester)
    flow.script(passes(Stage.NEXT, tasks=3))
    flow.reply_to(first.task_hash, agent)

    second = flow.start_run(requester)

    assert flow.task(second.task_hash).task_seq == 0
    assert [task.task_seq for task in flow.state(first.id).open_tasks] == [1, 2, 3]


def test_run__begin_hook__is_asked_once_with_the_id_and_the_input_hash(
    flow: ScriptedDriver, requester: Any
) -> None:
    run = flow.start_run(requester, b"", input_hash=SECRET)

    assert flow.begin_inputs == [(run.id, SECRET)]
    assert (flow.gate_inputs, flow.timeout_inputs) == ([], [])


# ── Several initial tasks ────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-007", "EXE-071", "EXE-072", "EXE-076")
@pytest.mark.parametrize("count", [2, 3, MAX_PARALLEL_TASKS])
def test_run__several_initial_tasks__are_numbered_and_distinct(
    count: int, flow: ScriptedDriver, requester: Any
) -> None:
    # All over one input: they differ by taskSeq alone.
    flow.plan_begin(Stage.NEXT, *[SECRET] * count)

    run = flow.start_run(requester, b"", input_hash=SECRET)

    assert len(set(run.task_hashes)) == count
    assert flow.events() == [NewAgentTask(run.id, Stage.NEXT, task_hash) for task_hash in run.task_hashes]
    expires_at = flow.task(run.task_hashes[0]).expires_at
    assert flow.state(run.id).open_tasks == tuple(
        OpenTask(task_hash, number, number, expires_at, expires_at)
        for number, task_hash in enumerate(run.task_hashes)
    )
    for number in {0, 1, count - 1}:
        task = flow.task(run.task_hashes[number])
        assert (task.stage, task.task_seq, task.input_hash) == (Stage.NEXT, number, SECRET)


@pytest.mark.parametrize(
    ("order", "holder"),
    [
        pytest.param(["run's", "run's", "other"], 0, id="all over it"),
        pytest.param(["other", "run's", "run's"], None, id="only later ones over it"),
        pytest.param(["other", "other", "other"], None, id="none over it"),
    ],
)
def test_run__several_initial_tasks__plaintext_goes_with_the_first_if_that_is_over_it(
    order: list[str], holder: int | None, flow: ScriptedDriver, requester: Any
) -> None:
    hashes = {"run's": keccak256(b"the input"), "other": SECRET}
    flow.plan_begin(Stage.OPEN, *[hashes[name] for name in order])

    run = flow.start_run(requester, b"the input")

    tasks = [flow.task(task_hash) for task_hash in run.task_hashes]
    assert [task.input for task in tasks] == [
        b"the input" if number == holder else b"" for number in range(3)
    ]
    assert [task.input_hash for task in tasks] == [hashes[name] for name in order]


# ── Expiry ───────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-011", "EXE-014")
@pytest.mark.parametrize(
    "expires_at",
    [
        pytest.param(2**40 - 1, id="largest that is packed"),
        pytest.param(2**40, id="smallest that is not"),
        pytest.param(2**40 + 1, id="one more"),
        pytest.param(2**64 + 7, id="beyond 64 bits"),
        pytest.param(2**256 - 1, id="largest of all"),
    ],
)
def test_run__far_expiry__is_kept_exactly(expires_at: int, flow: ScriptedDriver, requester: Any) -> None:
    run = flow.start_run(requester, expires_at=expires_at)

    # `task` recomputes the hash, so this is what was hashed too.
    assert flow.task(run.task_hash).expires_at == expires_at
    (open_task,) = flow.state(run.id).open_tasks
    assert (open_task.expires_at, open_task.deadline) == (expires_at, expires_at)


@pytest.mark.requirement("EXE-189")
def test_run__expiry_one_second_ahead__is_accepted(flow: ScriptedDriver, requester: Any) -> None:
    run = flow.start_run(requester, expires_at=flow.now + 2)

    assert flow.task(run.task_hash).expires_at == run.receipt.timestamp + 1


@pytest.mark.requirement("EXE-189")
@pytest.mark.parametrize("ahead", [0, -1, -DAY])
def test_run__expiry_not_ahead_of_the_block__reverts(
    ahead: int, flow: ScriptedDriver, errors: Any, requester: Any
) -> None:
    block_time = flow.now + 1

    with (
        nothing_changes(flow),
        reverts_with(errors.ExpiryNotInFuture, expiresAt=block_time + ahead, blockTimestamp=block_time),
    ):
        flow.start_run(requester, expires_at=block_time + ahead)


@pytest.mark.requirement("EXE-190")
def test_run__no_expiry__reverts_unless_the_workflow_allows_it(
    flow: ScriptedDriver, errors: Any, requester: Any, deployer: Any
) -> None:
    with nothing_changes(flow), reverts_with(errors.ExpiryRequired):
        flow.start_run(requester, expires_at=0)

    flow.workflow.allowNoExpiry(True, sender=deployer)
    run = flow.start_run(requester, expires_at=0)

    assert flow.task(run.task_hash).expires_at == 0
    (open_task,) = flow.state(run.id).open_tasks
    assert (open_task.expires_at, open_task.deadline) == (0, 0)


@pytest.mark.requirement("EXE-189")
def test_run__workflow_allows_no_expiry__a_past_one_is_still_refused(
    flow: ScriptedDriver, errors: Any, requester: Any, deployer: Any
) -> None:
    flow.workflow.allowNoExpiry(True, sender=deployer)

    with reverts_with(errors.ExpiryNotInFuture, expiresAt=1, blockTimestamp=flow.now + 1):
        flow.start_run(requester, expires_at=1)


# ── Refusals ─────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-077")
@pytest.mark.parametrize("expires_at", [2**50, 1, 0], ids=["good expiry", "past expiry", "no expiry"])
def test_run__plaintext_of_another_hash__reverts_whatever_the_expiry(
    expires_at: int, flow: ScriptedDriver, errors: Any, requester: Any
) -> None:
    with (
        nothing_changes(flow),
        reverts_with(errors.InputHashMismatch, declared=SECRET, actual=keccak256(b"the input")),
    ):
        flow.start_run(requester, b"the input", input_hash=SECRET, expires_at=expires_at)


@pytest.mark.requirement("EXE-076")
def test_run__child_dispatches_nothing__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any, chain: Any
) -> None:
    flow.plan_begin(Stage.OPEN)
    would_be = run_id(requester.address, chain.blocks.head.number + 1, 0)

    with nothing_changes(flow), reverts_with(errors.NoTaskDispatched, workflowRunId=would_be):
        flow.start_run(requester)


@pytest.mark.parametrize("stage", [len(Stage), FINAL_STAGE])
def test_run__child_begins_at_no_stage__reverts(
    stage: int, flow: ScriptedDriver, errors: Any, requester: Any
) -> None:
    flow.plan_begin(stage, SECRET)

    with nothing_changes(flow), reverts_with(errors.UnknownStage, stage=stage):
        flow.start_run(requester)


def test_run__child_dispatches_more_than_64_tasks__reverts(
    flow: ScriptedDriver, errors: Any, requester: Any
) -> None:
    flow.plan_begin(Stage.OPEN, *_hashes(65))

    with nothing_changes(flow), reverts_with(errors.TooManyTasks, count=65, max=64):
        flow.start_run(requester)
