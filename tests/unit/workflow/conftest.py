"""Fixtures of the workflow base: scripted workflows with a stage of every kind, hostile verifiers, contract agents."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from ape import fixture

from tests.support.scripted import ScriptedDriver, StageConfig, StaticStage, stage_table
from tests.support.workflow import WorkflowDriver
from tests.unit.workflow.refusals import Scene, set_scene

DeployScripted = Callable[[Sequence[StageConfig]], ScriptedDriver]
DeployStatic = Callable[[Sequence[StaticStage]], WorkflowDriver]


@fixture(scope="session", chain_isolation=False)
def errors(project: Any) -> Any:
    """Every error of the workflow base."""
    return project.IAgentWorkflowErrors


@pytest.fixture(scope="session")
def hostile_verifier(deployer: Any, project: Any) -> Any:
    """Misbehaves as it is told; honest until then: accepts any non-empty proof."""
    return deployer.deploy(project.MisbehavingVerifier)


@pytest.fixture(scope="session")
def table(agent_verifier: Any, proof_verifier: Any, hostile_verifier: Any) -> list[StageConfig]:
    """A stage of every kind, see ``Stage``."""
    return stage_table(agent_verifier, proof_verifier, hostile_verifier)


@pytest.fixture(scope="session")
def scripted_workflow(deployer: Any, project: Any, table: list[StageConfig]) -> Any:
    """A dynamic workflow with the stages of `table`."""
    return deployer.deploy(project.ScriptedWorkflow, [config.as_tuple() for config in table])


@pytest.fixture(scope="session")
def contract_agent(deployer: Any, project: Any, scripted_workflow: Any) -> Any:
    """An agent that is a contract, and may act several times in one transaction."""
    return deployer.deploy(project.ContractAgent)


@pytest.fixture
def flow(scripted_workflow: Any, chain: Any, accounts: Any) -> ScriptedDriver:
    """Drives and scripts `scripted_workflow`."""
    return ScriptedDriver(scripted_workflow, chain, accounts)


@pytest.fixture
def deploy_scripted(deployer: Any, project: Any, chain: Any, accounts: Any) -> DeployScripted:
    """``deploy_scripted(stages)``: a dynamic workflow with another stage table."""

    def deploy(stages: Sequence[StageConfig]) -> ScriptedDriver:
        workflow = deployer.deploy(project.ScriptedWorkflow, [config.as_tuple() for config in stages])
        return ScriptedDriver(workflow, chain, accounts)

    return deploy


@pytest.fixture
def deploy_static(deployer: Any, project: Any, chain: Any, accounts: Any) -> DeployStatic:
    """``deploy_static(table)``: a static workflow whose judge passes everything until it is scripted."""

    def deploy(table: Sequence[StaticStage]) -> WorkflowDriver:
        workflow = deployer.deploy(project.ScriptedStaticWorkflow, [stage.as_tuple() for stage in table])
        return WorkflowDriver(workflow, chain, accounts)

    return deploy


@pytest.fixture(scope="module")
def shared_flow(
    deployer: Any, project: Any, chain: Any, accounts: Any, table: list[StageConfig]
) -> ScriptedDriver:
    """A workflow with the stages of `table` for what a whole module shares, apart from that of `flow`."""
    workflow = deployer.deploy(project.ScriptedWorkflow, [config.as_tuple() for config in table])
    return ScriptedDriver(workflow, chain, accounts)


@pytest.fixture(scope="module")
def scene(shared_flow: ScriptedDriver, requester: Any, agent: Any, stranger: Any) -> Scene:
    """The three runs that the rows of ``REFUSALS`` are about."""
    return set_scene(shared_flow, requester, agent, stranger)
