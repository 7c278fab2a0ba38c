"""The compiled contracts that the package carries (provenflow.artifacts)."""

from __future__ import annotations

import json

import pytest
from eth_abi.abi import encode

from provenflow import artifacts
from provenflow.errors import Invalid, WrongUse
from provenflow.toolchain import checkout_root

VERIFIER = "0x" + "ab" * 20


@pytest.fixture
def document() -> dict:
    """A small artifact file of the right format."""
    return {
        "format": "provenflow-artifacts/1",
        "inputs": "00" * 32,
        "compiler": {"solc": "0.8.30", "evmVersion": "prague", "optimizerRuns": 200},
        "contracts": {
            "Thing": {
                "abi": [{"type": "constructor", "inputs": [{"name": "owner", "type": "address"}]}],
                "bytecode": "0x6001",
                "deployedBytecode": "0x60",
                "sourceId": "contracts/Thing.sol",
                "mock": False,
            }
        },
    }


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """``installed(content, wheel=…)`` makes `content` this installation's artifact file."""

    def install(content: object, *, wheel: bool = True) -> None:
        path = tmp_path / "contracts.json"
        if content is not None:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
        monkeypatch.setattr(artifacts, "ARTIFACTS_FILE", path)
        if wheel:
            monkeypatch.setattr(artifacts, "checkout_root", lambda: None)

    return install


def test_load__contract_of_the_suite__has_everything():
    artifact = artifacts.load("SingleStageWorkflow")

    assert artifact.name == "SingleStageWorkflow"
    assert artifact.source_id == "contracts/examples/SingleStageWorkflow.sol"
    assert artifact.is_mock is False
    assert [(entry["name"], entry["type"]) for entry in artifact.constructor_inputs] == [
        ("verifier", "address")
    ]
    assert artifact.bytecode.startswith("0x60")
    assert len(artifact.deployed_bytecode) > 1000
    functions = {entry["name"] for entry in artifact.abi if entry["type"] == "function"}
    assert {"run", "result", "onAgentReply", "onAgentProve"} <= functions


@pytest.mark.parametrize("name", ["MockAgentVerifier", "MockProofVerifier", "WorkflowHashingHarness"])
def test_load__contract_under_mocks__is_a_mock(name):
    assert artifacts.load(name).is_mock is True


def test_load__unknown_name__says_which_there_are():
    with pytest.raises(WrongUse, match="There is no contract Nothing") as refused:
        artifacts.load("Nothing")

    assert "SingleStageWorkflow" in refused.value.fix


def test_names__are_sorted_and_all_loadable():
    found = artifacts.names()

    assert found == sorted(found)
    assert {"IAgentWorkflow", "SequentialPipelineWorkflow"} <= set(found)
    assert [artifacts.load(name).name for name in found] == found


@pytest.mark.parametrize(
    ("wheel", "fix"), [(True, "Install provenflow again."), (False, "Run 'make compile'.")]
)
def test_load_all__file_missing__says_the_fix(installed, wheel, fix):
    installed(None, wheel=wheel)

    with pytest.raises(WrongUse, match="missing") as refused:
        artifacts.load_all()

    assert refused.value.fix == fix


def test_load_all__checkout_with_other_sources__is_refused(installed, document):
    installed(document, wheel=False)

    with pytest.raises(WrongUse, match="do not come from the sources as they are now") as refused:
        artifacts.load_all()

    assert refused.value.fix == "Run 'make compile'."


def test_load_all__checkout_with_its_own_sources__is_accepted(installed, document):
    from provenflow.build import inputs_hash

    installed({**document, "inputs": inputs_hash(checkout_root())}, wheel=False)

    assert list(artifacts.load_all().contracts) == ["Thing"]


def test_load_all__wheel__has_no_sources_to_compare_with(installed, document):
    installed(document)

    everything = artifacts.load_all()

    assert everything.inputs == "00" * 32
    assert everything.compiler["solc"] == "0.8.30"


def without(document: dict, key: str) -> dict:
    entry = {name: value for name, value in document["contracts"]["Thing"].items() if name != key}
    return {**document, "contracts": {"Thing": entry}}


def having(document: dict, **entry: object) -> dict:
    return {**document, "contracts": {"Thing": {**document["contracts"]["Thing"], **entry}}}


@pytest.mark.parametrize(
    "change",
    [
        lambda _: "",
        lambda document: json.dumps(document)[:-9],
        lambda _: [],
        lambda _: {},
        lambda document: {**document, "format": "provenflow-artifacts/0"},
        lambda document: {**document, "contracts": {}},
        lambda document: {**document, "contracts": []},
        lambda document: without(document, "abi"),
        lambda document: without(document, "mock"),
        lambda document: having(document, mock=0),
        lambda document: having(document, bytecode="0x60__$unlinked$__"),
        lambda document: having(document, sourceId=None),
    ],
    ids=[
        "empty",
        "truncated",
        "a list",
        "nothing in it",
        "old format",
        "no contracts",
        "contracts in a list",
        "no abi",
        "no mock flag",
        "odd mock flag",
        "unlinked library",
        "no source",
    ],
)
def test_load_all__file_of_another_kind__is_refused_with_the_fix(installed, document, change):
    installed(change(document))

    with pytest.raises(Invalid, match="is not an artifact file of format provenflow-artifacts/1") as refused:
        artifacts.load_all()

    assert refused.value.fix == "Install provenflow again."


def test_load_all__file_changed_meanwhile__is_read_again(installed, document):
    installed(document)
    assert artifacts.load("Thing").bytecode == "0x6001"

    installed(having(document, bytecode="0x600160"))

    assert artifacts.load("Thing").bytecode == "0x600160"


def test_init_code__is_bytecode_then_encoded_arguments(installed, document):
    installed(document)

    assert artifacts.load("Thing").init_code(VERIFIER) == bytes.fromhex("6001") + encode(
        ["address"], [VERIFIER]
    )


def test_init_code__no_constructor__is_the_bytecode():
    mock = artifacts.load("MockAgentVerifier")

    assert mock.init_code() == bytes.fromhex(mock.bytecode[2:])


@pytest.mark.parametrize(
    ("name", "arguments", "reason"),
    [
        ("SingleStageWorkflow", (), "takes 1 constructor arguments, not 0"),
        ("SingleStageWorkflow", (VERIFIER, 2), "takes 1 constructor arguments, not 2"),
        ("SingleStageWorkflow", ("0x12",), "do not fit its ABI"),
        ("CommitRevealWorkflow", (VERIFIER, -1), "do not fit its ABI"),
        ("IAgentWorkflow", (), "is an interface or abstract"),
        ("AgentWorkflow", (), "is an interface or abstract"),
    ],
)
def test_init_code__wrong_use__is_refused(name, arguments, reason):
    with pytest.raises(WrongUse, match=reason):
        artifacts.load(name).init_code(*arguments)
