"""What the tests of the scenarios share: how the deployed examples are configured, and what a record must look like."""

from __future__ import annotations

from typing import Any

from provenflow.abi import AgentReply
from provenflow.evidence import collect, verify
from provenflow.hashing import keccak256, verification_digest
from tests.support.workflow import DAY, StoredReply, WorkflowDriver

# Every stage of every example, but for the initial task, whose deadline the requester chooses.
WINDOW = 7 * DAY
# Every sync stage: how long a reply that came in time waits for its proof.
PROOF_WINDOW = DAY

NOBODY = "0x0000000000000000000000000000000000000000"
MOCK_PROFILE = keccak256(b"mock-test-only-v1")


def address_bytes(account: Any) -> bytes:
    """The 20 bytes of an account's or a contract's address."""
    return bytes.fromhex(str(account.address)[2:])


def unproven(reply: AgentReply) -> StoredReply:
    """What ``getAgentReply`` returns of a reply before its proof."""
    return StoredReply(reply, NOBODY, False, bytes(32))


def proven(reply: AgentReply, verifier: Any, input_hash: bytes) -> StoredReply:
    """What ``getAgentReply`` returns of a reply that the mock for option A has proven.

    Parameters
    ----------
    reply:
        As it was submitted.
    verifier:
        The verifier contract.
    input_hash:
        32 bytes; of the reply's primary task.
    """
    digest = verification_digest(
        reply.workflow_run_id, bytes(12) + reply.replier, input_hash, reply.output_hash, True, MOCK_PROFILE
    )
    return StoredReply(reply, verifier.address, True, digest)


def open_task(driver: WorkflowDriver, workflow_run_id: bytes) -> bytes:
    """Hash of the one task that is open; an error when there are none or several."""
    (task,) = driver.state(workflow_run_id).open_tasks
    return task.task_hash


def assert_evidence_holds(driver: WorkflowDriver, workflow_run_id: bytes) -> None:
    """The independent verifier finds nothing wrong with a run that completed."""
    evidence = collect(driver.rpc, driver.workflow.address, workflow_run_id)
    report = verify(evidence)
    assert (report.verdict, report.complete) == ("holds", True), [
        finding for check in report.checks for finding in check.findings
    ]
