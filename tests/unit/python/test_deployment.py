"""The one deployment routine and its records (provenflow.deployment, deployment_record, deployers)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import rlp
from eth_utils.address import to_checksum_address

from provenflow import artifacts, deployment
from provenflow.deployers import ApeDeployer, RpcDeployer
from provenflow.deployment import Deployed, Step, create_address
from provenflow.devnet import Devnet
from provenflow.errors import Invalid, Unreachable, WrongUse
from provenflow.hashing import keccak256
from provenflow.transactions import Refused

ACCOUNT = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
VERIFIER = to_checksum_address("0x" + "ab" * 20)
MOCKS = {"MockAgentVerifier", "MockProofVerifier"}
WORKFLOWS = {
    "SingleStageWorkflow",
    "InputProvenanceWorkflow",
    "CompetitiveSelectionWorkflow",
    "SequentialPipelineWorkflow",
    "CommitRevealWorkflow",
    "ParallelAuditWorkflow",
}
SEPOLIA = 11155111


class PaperChain:
    """A chain of a few dictionaries: deploys by writing down, and can be told to fail.

    Parameters
    ----------
    chain_id, local:
        As a deployer has them.
    fail_at:
        Name of the contract whose deployment fails with `failure`.
    """

    network = "paper"
    account = ACCOUNT

    def __init__(self, chain_id: int = 31337, *, local: bool = True, fail_at: str = "", failure=None) -> None:
        self.chain_id = chain_id
        self.local = local
        self.fail_at = fail_at
        self.failure = failure or Unreachable("The node went away.")
        self.runtime: dict[str, bytes] = {}
        self.sent: list[tuple[str, tuple]] = []
        self.altered = False
        self.no_code = False
        self.during = None

    def deploy(self, artifact, *arguments) -> Deployed:
        if self.during is not None:
            self.during(artifact.name)
        if artifact.name == self.fail_at:
            raise self.failure
        address = create_address(ACCOUNT, len(self.sent))
        self.sent.append((artifact.name, arguments))
        self.runtime[address] = b"" if self.no_code else b"runtime of " + artifact.name.encode()
        init_code = artifact.init_code(*arguments) + (b"!" if self.altered else b"")
        return Deployed(address, "0x" + f"{len(self.sent):064x}", len(self.sent), init_code)

    def code(self, address: str) -> bytes:
        return self.runtime.get(address, b"")

    def nonce(self) -> int:
        return len(self.sent)


def public(**kwargs) -> PaperChain:
    """A chain that is not local, with a verifier that is no mock."""
    chain = PaperChain(SEPOLIA, local=False, **kwargs)
    chain.runtime[VERIFIER] = b"a real verifier"
    return chain


def deploy_publicly(chain: PaperChain, folder: Path, *only: str, force: bool = False) -> dict[str, Deployed]:
    steps = deployment.plan(local=False, verifier=VERIFIER, only=only)
    return deployment.deploy(chain, steps, verifier=VERIFIER, records=folder, force=force)


def read(path: Path) -> dict:
    return json.loads(path.read_text())


# --- plan ----------------------------------------------------------------------------------------------------------


def names(steps) -> list[str]:
    return [step.contract for step in steps]


def test_plan__local__is_the_whole_suite_with_mocks_first():
    steps = deployment.plan(local=True)

    assert set(names(steps)) == MOCKS | WORKFLOWS
    assert set(names(steps)[:2]) == MOCKS


def test_plan__every_example_is_in_the_suite():
    examples = {
        name for name in artifacts.names() if artifacts.load(name).source_id.startswith("contracts/examples/")
    }

    assert examples == WORKFLOWS


def test_plan__public_with_verifier__has_no_mock():
    assert set(names(deployment.plan(local=False, verifier=VERIFIER))) == WORKFLOWS


def test_plan__local_with_verifier__has_no_mock():
    assert set(names(deployment.plan(local=True, verifier=VERIFIER))) == WORKFLOWS


def test_plan__only_a_workflow__brings_what_it_needs():
    assert names(deployment.plan(local=True, only=["SequentialPipelineWorkflow"])) == [
        "MockAgentVerifier",
        "SequentialPipelineWorkflow",
    ]
    assert names(deployment.plan(local=True, verifier=VERIFIER, only=["SequentialPipelineWorkflow"])) == [
        "SequentialPipelineWorkflow"
    ]
    assert names(deployment.plan(local=True, only=["MockProofVerifier"])) == ["MockProofVerifier"]


def test_plan__public_without_verifier__is_refused_with_the_fix():
    with pytest.raises(WrongUse, match="needs a real verifier") as refused:
        deployment.plan(local=False)

    assert "--verifier" in refused.value.fix


def test_plan__unknown_name__says_what_there_is():
    with pytest.raises(WrongUse, match="The suite has no Nothing") as refused:
        deployment.plan(local=True, only=["SingleStageWorkflow", "Nothing"])

    assert "SingleStageWorkflow" in refused.value.fix


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("", "must be a non-zero address"),
        ("0x1234", "must be a non-zero address"),
        ("ab" * 20, "must be a non-zero address"),
        ("0x" + "zz" * 20, "must be a non-zero address"),
        ("0x" + "00" * 20, "must be a non-zero address"),
        ("vitalik.eth", "must be a non-zero address"),
        ("0xF39Fd6e51aad88F6F4ce6aB8827279cffFb92266", "has a wrong checksum"),
    ],
)
def test_plan__verifier_that_is_no_address__is_refused(address, reason):
    with pytest.raises(WrongUse, match=reason):
        deployment.plan(local=False, verifier=address)


def test_checked_address__lower_case__gets_its_checksum():
    assert deployment.checked_address(ACCOUNT.lower(), "It") == ACCOUNT


def test_describe__says_the_verifier_that_will_be_used():
    step = Step("CommitRevealWorkflow", (deployment.VERIFIER, 2))

    assert deployment.describe(step, None) == "CommitRevealWorkflow(MockAgentVerifier, 2)"
    assert deployment.describe(step, VERIFIER) == f"CommitRevealWorkflow({VERIFIER}, 2)"


@pytest.mark.parametrize(
    ("nonce", "address"),
    [
        # Known from every fresh development chain with this account.
        (0, "0x5FbDB2315678afecb367f032d93F642f64180aa3"),
        (1, "0xe7f1725E7734CE288F8367e1Bb143E90bb3F0512"),
    ],
)
def test_create_address__known_account__known_address(nonce, address):
    assert create_address(ACCOUNT, nonce) == address


@pytest.mark.parametrize("nonce", [0, 1, 127, 128, 255, 256, 65535, 65536, 2**32])
def test_create_address__agrees_with_an_rlp_library(nonce):
    encoded = rlp.encode([bytes.fromhex(ACCOUNT[2:]), nonce])

    assert create_address(ACCOUNT, nonce) == to_checksum_address(keccak256(encoded)[12:])


# --- deploy --------------------------------------------------------------------------------------------------------


def test_deploy__whole_suite__resolves_arguments_from_earlier_steps():
    chain = PaperChain()
    told = []

    done = deployment.deploy(chain, deployment.plan(local=True), progress=lambda name, _: told.append(name))

    verifier = done["MockAgentVerifier"].address
    sent = dict(chain.sent)
    assert list(done) == told == [name for name, _ in chain.sent]
    assert sent["SingleStageWorkflow"] == (verifier,)
    assert sent["CommitRevealWorkflow"] == (verifier, 2)
    assert sent["MockProofVerifier"] == ()


def test_deploy__with_verifier__passes_it_on():
    chain = public()

    deployment.deploy(chain, deployment.plan(local=False, verifier=VERIFIER), verifier=VERIFIER.lower())

    assert {arguments[0] for _, arguments in chain.sent} == {VERIFIER}


@pytest.mark.parametrize(
    "chain",
    [PaperChain(SEPOLIA, local=False), PaperChain(SEPOLIA, local=True), PaperChain(31337, local=False)],
    ids=["public", "public chain id on loopback", "development chain id elsewhere"],
)
@pytest.mark.parametrize("mock", sorted(MOCKS))
def test_deploy__mock_on_a_chain_that_is_not_local__is_refused_before_anything_is_sent(chain, mock, tmp_path):
    steps = (Step("SingleStageWorkflow", (deployment.VERIFIER,)), Step(mock))
    chain.runtime[VERIFIER] = b"a real verifier"

    with pytest.raises(WrongUse, match=f"is not local: {mock}"):
        deployment.deploy(chain, steps, verifier=VERIFIER, records=tmp_path)

    assert chain.sent == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("chain_id", [31337, 1337])
def test_is_local__development_chain_on_this_machine__is(chain_id):
    assert deployment.is_local(PaperChain(chain_id))


def test_deploy__verifier_without_code__is_refused_before_anything_is_sent():
    chain = PaperChain(SEPOLIA, local=False)

    with pytest.raises(WrongUse, match=f"{VERIFIER} has no code on chain {SEPOLIA}"):
        deployment.deploy(chain, deployment.plan(local=False, verifier=VERIFIER), verifier=VERIFIER)

    assert chain.sent == []


def test_deploy__verifier_that_is_a_mock__is_refused_on_a_public_chain_only():
    mock = artifacts.load("MockAgentVerifier")
    for chain in (PaperChain(SEPOLIA, local=False), PaperChain()):
        chain.runtime[VERIFIER] = bytes.fromhex(mock.deployed_bytecode[2:])
    steps = deployment.plan(local=False, verifier=VERIFIER)

    chain = PaperChain(SEPOLIA, local=False)
    chain.runtime[VERIFIER] = bytes.fromhex(mock.deployed_bytecode[2:])
    with pytest.raises(WrongUse, match="is MockAgentVerifier, which accepts"):
        deployment.deploy(chain, steps, verifier=VERIFIER)
    assert chain.sent == []

    local = PaperChain()
    local.runtime[VERIFIER] = bytes.fromhex(mock.deployed_bytecode[2:])
    assert set(deployment.deploy(local, steps, verifier=VERIFIER)) == WORKFLOWS


def test_deploy__stale_artifacts__are_refused_before_anything_is_sent(monkeypatch):
    monkeypatch.setattr(artifacts, "inputs_hash", lambda _: "ff" * 32)
    chain = PaperChain()

    with pytest.raises(WrongUse, match="do not come from the sources as they are now"):
        deployment.deploy(chain, (Step("MockAgentVerifier"),))

    assert chain.sent == []


def test_deploy__chain_has_no_code_afterwards__fails():
    chain = PaperChain()
    chain.no_code = True

    with pytest.raises(Invalid, match="There is no code at .*, where MockAgentVerifier was deployed"):
        deployment.deploy(chain, deployment.plan(local=True))


def test_deploy__backend_sends_other_code__fails_and_stops(tmp_path):
    chain = PaperChain()
    chain.altered = True

    with pytest.raises(Invalid, match="MockAgentVerifier was deployed with other code"):
        deployment.deploy(chain, deployment.plan(local=True), records=tmp_path)

    assert len(chain.sent) == 1
    assert not (tmp_path / "31337.json").exists()
    assert "MockAgentVerifier" in read(tmp_path / "31337.partial.json")["contracts"]


# --- records -------------------------------------------------------------------------------------------------------


def test_record__everything_deployed__has_what_is_needed_to_check_it(tmp_path):
    chain = public()

    done = deploy_publicly(chain, tmp_path / "deployments", "CommitRevealWorkflow")

    document = read(tmp_path / "deployments" / f"{SEPOLIA}.json")
    artifact = artifacts.load("CommitRevealWorkflow")
    entry = document["contracts"].pop("CommitRevealWorkflow")
    assert document == {
        "format": "provenflow-deployment/1",
        "chainId": SEPOLIA,
        "network": "paper",
        "contracts": {},
        "replaced": [],
    }
    assert entry.pop("time").endswith("+00:00")
    assert set(entry.pop("git")) == {"commit", "modified"}
    assert entry == {
        "address": done["CommitRevealWorkflow"].address,
        "arguments": [
            {"name": "verifier", "type": "address", "value": VERIFIER},
            {"name": "quorum", "type": "uint256", "value": 2},
        ],
        "transaction": done["CommitRevealWorkflow"].transaction,
        "block": 1,
        "initCodeHash": "0x" + keccak256(artifact.init_code(VERIFIER, 2)).hex(),
        "runtimeCodeHash": "0x" + keccak256(b"runtime of CommitRevealWorkflow").hex(),
        "compiler": dict(artifacts.load_all().compiler),
        "inputs": artifacts.load_all().inputs,
        "source": "contracts/examples/CommitRevealWorkflow.sol",
        "deployer": ACCOUNT,
    }
    assert sorted(path.name for path in (tmp_path / "deployments").iterdir()) == [f"{SEPOLIA}.json"]


def test_record__outside_a_git_checkout__has_no_commit(tmp_path, monkeypatch):
    monkeypatch.setattr(deployment, "checkout_root", lambda: tmp_path)

    deploy_publicly(public(), tmp_path, "SingleStageWorkflow")

    assert read(tmp_path / f"{SEPOLIA}.json")["contracts"]["SingleStageWorkflow"]["git"] is None


def test_record__stopped_half_way__keeps_what_was_deployed_and_looks_unfinished(tmp_path):
    chain = public(fail_at="CommitRevealWorkflow")

    with pytest.raises(Unreachable) as stopped:
        deploy_publicly(chain, tmp_path)

    partial = tmp_path / f"{SEPOLIA}.partial.json"
    document = read(partial)
    deployed = [name for name, _ in chain.sent]
    assert not (tmp_path / f"{SEPOLIA}.json").exists()
    assert document["format"] == "provenflow-partial-deployment/1"
    assert (
        list(document["contracts"])
        == deployed
        == [
            "SingleStageWorkflow",
            "InputProvenanceWorkflow",
            "CompetitiveSelectionWorkflow",
            "SequentialPipelineWorkflow",
        ]
    )
    assert document["sending"]["name"] == "CommitRevealWorkflow"
    assert document["sending"]["address"] == create_address(ACCOUNT, 4)
    assert str(stopped.value).startswith("The node went away. Deployed so far: SingleStageWorkflow at 0x")
    assert str(partial) in str(stopped.value)


def test_record__what_is_being_sent__is_on_disk_before_it_is_sent(tmp_path):
    chain = public()
    seen = []
    chain.during = lambda name: seen.append(
        (name, read(tmp_path / f"{SEPOLIA}.partial.json")["sending"]["name"])
    )

    deploy_publicly(chain, tmp_path)

    assert len(seen) == len(WORKFLOWS)
    assert all(sent == announced for sent, announced in seen)


def test_record__interrupted__keeps_what_was_deployed(tmp_path):
    chain = public(fail_at="CompetitiveSelectionWorkflow", failure=KeyboardInterrupt())

    with pytest.raises(KeyboardInterrupt):
        deploy_publicly(chain, tmp_path)

    assert list(read(tmp_path / f"{SEPOLIA}.partial.json")["contracts"]) == [
        "SingleStageWorkflow",
        "InputProvenanceWorkflow",
    ]


def test_record__again_after_half_way__needs_force_and_loses_nothing(tmp_path):
    chain = public(fail_at="InputProvenanceWorkflow")
    with pytest.raises(Unreachable):
        deploy_publicly(chain, tmp_path)
    first = chain.sent[0][0], create_address(ACCOUNT, 0)
    chain.fail_at = ""

    with pytest.raises(WrongUse, match="stopped half-way") as refused:
        deploy_publicly(chain, tmp_path)
    assert first[1] in str(refused.value)
    assert "--force" in refused.value.fix
    assert len(chain.sent) == 1

    deploy_publicly(chain, tmp_path, force=True)
    document = read(tmp_path / f"{SEPOLIA}.json")
    assert set(document["contracts"]) == WORKFLOWS
    assert [(entry["name"], entry["address"]) for entry in document["replaced"]] == [first]
    assert not (tmp_path / f"{SEPOLIA}.partial.json").exists()


def test_record__what_was_being_sent_arrived_after_all__counts_as_deployed(tmp_path):
    chain = public(fail_at="SingleStageWorkflow")
    with pytest.raises(Unreachable):
        deploy_publicly(chain, tmp_path)
    arrived = create_address(ACCOUNT, 0)
    chain.fail_at = ""
    chain.runtime[arrived] = b"it arrived"

    with pytest.raises(WrongUse, match=f"SingleStageWorkflow at {arrived}"):
        deploy_publicly(chain, tmp_path)

    deploy_publicly(chain, tmp_path, force=True)
    assert [entry["address"] for entry in read(tmp_path / f"{SEPOLIA}.json")["replaced"]] == [arrived]


def test_record__what_was_being_sent_never_arrived__does_not_stand_in_the_way(tmp_path):
    chain = public(fail_at="SingleStageWorkflow")
    with pytest.raises(Unreachable, match="Deployed so far: nothing"):
        deploy_publicly(chain, tmp_path)
    chain.fail_at = ""

    deploy_publicly(chain, tmp_path)

    assert read(tmp_path / f"{SEPOLIA}.json")["replaced"] == []


def test_record__contract_recorded_already__needs_force_and_keeps_the_earlier_entry(tmp_path):
    chain = public()
    earlier = deploy_publicly(chain, tmp_path, "SingleStageWorkflow")["SingleStageWorkflow"].address

    with pytest.raises(WrongUse, match=f"already has SingleStageWorkflow at {earlier}") as refused:
        deploy_publicly(chain, tmp_path, "SingleStageWorkflow")
    assert "--force" in refused.value.fix
    assert len(chain.sent) == 1

    later = deploy_publicly(chain, tmp_path, "SingleStageWorkflow", force=True)["SingleStageWorkflow"].address
    document = read(tmp_path / f"{SEPOLIA}.json")
    assert later != earlier
    assert document["contracts"]["SingleStageWorkflow"]["address"] == later
    assert [(entry["name"], entry["address"]) for entry in document["replaced"]] == [
        ("SingleStageWorkflow", earlier)
    ]


def test_record__another_contract__is_added(tmp_path):
    chain = public()
    deploy_publicly(chain, tmp_path, "SingleStageWorkflow")

    deploy_publicly(chain, tmp_path, "ParallelAuditWorkflow")

    document = read(tmp_path / f"{SEPOLIA}.json")
    assert list(document["contracts"]) == ["SingleStageWorkflow", "ParallelAuditWorkflow"]
    assert document["replaced"] == []


def test_record__half_way_while_another_record_is_there__leaves_that_as_it_is(tmp_path):
    chain = public()
    deploy_publicly(chain, tmp_path, "SingleStageWorkflow")
    before = (tmp_path / f"{SEPOLIA}.json").read_bytes()
    chain.fail_at = "ParallelAuditWorkflow"

    with pytest.raises(Unreachable):
        deploy_publicly(chain, tmp_path, "CommitRevealWorkflow", "ParallelAuditWorkflow")

    assert (tmp_path / f"{SEPOLIA}.json").read_bytes() == before


def test_record__new_local_chain__drops_the_entries_of_the_one_that_ended(tmp_path):
    deployment.deploy(PaperChain(), deployment.plan(local=True), records=tmp_path)
    fresh = PaperChain()
    fresh.sent.append(("another transaction", ()))

    deployment.deploy(fresh, deployment.plan(local=True, only=["MockProofVerifier"]), records=tmp_path)

    document = read(tmp_path / "31337.json")
    assert list(document["contracts"]) == ["MockProofVerifier"]
    assert document["replaced"] == []


def test_record__same_local_chain__keeps_entries_and_needs_no_force(tmp_path):
    chain = PaperChain()
    for only in (["MockProofVerifier"], ["MockAgentVerifier"], ["MockAgentVerifier"]):
        deployment.deploy(chain, deployment.plan(local=True, only=only), records=tmp_path)

    document = read(tmp_path / "31337.json")
    assert set(document["contracts"]) == MOCKS
    assert [entry["name"] for entry in document["replaced"]] == ["MockAgentVerifier"]


@pytest.mark.parametrize("name", [f"{SEPOLIA}.json", f"{SEPOLIA}.partial.json"])
@pytest.mark.parametrize(
    "content",
    [
        "",
        "[]",
        "{}",
        '{"format": "provenflow-deployment/0", "chainId": 11155111, "contracts": {}, "replaced": []}',
        '{"format": "provenflow-deployment/1", "chainId": 1, "contracts": {}, "replaced": []}',
        '{"format": "provenflow-deployment/1", "chainId": 11155111, "contracts": {"A": {}}, "replaced": []}',
        '{"format": "provenflow-deployment/1", "chainId": 11155111, "contracts": {}}',
    ],
    ids=[
        "empty",
        "a list",
        "nothing in it",
        "old format",
        "another chain",
        "entry without address",
        "no replaced",
    ],
)
def test_record__file_of_another_kind__is_refused_and_not_overwritten(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    chain = public()

    with pytest.raises(Invalid, match=f"{name} is not a deployment record of chain {SEPOLIA}"):
        deploy_publicly(chain, tmp_path)

    assert chain.sent == []
    assert (tmp_path / name).read_text() == content


def test_record__folder_cannot_be_made__is_refused_before_anything_is_sent(tmp_path):
    (tmp_path / "file").write_text("")
    chain = public()

    with pytest.raises(WrongUse, match="cannot be made"):
        deploy_publicly(chain, tmp_path / "file" / "deployments")

    assert chain.sent == []


def test_records_of_local_chains_and_unfinished_ones__are_ignored_by_git():
    ignored = (Path(__file__).parents[3] / "deployments" / ".gitignore").read_text().split()

    assert {"/31337.json", "/1337.json", "/*.partial.json"} <= set(ignored)


# --- the two backends ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def devnet():
    with Devnet() as chain:
        yield chain


def test_rpc_deployer__deploys_what_was_compiled(devnet):
    deployer = RpcDeployer(devnet.rpc, devnet.accounts[1], local=True)

    done = deployment.deploy(deployer, deployment.plan(local=True, only=["MockProofVerifier"]))

    mock = done["MockProofVerifier"]
    assert deployer.chain_id == 31337
    assert mock.address == create_address(devnet.accounts[1], 0)
    assert deployer.nonce() == 1
    assert deployer.code(mock.address).hex() == artifacts.load("MockProofVerifier").deployed_bytecode[2:]
    receipt = devnet.rpc.call("eth_getTransactionReceipt", mock.transaction)
    assert int(receipt["blockNumber"], 16) == mock.block


def test_rpc_deployer__constructor_refuses__names_the_error(devnet):
    deployer = RpcDeployer(devnet.rpc, devnet.accounts[0], local=True)

    with pytest.raises(
        Refused, match=r"the deployment of SingleStageWorkflow: VerifierWithoutCode\(stage=0, verifier=0x"
    ):
        deployer.deploy(artifacts.load("SingleStageWorkflow"), VERIFIER)


@pytest.fixture
def ape_deployer(deployer, project, chain):
    return ApeDeployer(deployer, project, chain.provider)


def test_ape_deployer__deploys_the_same_bytes(ape_deployer, project, chain):
    done = deployment.deploy(ape_deployer, deployment.plan(local=True, only=["SingleStageWorkflow"]))

    verifier, workflow = done["MockAgentVerifier"], done["SingleStageWorkflow"]
    assert ape_deployer.local
    assert ape_deployer.chain_id == chain.chain_id == 31337
    assert ape_deployer.network == "ethereum:local"
    assert workflow.init_code == artifacts.load("SingleStageWorkflow").init_code(verifier.address)
    assert chain.provider.get_receipt(workflow.transaction).block_number == workflow.block
    assert ape_deployer.code(workflow.address) == bytes(chain.provider.get_code(workflow.address))
    assert project.SingleStageWorkflow.at(workflow.address).stageCount() == 1


def test_ape_deployer__constructor_refuses__is_one_of_our_errors(ape_deployer):
    with pytest.raises(Refused, match="the deployment of SingleStageWorkflow"):
        ape_deployer.deploy(artifacts.load("SingleStageWorkflow"), VERIFIER)
