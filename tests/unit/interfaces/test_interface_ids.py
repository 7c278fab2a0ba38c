"""The interfaces are those of the texts: every signature, name, selector, topic and interface id.

The pinned selectors, topics and ids are in ``tests/vectors/erc8301-derived.json``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import xor
from typing import Any

import pytest
from eth_utils.abi import collapse_if_tuple

from provenflow import artifacts, deployment
from provenflow.hashing import keccak256
from tests.support.vectors import load_document

PINNED = load_document("erc8301-derived.json")

TASK = (
    "(uint8 stage, uint256 taskSeq, bytes32 inputHash, bytes input, uint256 timestamp, uint256 expiresAt, "
    "bytes32[] prevReplyHashes, bytes32 workflowRunId)"
)
REPLY = (
    "(bytes32 operationId, bytes32 outputHash, bytes output, uint256 timestamp, address replier, "
    "bytes32[] prevTaskHashes, bytes32 workflowRunId)"
)

# Each interface whole, as its text has it, and the statements that an entry shows.
INTERFACES: dict[str, dict[str, tuple[str, ...]]] = {
    "IAgentWorkflow": {
        "function run(bytes32 inputHash, bytes input, uint256 expiresAt) nonpayable "
        "returns (bytes32 workflowRunId)": ("EXE-041",),
        "function result(bytes32 workflowRunId) view "
        "returns (uint8 status, bytes32 finalTaskHash, uint256 completedAt)": ("EXE-042",),
        f"function getAgentTask(bytes32 taskHash) view returns ({TASK} task, bool proven)": (
            "EXE-005",
            "EXE-045",
        ),
        f"function getAgentReply(bytes32 replyHash) view "
        f"returns ({REPLY} reply, address verifier, bool proven, bytes32 verificationDigest)": (
            "EXE-018",
            "EXE-048",
        ),
        "function getReplyHashByOperation(bytes32 workflowRunId, address replier, bytes32 operationId) view "
        "returns (bytes32 replyHash)": ("EXE-050",),
        f"function onAgentReply({REPLY} reply) nonpayable returns (bytes32 replyHash)": (
            "EXE-018",
            "EXE-051",
        ),
        "function onAgentProve(bytes32[] replyHashes, bytes proof) nonpayable returns ()": ("EXE-052",),
        "event NewAgentTask(bytes32 indexed workflowRunId, uint8 indexed stage, bytes32 indexed taskHash)": (
            "EXE-053",
            "EXE-169",
        ),
        "event AgentReplyAnchored(bytes32 indexed workflowRunId, bytes32 indexed replyHash, "
        "address indexed replier)": ("EXE-055",),
        "event WorkflowCompleted(bytes32 indexed workflowRunId, uint8 status, bytes32 finalTaskHash, "
        "uint256 timestamp)": ("EXE-059",),
    },
    "IProofVerifier": {
        "function verify(bytes32 inputHash, bytes32 outputHash, bytes metadata, bytes proof) nonpayable "
        "returns (bool valid)": (),
        "function proofSystem() view returns (string)": (),
        "function proofProfile() view returns (bytes32)": (),
    },
    "IAgentVerifier": {
        "function verify(bytes32 taskId, bytes32 agentId, bytes32 inputHash, bytes32 outputHash, bytes proof) "
        "nonpayable returns (bool valid, bytes32 verificationDigest)": (),
        "event VerificationCompleted(bytes32 indexed taskId, bytes32 indexed agentId, bytes32 inputHash, "
        "bytes32 outputHash, bool valid, bytes32 verificationDigest)": (),
    },
    "IAgentVerifiable": {
        "function agentVerifier() view returns (address)": (),
        "event AgentVerifierUpdated(address indexed oldVerifier, address indexed newVerifier)": (),
    },
}

# Every workflow of a deployment, whatever is added to it.
WORKFLOWS = [step.contract for step in deployment.SUITE if step.contract.endswith("Workflow")]

Entry = Mapping[str, Any]


def _entries() -> list[Any]:
    return [
        pytest.param(
            name, entry, id=entry.split("(")[0], marks=(pytest.mark.requirement(*shown),) if shown else ()
        )
        for name, entries in INTERFACES.items()
        for entry, shown in entries.items()
    ]


def _parameters(parameters: Iterable[Entry]) -> str:
    return ", ".join(_parameter(parameter) for parameter in parameters)


def _parameter(parameter: Entry) -> str:
    type_name = parameter["type"]
    if type_name.startswith("tuple"):
        type_name = f"({_parameters(parameter['components'])}){type_name.removeprefix('tuple')}"
    indexed = "indexed" if parameter.get("indexed") else ""
    return " ".join(part for part in (type_name, indexed, parameter["name"]) if part)


def _text(entry: Entry) -> str:
    """An ABI entry in one line, with every name and flag in it."""
    line = f"{entry['type']} {entry['name']}({_parameters(entry['inputs'])})"
    if entry["type"] == "function":
        line += f" {entry['stateMutability']} returns ({_parameters(entry['outputs'])})"
    if entry.get("anonymous"):
        line += " anonymous"
    return line


def _abi(name: str) -> tuple[Entry, ...]:
    return artifacts.load(name).abi


def _entry(name: str, text: str) -> Entry:
    (entry,) = [entry for entry in _abi(name) if _text(entry) == text]
    return entry


def _signature(entry: Entry) -> str:
    return f"{entry['name']}({','.join(collapse_if_tuple(dict(item)) for item in entry['inputs'])})"


def _selector(entry: Entry) -> bytes:
    return keccak256(_signature(entry).encode())[:4]


def _interface_id(name: str) -> str:
    selectors = [
        int.from_bytes(_selector(entry), "big") for entry in _abi(name) if entry["type"] == "function"
    ]
    return f"0x{reduce(xor, selectors):08x}"


@pytest.mark.parametrize("name", INTERFACES)
def test_interface__abi__is_the_text_and_nothing_else(name: str) -> None:
    assert sorted(_text(entry) for entry in _abi(name)) == sorted(INTERFACES[name])


@pytest.mark.parametrize(("name", "text"), _entries())
def test_interface__function_or_event__has_the_pinned_selector_or_topic(name: str, text: str) -> None:
    entry = _entry(name, text)
    signature = _signature(entry)

    if entry["type"] == "event":
        assert "0x" + keccak256(signature.encode()).hex() == PINNED["event_topic0"][signature]
    elif name == "IAgentWorkflow":
        assert "0x" + _selector(entry).hex() == PINNED["selectors"][signature]
    elif signature.startswith("verify("):
        pinned = {"IProofVerifier": "IProofVerifier_verify_selector", "IAgentVerifier": "IAgentVerifier"}[
            name
        ]
        assert "0x" + _selector(entry).hex() == PINNED["interface_ids"][pinned]
    else:
        assert signature in ("proofSystem()", "proofProfile()", "agentVerifier()")


def test_interface__agent_workflow_id__is_the_pinned_one() -> None:
    assert _interface_id("IAgentWorkflow") == PINNED["interface_ids"]["IAgentWorkflow"]
    assert _interface_id("IAgentVerifier") == PINNED["interface_ids"]["IAgentVerifier"]


@pytest.fixture(scope="module")
def interface_harness(deployer: Any, project: Any) -> Any:
    return deployer.deploy(project.InterfaceHarness)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("IAgentWorkflow", "agentWorkflowId"),
        ("IAgentVerifier", "agentVerifierId"),
        ("IAgentVerifiable", "agentVerifiableId"),
        ("IProofVerifier", "proofVerifierId"),
    ],
)
def test_interface__id_of_the_compiler__is_the_xor_of_the_selectors(
    interface_harness: Any, name: str, function: str
) -> None:
    assert "0x" + bytes(getattr(interface_harness, function)()).hex() == _interface_id(name)


@pytest.mark.requirement("EXE-001")
def test_run_status__members__are_pending_success_failed(interface_harness: Any) -> None:
    values = interface_harness.runStatusValues()

    assert (values.pending, values.success, values.failed, values.last) == (0, 1, 2, 2)
    (status,) = [item for item in _entry_named("result")["outputs"] if item["name"] == "status"]
    assert status["internalType"] == "enum RunStatus"


def _entry_named(name: str) -> Entry:
    (entry,) = [entry for entry in _abi("IAgentWorkflow") if entry["name"] == name]
    return entry


@pytest.mark.requirement("EXE-005", "EXE-018")
def test_structs__in_the_abi__are_agent_task_and_agent_reply() -> None:
    assert _entry_named("getAgentTask")["outputs"][0]["internalType"] == "struct AgentTask"
    assert _entry_named("getAgentReply")["outputs"][0]["internalType"] == "struct AgentReply"
    assert _entry_named("onAgentReply")["inputs"][0]["internalType"] == "struct AgentReply"


@pytest.mark.parametrize("name", WORKFLOWS)
@pytest.mark.requirement("EXE-040")
def test_workflow__abi__has_every_entry_of_the_interface(name: str) -> None:
    signatures = {
        (entry["type"], _signature(entry)) for entry in _abi(name) if "inputs" in entry and "name" in entry
    }
    outputs = {
        _signature(entry): (entry["stateMutability"], [item["type"] for item in entry["outputs"]])
        for entry in _abi(name)
        if entry["type"] == "function"
    }
    for text in INTERFACES["IAgentWorkflow"]:
        entry = _entry("IAgentWorkflow", text)
        assert (entry["type"], _signature(entry)) in signatures
        if entry["type"] == "function":
            returned = [item["type"] for item in entry["outputs"]]
            assert outputs[_signature(entry)] == (entry["stateMutability"], returned)


@pytest.mark.parametrize(
    ("interface_id", "supported"),
    [
        pytest.param(PINNED["interface_ids"]["IAgentWorkflow"], True, id="IAgentWorkflow"),
        pytest.param("0x01ffc9a7", True, id="IERC165"),
        pytest.param("0xffffffff", False, id="invalid id"),
        pytest.param(
            PINNED["interface_ids"]["IAgentWorkflow_agent_ercs_pre_operationId"],
            False,
            id="layout without operationId",
        ),
        pytest.param(PINNED["interface_ids"]["IAgentVerifier"], False, id="IAgentVerifier"),
    ],
)
@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_supports_interface__of_a_workflow__only_what_it_implements(
    suite: dict[str, Any], workflow: str, interface_id: str, supported: bool
) -> None:
    assert suite[workflow].supportsInterface(interface_id) is supported
