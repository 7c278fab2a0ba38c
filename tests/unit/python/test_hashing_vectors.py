"""provenflow.hashing against every golden vector, negative ones included."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from provenflow import hashing
from tests.support import reference_hashing as reference
from tests.support.vectors import (
    VECTOR_FILES,
    VECTOR_FOLDER,
    Formula,
    Inputs,
    Vector,
    VectorError,
    load_document,
    load_vectors,
    preimage_of,
    reply_of,
    task_of,
)

VECTORS = load_vectors()
DERIVED = load_document("erc8301-derived.json")

# Type strings behind the EIP-712 type hashes, as the texts of ERC-8299 and ERC-8004 spell them.
TYPE_STRINGS = {
    "WyriweAttestation": "WyriweAttestation(bytes32 agentId,address registry,bytes32 modelHash,bytes32 rawInputHash,"
    "bytes32 sanitizationPipelineHash,bytes32 inputHash,bytes32 outputHash,uint256 timestamp)",
    "JudgmentExecutionAttestation": "JudgmentExecutionAttestation(bytes32 agentId,address registry,bytes32 validatorId,"
    "bytes32 rawProposalHash,bytes32 verdictHash,bytes32 executedActionHash,uint256 verdictTimestamp,"
    "uint256 executedTimestamp,string recordPointer)",
    "AgentWalletSet": "AgentWalletSet(uint256 agentId,address newWallet,address owner,uint256 deadline)",
}

ON_AGENT_REPLY = "onAgentReply((bytes32,bytes32,bytes,uint256,address,bytes32[],bytes32))"
STALE_ON_AGENT_REPLY = "onAgentReply((bytes32,bytes,uint256,address,bytes32[],bytes32))"
INTERFACE_FUNCTIONS = {
    "IAgentWorkflow": sorted(set(DERIVED["selectors"]) - {STALE_ON_AGENT_REPLY}),
    "IAgentWorkflow_agent_ercs_pre_operationId": sorted(
        set(DERIVED["selectors"]) - {ON_AGENT_REPLY, "getReplyHashByOperation(bytes32,address,bytes32)"}
    ),
    "IObservationCommitment": ["record(bytes32)"],
    "IProofVerifier_verify_selector": ["verify(bytes32,bytes32,bytes,bytes)"],
    "IAgentVerifier": ["verify(bytes32,bytes32,bytes32,bytes32,bytes)"],
}


def _reply_hash(inputs: Inputs) -> bytes:
    return hashing.reply_hash(*reply_of(inputs))


def _reply_digest(inputs: Inputs) -> bytes:
    reply = reply_of(inputs)
    return hashing.reply_digest(
        reply.output_hash, reply.replier, reply.prev_task_hashes, reply.workflow_run_id
    )


def _operation_key(inputs: Inputs) -> bytes:
    return hashing.operation_key(inputs["workflowRunId"], inputs["replier"], inputs["operationId"])


def _check_value(compute: Callable[[Inputs], bytes]) -> Callable[[Vector], None]:
    def check(vector: Vector) -> None:
        assert compute(vector.inputs) == vector.expected

    return check


def _check_concatenation(vector: Vector) -> None:
    assert hashing.keccak256(preimage_of(vector)) == vector.expected


def _check_empty_inner(vector: Vector) -> None:
    assert hashing.EMPTY_LIST_HASH == vector.expected == hashing.keccak256(b"")


def _check_zero_inner(vector: Vector) -> None:
    task = task_of(vector.inputs)
    # The vector is what the mistake gives, so it really tells the mistake from the rule.
    assert reference.task_hash_with_zero_inner(task) == vector.must_not_equal
    assert hashing.task_hash(*task) == vector.expected
    assert hashing.task_hash(*task) != vector.must_not_equal


def _check_stale_reply_hash(vector: Vector) -> None:
    reply = reply_of(vector.inputs)
    assert reference.keccak(reference.stale_reply_preimage(reply)) == vector.expected
    for operation_id in (bytes(32), b"\x11" * 32, vector.expected):
        assert hashing.reply_hash(*reply._replace(operation_id=operation_id)) != vector.expected


CHECKS: dict[Formula, Callable[[Vector], None]] = {
    Formula.TASK_HASH: _check_value(lambda inputs: hashing.task_hash(*task_of(inputs))),
    Formula.REPLY_HASH: _check_value(_reply_hash),
    Formula.REPLY_DIGEST: _check_value(_reply_digest),
    Formula.OPERATION_KEY: _check_value(_operation_key),
    Formula.RUN_ID: _check_value(
        lambda inputs: hashing.run_id(inputs["sender"], inputs["blockNumber"], inputs["runNonce"])
    ),
    Formula.VERIFICATION_DIGEST: _check_value(
        lambda inputs: hashing.verification_digest(
            inputs["taskId"],
            inputs["agentId"],
            inputs["inputHash"],
            inputs["outputHash"],
            inputs["valid"],
            inputs["agentProofProfile"],
        )
    ),
    Formula.EMPTY_INNER: _check_empty_inner,
    Formula.STALE_REPLY_HASH: _check_stale_reply_hash,
    Formula.ZERO_INNER: _check_zero_inner,
    Formula.COMMIT: _check_concatenation,
    Formula.BOUND_COMMIT: _check_concatenation,
    Formula.RESULT_KEY: _check_concatenation,
}


# What the client side of a formula shows; the contract's side is shown where the vectors run in the EVM.
SHOWN = {Formula.REPLY_HASH: ("EXE-171",), Formula.STALE_REPLY_HASH: ("EXE-171",)}


def _parameter(vector: Vector) -> object:
    shown = SHOWN.get(vector.formula)
    marks = (pytest.mark.requirement(*shown),) if shown else ()
    return pytest.param(vector, id=vector.id, marks=marks)


@pytest.mark.parametrize("vector", map(_parameter, VECTORS.values()))
def test_hashing__golden_vector__agrees(vector: Vector) -> None:
    CHECKS[vector.formula](vector)


def test_vectors__every_entry_of_every_file__is_checked() -> None:
    listed = [entry["id"] for name in VECTOR_FILES for entry in load_document(name)["vectors"]]

    assert sorted(VECTORS) == sorted(listed)
    assert {vector.formula for vector in VECTORS.values()} == set(CHECKS) == set(Formula)


def test_vectors__files_of_the_folder__are_all_read() -> None:
    assert sorted(path.name for path in VECTOR_FOLDER.glob("erc8301*.json")) == sorted(VECTOR_FILES)


def test_vectors__run_id_of_the_file__is_the_first_run_id() -> None:
    assert DERIVED["run_id"] == "0x" + VECTORS["runId-0"].expected.hex()


def test_vectors__reconstructed_retry__same_operation_but_other_reply_hash() -> None:
    first, retry = VECTORS["reply-A"].inputs, VECTORS["reply-A-reconstructed-retry"].inputs

    assert retry["timestamp"] > first["timestamp"]
    assert _reply_digest(retry) == _reply_digest(first) == VECTORS["reply-A/replyDigest"].expected
    assert _operation_key(retry) == _operation_key(first) == VECTORS["reply-A/operationKey"].expected
    assert _reply_hash(retry) != _reply_hash(first)


def test_vectors__second_operation_over_same_content__same_digest_but_other_key_and_hash() -> None:
    first, second = VECTORS["reply-A"].inputs, VECTORS["reply-A-second-op-same-content"].inputs

    assert {**second, "operationId": first["operationId"]} == first
    assert _reply_digest(second) == _reply_digest(first)
    assert _operation_key(second) != _operation_key(first)
    assert _reply_hash(second) != _reply_hash(first)


def test_vectors__same_operation_id_of_another_replier__is_another_operation() -> None:
    a, b = VECTORS["reply-A"].inputs, VECTORS["reply-B"].inputs

    assert a["operationId"] == b["operationId"]
    assert _operation_key(a) != _operation_key(b)


def test_vectors__order_of_prev_task_hashes__is_significant() -> None:
    inputs, reordered = VECTORS["reply-multi-prev"].inputs, VECTORS["reply-multi-prev-reordered"].inputs

    assert sorted(inputs["prevTaskHashes"]) == sorted(reordered["prevTaskHashes"])
    assert _reply_hash(inputs) != _reply_hash(reordered)
    assert _reply_digest(inputs) != _reply_digest(reordered)


def test_vectors__unspecified_expiry_of_final_task__changes_final_task_hash() -> None:
    ours, other = VECTORS["task-final"].inputs, VECTORS["task-final-expiresAt-max"].inputs

    assert ours["stage"] == other["stage"] == hashing.FINAL_STAGE
    assert {**other, "expiresAt": 0} == ours
    assert hashing.task_hash(*task_of(ours)) != hashing.task_hash(*task_of(other))


def test_vectors__commit_and_its_reveal__have_the_same_output_hash() -> None:
    bound, key = VECTORS["commit-bound-suffix-form"], VECTORS["commit-result-key"]

    assert hashing.keccak256(bound.inputs["revealOutput"]) == bound.expected
    assert preimage_of(key) == bound.inputs["result"]


@pytest.mark.parametrize("signature", DERIVED["selectors"])
def test_vectors__selector__is_the_hash_of_the_signature(signature: str) -> None:
    assert "0x" + hashing.keccak256(signature.encode())[:4].hex() == DERIVED["selectors"][signature]


@pytest.mark.parametrize("signature", DERIVED["event_topic0"])
def test_vectors__event_topic__is_the_hash_of_the_signature(signature: str) -> None:
    assert "0x" + hashing.keccak256(signature.encode()).hex() == DERIVED["event_topic0"][signature]


@pytest.mark.parametrize("name", DERIVED["interface_ids"])
def test_vectors__interface_id__is_the_xor_of_its_selectors(name: str) -> None:
    interface_id = 0
    for signature in INTERFACE_FUNCTIONS[name]:
        interface_id ^= int.from_bytes(hashing.keccak256(signature.encode())[:4], "big")

    assert f"0x{interface_id:08x}" == DERIVED["interface_ids"][name]


@pytest.mark.parametrize("name", DERIVED["typehashes"])
def test_vectors__type_hash__is_the_hash_of_the_type_string(name: str) -> None:
    assert "0x" + hashing.keccak256(TYPE_STRINGS[name].encode()).hex() == DERIVED["typehashes"][name]


@pytest.fixture
def copied_vectors(tmp_path: Path) -> Path:
    for name in VECTOR_FILES:
        shutil.copy(VECTOR_FOLDER / name, tmp_path / name)
    return tmp_path


def _edit(folder: Path, change: Callable[[dict], None]) -> None:
    path = folder / "erc8301-derived.json"
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("name", VECTOR_FILES)
def test_load_vectors__missing_file__is_refused(copied_vectors: Path, name: str) -> None:
    (copied_vectors / name).unlink()

    with pytest.raises(VectorError, match=f"{name}: the vector file is missing"):
        load_vectors(copied_vectors)


@pytest.mark.parametrize("name", VECTOR_FILES)
def test_load_vectors__empty_file__is_refused(copied_vectors: Path, name: str) -> None:
    (copied_vectors / name).write_text("\n")

    with pytest.raises(VectorError, match=f"{name}: the vector file is empty"):
        load_vectors(copied_vectors)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda d: d["vectors"].clear(), "has no vectors", id="no vectors"),
        pytest.param(lambda d: d.update(extra=1), "no test checks the section", id="unknown section"),
        pytest.param(
            lambda d: d["vectors"][2].update(formula="newHash"), "unknown formula: newHash", id="formula"
        ),
        pytest.param(
            lambda d: d["vectors"][2].update(mustEqual="0x"), "no test knows the key", id="unknown key"
        ),
        pytest.param(
            lambda d: d["vectors"].append(d["vectors"][0]), "runId-0 appears twice", id="duplicate id"
        ),
        pytest.param(lambda d: d["vectors"][0].update(evm_agrees=False), "does not hold", id="does not hold"),
        pytest.param(
            lambda d: d["vectors"][0].update(recomputed="0x00"), "and expected differ", id="two values"
        ),
    ],
)
def test_load_vectors__something_no_test_would_check__is_refused(
    copied_vectors: Path, change: Callable[[dict], None], message: str
) -> None:
    _edit(copied_vectors, change)

    with pytest.raises(VectorError, match=message):
        load_vectors(copied_vectors)


def test_preimage_of__reveal_that_is_not_its_parts__is_refused() -> None:
    vector = VECTORS["commit-bound-suffix-form"]
    other_reveal = replace(vector, inputs={**vector.inputs, "revealOutput": b"result-43"})

    with pytest.raises(VectorError, match="revealOutput is not result, secret and replier"):
        preimage_of(other_reveal)
    with pytest.raises(VectorError, match="not a plain concatenation"):
        preimage_of(VECTORS["reply-A"])
