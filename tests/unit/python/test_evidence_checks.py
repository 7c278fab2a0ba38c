"""Every check of the evidence verifier, with evidence that is wrong in one place.

Each case states exactly which checks fail and for which subject, so that a check that is removed, or that looks at the
wrong thing, makes its case fail. Evidence that is "resealed" was wrong from the start, hashes included; the rest is
honest evidence changed afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from eth_abi.abi import encode

from provenflow import abi
from provenflow.abi import AgentTask, RunResult, RunStatus
from provenflow.evidence import CheckId, Evidence, TaskRecord, verify
from provenflow.hashing import keccak256
from tests.support.evidence_builder import (
    AGENTS,
    BLOCK_SECONDS,
    OTHER_RUN,
    REQUESTER,
    RUN_ID,
    START,
    RunBuilder,
    failed,
    fan_in,
    name,
    pending,
    pipeline,
    word,
)

OTHER_CONTRACT = bytes.fromhex("dd" * 20)
UNKNOWN = name("nothing has this hash")


@dataclass(frozen=True)
class Case:
    """Evidence that is wrong, the one check that must say so, where, and what else necessarily fails with it."""

    id: str
    check: CheckId
    make: Callable[[], tuple[Evidence, bytes | str]]
    also: frozenset[CheckId] = frozenset()


CASES: list[Case] = []


def case(check: CheckId, *also: CheckId) -> Callable[[Any], Any]:
    """Add a function that makes evidence and names the subject to the table."""

    def add(make: Callable[[], tuple[Evidence, bytes | str]]) -> Callable[[], tuple[Evidence, bytes | str]]:
        CASES.append(Case(make.__name__.removeprefix("_"), check, make, frozenset(also)))
        return make

    return add


# ── Records ──────────────────────────────────────────────────────────────────


@case(CheckId.RECORD_UNIQUE)
def _a_task_twice() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return replace(found, tasks=(*found.tasks, found.tasks[1])), found.tasks[1].task_hash


@case(CheckId.RECORD_UNIQUE)
def _a_reply_twice() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return replace(found, replies=(*found.replies, found.replies[1])), found.replies[1].reply_hash


@case(CheckId.RECORD_UNIQUE)
def _a_block_twice() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return replace(found, blocks=(*found.blocks, found.blocks[1])), f"block {found.blocks[1].number}"


@case(CheckId.RECORD_UNIQUE)
def _a_transaction_twice() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    twice = found.transactions[1]
    return replace(found, transactions=(*found.transactions, twice)), f"transaction 0x{twice.hash.hex()}"


@case(CheckId.RECORD_BLOCK)
def _a_block_missing() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return replace(found, blocks=found.blocks[:-1]), _log_name(found.logs[-1])


@case(CheckId.RECORD_BLOCK)
def _a_block_with_another_hash() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    other = replace(found.blocks[-1], hash=UNKNOWN)
    return replace(found, blocks=(*found.blocks[:-1], other)), _log_name(found.logs[-1])


@case(CheckId.RECORD_BLOCK)
def _logs_after_the_pinned_block() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    earlier = replace(found.block, number=found.blocks[0].number - 1, timestamp=START - 1)
    return replace(found, block=earlier), _log_name(found.logs[0])


@case(CheckId.RECORD_BLOCK)
def _a_block_unlike_the_pinned_one() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    last = found.blocks[-1]
    return replace(found, block=replace(last, hash=UNKNOWN)), f"block {last.number}"


@case(CheckId.RECORD_TRANSACTION)
def _a_transaction_missing() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return replace(found, transactions=found.transactions[:-1]), _log_name(found.logs[-1])


@case(CheckId.RECORD_TRANSACTION)
def _a_transaction_in_another_block() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    moved = replace(found.transactions[-1], block_number=7)
    return replace(found, transactions=(*found.transactions[:-1], moved)), _log_name(found.logs[-1])


@case(CheckId.RECORD_TRANSACTION)
def _a_transaction_in_a_block_of_another_hash() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    moved = replace(found.transactions[-1], block_hash=UNKNOWN)
    return replace(found, transactions=(*found.transactions[:-1], moved)), _log_name(found.logs[-1])


@case(CheckId.RECORD_TRANSACTION)
def _a_transaction_in_another_place() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    moved = replace(found.transactions[-1], index=9)
    return replace(found, transactions=(*found.transactions[:-1], moved)), _log_name(found.logs[-1])


@case(CheckId.RECORD_USED)
def _a_block_that_no_log_names() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    extra = replace(found.blocks[0], number=1, hash=UNKNOWN)
    return replace(found, blocks=(extra, *found.blocks)), "block 1"


@case(CheckId.RECORD_USED)
def _a_transaction_that_no_log_names() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    extra = replace(found.transactions[0], hash=UNKNOWN)
    return replace(found, transactions=(*found.transactions, extra)), f"transaction 0x{UNKNOWN.hex()}"


@case(CheckId.BLOCK_ORDER)
def _time_running_backwards() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run())
    run.mine(-5)
    run.prove(reply, mine=False)
    run.complete((reply,))
    return run.evidence(), f"block {run.blocks[-1].number}"


@case(CheckId.BLOCK_ORDER)
def _a_pinned_block_before_its_logs_in_time() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return replace(found, block=replace(found.block, timestamp=START)), f"block {found.block.number}"


# ── Logs ─────────────────────────────────────────────────────────────────────


@case(CheckId.LOG_CONTRACT)
def _a_log_of_another_contract() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_log(found, 2, address=OTHER_CONTRACT), _log_name(found.logs[2])


@case(CheckId.LOG_RUN)
def _a_log_of_another_run() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    topics = found.logs[1].topics
    return _with_log(found, 1, topics=(topics[0], OTHER_RUN, *topics[2:])), _log_name(found.logs[1])


@case(CheckId.LOG_EVENT)
def _a_log_of_another_event() -> tuple[Evidence, bytes | str]:
    run = pending()
    log = run.emit((name("Other(bytes32)"), RUN_ID))
    return run.evidence(), _log_name(log)


@case(CheckId.LOG_EVENT)
def _a_log_without_topics() -> tuple[Evidence, bytes | str]:
    run = pending()
    log = run.emit(())
    return run.evidence(), _log_name(log)


@case(CheckId.LOG_EVENT)
def _an_event_with_data_that_it_does_not_have() -> tuple[Evidence, bytes | str]:
    run = pending()
    log = run.emit((abi.NEW_AGENT_TASK.topic0, RUN_ID, word(0), UNKNOWN), b"\0" * 32)
    return run.evidence(), _log_name(log)


@case(CheckId.LOG_EVENT)
def _an_event_with_a_topic_too_few() -> tuple[Evidence, bytes | str]:
    run = pending()
    log = run.emit((abi.NEW_AGENT_TASK.topic0, RUN_ID, word(0)))
    return run.evidence(), _log_name(log)


@case(CheckId.LOG_EVENT)
def _an_event_with_an_unknown_status() -> tuple[Evidence, bytes | str]:
    run = pending()
    data = encode(abi.WORKFLOW_COMPLETED.data, (3, bytes(32), run.now))
    log = run.emit((abi.WORKFLOW_COMPLETED.topic0, RUN_ID), data)
    return run.evidence(), _log_name(log)


@case(CheckId.LOG_ORDER)
def _two_logs_swapped() -> tuple[Evidence, bytes | str]:
    found = fan_in().evidence()
    logs = list(found.logs)
    logs[3], logs[4] = logs[4], logs[3]
    return replace(found, logs=tuple(logs)), _log_name(logs[4])


@case(CheckId.LOG_ORDER)
def _two_logs_in_one_place() -> tuple[Evidence, bytes | str]:
    found = fan_in().evidence()
    changed = _with_log(found, 1, log_index=0)
    return changed, _log_name(changed.logs[1])


@case(CheckId.LOG_ORDER)
def _transactions_of_a_block_out_of_order() -> tuple[Evidence, bytes | str]:
    run, first, second = _two_replies_in_one_block()
    found = run.evidence()
    # Both transactions move, so that every log still stands where its transaction does.
    places = {first: 1, second: 0}
    return _with_places(found, places), _log_name(found.logs[-1])


@case(CheckId.LOG_ORDER)
def _two_transactions_in_one_place() -> tuple[Evidence, bytes | str]:
    run, first, second = _two_replies_in_one_block()
    found = run.evidence()
    return _with_places(found, {first: 0, second: 0}), _log_name(found.logs[-1])


@case(CheckId.LOG_ORDER, CheckId.RECORD_TRANSACTION)
def _a_transaction_in_two_places() -> tuple[Evidence, bytes | str]:
    found = fan_in().evidence()
    changed = _with_log(found, 1, transaction_index=1)
    return changed, _log_name(changed.logs[1])


@case(CheckId.RUN_STARTED)
def _a_run_without_any_log() -> tuple[Evidence, bytes | str]:
    found = pending().evidence()
    return replace(found, tasks=(), replies=(), logs=(), blocks=(), transactions=()), "run"


@case(CheckId.RUN_STARTED, CheckId.TASK_EVENT, CheckId.TASK_INITIAL, CheckId.TASK_SEQUENCE)
def _a_run_whose_first_log_is_missing() -> tuple[Evidence, bytes | str]:
    run = pending()
    del run.logs[0]
    return run.evidence(), "run"


# ── Tasks ────────────────────────────────────────────────────────────────────


@case(CheckId.TASK_RECORD)
def _a_task_that_the_contract_does_not_know() -> tuple[Evidence, bytes | str]:
    found = pending().evidence()
    return replace(found, tasks=found.tasks[:-1]), found.tasks[-1].task_hash


@case(CheckId.TASK_RECORD, CheckId.CHAIN_WALK)
def _a_final_task_that_the_contract_does_not_know() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return replace(found, tasks=found.tasks[:-1]), found.tasks[-1].task_hash


@case(CheckId.TASK_RECORD, CheckId.REPLY_LINKS)
def _an_initial_task_that_the_contract_does_not_know() -> tuple[Evidence, bytes | str]:
    found = pending().evidence()
    return replace(found, tasks=found.tasks[1:]), found.tasks[0].task_hash


@case(CheckId.TASK_HASH)
def _a_task_with_another_expiry() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_task(found, 1, expires_at=0), found.tasks[1].task_hash


@case(CheckId.TASK_HASH)
def _a_final_task_with_another_stage() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_task(found, 3, stage=3), found.tasks[3].task_hash


@case(CheckId.TASK_RUN)
def _a_task_of_another_run() -> tuple[Evidence, bytes | str]:
    run = pending()
    run.transact(REQUESTER)
    return _ending_with(run, run.dispatch(2, tuple(run.replies), workflow_run_id=OTHER_RUN))


@case(CheckId.TASK_EVENT)
def _a_task_that_no_event_announced() -> tuple[Evidence, bytes | str]:
    run = pending()
    del run.logs[-1]
    return run.evidence(), list(run.tasks)[-1]


@case(CheckId.TASK_EVENT)
def _a_task_announced_twice() -> tuple[Evidence, bytes | str]:
    run = pending()
    last = list(run.tasks)[-1]
    run.announce(last, 1)
    return run.evidence(), last


@case(CheckId.TASK_STAGE)
def _a_task_announced_with_another_stage() -> tuple[Evidence, bytes | str]:
    run = pending()
    return _ending_with(run, run.dispatch(2, tuple(run.replies), event_stage=3))


@case(CheckId.TASK_SEQUENCE)
def _a_gap_in_the_sequence() -> tuple[Evidence, bytes | str]:
    run = pending()
    return _ending_with(run, run.dispatch(2, tuple(run.replies), task_seq=3))


@case(CheckId.TASK_SEQUENCE)
def _a_number_given_twice() -> tuple[Evidence, bytes | str]:
    run = pending()
    return _ending_with(run, run.dispatch(2, tuple(run.replies), task_seq=1))


@case(CheckId.TASK_SEQUENCE)
def _a_sequence_that_begins_with_one() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    run.transact(REQUESTER)
    return _ending_with(run, run.dispatch(0, task_seq=1))


@case(CheckId.TASK_SEQUENCE)
def _numbers_in_another_order_than_the_events() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    run.transact(REQUESTER)
    run.dispatch(0, task_seq=1)
    return _ending_with(run, run.dispatch(0, task_seq=0))


@case(CheckId.TASK_SEQUENCE)
def _a_final_task_out_of_sequence() -> tuple[Evidence, bytes | str]:
    run, reply = _ready_to_complete()
    return _ending_with(run, run.complete((reply,), task_seq=2))


@case(CheckId.TASK_TIME)
def _a_task_older_than_its_block() -> tuple[Evidence, bytes | str]:
    run = pending()
    return _ending_with(run, run.dispatch(2, tuple(run.replies), timestamp=run.now - 1))


@case(CheckId.TASK_TIME)
def _a_task_younger_than_its_block() -> tuple[Evidence, bytes | str]:
    run = pending()
    return _ending_with(run, run.dispatch(2, tuple(run.replies), timestamp=run.now + 1))


@case(CheckId.TASK_INITIAL)
def _a_later_task_without_previous_replies() -> tuple[Evidence, bytes | str]:
    run = pending()
    run.transact(REQUESTER)
    return _ending_with(run, run.dispatch(2))


@case(CheckId.TASK_INITIAL)
def _an_initial_task_repeated_with_another_input() -> tuple[Evidence, bytes | str]:
    run = pending()
    run.transact(REQUESTER)
    return _ending_with(run, run.dispatch(0, input=b"another input"))


@case(CheckId.TASK_LINKS)
def _a_task_that_names_an_unknown_reply() -> tuple[Evidence, bytes | str]:
    run = pending()
    return _ending_with(run, run.dispatch(2, (*run.replies, UNKNOWN)))


@case(CheckId.TASK_ORDER)
def _a_task_dispatched_before_its_reply() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run())
    run.logs.pop()
    task = run.dispatch(1, (reply,))
    run.anchor(reply, AGENTS[0])
    return run.evidence(), task


@case(CheckId.TASK_ORDER, CheckId.LOG_ORDER)
def _a_task_dispatched_in_the_very_place_of_its_reply() -> tuple[Evidence, bytes | str]:
    found = pending().evidence()
    return _with_log(found, 2, log_index=found.logs[1].log_index), found.tasks[1].task_hash


@case(CheckId.TASK_INPUT)
def _an_input_that_is_not_the_one_committed() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    return run_of(run, run.run(input=b"forged", input_hash=keccak256(b"true")))


@case(CheckId.TASK_INPUT)
def _an_input_replaced_afterwards() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_task(found, 0, input=b"forged"), found.tasks[0].task_hash


@case(CheckId.TASK_PROVEN)
def _an_initial_task_claimed_unproven() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_task_claim(found, 0, False), found.tasks[0].task_hash


@case(CheckId.TASK_PROVEN)
def _a_task_claimed_proven_whose_reply_is_not() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_task_claim(found, 1, True), found.tasks[1].task_hash


@case(CheckId.TASK_PROVEN)
def _a_task_claimed_proven_with_one_reply_unproven() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    tasks = run.run((0, 0))
    replies = tuple(run.reply(agent, (task,)) for agent, task in zip(AGENTS, tasks, strict=False))
    run.prove(replies[0])
    join = run.dispatch(1, replies)
    found = run.evidence()
    return _with_task_claim(found, 2, True), join


@case(CheckId.TASK_PROVEN)
def _a_final_task_claimed_unproven() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_task_claim(found, 3, False), found.tasks[3].task_hash


# ── Replies ──────────────────────────────────────────────────────────────────


@case(CheckId.REPLY_RECORD)
def _a_reply_that_the_contract_does_not_know() -> tuple[Evidence, bytes | str]:
    found = fan_in().evidence()
    loser = found.replies[3].reply_hash
    return replace(found, replies=found.replies[:3] + found.replies[4:]), loser


@case(CheckId.REPLY_HASH)
def _a_reply_with_another_operation() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_reply(found, 1, operation_id=name("forged")), found.replies[1].reply_hash


@case(CheckId.REPLY_HASH)
def _a_reply_with_another_output_hash_and_no_output() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_reply(found, 1, output_hash=name("forged"), output=b""), found.replies[1].reply_hash


@case(CheckId.REPLY_RUN)
def _a_reply_of_another_run() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    return run_of(run, (run.reply(AGENTS[0], run.run(), workflow_run_id=OTHER_RUN),))


@case(CheckId.REPLY_EVENT)
def _a_reply_that_no_event_anchored() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run())
    run.logs.pop()
    return run.evidence(), reply


@case(CheckId.REPLY_EVENT)
def _a_reply_anchored_twice() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run())
    run.anchor(reply, AGENTS[0])
    return run.evidence(), reply


@case(CheckId.REPLY_REPLIER)
def _a_reply_anchored_for_somebody_else() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    return run_of(run, (run.reply(AGENTS[0], run.run(), event_replier=AGENTS[1]),))


@case(CheckId.REPLY_OPERATION)
def _an_operation_that_is_zero() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    return run_of(run, (run.reply(AGENTS[0], run.run(), operation_id=bytes(32)),))


@case(CheckId.REPLY_OPERATION)
def _an_operation_anchored_twice() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    tasks = run.run()
    run.reply(AGENTS[0], tasks, operation_id=name("once"))
    return run_of(run, (run.reply(AGENTS[0], tasks, operation_id=name("once")),))


@case(CheckId.REPLY_TASKS)
def _a_reply_to_no_task() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    run.run()
    return run_of(run, (run.reply(AGENTS[0], ()),))


@case(CheckId.REPLY_LINKS)
def _a_reply_to_an_unknown_task() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    return run_of(run, (run.reply(AGENTS[0], (*run.run(), UNKNOWN)),))


# With honest times a reply that comes first cannot also be later than its task.
@case(CheckId.REPLY_ORDER, CheckId.REPLY_AFTER_TASKS)
def _a_reply_anchored_before_its_task() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    initial = run.run()
    run.mine()
    task = _task(stage=0, task_seq=1, timestamp=run.now)
    reply = run.reply(AGENTS[0], (*initial, task.task_hash()), mine=False)
    run.tasks[task.task_hash()] = TaskRecord(task.task_hash(), task, True)
    run.announce(task.task_hash(), 0)
    return run.evidence(), reply


@case(CheckId.REPLY_ORDER, CheckId.REPLY_AFTER_TASKS, CheckId.LOG_ORDER)
def _a_reply_anchored_in_the_very_place_of_its_task() -> tuple[Evidence, bytes | str]:
    found, reply = _a_reply_anchored_before_its_task()
    return _with_log(found, 2, log_index=found.logs[1].log_index), reply


@case(CheckId.REPLY_AFTER_TASKS)
def _a_reply_at_the_very_time_of_its_task() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    return run_of(run, (run.reply(AGENTS[0], run.run(), timestamp=START),))


@case(CheckId.REPLY_AFTER_TASKS)
def _a_reply_older_than_the_second_of_its_tasks() -> tuple[Evidence, bytes | str]:
    run = pending()
    tasks = tuple(run.tasks)
    return run_of(run, (run.reply(AGENTS[0], tasks, timestamp=START + 1),))


@case(CheckId.REPLY_NOT_FUTURE)
def _a_reply_from_the_future() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run(), timestamp=START + BLOCK_SECONDS + 1)
    return run.evidence(), reply


@case(CheckId.REPLY_OUTPUT)
def _an_output_that_is_not_the_one_committed() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    return run_of(run, (run.reply(AGENTS[0], run.run(), output=b"forged", output_hash=keccak256(b"true")),))


@case(CheckId.REPLY_OUTPUT)
def _an_output_replaced_afterwards() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return _with_reply(found, 2, output=b"forged"), found.replies[2].reply_hash


# ── The chain ────────────────────────────────────────────────────────────────


@case(CheckId.CHAIN_ALTERNATES)
def _a_task_that_links_to_a_task() -> tuple[Evidence, bytes | str]:
    run = pending()
    return _ending_with(run, run.dispatch(2, (next(iter(run.tasks)),)))


@case(CheckId.CHAIN_ALTERNATES)
def _a_reply_that_links_to_a_reply() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    tasks = run.run()
    first = run.reply(AGENTS[0], tasks)
    return run_of(run, (run.reply(AGENTS[1], (*tasks, first)),))


@case(CheckId.CHAIN_ALTERNATES, CheckId.REPLY_HASH, CheckId.REPLY_EVENT)
def _a_hash_recorded_as_a_task_and_as_a_reply() -> tuple[Evidence, bytes | str]:
    found = pending().evidence()
    task, reply = found.tasks[1].task_hash, found.replies[0]
    both = replace(reply, reply_hash=task, reply=replace(reply.reply, operation_id=name("another")))
    return replace(found, replies=(*found.replies, both)), task


@case(CheckId.CHAIN_ACYCLIC, CheckId.TASK_HASH, CheckId.TASK_ORDER)
def _a_task_that_follows_from_its_own_reply() -> tuple[Evidence, bytes | str]:
    found = pending().evidence()
    claimed = _with_task_claim(found, 0, False)
    return _with_task(claimed, 0, prev_reply_hashes=(found.replies[0].reply_hash,)), found.tasks[0].task_hash


@case(CheckId.CHAIN_WALK, CheckId.CHAIN_ACYCLIC, CheckId.TASK_HASH, CheckId.TASK_ORDER)
def _a_walk_that_never_ends() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    claimed = _with_task_claim(found, 0, False)
    return _with_task(claimed, 0, prev_reply_hashes=(found.replies[0].reply_hash,)), "run"


@case(CheckId.CHAIN_WALK, CheckId.REPLY_RECORD, CheckId.TASK_LINKS)
def _a_walk_that_stops_at_a_missing_reply() -> tuple[Evidence, bytes | str]:
    found = pipeline().evidence()
    return replace(found, replies=found.replies[1:]), "run"


@case(CheckId.CHAIN_WALK, CheckId.REPLY_RECORD, CheckId.TASK_LINKS)
def _a_walk_with_one_branch_that_stops() -> tuple[Evidence, bytes | str]:
    found = fan_in().evidence()
    return replace(found, replies=found.replies[1:]), "run"


@case(CheckId.CHAIN_WALK, CheckId.REPLY_TASKS)
def _a_walk_that_ends_in_a_reply() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    run.run()
    reply = run.reply(AGENTS[0], ())
    run.prove(reply)
    run.complete((reply,))
    return run.evidence(), "run"


# ── The end of the run ───────────────────────────────────────────────────────


@case(CheckId.RESULT_FIELDS)
def _a_pending_run_with_a_final_task() -> tuple[Evidence, bytes | str]:
    found = pending().evidence()
    return replace(found, result=RunResult(RunStatus.PENDING, UNKNOWN, 0)), "run"


@case(CheckId.RESULT_FIELDS)
def _a_failed_run_with_a_time_of_completion() -> tuple[Evidence, bytes | str]:
    run = failed()
    return replace(run.evidence(), result=RunResult(RunStatus.FAILED, bytes(32), run.now)), "run"


@case(CheckId.RESULT_FIELDS, CheckId.COMPLETION_RESULT, CheckId.FINAL_TIME)
def _a_completed_run_without_a_time() -> tuple[Evidence, bytes | str]:
    run = pipeline()
    return replace(run.evidence(), result=RunResult(RunStatus.SUCCESS, run.final, 0)), "run"


@case(
    CheckId.RESULT_FIELDS,
    CheckId.COMPLETION_RESULT,
    CheckId.TASK_RECORD,
    CheckId.CHAIN_WALK,
    CheckId.TASK_EVENT,
)
def _a_completed_run_without_a_final_task() -> tuple[Evidence, bytes | str]:
    run = pipeline()
    # The final task is then an ordinary one that no event announced, with an input that is not there.
    return replace(run.evidence(), result=RunResult(RunStatus.SUCCESS, bytes(32), run.completed_at)), "run"


@case(CheckId.COMPLETION_EVENT)
def _a_completed_run_whose_end_no_event_announced() -> tuple[Evidence, bytes | str]:
    run = pipeline()
    run.logs.pop()
    return run.evidence(), "run"


@case(CheckId.COMPLETION_EVENT)
def _an_end_announced_twice() -> tuple[Evidence, bytes | str]:
    run = pipeline()
    run.announce_end(RunStatus.SUCCESS, run.final, run.now)
    return run.evidence(), "run"


@case(CheckId.COMPLETION_EVENT, CheckId.COMPLETION_RESULT)
def _a_pending_run_whose_end_was_announced() -> tuple[Evidence, bytes | str]:
    run = failed()
    run.status = RunStatus.PENDING
    return run.evidence(), "run"


@case(CheckId.COMPLETION_RESULT)
def _an_end_with_another_final_task() -> tuple[Evidence, bytes | str]:
    run, reply = _ready_to_complete()
    run.complete((reply,))
    run.logs.pop()
    log = run.announce_end(RunStatus.SUCCESS, UNKNOWN, run.now)
    return run.evidence(), _log_name(log)


@case(CheckId.COMPLETION_RESULT)
def _an_end_with_another_status() -> tuple[Evidence, bytes | str]:
    run = failed()
    run.logs.pop()
    log = run.announce_end(RunStatus.SUCCESS, bytes(32), run.now)
    return run.evidence(), _log_name(log)


@case(CheckId.COMPLETION_RESULT, CheckId.FINAL_TIME)
def _a_result_with_another_time_of_completion() -> tuple[Evidence, bytes | str]:
    run = pipeline()
    run.completed_at += 1
    return run.evidence(), _log_name(run.logs[-1])


@case(CheckId.COMPLETION_TIME)
def _a_failure_announced_with_another_time() -> tuple[Evidence, bytes | str]:
    run = failed()
    run.logs.pop()
    log = run.announce_end(RunStatus.FAILED, bytes(32), run.now + 1)
    return run.evidence(), _log_name(log)


@case(CheckId.COMPLETION_LAST)
def _a_reply_after_the_end() -> tuple[Evidence, bytes | str]:
    run = pipeline()
    return run_of(run, (run.reply(AGENTS[5], (list(run.tasks)[2],)),))


@case(CheckId.COMPLETION_LAST, CheckId.LOG_ORDER)
def _a_reply_in_the_very_place_of_the_end() -> tuple[Evidence, bytes | str]:
    run = failed()
    found = run.evidence()
    return _with_log(found, 2, log_index=found.logs[1].log_index), next(iter(run.replies))


@case(CheckId.COMPLETION_LAST, CheckId.TASK_SEQUENCE)
def _a_task_after_the_end() -> tuple[Evidence, bytes | str]:
    run = pipeline()
    return _ending_with(run, run.dispatch(2, (list(run.replies)[1],)))


@case(CheckId.FINAL_EVENT)
def _a_final_task_that_was_announced() -> tuple[Evidence, bytes | str]:
    run, reply = _ready_to_complete()
    final = run.complete((reply,))
    end = run.logs.pop()
    run.announce(final, 255)
    run.logs.append(replace(end, log_index=end.log_index + 1))
    return run.evidence(), final


@case(CheckId.FINAL_INPUT)
def _a_final_task_with_an_input_hash() -> tuple[Evidence, bytes | str]:
    run, reply = _ready_to_complete()
    return _ending_with(run, run.complete((reply,), input_hash=keccak256(b"")))


@case(CheckId.FINAL_REPLIES, CheckId.CHAIN_WALK)
def _a_final_task_without_replies() -> tuple[Evidence, bytes | str]:
    run, _ = _ready_to_complete()
    return _ending_with(run, run.complete(()))


@case(CheckId.FINAL_TIME)
def _a_final_task_of_another_time() -> tuple[Evidence, bytes | str]:
    run, reply = _ready_to_complete()
    return _ending_with(run, run.complete((reply,), timestamp=run.now - 1))


@case(CheckId.FINAL_PROVEN)
def _a_final_gate_passed_without_a_proof() -> tuple[Evidence, bytes | str]:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run())
    run.complete((reply,))
    return run.evidence(), reply


# ── Tests ────────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-008", "EXE-019", "EXE-155", "EXE-160", "EXE-206")
@pytest.mark.parametrize("wrong", CASES, ids=lambda wrong: wrong.id)
def test_verify__evidence_wrong_in_one_place__fails_there_and_only_there(wrong: Case) -> None:
    evidence, subject = wrong.make()
    subject_name = subject if isinstance(subject, str) else f"0x{subject.hex()}"

    report = verify(evidence)

    failing = {result.id for result in report.checks if result.verdict == "fails"}
    assert failing == {wrong.check} | wrong.also
    result = report.check(wrong.check)
    assert result is not None
    assert subject_name in {finding.subject for finding in result.findings if finding.verdict == "fails"}
    assert report.verdict == "fails"
    if isinstance(subject, bytes):
        node = report.node(subject)
        assert node is not None
        assert node.verdict == "fails"
        assert wrong.check in {finding.check for finding in node.findings}


def test_verify__every_check_that_can_fail__has_a_case() -> None:
    # That a proof is valid, and that a replier signed, are never said to fail: they hold or stay open.
    never_fail = {CheckId.REPLY_PROOF, CheckId.REPLY_SIGNER}
    assert {wrong.check for wrong in CASES} == set(CheckId) - never_fail


# ── Helpers ──────────────────────────────────────────────────────────────────


def run_of(run: RunBuilder, nodes: tuple[bytes, ...]) -> tuple[Evidence, bytes | str]:
    """Evidence of a run, and the last of some of its nodes."""
    return run.evidence(), nodes[-1]


def _ending_with(run: RunBuilder, node: bytes) -> tuple[Evidence, bytes | str]:
    return run.evidence(), node


def _ready_to_complete() -> tuple[RunBuilder, bytes]:
    run = RunBuilder()
    reply = run.reply(AGENTS[0], run.run())
    run.prove(reply)
    return run, reply


def _two_replies_in_one_block() -> tuple[RunBuilder, bytes, bytes]:
    run = RunBuilder()
    tasks = run.run()
    run.reply(AGENTS[0], tasks)
    first = run.transactions[-1].hash
    run.reply(AGENTS[1], tasks, mine=False)
    return run, first, run.transactions[-1].hash


def _task(**fields: Any) -> AgentTask:
    values: dict[str, Any] = {
        "input_hash": keccak256(b"input"),
        "input": b"input",
        "expires_at": 0,
        "prev_reply_hashes": (),
        "workflow_run_id": RUN_ID,
    }
    return AgentTask(**(values | fields))


def _log_name(log: Any) -> str:
    return f"log {log.block_number}/{log.log_index}"


def _with_log(found: Evidence, place: int, **fields: Any) -> Evidence:
    logs = list(found.logs)
    logs[place] = replace(logs[place], **fields)
    return replace(found, logs=tuple(logs))


def _with_places(found: Evidence, places: dict[bytes, int]) -> Evidence:
    """Transactions, and their logs with them, at other places of their block."""
    return replace(
        found,
        logs=tuple(
            replace(log, transaction_index=places.get(log.transaction_hash, log.transaction_index))
            for log in found.logs
        ),
        transactions=tuple(
            replace(item, index=places.get(item.hash, item.index)) for item in found.transactions
        ),
    )


def _with_task(found: Evidence, place: int, **fields: Any) -> Evidence:
    """Another struct under the same hash, as a lying contract or node would return it."""
    tasks = list(found.tasks)
    tasks[place] = replace(tasks[place], task=replace(tasks[place].task, **fields))
    return replace(found, tasks=tuple(tasks))


def _with_task_claim(found: Evidence, place: int, proven: bool) -> Evidence:
    tasks = list(found.tasks)
    tasks[place] = replace(tasks[place], proven=proven)
    return replace(found, tasks=tuple(tasks))


def _with_reply(found: Evidence, place: int, **fields: Any) -> Evidence:
    replies = list(found.replies)
    replies[place] = replace(replies[place], reply=replace(replies[place].reply, **fields))
    return replace(found, replies=tuple(replies))
