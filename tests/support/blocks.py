"""Several transactions in one block, and what became of each.

Sent raw, by the node's unlocked accounts: a transaction that reverts is mined like any other, and what every call
returned or reverted with is read from its trace.

    first, second = mine_together(driver, [replying(reply_a), replying(reply_b)])
    assert first.returned == reply_a.reply_hash()
    second.assert_reverted_with(driver.workflow.TaskNotOpen, taskHash=task_hash)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from eth_utils import to_checksum_address

from provenflow import abi
from provenflow.abi import AgentReply, WorkflowEvent
from provenflow.rpc import Rpc
from tests.support.reverts import error_data
from tests.support.workflow import WorkflowDriver

_GAS = 3_000_000
_GWEI = 10**9


@dataclass(frozen=True)
class Transaction:
    """A call to be sent: `sender` is an address, `target` too (default: the workflow), `data` the calldata."""

    sender: str
    data: bytes
    target: str | None = None


@dataclass(frozen=True)
class Outcome:
    """What became of a transaction.

    Parameters
    ----------
    succeeded:
        Its status.
    data:
        What the call returned, or reverted with.
    events:
        The workflow's events in its logs, in order.
    foreign_logs:
        How many logs other contracts wrote.
    """

    succeeded: bool
    data: bytes
    events: tuple[WorkflowEvent, ...]
    foreign_logs: int

    @property
    def returned(self) -> bytes:
        """What it returned; fails the test when it reverted."""
        assert self.succeeded, f"it reverted with 0x{self.data.hex()}"
        return self.data

    def assert_reverted_with(self, error: Any, **arguments: Any) -> None:
        """It reverted with exactly this error and these arguments, and left no log."""
        assert not self.succeeded, "it succeeded"
        assert self.data == error_data(error, **arguments)
        assert (self.events, self.foreign_logs) == ((), 0)


def replying(reply: AgentReply, sender: Any = None) -> Transaction:
    """``onAgentReply``, by default sent by the replier."""
    address = sender.address if sender else to_checksum_address(reply.replier)
    return Transaction(address, abi.encode_on_agent_reply(reply))


def proving(reply_hashes: bytes | Sequence[bytes], proof: bytes, sender: Any) -> Transaction:
    """``onAgentProve``."""
    hashes = [reply_hashes] if isinstance(reply_hashes, bytes) else reply_hashes
    return Transaction(sender.address, abi.encode_on_agent_prove(hashes, proof))


def timing_out(driver: WorkflowDriver, task_hash: bytes, sender: Any) -> Transaction:
    """``replyTimeout``."""
    return Transaction(sender.address, bytes(driver.workflow.replyTimeout.encode_input(task_hash)))


def mine_together(
    driver: WorkflowDriver, transactions: Sequence[Transaction], *, at: int | None = None
) -> list[Outcome]:
    """Mine the transactions in one block, in their order.

    Parameters
    ----------
    driver:
        Of the workflow.
    transactions:
        At least one.
    at:
        Timestamp of the block; default one second after the last.
    """
    rpc = driver.rpc
    base_fee = int(rpc.call("eth_getBlockByNumber", "latest", False)["baseFeePerGas"], 16)
    with _no_mining(rpc):
        hashes = [
            rpc.call(
                "eth_sendTransaction",
                {
                    "from": transaction.sender,
                    "to": transaction.target or driver.workflow.address,
                    "data": f"0x{transaction.data.hex()}",
                    "gas": hex(_GAS),
                    # The node orders a block by price.
                    "gasPrice": hex(base_fee * 2 + (len(transactions) - place) * _GWEI),
                },
            )
            for place, transaction in enumerate(transactions)
        ]
        rpc.call("evm_setNextBlockTimestamp", driver.now + 1 if at is None else at)
        rpc.call("evm_mine")
    receipts = [rpc.call("eth_getTransactionReceipt", transaction_hash) for transaction_hash in hashes]
    assert len({receipt["blockNumber"] for receipt in receipts}) == 1
    assert [int(receipt["transactionIndex"], 16) for receipt in receipts] == list(range(len(receipts)))
    return [_outcome(driver, receipt) for receipt in receipts]


@contextmanager
def _no_mining(rpc: Rpc) -> Iterator[None]:
    rpc.call("evm_setAutomine", False)
    try:
        yield
    finally:
        rpc.call("evm_setAutomine", True)


def _outcome(driver: WorkflowDriver, receipt: dict[str, Any]) -> Outcome:
    trace = driver.rpc.call("debug_traceTransaction", receipt["transactionHash"], {"tracer": "callTracer"})
    own = [log for log in receipt["logs"] if log["address"] == driver.workflow.address.lower()]
    return Outcome(
        succeeded=receipt["status"] == "0x1",
        data=bytes.fromhex(trace.get("output", "0x")[2:]),
        events=tuple(driver.decode_log(log) for log in own),
        foreign_logs=len(receipt["logs"]) - len(own),
    )
