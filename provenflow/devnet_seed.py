"""Runs to look at on a fresh devnet: finished and pending ones, the same every time.

Accounts, inputs, outputs, operation ids, block numbers and run ids are always the same; task and reply hashes differ
from start to start, since ERC-8301 hashes the time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from provenflow.abi import NewAgentTask
from provenflow.rpc import quantity
from provenflow.workflow_client import WorkflowClient, mock_proof

if TYPE_CHECKING:
    from provenflow.devnet import Devnet

_WINDOW = 7 * 24 * 3600  # seconds for the first reply, as the examples give later stages


def seed(devnet: Devnet) -> list[str]:
    """Make the runs and say what they are.

    Parameters
    ----------
    devnet:
        A running devnet with the suite deployed.

    Returns
    -------
    list
        One line a run: contract, run id, how far it went.

    Raises
    ------
    Invalid
        A contract refused, which on a fresh chain means that contract and package do not fit each other.
    Unreachable
        The node did not answer.
    """
    return [
        _seed_run(devnet, "SingleStageWorkflow", answers=1, proofs=[0], number=1, state="finished"),
        _seed_run(devnet, "SingleStageWorkflow", answers=1, proofs=[], number=2, state="waits for its proof"),
        _seed_run(devnet, "SingleStageWorkflow", answers=0, proofs=[], number=3, state="waits for a reply"),
        _seed_run(
            devnet, "SequentialPipelineWorkflow", answers=3, proofs=[0, 1, 2], number=4, state="finished"
        ),
        _seed_run(
            devnet, "SequentialPipelineWorkflow", answers=1, proofs=[0], number=5, state="waits at StepB"
        ),
    ]


def _seed_run(
    devnet: Devnet, contract: str, *, answers: int, proofs: list[int], number: int, state: str
) -> str:
    """One run: `answers` replies by as many agents, then proofs of the replies at these positions."""
    requester, *agents = devnet.accounts[1:]
    workflow = WorkflowClient(devnet.rpc, devnet.contracts[contract].address, devnet.contracts[contract].abi)
    first_block = quantity(devnet.rpc.call("eth_blockNumber"), "the block number") + 1
    run_id = workflow.run(requester, f"seed input {number}".encode(), devnet.clock() + _WINDOW)
    replies = []
    for position in range(answers):
        events = [seen.event for seen in workflow.events(first_block, 2**53)]
        task_hash = [event.task_hash for event in events if isinstance(event, NewAgentTask)][-1]
        reply_hash = workflow.reply(
            agents[position],
            task_hash,
            f"seed output {number}.{position}".encode(),
            timestamp=devnet.next_second(),
            operation_id=(number * 256 + position).to_bytes(32, "big"),
        )
        replies.append((task_hash, reply_hash))
    for position in proofs:
        task_hash, reply_hash = replies[position]
        task, _ = workflow.task(task_hash)
        reply, _ = workflow.get_reply(reply_hash)
        workflow.prove(agents[position], reply_hash, mock_proof(task, reply))
    return f"{contract} run 0x{run_id.hex()}: {state}"
