"""Deployment: a misconfigured workflow does not deploy, any other does and publishes its configuration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from provenflow.hashing import keccak256
from tests.support.reverts import reverts_with
from tests.support.scripted import FINAL_STAGE, NOBODY, Mode, Option, ScriptedDriver, StageConfig, StaticStage
from tests.support.workflow import DAY
from tests.unit.workflow.conftest import DeployScripted, DeployStatic

# What a constructor would revert with, or None; without a transaction.
Attempt = Callable[..., bytes | None]

INTERFACES = {
    "IERC165": "01ffc9a7",
    "IAgentWorkflow": "9a50db17",
    "IWorkflowViews": "5185e46b",
    "IStaticWorkflow": "f518a990",
}


@pytest.fixture
def attempt(chain: Any, deployer: Any) -> Attempt:
    def attempt(contract: Any, *arguments: Any) -> bytes | None:
        initcode = contract(*arguments).data
        transaction = {"from": deployer.address, "data": f"0x{initcode.hex()}"}
        response = chain.provider.web3.provider.make_request("eth_call", [transaction, "latest"])
        return bytes.fromhex(response["error"]["data"][2:]) if "error" in response else None

    return attempt


def _error(name: str, *arguments: int | Any) -> bytes:
    """Revert data of an error whose arguments are numbers and addresses."""
    types = {
        "InvalidStageCount": "uint256,uint256",
        "SyncStageWithoutVerifier": "uint8",
        "UnusedStageSetting": "uint8",
        "VerifierWithoutCode": "uint8,address",
        "RetriesWithoutWindow": "uint8",
        "FinalGateNotSync": "uint8",
        "UnknownStage": "uint8",
        "UnreachableStage": "uint8",
        "StageCycle": "uint8,uint8",
        "InvalidTaskCount": "uint8,uint256,uint256",
        "TooManyRetries": "uint8,uint256",
        "UnprovableUpstream": "uint8",
    }[name]
    words = (item if isinstance(item, int) else int(getattr(item, "address", item), 16) for item in arguments)
    return keccak256(f"{name}({types})".encode())[:4] + b"".join(word.to_bytes(32, "big") for word in words)


# ── Every workflow ───────────────────────────────────────────────────────────


@pytest.fixture
def good(agent_verifier: Any) -> StageConfig:
    """A stage that is in order."""
    return StageConfig(Mode.SYNC, Option.AGENT_VERIFIER, agent_verifier.address, window=DAY)


@pytest.mark.requirement("EXE-064")
def test_constructor__no_stage__reverts(deploy_scripted: DeployScripted, errors: Any) -> None:
    with reverts_with(errors.InvalidStageCount, count=0, max=255):
        deploy_scripted([])


# In a transaction the node would keep every step of so long a deployment.
@pytest.mark.requirement("EXE-064", "EXE-137")
def test_constructor__255_stages__are_the_most(attempt: Attempt, project: Any, agent_verifier: Any) -> None:
    def attempt_many(count: int) -> bytes | None:
        return attempt(project.ManyStagesWorkflow, agent_verifier, count)

    assert attempt_many(255) is None
    assert attempt_many(256) == _error("InvalidStageCount", 256, 255)
    assert attempt_many(300) == _error("InvalidStageCount", 300, 255)


@pytest.mark.requirement("EXE-064", "EXE-164")
def test_constructor__sixty_stages__are_all_published(
    deployer: Any, project: Any, errors: Any, agent_verifier: Any
) -> None:
    workflow = deployer.deploy(project.ManyStagesWorkflow, agent_verifier, 60)

    assert workflow.stageCount() == 60
    # The table has another window for each stage.
    for stage in range(60):
        following = FINAL_STAGE if stage == 59 else stage + 1
        assert _published(workflow, stage) == (Mode.SYNC, agent_verifier.address, stage + 1, 1, [following])
    for view in (workflow.stageAt, workflow.stageConfig):
        with reverts_with(errors.UnknownStage, stage=60):
            view(60)


def test_constructor__sync_stage_without_verifier__reverts(
    deploy_scripted: DeployScripted, errors: Any, good: StageConfig
) -> None:
    with reverts_with(errors.SyncStageWithoutVerifier, stage=1):
        deploy_scripted([good, replace(good, option=Option.NONE, verifier=NOBODY)])


@pytest.mark.parametrize(
    "option", [Option.AGENT_VERIFIER, Option.PROOF_VERIFIER], ids=lambda value: value.name
)
@pytest.mark.parametrize("mode", Mode, ids=lambda value: value.name)
@pytest.mark.parametrize("kind", ["zero address", "account"])
def test_constructor__verifier_without_code__reverts(
    kind: str,
    mode: Mode,
    option: Option,
    deploy_scripted: DeployScripted,
    errors: Any,
    good: StageConfig,
    stranger: Any,
) -> None:
    verifier = NOBODY if kind == "zero address" else stranger.address

    with reverts_with(errors.VerifierWithoutCode, stage=1, verifier=verifier):
        deploy_scripted([good, replace(good, mode=mode, option=option, verifier=verifier)])


@pytest.mark.parametrize(
    "change",
    [
        pytest.param({"mode": Mode.ASYNC, "option": Option.NONE}, id="verifier without option"),
        pytest.param({"metadata": b"key"}, id="metadata with option A"),
        pytest.param(
            {"mode": Mode.ASYNC, "option": Option.NONE, "verifier": NOBODY, "metadata": b"key"},
            id="metadata without verifier",
        ),
        pytest.param({"mode": Mode.ASYNC, "proof_window": 1}, id="proof window in an async stage"),
    ],
)
def test_constructor__setting_that_the_stage_never_uses__reverts(
    change: dict[str, Any], deploy_scripted: DeployScripted, errors: Any, good: StageConfig
) -> None:
    with reverts_with(errors.UnusedStageSetting, stage=1):
        deploy_scripted([good, replace(good, **change)])


def test_constructor__retries_without_window__reverts(
    deploy_scripted: DeployScripted, errors: Any, good: StageConfig
) -> None:
    with reverts_with(errors.RetriesWithoutWindow, stage=1):
        deploy_scripted([good, replace(good, window=0, max_retries=1)])


@pytest.mark.requirement("EXE-068", "EXE-118")
def test_constructor__every_combination_of_settings__is_refused_for_the_first_rule_it_breaks_or_not_at_all(
    attempt: Attempt, project: Any, stranger: Any, agent_verifier: Any
) -> None:
    checked = dict.fromkeys(["accepted", "refused"], 0)
    for config in _all_configs(stranger.address, agent_verifier.address):
        expected = _first_broken_rule(config, has_code=config.verifier == agent_verifier.address)

        assert attempt(project.ScriptedWorkflow, [config.as_tuple()]) == expected, config
        checked["refused" if expected else "accepted"] += 1
    assert checked == {"accepted": 30, "refused": 258}


def _all_configs(account: str, verifier: str) -> Iterator[StageConfig]:
    for mode, option, address, window, proof_window, retries, metadata in product(
        Mode, Option, [NOBODY, account, verifier], [0, 1], [0, 1], [0, 1], [b"", b"key"]
    ):
        yield StageConfig(mode, option, address, window, proof_window, retries, False, metadata)


def _first_broken_rule(config: StageConfig, *, has_code: bool) -> bytes | None:
    if config.option is Option.NONE and config.mode is Mode.SYNC:
        return _error("SyncStageWithoutVerifier", 0)
    if config.option is Option.NONE and config.verifier != NOBODY:
        return _error("UnusedStageSetting", 0)
    if config.option is not Option.NONE and not has_code:
        return _error("VerifierWithoutCode", 0, config.verifier)
    if config.option is not Option.PROOF_VERIFIER and config.metadata:
        return _error("UnusedStageSetting", 0)
    if config.mode is Mode.ASYNC and config.proof_window:
        return _error("UnusedStageSetting", 0)
    if config.max_retries and not config.window:
        return _error("RetriesWithoutWindow", 0)
    return None


@pytest.mark.requirement("EXE-068", "EXE-121", "EXE-166")
def test_stage_config__of_every_stage__is_what_the_constructor_was_given(
    flow: ScriptedDriver, table: list[StageConfig]
) -> None:
    for number, expected in enumerate(table):
        config, metadata_hash = flow.workflow.stageConfig(number)

        assert tuple(config) == (
            expected.mode,
            expected.option,
            getattr(expected.verifier, "address", expected.verifier),
            expected.window,
            expected.proof_window,
            expected.max_retries,
            expected.require_upstream_proven,
            expected.metadata,
        )
        assert metadata_hash == keccak256(expected.metadata)


def test_stage_config__largest_settings__are_kept_exactly(
    deploy_scripted: DeployScripted, proof_verifier: Any
) -> None:
    most = 2**32 - 1
    config = StageConfig(
        Mode.SYNC, Option.PROOF_VERIFIER, proof_verifier.address, most, most, 255, True, bytes(range(256)) * 5
    )

    stored, metadata_hash = deploy_scripted([config]).workflow.stageConfig(0)

    assert tuple(stored) == config.as_tuple()
    assert metadata_hash == keccak256(config.metadata)


def test_stage_config__of_no_stage__reverts(
    flow: ScriptedDriver, errors: Any, table: list[StageConfig]
) -> None:
    for stage in (len(table), 255):
        with reverts_with(errors.UnknownStage, stage=stage):
            flow.workflow.stageConfig(stage)


# ── Static workflows ─────────────────────────────────────────────────────────


@pytest.fixture
def sync(agent_verifier: Any) -> StageConfig:
    return StageConfig(Mode.SYNC, Option.AGENT_VERIFIER, agent_verifier.address, window=DAY, proof_window=DAY)


@pytest.fixture
def later(agent_verifier: Any) -> StageConfig:
    """Async: proven later, if at all."""
    return StageConfig(Mode.ASYNC, Option.AGENT_VERIFIER, agent_verifier.address, window=2 * DAY)


def test_static_constructor__no_stage__reverts(deploy_static: DeployStatic, errors: Any) -> None:
    with reverts_with(errors.InvalidStageCount, count=0, max=255):
        deploy_static([])


@pytest.mark.requirement("EXE-135")
def test_static_constructor__async_stage_leads_to_completion__reverts(
    deploy_static: DeployStatic, errors: Any, sync: StageConfig, later: StageConfig
) -> None:
    with reverts_with(errors.FinalGateNotSync, stage=1):
        deploy_static([StaticStage(sync, next=1), StaticStage(later)])


@pytest.mark.parametrize("next_stage", [2, 254])
def test_static_constructor__next_is_no_stage__reverts(
    next_stage: int, deploy_static: DeployStatic, errors: Any, sync: StageConfig
) -> None:
    with reverts_with(errors.UnknownStage, stage=next_stage):
        deploy_static([StaticStage(sync, next=1), StaticStage(sync, next=next_stage)])


@pytest.mark.parametrize("next_stage", [0, 1])
def test_static_constructor__stage_leads_back__reverts(
    next_stage: int, deploy_static: DeployStatic, errors: Any, sync: StageConfig
) -> None:
    with reverts_with(errors.StageCycle, stage=1, next=next_stage):
        deploy_static([StaticStage(sync, next=1), StaticStage(sync, next=next_stage), StaticStage(sync)])


@pytest.mark.requirement("EXE-164")
def test_static_constructor__stage_that_is_never_entered__reverts(
    deploy_static: DeployStatic, errors: Any, sync: StageConfig
) -> None:
    with reverts_with(errors.UnreachableStage, stage=1):
        deploy_static([StaticStage(sync, next=2), StaticStage(sync), StaticStage(sync)])


@pytest.mark.parametrize("tasks", [0, 65, 255])
@pytest.mark.parametrize("stage", [0, 1])
def test_static_constructor__no_task_or_more_than_64__reverts(
    stage: int, tasks: int, deploy_static: DeployStatic, errors: Any, sync: StageConfig
) -> None:
    table = [StaticStage(sync, next=1), StaticStage(sync)]
    table[stage] = replace(table[stage], tasks=tasks)

    with reverts_with(errors.InvalidTaskCount, stage=stage, count=tasks, max=64):
        deploy_static(table)


@pytest.mark.parametrize(
    ("tasks", "retries"),
    [(1, 255), (2, 127), (3, 84), (64, 3), (2, 128), (3, 85), (64, 4), (64, 255)],
)
@pytest.mark.parametrize("stage", [0, 1])
def test_static_constructor__tasks_and_retries__may_not_be_more_than_can_wait_for_one_proof(
    stage: int, tasks: int, retries: int, deploy_static: DeployStatic, errors: Any, sync: StageConfig
) -> None:
    table = [StaticStage(sync, next=1), StaticStage(sync)]
    table[stage] = replace(table[stage], tasks=tasks, config=replace(sync, max_retries=retries))

    if tasks * (retries + 1) <= 256:
        assert deploy_static(table).workflow.stageAt(stage)[3] == tasks
    else:
        with reverts_with(errors.TooManyRetries, stage=stage, max=256):
            deploy_static(table)


@pytest.mark.requirement("EXE-158")
@pytest.mark.parametrize("mode", Mode, ids=lambda value: value.name)
def test_static_constructor__upstream_must_be_proven_but_cannot__reverts(
    mode: Mode, deploy_static: DeployStatic, errors: Any, sync: StageConfig
) -> None:
    unprovable = StageConfig(Mode.ASYNC, Option.NONE)
    strict = replace(sync, mode=mode, proof_window=0, require_upstream_proven=True)

    with reverts_with(errors.UnprovableUpstream, stage=2):
        deploy_static(
            [
                StaticStage(sync, next=1),
                StaticStage(unprovable, next=2),
                StaticStage(strict, next=3),
                StaticStage(sync),
            ]
        )
    # Where the stage before takes proofs, and in the first stage, it can be.
    deploy_static(
        [
            StaticStage(strict, next=1),
            StaticStage(strict, next=2),
            StaticStage(unprovable, next=3),
            StaticStage(sync),
        ]
    )


def test_static_constructor__bad_stage_settings__are_refused_as_in_any_workflow(
    deploy_static: DeployStatic, errors: Any, sync: StageConfig
) -> None:
    with reverts_with(errors.VerifierWithoutCode, stage=1, verifier=NOBODY):
        deploy_static([StaticStage(sync, next=1), StaticStage(replace(sync, verifier=NOBODY))])


def test_static_constructor__every_graph_of_three_stages__is_refused_for_its_flaw_or_not_at_all(
    attempt: Attempt, project: Any, sync: StageConfig, later: StageConfig
) -> None:
    accepted = []
    for edges in product([0, 1, 2, 3, FINAL_STAGE], repeat=3):
        for modes in ([sync] * 3, [later, sync, sync]):
            stages = [StaticStage(config, next=edge) for config, edge in zip(modes, edges, strict=True)]
            expected = _first_flaw(stages)
            assert (
                attempt(project.ScriptedStaticWorkflow, [stage.as_tuple() for stage in stages]) == expected
            ), stages
            if expected is None:
                accepted.append(edges)
    # The two orders of the stages after stage 0, each with both modes of stage 0.
    assert sorted(accepted) == [(1, 2, 255), (1, 2, 255), (2, 255, 1), (2, 255, 1)]


def _first_flaw(stages: list[StaticStage]) -> bytes | None:
    passed: list[int] = []
    stage = 0
    while stage != FINAL_STAGE:
        passed.append(stage)
        following = stages[stage].next
        if following == FINAL_STAGE and stages[stage].config.mode is not Mode.SYNC:
            return _error("FinalGateNotSync", stage)
        if following != FINAL_STAGE and following >= len(stages):
            return _error("UnknownStage", following)
        if following in passed:
            return _error("StageCycle", stage, following)
        stage = following
    missing = [number for number in range(len(stages)) if number not in passed]
    return _error("UnreachableStage", missing[0]) if missing else None


@pytest.mark.requirement("EXE-064", "EXE-164", "EXE-166")
def test_stage_at__of_every_stage__publishes_the_whole_path(
    deploy_static: DeployStatic, agent_verifier: Any, sync: StageConfig, later: StageConfig
) -> None:
    unproven = StageConfig(Mode.ASYNC, Option.NONE)
    workflow = deploy_static(
        [StaticStage(later, 64, 2), StaticStage(sync, 1, FINAL_STAGE), StaticStage(unproven, 3, 1)]
    ).workflow

    assert workflow.stageCount() == 3
    assert [_published(workflow, stage) for stage in range(3)] == [
        (Mode.ASYNC, agent_verifier.address, 2 * DAY, 64, [2]),
        (Mode.SYNC, agent_verifier.address, DAY, 1, [FINAL_STAGE]),
        (Mode.ASYNC, NOBODY, 0, 3, [1]),
    ]


def test_stage_at__of_no_stage__reverts(deploy_static: DeployStatic, errors: Any, sync: StageConfig) -> None:
    workflow = deploy_static([StaticStage(sync)]).workflow

    for stage in (1, 255):
        with reverts_with(errors.UnknownStage, stage=stage):
            workflow.stageAt(stage)


def _published(workflow: Any, stage: int) -> tuple[Any, ...]:
    mode, verifier, window, tasks, following = workflow.stageAt(stage)
    return mode, str(verifier), window, tasks, list(following)


# ── ERC-165 ──────────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-040")
@pytest.mark.parametrize("interface", INTERFACES)
def test_interface_id__of_every_interface__is_pinned(interface: str, project: Any) -> None:
    if interface == "IERC165":
        selectors = [keccak256(b"supportsInterface(bytes4)")[:4]]
    else:
        methods = project.get(interface).contract_type.methods
        selectors = [keccak256(method.selector.encode())[:4] for method in methods]

    interface_id = bytes(4)
    for selector in selectors:
        interface_id = bytes(left ^ right for left, right in zip(interface_id, selector, strict=True))
    assert interface_id.hex() == INTERFACES[interface]


@pytest.mark.requirement("EXE-040", "EXE-163")
@pytest.mark.parametrize("kind", ["dynamic", "static"])
def test_supports_interface__of_either_topology__says_what_it_implements(
    kind: str, flow: ScriptedDriver, deploy_static: DeployStatic, sync: StageConfig
) -> None:
    workflow = flow.workflow if kind == "dynamic" else deploy_static([StaticStage(sync)]).workflow

    supported = {
        name
        for name, interface_id in INTERFACES.items()
        if workflow.supportsInterface(bytes.fromhex(interface_id))
    }
    assert supported == set(INTERFACES) - ({"IStaticWorkflow"} if kind == "dynamic" else set())
    # Not an interface, by ERC-165; and the id of the interface before operations had ids.
    assert not workflow.supportsInterface(b"\xff" * 4)
    assert not workflow.supportsInterface(bytes.fromhex("0fa4c7e6"))
