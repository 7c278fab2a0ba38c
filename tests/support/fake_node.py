"""A node that shows exactly some evidence, so that collecting can be tested without a chain, lies included."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from eth_abi.abi import encode

from provenflow import abi
from provenflow.evidence import BlockRecord, Evidence, LogRecord
from provenflow.hashing import keccak256
from tests.support.json_rpc_server import NodeError, Server, honest, serve

CODE = b"code"
REVERT = NodeError(3, "execution reverted: custom error 0xdeadbeef", "0xdeadbeef")


@dataclass
class FakeNode:
    """Answers JSON-RPC calls from evidence.

    `answers` replaces the answer to a method: by a value, or by a function of its params and of a function that gives
    the honest answer. `widest_logs` is the largest range of blocks that the node searches for logs.
    """

    evidence: Evidence
    answers: dict[str, Any] = field(default_factory=dict)
    widest_logs: int | None = None

    def handle(self, method: str, params: list[Any]) -> Any:
        """The answer to one call."""
        if method in self.answers:
            replaced = self.answers[method]
            result = (
                replaced(params, lambda: self._answer(method, params)) if callable(replaced) else replaced
            )
            if isinstance(result, NodeError):
                raise result
            return result
        return self._answer(method, params)

    def _answer(self, method: str, params: list[Any]) -> Any:
        match method:
            case "eth_chainId":
                return hex(self.evidence.chain_id)
            case "eth_getBlockByNumber":
                return self._block(params[0])
            case "eth_getCode":
                return _hex(CODE) if self._is_contract(params[0]) else "0x"
            case "eth_call":
                assert params[1] == hex(self.evidence.block.number), "a call was not made at the pinned block"
                return _hex(self._call(params[0]))
            case "eth_getLogs":
                return self._logs(params[0])
            case "eth_getTransactionByHash":
                return self._transaction(params[0])
        raise NodeError(-32601, f"the method {method} does not exist")

    def _is_contract(self, address: str) -> bool:
        return address == _hex(self.evidence.contract)

    def _call(self, call: dict[str, str]) -> bytes:
        assert self._is_contract(call["to"])
        data = bytes.fromhex(call["data"][2:])
        selector, argument = data[:4], data[4:36]
        if selector == abi.RESULT.selector:
            result = self.evidence.result
            known = argument == self.evidence.workflow_run_id
            values = (
                (result.status, result.final_task_hash, result.completed_at) if known else (0, bytes(32), 0)
            )
            return encode(abi.RESULT.outputs, values)
        if selector == abi.GET_AGENT_TASK.selector:
            for record in self.evidence.tasks:
                if record.task_hash == argument:
                    return encode(abi.GET_AGENT_TASK.outputs, (record.task.as_tuple(), record.proven))
        if selector == abi.GET_AGENT_REPLY.selector:
            for reply in self.evidence.replies:
                if reply.reply_hash == argument:
                    fields = (reply.reply.as_tuple(), reply.verifier, reply.proven, reply.verification_digest)
                    return encode(abi.GET_AGENT_REPLY.outputs, fields)
        raise REVERT

    def _block(self, tag: str) -> Any:
        if tag in ("latest", "safe", "finalized"):
            return _block(self.evidence.block)
        number = int(tag, 16)
        for block in (self.evidence.block, *self.evidence.blocks):
            if block.number == number:
                return _block(block)
        return None

    def _logs(self, wanted: dict[str, Any]) -> Any:
        first, last = int(wanted["fromBlock"], 16), int(wanted["toBlock"], 16)
        if self.widest_logs is not None and last - first + 1 > self.widest_logs:
            raise NodeError(-32005, "query returned more than 10000 results")
        if not self._is_contract(wanted["address"]):
            return []
        events, run_id = wanted["topics"]
        return [
            _log(log)
            for log in self.evidence.logs
            if first <= log.block_number <= last
            and _hex(log.topics[0]) in events
            and _hex(log.topics[1]) == run_id
        ]

    def _transaction(self, wanted: str) -> Any:
        for transaction in self.evidence.transactions:
            if _hex(transaction.hash) == wanted:
                return {
                    "hash": _hex(transaction.hash),
                    "from": _hex(transaction.sender),
                    "to": None if transaction.to is None else _hex(transaction.to),
                    "blockNumber": hex(transaction.block_number),
                    "blockHash": _hex(transaction.block_hash),
                    "transactionIndex": hex(transaction.index),
                    "input": "0x",
                }
        return None


@contextmanager
def serve_evidence(evidence: Evidence, **options: Any) -> Iterator[Server]:
    """A node with `evidence`, for as long as the block; see :class:`FakeNode` for the options."""
    with serve(honest(FakeNode(evidence, **options).handle)) as server:
        yield server


def as_collected(evidence: Evidence) -> Evidence:
    """The evidence as collecting gives it: with the code that the fake node shows."""
    return replace(evidence, code_hash=keccak256(CODE))


def _block(block: BlockRecord) -> dict[str, Any]:
    return {
        "number": hex(block.number),
        "hash": _hex(block.hash),
        "timestamp": hex(block.timestamp),
        "transactions": [],
    }


def _log(log: LogRecord) -> dict[str, Any]:
    return {
        "address": _hex(log.address),
        "topics": [_hex(topic) for topic in log.topics],
        "data": _hex(log.data),
        "blockNumber": hex(log.block_number),
        "blockHash": _hex(log.block_hash),
        "transactionHash": _hex(log.transaction_hash),
        "transactionIndex": hex(log.transaction_index),
        "logIndex": hex(log.log_index),
        "removed": False,
    }


def _hex(value: bytes) -> str:
    return f"0x{value.hex()}"
