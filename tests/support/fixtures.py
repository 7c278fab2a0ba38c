"""Fixtures of tests that need a chain: actors named by role, contracts deployed once a session, the workflow driver."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ape import fixture

from tests.support.workflow import WorkflowDriver

Drive = Callable[[Any], WorkflowDriver]

# Deploys; the first account, as on the devnet. The others act.
_ROLES = (
    "deployer",
    "requester",
    "agent",
    "other_agent",
    "third_agent",
    "prover",
    "stranger",
    "qualifier",
    "settler",
    "aggregator",
)


def _role(number: int) -> Any:
    # Accounts are the same whatever the chain's state.
    @fixture(scope="session", chain_isolation=False, name=_ROLES[number])
    def actor(accounts: Any) -> Any:
        return accounts[number]

    return actor


deployer = _role(0)
requester = _role(1)
agent = _role(2)
other_agent = _role(3)
third_agent = _role(4)
prover = _role(5)
stranger = _role(6)
qualifier = _role(7)
settler = _role(8)
aggregator = _role(9)


@pytest.fixture(scope="session")
def suite(deployer: Any, project: Any, chain: Any) -> dict[str, Any]:
    """Every contract of a deployment by name, deployed once by the routine that devnet and script use too."""
    from provenflow import deployment
    from provenflow.deployers import ApeDeployer

    deployed = deployment.deploy(ApeDeployer(deployer, project, chain.provider), deployment.plan(local=True))
    return {name: project.get(name).at(contract.address) for name, contract in deployed.items()}


@fixture(scope="session", chain_isolation=False)
def single_stage(suite: dict[str, Any]) -> Any:
    """Scenario 0."""
    return suite["SingleStageWorkflow"]


@fixture(scope="session", chain_isolation=False)
def input_provenance(suite: dict[str, Any]) -> Any:
    """Scenario 1."""
    return suite["InputProvenanceWorkflow"]


@fixture(scope="session", chain_isolation=False)
def competitive_selection(suite: dict[str, Any]) -> Any:
    """Scenario 2."""
    return suite["CompetitiveSelectionWorkflow"]


@fixture(scope="session", chain_isolation=False)
def pipeline(suite: dict[str, Any]) -> Any:
    """Scenario 3."""
    return suite["SequentialPipelineWorkflow"]


@fixture(scope="session", chain_isolation=False)
def commit_reveal(suite: dict[str, Any]) -> Any:
    """Scenario 4, with a quorum of two."""
    return suite["CommitRevealWorkflow"]


@fixture(scope="session", chain_isolation=False)
def parallel_audit(suite: dict[str, Any]) -> Any:
    """Scenario 5."""
    return suite["ParallelAuditWorkflow"]


@fixture(scope="session", chain_isolation=False)
def agent_verifier(suite: dict[str, Any]) -> Any:
    """The mock for option A: accepts ``keccak256(inputHash ‖ outputHash)``."""
    return suite["MockAgentVerifier"]


@fixture(scope="session", chain_isolation=False)
def proof_verifier(suite: dict[str, Any]) -> Any:
    """The mock for option B: accepts ``keccak256(inputHash ‖ outputHash ‖ metadata)``."""
    return suite["MockProofVerifier"]


@pytest.fixture
def drive(chain: Any, accounts: Any) -> Drive:
    """``drive(workflow)`` gives a driver of that contract."""
    return lambda workflow: WorkflowDriver(workflow, chain, accounts)


@pytest.fixture(scope="session")
def hashing_harness(deployer: Any, project: Any) -> Any:
    """Exposes the hash formulas of the contracts."""
    return deployer.deploy(project.WorkflowHashingHarness)
