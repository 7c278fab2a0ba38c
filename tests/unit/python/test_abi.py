"""The codec of ``IAgentWorkflow``: its identity, and its refusal of anything but exact encodings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import pytest
from eth_abi.abi import encode
from eth_utils.abi import collapse_if_tuple

from provenflow import abi
from provenflow.abi import AgentReply, AgentTask, RunResult, RunStatus
from provenflow.artifacts import load
from provenflow.errors import EvidenceError, HashingError
from provenflow.hashing import keccak256
from tests.support.evidence_builder import word
from tests.support.vectors import load_document

_VECTORS = load_document("erc8301-derived.json")["vectors"]

HASH = keccak256(b"hash")
RUN_ID = keccak256(b"run")
AGENT = bytes.fromhex("a1" * 20)

TASK = AgentTask(
    stage=7,
    task_seq=3,
    input_hash=keccak256(b"input"),
    input=b"input that is longer than one word of the ABI",
    timestamp=1_700_000_000,
    expires_at=2**256 - 1,
    prev_reply_hashes=(HASH, keccak256(b"second")),
    workflow_run_id=RUN_ID,
)
REPLY = AgentReply(
    operation_id=keccak256(b"operation"),
    output_hash=keccak256(b""),
    output=b"",
    timestamp=1_700_000_001,
    replier=AGENT,
    prev_task_hashes=(HASH,),
    workflow_run_id=RUN_ID,
)

TASK_DATA = encode(abi.GET_AGENT_TASK.outputs, (TASK.as_tuple(), True))
REPLY_DATA = encode(abi.GET_AGENT_REPLY.outputs, (REPLY.as_tuple(), AGENT, True, HASH))
RESULT_DATA = encode(abi.RESULT.outputs, (1, HASH, 5))


# ── Identity ─────────────────────────────────────────────────────────────────

SELECTORS = {
    "run(bytes32,bytes,uint256)": "a3eee252",
    "result(bytes32)": "39a926c4",
    "getAgentTask(bytes32)": "163138b2",
    "getAgentReply(bytes32)": "646c7a40",
    "getReplyHashByOperation(bytes32,address,bytes32)": "91148361",
    "onAgentReply((bytes32,bytes32,bytes,uint256,address,bytes32[],bytes32))": "815f20d5",
    "onAgentProve(bytes32[],bytes)": "6201fec7",
}
TOPICS = {
    "NewAgentTask(bytes32,uint8,bytes32)": "272cc97ef7bf51c088a4f2b702b0d379939b01614d36d297e7a7002d9bf22340",
    "AgentReplyAnchored(bytes32,bytes32,address)": (
        "f5a19015294ddc2c418ae3fbeff9812aecade7ef0f0cdd822448dfb4e8c230a0"
    ),
    "WorkflowCompleted(bytes32,uint8,bytes32,uint256)": (
        "a1c52cbe02cfe0056683734624db366b182aa33c46479621916036982a5e7d81"
    ),
}


@pytest.mark.requirement(
    "EXE-041", "EXE-042", "EXE-045", "EXE-048", "EXE-050", "EXE-051", "EXE-052", "EXE-171"
)
def test_functions__signatures_and_selectors__those_of_the_erc() -> None:
    assert {function.signature: function.selector.hex() for function in abi.FUNCTIONS} == SELECTORS


@pytest.mark.requirement("EXE-053", "EXE-055", "EXE-059")
def test_events__signatures_and_topics__those_of_the_erc() -> None:
    assert {event.signature: event.topic0.hex() for event in abi.EVENTS} == TOPICS


def test_functions_and_events__compiled_interface__the_same() -> None:
    compiled = load("IAgentWorkflow").abi
    functions = {
        (
            entry["name"],
            tuple(map(collapse_if_tuple, entry["inputs"])),
            tuple(map(collapse_if_tuple, entry["outputs"])),
        )
        for entry in compiled
        if entry["type"] == "function"
    }
    events = {
        (
            entry["name"],
            tuple(collapse_if_tuple(item) for item in entry["inputs"] if item["indexed"]),
            tuple(collapse_if_tuple(item) for item in entry["inputs"] if not item["indexed"]),
        )
        for entry in compiled
        if entry["type"] == "event"
    }
    assert functions == {(function.name, function.inputs, function.outputs) for function in abi.FUNCTIONS}
    assert events == {(event.name, event.indexed, event.data) for event in abi.EVENTS}


@pytest.mark.requirement("EXE-005", "EXE-018")
@pytest.mark.parametrize(
    ("function", "struct"),
    [("getAgentTask", AgentTask), ("getAgentReply", AgentReply)],
)
def test_structs__compiled_interface__same_fields_in_the_same_order(function: str, struct: type) -> None:
    (entry,) = [entry for entry in load("IAgentWorkflow").abi if entry.get("name") == function]
    compiled = [field["name"] for field in entry["outputs"][0]["components"]]
    assert [_camel_case(field.name) for field in fields(struct)] == compiled


def test_interface_id__is_that_of_the_erc() -> None:
    assert abi.INTERFACE_ID.hex() == "9a50db17"


@pytest.mark.requirement("EXE-001")
def test_run_status__members__in_the_order_of_the_erc() -> None:
    assert [(status.label, status.value) for status in RunStatus] == [
        ("Pending", 0),
        ("Success", 1),
        ("Failed", 2),
    ]


# ── Structs ──────────────────────────────────────────────────────────────────


def test_task_hash__golden_vector__recomputed_from_the_struct() -> None:
    vector = next(item for item in _VECTORS if item["id"] == "task-initial")
    given = vector["inputs"]
    task = AgentTask(
        stage=given["stage"],
        task_seq=given["taskSeq"],
        input_hash=bytes.fromhex(given["inputHash"][2:]),
        input=b"not part of the hash",
        timestamp=given["timestamp"],
        expires_at=given["expiresAt"],
        prev_reply_hashes=(),
        workflow_run_id=bytes.fromhex(given["workflowRunId"][2:]),
    )
    assert f"0x{task.task_hash().hex()}" == vector["expected"]


def test_reply_hash__golden_vector__recomputed_from_the_struct() -> None:
    vector = next(item for item in _VECTORS if item["id"] == "reply-A")
    given = vector["inputs"]
    reply = AgentReply(
        operation_id=bytes.fromhex(given["operationId"][2:]),
        output_hash=bytes.fromhex(given["outputHash"][2:]),
        output=b"not part of the hash",
        timestamp=given["timestamp"],
        replier=bytes.fromhex(given["replier"][2:]),
        prev_task_hashes=tuple(bytes.fromhex(link[2:]) for link in given["prevTaskHashes"]),
        workflow_run_id=bytes.fromhex(given["workflowRunId"][2:]),
    )
    assert f"0x{reply.reply_hash().hex()}" == vector["expected"]


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("stage", 256, "task.stage"),
        ("stage", -1, "task.stage"),
        ("stage", True, "task.stage"),
        ("task_seq", 2**256, "task.taskSeq"),
        ("input_hash", b"short", "task.inputHash"),
        ("input_hash", "0x" + "00" * 32, "task.inputHash"),
        ("input", "text", "task.input"),
        ("timestamp", 2**256, "task.timestamp"),
        ("expires_at", 1.5, "task.expiresAt"),
        ("prev_reply_hashes", b"\0" * 32, "task.prevReplyHashes"),
        ("prev_reply_hashes", (HASH, b"short"), r"task.prevReplyHashes\[1\]"),
        ("workflow_run_id", b"\0" * 33, "task.workflowRunId"),
    ],
)
def test_agent_task__value_does_not_fit_its_type__refused(field: str, value: Any, named: str) -> None:
    with pytest.raises(HashingError, match=f"^{named} must be"):
        replace(TASK, **{field: value})


@pytest.mark.parametrize(
    ("field", "value", "named"),
    [
        ("operation_id", b"", "reply.operationId"),
        ("output_hash", b"\0" * 31, "reply.outputHash"),
        ("output", None, "reply.output"),
        ("timestamp", -1, "reply.timestamp"),
        ("replier", b"\0" * 32, "reply.replier"),
        ("prev_task_hashes", "0x", "reply.prevTaskHashes"),
        ("prev_task_hashes", [b""], r"reply.prevTaskHashes\[0\]"),
        ("workflow_run_id", None, "reply.workflowRunId"),
    ],
)
def test_agent_reply__value_does_not_fit_its_type__refused(field: str, value: Any, named: str) -> None:
    with pytest.raises(HashingError, match=f"^{named} must be"):
        replace(REPLY, **{field: value})


def test_structs__lists__become_tuples_that_nobody_can_change() -> None:
    links = [HASH]
    task, reply = replace(TASK, prev_reply_hashes=links), replace(REPLY, prev_task_hashes=links)
    links.append(RUN_ID)
    assert task.prev_reply_hashes == reply.prev_task_hashes == (HASH,)


# ── Calls ────────────────────────────────────────────────────────────────────


def test_encode__calls__selector_and_canonical_arguments() -> None:
    calls = {
        abi.RUN: (abi.encode_run(HASH, b"input", 9), (HASH, b"input", 9)),
        abi.RESULT: (abi.encode_result(HASH), (HASH,)),
        abi.GET_AGENT_TASK: (abi.encode_get_agent_task(HASH), (HASH,)),
        abi.GET_AGENT_REPLY: (abi.encode_get_agent_reply(HASH), (HASH,)),
        abi.GET_REPLY_HASH_BY_OPERATION: (
            abi.encode_get_reply_hash_by_operation(HASH, AGENT, RUN_ID),
            (HASH, AGENT, RUN_ID),
        ),
        abi.ON_AGENT_REPLY: (abi.encode_on_agent_reply(REPLY), (REPLY.as_tuple(),)),
        abi.ON_AGENT_PROVE: (abi.encode_on_agent_prove([HASH, RUN_ID], b"proof"), ([HASH, RUN_ID], b"proof")),
    }
    assert set(calls) == set(abi.FUNCTIONS)
    for function, (calldata, arguments) in calls.items():
        assert calldata == bytes.fromhex(SELECTORS[function.signature]) + encode(function.inputs, arguments)


@pytest.mark.parametrize(
    "call",
    [
        lambda: abi.encode_run(b"short", b"", 0),
        lambda: abi.encode_run(HASH, "text", 0),  # type: ignore[arg-type]
        lambda: abi.encode_run(HASH, b"", 2**256),
        lambda: abi.encode_result("0x12"),
        lambda: abi.encode_get_agent_task(b""),
        lambda: abi.encode_get_agent_reply(b"\0" * 33),
        lambda: abi.encode_get_reply_hash_by_operation(HASH, b"\0" * 19, HASH),
        lambda: abi.encode_on_agent_prove([HASH, b"short"], b""),
        lambda: abi.encode_on_agent_prove([HASH], None),  # type: ignore[arg-type]
    ],
)
def test_encode__argument_does_not_fit_its_type__refused(call: Callable[[], bytes]) -> None:
    # eth-abi alone would pad a short bytes32 without a word.
    with pytest.raises(HashingError):
        call()


# ── Answers ──────────────────────────────────────────────────────────────────


def test_decode__exact_answers__their_values() -> None:
    assert abi.decode_run(HASH) == HASH
    assert abi.decode_result(RESULT_DATA) == RunResult(RunStatus.SUCCESS, HASH, 5)
    assert abi.decode_get_agent_task(TASK_DATA) == (TASK, True)
    assert abi.decode_get_agent_reply(REPLY_DATA) == (REPLY, AGENT, True, HASH)
    assert abi.decode_get_reply_hash_by_operation(HASH) == HASH
    assert abi.decode_on_agent_reply(HASH) == HASH


DECODERS: dict[str, tuple[Callable[[bytes], Any], bytes]] = {
    "run()": (abi.decode_run, HASH),
    "result()": (abi.decode_result, RESULT_DATA),
    "getAgentTask()": (abi.decode_get_agent_task, TASK_DATA),
    "getAgentReply()": (abi.decode_get_agent_reply, REPLY_DATA),
    "getReplyHashByOperation()": (abi.decode_get_reply_hash_by_operation, HASH),
    "onAgentReply()": (abi.decode_on_agent_reply, HASH),
}


@pytest.mark.parametrize("function", DECODERS)
def test_decode__bytes_too_many__refused(function: str) -> None:
    decode, data = DECODERS[function]
    for extra in (b"\0", b"\0" * 32, b"\x01" * 64):
        with pytest.raises(EvidenceError) as refused:
            decode(data + extra)
        assert refused.value.message == f"{function} returned {len(extra)} bytes too many."


@pytest.mark.parametrize("function", DECODERS)
def test_decode__bytes_missing__refused_at_every_length(function: str) -> None:
    decode, data = DECODERS[function]
    for length in range(len(data)):
        with pytest.raises(EvidenceError, match=rf"^{function[:-2]}\(\) returned .*{length} bytes"):
            decode(data[:length])


@pytest.mark.parametrize("status", [3, 255])
def test_decode_result__status_out_of_range__refused(status: int) -> None:
    with pytest.raises(EvidenceError, match=rf"^result\(\) returned {status} as RunStatus"):
        abi.decode_result(encode(abi.RESULT.outputs, (status, HASH, 5)))


@pytest.mark.parametrize(
    ("decode", "data", "place"),
    [
        (abi.decode_result, RESULT_DATA, 0),
        (abi.decode_get_agent_task, TASK_DATA, 32),
        (abi.decode_get_agent_task, TASK_DATA, 64),
        (abi.decode_get_agent_reply, REPLY_DATA, 32),
        (abi.decode_get_agent_reply, REPLY_DATA, 64),
        (abi.decode_get_agent_reply, REPLY_DATA, 4 * 32 + 4 * 32),
    ],
    ids=["status", "task proven", "task stage", "reply verifier", "reply proven", "reply replier"],
)
def test_decode__dirty_padding__refused(decode: Callable[[bytes], Any], data: bytes, place: int) -> None:
    with pytest.raises(EvidenceError, match="dirty padding"):
        decode(data[:place] + b"\x01" + data[place + 1 :])


def test_decode__dirty_padding_of_a_plaintext__refused() -> None:
    place = TASK_DATA.index(TASK.input) + len(TASK.input)
    with pytest.raises(EvidenceError, match="dirty padding"):
        abi.decode_get_agent_task(TASK_DATA[:place] + b"\x01" + TASK_DATA[place + 1 :])


@pytest.mark.parametrize("word_value", [2**256 - 1, 2**64, 10**6, 0])
def test_decode__offset_out_of_the_data__refused(word_value: int) -> None:
    with pytest.raises(EvidenceError, match=r"^getAgentTask\(\) returned"):
        abi.decode_get_agent_task(word(word_value) + TASK_DATA[32:])


@pytest.mark.parametrize("length", [2**256 - 1, 2**63, 10**6])
def test_decode__length_out_of_the_data__refused(length: int) -> None:
    place = TASK_DATA.index(TASK.input) - 32
    with pytest.raises(EvidenceError, match=r"^getAgentTask\(\) returned"):
        abi.decode_get_agent_task(TASK_DATA[:place] + word(length) + TASK_DATA[place + 32 :])


def test_decode__same_values_in_another_encoding__refused() -> None:
    # The struct moved one word further, its offset with it: decodable, and not what abi.encode makes.
    moved = word(96) + TASK_DATA[32:64] + bytes(32) + TASK_DATA[64:]
    with pytest.raises(EvidenceError, match="not the canonical ABI encoding"):
        abi.decode_get_agent_task(moved)


# ── Events ───────────────────────────────────────────────────────────────────

NEW_TASK = ((abi.NEW_AGENT_TASK.topic0, RUN_ID, word(7), HASH), b"")
ANCHORED = ((abi.AGENT_REPLY_ANCHORED.topic0, RUN_ID, HASH, word(AGENT)), b"")
COMPLETED = (
    (abi.WORKFLOW_COMPLETED.topic0, RUN_ID),
    encode(abi.WORKFLOW_COMPLETED.data, (2, bytes(32), 5)),
)


def test_decode_event__exact_logs__their_values() -> None:
    assert abi.decode_event(*NEW_TASK) == abi.NewAgentTask(RUN_ID, 7, HASH)
    assert abi.decode_event(*ANCHORED) == abi.AgentReplyAnchored(RUN_ID, HASH, AGENT)
    assert abi.decode_event(*COMPLETED) == abi.WorkflowCompleted(RUN_ID, RunStatus.FAILED, bytes(32), 5)


@pytest.mark.parametrize(
    "log", [NEW_TASK, ANCHORED, COMPLETED], ids=["NewAgentTask", "AgentReplyAnchored", "end"]
)
def test_decode_event__topics_too_few_or_too_many__refused(log: tuple[tuple[bytes, ...], bytes]) -> None:
    topics, data = log
    for wrong in (topics[:-1], (*topics, HASH)):
        with pytest.raises(EvidenceError, match=f"has {len(wrong)} topics, not {len(topics)}"):
            abi.decode_event(wrong, data)


@pytest.mark.parametrize(
    "log", [NEW_TASK, ANCHORED, COMPLETED], ids=["NewAgentTask", "AgentReplyAnchored", "end"]
)
def test_decode_event__data_too_long__refused(log: tuple[tuple[bytes, ...], bytes]) -> None:
    topics, data = log
    with pytest.raises(EvidenceError, match="carries 1 bytes too many"):
        abi.decode_event(topics, data + b"\0")


def test_decode_event__data_too_short__refused() -> None:
    topics, data = COMPLETED
    for length in range(len(data)):
        with pytest.raises(EvidenceError, match=r"^WorkflowCompleted carries too little data"):
            abi.decode_event(topics, data[:length])


def test_decode_event__topic_that_does_not_fit_its_type__refused() -> None:
    with pytest.raises(EvidenceError, match="NewAgentTask, topic 2: a value that does not fit"):
        abi.decode_event((*NEW_TASK[0][:2], word(256), HASH), b"")
    with pytest.raises(EvidenceError, match="AgentReplyAnchored, topic 3: a value that does not fit"):
        abi.decode_event((*ANCHORED[0][:3], b"\x01" + word(AGENT)[1:]), b"")


def test_decode_event__status_out_of_range__refused() -> None:
    with pytest.raises(EvidenceError, match="WorkflowCompleted carries 3 as RunStatus"):
        abi.decode_event(COMPLETED[0], encode(abi.WORKFLOW_COMPLETED.data, (3, bytes(32), 5)))


@pytest.mark.parametrize("topics", [(), (HASH,), (HASH, RUN_ID, HASH, HASH)])
def test_decode_event__another_event__refused(topics: tuple[bytes, ...]) -> None:
    with pytest.raises(EvidenceError, match="no event of IAgentWorkflow"):
        abi.decode_event(topics, b"")


def _camel_case(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
