"""A static stage of several tasks: one answer may not stand in for another, whatever the judge says of it."""

from __future__ import annotations

from typing import Any

import pytest

from provenflow.abi import RunStatus
from tests.support.scripted import Mode, Option, StageConfig, StaticStage, Verdict
from tests.support.workflow import DAY
from tests.unit.workflow.conftest import DeployStatic


def _table(agent_verifier: Any) -> list[StaticStage]:
    parallel = StageConfig(Mode.ASYNC, Option.AGENT_VERIFIER, agent_verifier, window=7 * DAY, max_retries=1)
    last = StageConfig(Mode.SYNC, Option.AGENT_VERIFIER, agent_verifier, window=7 * DAY)
    return [StaticStage(parallel, tasks=3, next=1), StaticStage(last)]


@pytest.mark.parametrize("verdict", [Verdict.RETRY, Verdict.PASS])
def test_on_agent_reply__answers_all_tasks_of_a_static_stage__is_discarded_silently(
    deploy_static: DeployStatic, agent_verifier: Any, requester: Any, agent: Any, verdict: Verdict
) -> None:
    driver = deploy_static(_table(agent_verifier))
    run = driver.start_run(requester)
    driver.workflow.scriptVerdicts([verdict], sender=requester)

    submitted = driver.reply_to(run.task_hashes, agent)

    assert submitted.task_hashes == ()
    assert [task.task_hash for task in driver.state(run.id).open_tasks] == list(run.task_hashes)


def test_on_agent_reply__answer_to_all_tasks_is_to_be_retried__the_run_can_still_be_completed(
    deploy_static: DeployStatic, agent_verifier: Any, requester: Any, agent: Any
) -> None:
    driver = deploy_static(_table(agent_verifier))
    run = driver.start_run(requester)
    driver.workflow.scriptVerdicts([Verdict.RETRY], sender=requester)
    driver.reply_to(run.task_hashes, agent)  # anyone may reply: this must not be able to stall the run

    # From here on everything passes.
    for task in driver.state(run.id).open_tasks:
        driver.reply_to(task.task_hash, agent)
    last = driver.state(run.id).open_tasks
    assert [task.lane for task in last] == [0]
    driver.prove(driver.reply_to(last[0].task_hash, agent).reply_hash, sender=agent)
    assert driver.result(run.id).status is RunStatus.SUCCESS
