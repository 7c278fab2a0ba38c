"""The workflow that the README quotes, run as its words promise."""

from __future__ import annotations

from typing import Any

from provenflow.abi import RunStatus
from tests.support.workflow import WorkflowDriver


def test_draft_and_review__draft_then_proven_review__completes(
    project: Any,
    chain: Any,
    accounts: Any,
    deployer: Any,
    requester: Any,
    agent: Any,
    other_agent: Any,
    prover: Any,
    agent_verifier: Any,
) -> None:
    workflow = deployer.deploy(project.DraftAndReviewWorkflow, agent_verifier)
    driver = WorkflowDriver(workflow, chain, accounts)
    run = driver.start_run(requester)

    withheld = driver.reply_to(run.task_hash, agent, b"", output_hash=b"\x11" * 32)
    assert withheld.task_hashes == ()  # silent: the text itself must be on chain
    draft = driver.reply_to(run.task_hash, agent, b"a draft")
    review = driver.reply_to(draft.task_hash, other_agent, b"a review")
    assert driver.result(run.id).status is RunStatus.PENDING  # not before the proof
    driver.prove(review.reply_hash, prover)

    assert driver.result(run.id).status is RunStatus.SUCCESS
    final = driver.task(driver.result(run.id).final_task_hash)
    assert final.prev_reply_hashes == (review.reply_hash,)
