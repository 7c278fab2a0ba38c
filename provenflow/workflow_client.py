"""Driving a workflow contract (ERC-8301) from accounts that the node holds: runs, replies, proofs and events.

For development chains: it signs nothing itself and asks nobody before it sends. Values are raw: 32 ``bytes`` for ids
and hashes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from provenflow import abi
from provenflow.abi import AgentReply, AgentTask, RunResult, WorkflowEvent
from provenflow.errors import Invalid
from provenflow.hashing import keccak256, to_address
from provenflow.rpc import Rpc, hex_bytes, quantity
from provenflow.transactions import Receipt, call, send


@dataclass(frozen=True)
class SeenEvent:
    """An event of the workflow and where it stands: block number and index of its log in the block."""

    block: int
    index: int
    event: WorkflowEvent


class WorkflowClient:
    """One workflow contract on one chain.

    Parameters
    ----------
    rpc:
        A node that holds the keys of the accounts used.
    address:
        The contract.
    errors:
        Its ABI, to name what it refuses.
    """

    def __init__(self, rpc: Rpc, address: str, errors: Iterable[Mapping[str, Any]] = ()) -> None:
        self.rpc = rpc
        self.address = address
        self._errors = tuple(errors)

    def run(self, sender: str, text: bytes, expires_at: int) -> bytes:
        """Start a run over `text` and return its ``workflowRunId``.

        Parameters
        ----------
        sender:
            Account that asks for the work.
        text:
            Input plaintext; stored on the chain, about 22,700 gas for 32 bytes.
        expires_at:
            Unix seconds after which the first task takes no reply.

        Raises
        ------
        Refused
            The contract refused.
        Unreachable
            The node did not answer.
        """
        data = abi.encode_run(keccak256(text), text, expires_at)
        receipt = self._send(sender, "run()", data)
        dispatched = [seen.event for seen in self._decode(receipt.logs)]
        for event in dispatched:
            if isinstance(event, abi.NewAgentTask):
                return event.workflow_run_id
        raise Invalid(f"run() of {self.address} dispatched no task.")

    def reply(
        self,
        sender: str,
        task_hash: bytes,
        output: bytes,
        *,
        timestamp: int,
        operation_id: bytes | None = None,
    ) -> bytes:
        """Answer one task and return the canonical ``replyHash``.

        Parameters
        ----------
        sender:
            The agent's account.
        task_hash:
            The task answered.
        output:
            Output plaintext; stored on the chain.
        timestamp:
            Unix seconds of the execution: after the task's, not after the block's.
        operation_id:
            32 bytes, kept for a retry; random when None.

        Raises
        ------
        Refused
            The contract refused.
        Unreachable
            The node did not answer.
        """
        task, _ = self.task(task_hash)
        reply = AgentReply(
            operation_id=operation_id or secrets.token_bytes(32),
            output_hash=keccak256(output),
            output=output,
            timestamp=timestamp,
            replier=to_address("replier", sender),
            prev_task_hashes=(task_hash,),
            workflow_run_id=task.workflow_run_id,
        )
        self._send(sender, "onAgentReply()", abi.encode_on_agent_reply(reply))
        # The chain is asked, not the struct: what it stored is what counts.
        answer = self._call(
            "getReplyHashByOperation()",
            abi.encode_get_reply_hash_by_operation(reply.workflow_run_id, sender, reply.operation_id),
        )
        return abi.decode_get_reply_hash_by_operation(answer)

    def prove(self, sender: str, reply_hash: bytes, proof: bytes) -> None:
        """Submit a proof for one reply. Raises as :meth:`run`."""
        self._send(sender, "onAgentProve()", abi.encode_on_agent_prove([reply_hash], proof))

    def result(self, workflow_run_id: bytes) -> RunResult:
        """Where a run stands. Raises as :meth:`run`."""
        return abi.decode_result(self._call("result()", abi.encode_result(workflow_run_id)))

    def task(self, task_hash: bytes) -> tuple[AgentTask, bool]:
        """A task and whether it is proven. Raises as :meth:`run`; an unknown hash is refused."""
        return abi.decode_get_agent_task(self._call("getAgentTask()", abi.encode_get_agent_task(task_hash)))

    def get_reply(self, reply_hash: bytes) -> tuple[AgentReply, bool]:
        """A reply and whether it is proven. Raises as :meth:`run`; an unknown hash is refused."""
        answer = self._call("getAgentReply()", abi.encode_get_agent_reply(reply_hash))
        reply, _, proven, _ = abi.decode_get_agent_reply(answer)
        return reply, proven

    def events(self, first_block: int, last_block: int) -> list[SeenEvent]:
        """The workflow's events from `first_block` to `last_block`, both included, in the order they happened.

        Raises
        ------
        Unreachable
            The node did not answer.
        EvidenceError
            A log is not what the interface says.
        """
        logs = self.rpc.call(
            "eth_getLogs",
            {"address": self.address, "fromBlock": hex(first_block), "toBlock": hex(last_block)},
        )
        return sorted(self._decode(logs), key=lambda seen: (seen.block, seen.index))

    def _send(self, sender: str, what: str, data: bytes) -> Receipt:
        return send(self.rpc, sender, what=what, data=data, to=self.address, errors=self._errors)

    def _call(self, what: str, data: bytes) -> bytes:
        return call(self.rpc, self.address, data, what=what, errors=self._errors)

    def _decode(self, logs: list[Any]) -> list[SeenEvent]:
        wanted = to_address("address", self.address)
        return [
            SeenEvent(
                quantity(log["blockNumber"], "the block of a log"),
                quantity(log["logIndex"], "the index of a log"),
                abi.decode_event(
                    [hex_bytes(topic, "a topic", 32) for topic in log["topics"]],
                    hex_bytes(log["data"], "the data of a log"),
                ),
            )
            for log in logs
            if hex_bytes(log["address"], "the address of a log", 20) == wanted
        ]


def mock_proof(task: AgentTask, reply: AgentReply) -> bytes:
    """The proof that ``MockAgentVerifier`` accepts for a reply to a task: anyone can make it, it proves nothing."""
    return keccak256(task.input_hash + reply.output_hash)
