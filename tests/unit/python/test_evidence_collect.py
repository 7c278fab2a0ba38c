"""Collecting evidence from a node: complete, at one block, and one sentence for all that can go wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from eth_abi.abi import encode

from provenflow import abi
from provenflow.errors import EvidenceError, Unreachable, WrongUse
from provenflow.evidence import Evidence, collect, verify
from provenflow.evidence import collector as collector_module
from provenflow.rpc import Rpc, RpcError
from tests.support.evidence_builder import (
    CHAIN_ID,
    CONTRACT,
    HONEST,
    OTHER_RUN,
    RUN_ID,
    RunBuilder,
    fan_in,
    long_chain,
    name,
    pending,
    pipeline,
    single_stage,
)
from tests.support.fake_node import REVERT, as_collected, serve_evidence
from tests.support.json_rpc_server import NodeError

PATIENT = 30.0

Honest = Callable[[], Any]
"""Gives the answer of an honest node."""


def _collect(
    evidence: Evidence, *, run_id: bytes = RUN_ID, contract: bytes = CONTRACT, **options: Any
) -> Evidence:
    node = {key: options.pop(key) for key in ("answers", "widest_logs") if key in options}
    with serve_evidence(evidence, **node) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        return collect(rpc, contract, run_id, **options)


def _sorted(found: Evidence) -> Evidence:
    """Records by key: the order of reading is no part of the evidence."""
    return replace(
        found,
        tasks=tuple(sorted(found.tasks, key=lambda record: record.task_hash)),
        replies=tuple(sorted(found.replies, key=lambda record: record.reply_hash)),
    )


# ── What is collected ────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-155", "EXE-160")
@pytest.mark.parametrize("make", HONEST.values(), ids=HONEST.keys())
def test_collect__honest_run__everything_that_the_node_shows(make: Callable[[], RunBuilder]) -> None:
    evidence = make().evidence()
    collected = _collect(evidence)
    assert _sorted(collected) == _sorted(as_collected(evidence))
    assert verify(collected).verdict == "holds"


def test_collect__url_and_hex__as_good_as_client_and_bytes() -> None:
    evidence = single_stage().evidence()
    with serve_evidence(evidence) as server:
        collected = collect(server.url, f"0x{CONTRACT.hex()}", f"0x{RUN_ID.hex()}")
    assert collected.workflow_run_id == RUN_ID


def test_collect__node_that_no_event_names__followed_through_the_links() -> None:
    run = pipeline()
    # The events of the first stage are before the first block that is searched.
    first_block = run.logs[2].block_number + 1
    collected = _collect(run.evidence(), from_block=first_block)
    assert len(collected.logs) < len(run.logs)
    assert {record.task_hash for record in collected.tasks} == set(run.tasks)
    assert {record.reply_hash for record in collected.replies} == set(run.replies)


def test_collect__nodes_claimed_proven__walked_through_and_not_pruned() -> None:
    run = RunBuilder()
    first = run.reply(bytes(20), run.run())
    run.prove(first)
    second = run.reply(bytes(20), (run.dispatch(1, (first,)),))
    run.prove(second)
    run.complete((second,))
    only_the_end = _collect(run.evidence(), from_block=run.blocks[-1].number)
    assert all(record.proven for record in only_the_end.tasks)
    assert {record.task_hash for record in only_the_end.tasks} == set(run.tasks)


def test_collect__node_that_the_contract_does_not_know__left_out_for_the_verifier() -> None:
    run = pending()
    evidence = run.evidence()
    collected = _collect(replace(evidence, replies=()))
    assert collected.replies == ()
    assert verify(collected).verdict == "fails"


def test_collect__every_contract_call__at_the_pinned_block() -> None:
    evidence = single_stage().evidence()
    # The fake node refuses calls at any other block than this one.
    assert _collect(evidence, block=evidence.block.number).block == evidence.block


@pytest.mark.parametrize("block", ["latest", "safe", "finalized"])
def test_collect__block_by_name__asked_for_by_that_name(block: str) -> None:
    evidence = single_stage().evidence()
    with serve_evidence(evidence) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        collect(rpc, CONTRACT, RUN_ID, block=block)
    assert server.requests[1]["params"] == [block, False]


def test_collect__few_round_trips__not_one_per_node() -> None:
    evidence = long_chain(100).evidence()
    with serve_evidence(evidence) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        collect(rpc, CONTRACT, RUN_ID)
    # 201 tasks and replies, 102 blocks and transactions, in batches of a hundred.
    assert len(server.requests) < 15


def test_collect__progress__told_in_short_sentences() -> None:
    told: list[str] = []
    _collect(pipeline().evidence(), progress=told.append)
    assert "reading logs of blocks 0 to 105" in told
    assert "read 4 of 4 tasks" in told
    assert "read 3 of 3 replies" in told


# ── Ranges of logs ───────────────────────────────────────────────────────────


@pytest.mark.parametrize("widest", [1, 7, 64])
def test_collect__node_limits_the_range_of_logs__asked_in_smaller_ones(widest: int) -> None:
    evidence = fan_in().evidence()
    assert _sorted(_collect(evidence, widest_logs=widest)) == _sorted(as_collected(evidence))


def test_collect__node_limits_the_range_of_logs__not_asked_for_more_again() -> None:
    with (
        serve_evidence(fan_in().evidence(), widest_logs=30) as server,
        Rpc(server.url, timeout=PATIENT) as rpc,
    ):
        collect(rpc, CONTRACT, RUN_ID)
    # Blocks 0 to 108: all, then half, then a quarter at a time.
    assert server.methods.count("eth_getLogs") == 2 + 5


def test_collect__node_refuses_even_one_block__its_error() -> None:
    with pytest.raises(RpcError, match="more than 10000"):
        _collect(pipeline().evidence(), widest_logs=0)


def test_collect__first_block_given__no_log_before_it_is_asked_for() -> None:
    evidence = pipeline().evidence()
    with serve_evidence(evidence) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        collected = collect(rpc, CONTRACT, RUN_ID, from_block=100)
    (asked,) = [call["params"][0] for call in server.requests if _method(call) == "eth_getLogs"]
    assert (asked["fromBlock"], asked["toBlock"]) == (hex(100), hex(evidence.block.number))
    assert collected.logs == evidence.logs


def _method(document: Any) -> str:
    return "" if isinstance(document, list) else str(document["method"])


# ── Wrong use ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"contract": b"\0" * 19}, "contract must be"),
        ({"contract": "0x1234"}, "contract must be"),
        ({"contract": "0xC0C0c0c0C0C0c0c0c0C0c0C0C0C0C0C0C0C0c0cA"}, "EIP-55"),
        ({"run_id": b"\0" * 20}, "run_id must be"),
        ({"run_id": "run"}, "run_id must be"),
        ({"chain_id": 1}, "The node is on chain 31337, not on chain 1"),
        ({"block": "earliest"}, "A block is a number or one of"),
        ({"block": -1}, "not negative"),
        ({"from_block": -1}, "Logs cannot be read from block -1"),
        ({"from_block": 10_000}, "Logs cannot be read from block 10000"),
    ],
)
def test_collect__argument_makes_no_sense__wrong_use(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(WrongUse, match=reason):
        _collect(pipeline().evidence(), **options)


def test_collect__first_block_is_the_pinned_one__allowed() -> None:
    evidence = pipeline().evidence()
    assert _collect(evidence, from_block=evidence.block.number).logs == ()


def test_collect__block_zero__is_a_block() -> None:
    with pytest.raises(Unreachable, match="does not have block 0"):
        _collect(pipeline().evidence(), block=0)


def test_collect__as_many_nodes_as_the_limit__collected(monkeypatch: pytest.MonkeyPatch) -> None:
    evidence = pipeline().evidence()
    monkeypatch.setattr(collector_module, "MAX_NODES", 7)
    assert len(_collect(evidence).tasks) == 4
    monkeypatch.setattr(collector_module, "MAX_NODES", 6)
    with pytest.raises(EvidenceError, match="more than 6 tasks and replies"):
        _collect(evidence)


@pytest.mark.parametrize("topics", [1, 2, 3])
def test_collect__log_with_topics_missing__left_to_the_verifier(topics: int) -> None:
    def cut(_params: list[Any], honest: Honest) -> Any:
        logs: list[dict[str, Any]] = honest()
        return [log | {"topics": log["topics"][:topics]} for log in logs]

    report = verify(_collect(pipeline().evidence(), answers={"eth_getLogs": cut}))
    result = report.check("log.event")
    assert result is not None
    assert result.verdict == "fails"


def test_collect__the_right_chain__read() -> None:
    assert _collect(pipeline().evidence(), chain_id=CHAIN_ID).chain_id == CHAIN_ID


# ── What does not hold ───────────────────────────────────────────────────────


def test_collect__no_contract_at_the_address__says_so() -> None:
    with pytest.raises(EvidenceError, match=r"There is no contract at 0xdddddddd.* in block 105"):
        _collect(pipeline().evidence(), contract=bytes.fromhex("dd" * 20))


@pytest.mark.requirement("EXE-205", "EXE-206")
def test_collect__unknown_run__says_so() -> None:
    with pytest.raises(
        EvidenceError, match=r"does not know the run 0x.*no NewAgentTask event of it in blocks 0 to 105"
    ):
        _collect(pipeline().evidence(), run_id=OTHER_RUN)


@pytest.mark.requirement("EXE-206")
def test_collect__ended_run_without_events__left_to_the_verifier() -> None:
    evidence = replace(pipeline().evidence(), logs=(), blocks=(), transactions=())
    assert verify(_collect(evidence)).verdict == "fails"


def test_collect__result_reverts__no_workflow() -> None:
    with pytest.raises(
        EvidenceError, match=r"does not answer as an IAgentWorkflow of ERC-8301: result\(\) reverts"
    ):
        _collect(pipeline().evidence(), answers={"eth_call": REVERT})


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("0x", "too little data: 0 bytes"),
        ("0x" + "00" * 32, "too little data"),
        ("0x" + "00" * 96 + "00", "1 bytes too many"),
        ("0x" + "00" * 31 + "03" + "00" * 64, "3 as RunStatus"),
    ],
)
def test_collect__result_is_something_else__no_workflow(answer: str, reason: str) -> None:
    with pytest.raises(EvidenceError, match=f"does not answer as an IAgentWorkflow.*{reason}"):
        _collect(pipeline().evidence(), answers={"eth_call": answer})


@pytest.mark.parametrize("selector", [abi.GET_AGENT_TASK.selector, abi.GET_AGENT_REPLY.selector])
def test_collect__struct_is_something_else__no_workflow(selector: bytes) -> None:
    def short(params: list[Any], honest: Honest) -> str:
        answer: str = honest()
        return answer[:-64] if params[0]["data"].startswith(f"0x{selector.hex()}") else answer

    with pytest.raises(EvidenceError, match="does not answer as an IAgentWorkflow"):
        _collect(pipeline().evidence(), answers={"eth_call": short})


def test_collect__contract_that_makes_up_ever_new_replies__stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collector_module, "MAX_NODES", 50)

    def endless(params: list[Any], honest: Honest) -> Any:
        data = bytes.fromhex(params[0]["data"][2:])
        asked = data[4:]
        if data[:4] == abi.GET_AGENT_TASK.selector:
            task = (0, 0, bytes(32), b"", 0, 0, (name(asked.hex()),), RUN_ID)
            return "0x" + encode(abi.GET_AGENT_TASK.outputs, (task, False)).hex()
        if data[:4] == abi.GET_AGENT_REPLY.selector:
            reply = (bytes(32), bytes(32), b"", 0, bytes(20), (name(asked.hex()),), RUN_ID)
            return "0x" + encode(abi.GET_AGENT_REPLY.outputs, (reply, bytes(20), False, bytes(32))).hex()
        return honest()

    with pytest.raises(EvidenceError, match="more than 50 tasks and replies"):
        _collect(pending().evidence(), answers={"eth_call": endless})


# ── What cannot be read ──────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("method", "answer", "reason"),
    [
        ("eth_chainId", "mainnet", "the chain id is not a number in hex"),
        ("eth_getBlockByNumber", None, "does not have block latest"),
        ("eth_getBlockByNumber", [], "block latest is not an object"),
        ("eth_getBlockByNumber", {"number": "0x1"}, "the hash of block latest"),
        ("eth_getCode", None, "the contract's code is not bytes in hex"),
        ("eth_call", None, r"the answer of result\(\) is not bytes in hex"),
        ("eth_call", NodeError(-32000, "header not found"), "refused eth_call: 'header not found'"),
        ("eth_getLogs", None, "the logs are not a list"),
        ("eth_getLogs", [None], "does not have a log"),
        ("eth_getLogs", [{"topics": "0x"}], "the topics of a log are not a list"),
        ("eth_getLogs", [{"topics": ["0x"]}], "the address of a log"),
        ("eth_getTransactionByHash", None, "does not have transaction 0x"),
        ("eth_getTransactionByHash", 5, "is not an object"),
        ("eth_getTransactionByHash", {"hash": "0x"}, "the hash of transaction 0x"),
        ("eth_getTransactionByHash", NodeError(-32000, "pruned"), "pruned"),
    ],
)
def test_collect__node_answers_nonsense__unreachable(method: str, answer: Any, reason: str) -> None:
    with pytest.raises(Unreachable, match=reason) as refused:
        _collect(pipeline().evidence(), answers={method: answer})
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("selector", [abi.GET_AGENT_TASK.selector, abi.GET_AGENT_REPLY.selector])
def test_collect__node_fails_on_a_struct__unreachable_not_unknown(selector: bytes) -> None:
    def fail(params: list[Any], honest: Honest) -> Any:
        trouble = NodeError(-32000, "missing trie node")
        return trouble if params[0]["data"].startswith(f"0x{selector.hex()}") else honest()

    with pytest.raises(RpcError, match="missing trie node"):
        _collect(pipeline().evidence(), answers={"eth_call": fail})


@pytest.mark.parametrize(
    "field",
    [
        "address",
        "topics",
        "data",
        "blockNumber",
        "blockHash",
        "transactionHash",
        "transactionIndex",
        "logIndex",
    ],
)
def test_collect__log_without_a_field__unreachable(field: str) -> None:
    def without(params: list[Any], honest: Honest) -> Any:
        return [{key: value for key, value in log.items() if key != field} for log in honest()]

    with pytest.raises(Unreachable, match="makes no sense"):
        _collect(pipeline().evidence(), answers={"eth_getLogs": without})


@pytest.mark.parametrize("field", ["from", "blockNumber", "blockHash", "transactionIndex"])
def test_collect__transaction_without_a_field__unreachable(field: str) -> None:
    def without(params: list[Any], honest: Honest) -> Any:
        return {key: value for key, value in honest().items() if key != field}

    with pytest.raises(Unreachable, match="makes no sense"):
        _collect(pipeline().evidence(), answers={"eth_getTransactionByHash": without})


def test_collect__removed_log__unreachable() -> None:
    with pytest.raises(Unreachable, match="reorganised"):
        _collect(
            pipeline().evidence(),
            answers={"eth_getLogs": lambda _params, honest: [log | {"removed": True} for log in honest()]},
        )


def test_collect__pinned_block_replaced_meanwhile__unreachable() -> None:
    evidence = pipeline().evidence()

    def reorganised(params: list[Any], honest: Honest) -> Any:
        # By name it is the old block, by number, at the end, the new one.
        return (
            honest()
            if params[0] != hex(evidence.block.number)
            else honest() | {"hash": f"0x{name('new').hex()}"}
        )

    with pytest.raises(Unreachable, match="reorganised while it was read"):
        _collect(evidence, answers={"eth_getBlockByNumber": reorganised})


def test_collect__block_not_there_yet__unreachable() -> None:
    with pytest.raises(Unreachable, match="does not have block 9999"):
        _collect(pipeline().evidence(), block=9999)


def test_collect__deployment_transaction__has_no_target() -> None:
    evidence = pipeline().evidence()
    without = tuple(replace(item, to=None) for item in evidence.transactions)
    collected = _collect(replace(evidence, transactions=without))
    assert {item.to for item in collected.transactions} == {None}


# ── Lies ─────────────────────────────────────────────────────────────────────


def _lie_about_the_output(params: list[Any], honest: Honest) -> str:
    answer: str = honest()
    return answer.replace(b"output 1".hex(), b"output X".hex())


def _lie_about_the_time(params: list[Any], honest: Honest) -> Any:
    block: dict[str, Any] = honest()
    later = 1 if params[0] == hex(101) else 0
    return block | {"timestamp": hex(int(block["timestamp"], 16) + later)}


def _lie_about_the_stage(params: list[Any], honest: Honest) -> Any:
    logs: list[dict[str, Any]] = honest()
    for log in logs:
        if log["topics"][0] == f"0x{abi.NEW_AGENT_TASK.topic0.hex()}":
            log["topics"][2] = "0x" + "09".rjust(64, "0")
    return logs


def _hide_a_log(params: list[Any], honest: Honest) -> Any:
    return honest()[1:]


@pytest.mark.parametrize(
    ("method", "lie", "check"),
    [
        ("eth_call", _lie_about_the_output, "reply.output"),
        ("eth_getBlockByNumber", _lie_about_the_time, "task.time"),
        ("eth_getLogs", _lie_about_the_stage, "task.stage"),
        ("eth_getLogs", _hide_a_log, "run.started"),
    ],
)
def test_collect_and_verify__lying_node__caught(method: str, lie: Any, check: str) -> None:
    report = verify(_collect(pipeline().evidence(), answers={method: lie}))
    result = report.check(check)
    assert result is not None
    assert result.verdict == "fails"
