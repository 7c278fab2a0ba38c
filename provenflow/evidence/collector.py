"""Collecting evidence of a run from a node: everything at one pinned block, nothing judged.

What the node says is written down as it came; only its form is checked. The walk goes from ``result().finalTaskHash``
and from the run's events back over every link, through ``getAgentTask`` and ``getAgentReply``, and never stops early at
a node that claims to be proven.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from provenflow import abi
from provenflow.errors import EvidenceError, HashingError, Unreachable, WrongUse
from provenflow.evidence.model import (
    BlockRecord,
    Evidence,
    LogRecord,
    ReplyRecord,
    TaskRecord,
    TransactionRecord,
)
from provenflow.hashing import Address, Bytes32, keccak256, to_address, to_bytes32
from provenflow.rpc import ResponseTooLarge, Rpc, RpcError, hex_bytes, quantity

Progress = Callable[[str], None]
"""Called with one short sentence at a time while evidence is collected."""

MAX_NODES: Final = 200_000
"""Tasks and replies of one run; a contract that names more is refused, so that no answer can keep us busy for ever."""

_TAGS: Final = ("latest", "safe", "finalized")


def collect(
    rpc: str | Rpc,
    contract: Address,
    run_id: Bytes32,
    *,
    block: int | str | None = None,
    from_block: int | None = None,
    chain_id: int | None = None,
    progress: Progress | None = None,
) -> Evidence:
    """Read everything about a run from a node (ERC-8301, Evidence Chain, "Trustless (full traversal)").

    Parameters
    ----------
    rpc:
        URL of a node, or a client for one.
    contract:
        Address of the workflow contract: 20 bytes or hex.
    run_id:
        ``workflowRunId``: 32 bytes or hex.
    block:
        Block at which to read: a number, or ``latest`` (the default), ``safe`` or ``finalized``.
    from_block:
        First block in which to look for logs; that of the contract's deployment is enough. The default is 0.
    chain_id:
        Refuse a node of another chain than this one.
    progress:
        Told what is being read.

    Returns
    -------
    Evidence
        For :func:`provenflow.evidence.verify`, which judges it.

    Raises
    ------
    WrongUse
        An argument makes no sense, or the node is on another chain.
    Unreachable
        The node cannot be reached, answers nonsense, or does not have what is asked for.
    EvidenceError
        There is no contract, it does not answer as an ``IAgentWorkflow``, or it does not know the run.
    """
    try:
        address, run = to_address("contract", contract), to_bytes32("run_id", run_id)
    except HashingError as error:
        raise WrongUse(error.message) from None
    with _client(rpc) as client:
        return _Collector(client, address, run, progress or _silent).collect(block, from_block, chain_id)


class _Collector:
    def __init__(self, rpc: Rpc, contract: bytes, run_id: bytes, progress: Progress) -> None:
        self._rpc = rpc
        self._contract = contract
        self._run_id = run_id
        self._progress = progress
        self._block: BlockRecord
        self._tasks: dict[bytes, TaskRecord] = {}
        self._replies: dict[bytes, ReplyRecord] = {}

    def collect(self, block: int | str | None, from_block: int | None, chain_id: int | None) -> Evidence:
        actual = quantity(self._rpc.call("eth_chainId"), "the chain id")
        if chain_id is not None and actual != chain_id:
            raise WrongUse(
                f"The node is on chain {actual}, not on chain {chain_id}.",
                fix="Give the URL of a node of that chain.",
            )
        self._block = self._pin(block)
        start = 0 if from_block is None else from_block
        if not 0 <= start <= self._block.number:
            raise WrongUse(f"Logs cannot be read from block {start} up to block {self._block.number}.")
        code = self._code()
        result = self._result()
        logs = self._logs(start)
        if not logs and result == abi.RunResult(abi.RunStatus.PENDING, bytes(32), 0):
            raise EvidenceError(
                f"The contract {_shown(self._contract)} does not know the run 0x{self._run_id.hex()}: it is pending,"
                f" and there is no NewAgentTask event of it in blocks {start} to {self._block.number}.",
                fix="Check the run id, the contract and the first block.",
            )
        self._nodes(logs, result)
        blocks = self._blocks(dict.fromkeys(log.block_number for log in logs))
        transactions = self._transactions(dict.fromkeys(log.transaction_hash for log in logs))
        self._still_there()
        return Evidence(
            chain_id=actual,
            contract=self._contract,
            code_hash=keccak256(code),
            workflow_run_id=self._run_id,
            block=self._block,
            result=result,
            tasks=tuple(self._tasks.values()),
            replies=tuple(self._replies.values()),
            logs=tuple(logs),
            blocks=blocks,
            transactions=transactions,
        )

    def _pin(self, block: int | str | None) -> BlockRecord:
        if block is None:
            block = "latest"
        if isinstance(block, str) and block not in _TAGS:
            raise WrongUse(f"A block is a number or one of {', '.join(_TAGS)}, not {block!r}.")
        if isinstance(block, int) and block < 0:
            raise WrongUse(f"A block number is not negative, as {block} is.")
        tag = block if isinstance(block, str) else hex(block)
        return self._read_block(self._rpc.call("eth_getBlockByNumber", tag, False), f"block {block}")

    def _read_block(self, answer: Any, name: str) -> BlockRecord:
        fields = _fields(answer, name)
        return BlockRecord(
            quantity(fields.get("number"), f"the number of {name}"),
            hex_bytes(fields.get("hash"), f"the hash of {name}", 32),
            quantity(fields.get("timestamp"), f"the timestamp of {name}"),
        )

    def _still_there(self) -> None:
        """The block was pinned by number: had the chain reorganised, the answers would be of two histories."""
        answer = self._rpc.call("eth_getBlockByNumber", hex(self._block.number), False)
        if self._read_block(answer, f"block {self._block.number}") != self._block:
            raise Unreachable(
                "The chain reorganised while it was read.",
                fix="Try again, or read an earlier block with --block.",
            )

    def _code(self) -> bytes:
        answer = self._rpc.call("eth_getCode", _shown(self._contract), hex(self._block.number))
        code = hex_bytes(answer, "the contract's code")
        if not code:
            raise EvidenceError(
                f"There is no contract at {_shown(self._contract)} in block {self._block.number}.",
                fix="Check the address, the chain and the block.",
            )
        return code

    def _call(self, calldata: bytes) -> tuple[str, Sequence[object]]:
        target = {"to": _shown(self._contract), "data": f"0x{calldata.hex()}"}
        return "eth_call", (target, hex(self._block.number))

    def _result(self) -> abi.RunResult:
        method, params = self._call(abi.encode_result(self._run_id))
        try:
            answer = self._rpc.call(method, *params)
        except RpcError as error:
            if not error.is_revert:
                raise
            # result() must not revert, not even for an unknown run, so this is some other contract.
            raise self._foreign("result() reverts") from None
        with self._as_workflow():
            return abi.decode_result(hex_bytes(answer, "the answer of result()"))

    @contextmanager
    def _as_workflow(self) -> Iterator[None]:
        try:
            yield
        except EvidenceError as error:
            raise self._foreign(error.message.rstrip(".")) from None

    def _foreign(self, reason: str) -> EvidenceError:
        return EvidenceError(
            f"The contract {_shown(self._contract)} does not answer as an IAgentWorkflow of ERC-8301: {reason}.",
            fix="Check the address.",
        )

    def _logs(self, start: int) -> list[LogRecord]:
        """All logs of the run; where the node refuses a range of blocks, it is asked for smaller ones."""
        logs: list[LogRecord] = []
        width = self._block.number - start + 1
        while start <= self._block.number:
            end = min(start + width - 1, self._block.number)
            self._progress(f"reading logs of blocks {start} to {end}")
            try:
                answer = self._rpc.call("eth_getLogs", self._filter(start, end))
            except (RpcError, ResponseTooLarge):
                # Nodes word their limits differently; what a single block cannot answer is real trouble.
                if start == end:
                    raise
                width = (end - start + 1) // 2
                continue
            if not isinstance(answer, list):
                raise Unreachable("The node's answer makes no sense: the logs are not a list.")
            logs += [_log(item) for item in answer]
            start = end + 1
        return logs

    def _filter(self, start: int, end: int) -> dict[str, object]:
        return {
            "address": _shown(self._contract),
            "fromBlock": hex(start),
            "toBlock": hex(end),
            "topics": [[f"0x{event.topic0.hex()}" for event in abi.EVENTS], f"0x{self._run_id.hex()}"],
        }

    def _nodes(self, logs: Sequence[LogRecord], result: abi.RunResult) -> None:
        """Every task and reply that an event, the result or a link names, as far as the contract knows it."""
        tasks = [log.topics[3] for log in logs if _is(log, abi.NEW_AGENT_TASK)]
        replies = [log.topics[2] for log in logs if _is(log, abi.AGENT_REPLY_ANCHORED)]
        if result.final_task_hash != bytes(32):
            tasks.append(result.final_task_hash)
        seen_tasks, seen_replies = set(tasks), set(replies)
        tasks, replies = list(dict.fromkeys(tasks)), list(dict.fromkeys(replies))
        while tasks or replies:
            if len(seen_tasks) + len(seen_replies) > MAX_NODES:
                raise EvidenceError(
                    f"The run has more than {MAX_NODES:,} tasks and replies, the limit of evidence."
                )
            new_tasks = self._read_tasks(tasks)
            new_replies = self._read_replies(replies)
            replies = _fresh(
                (link for task in new_tasks for link in task.task.prev_reply_hashes), seen_replies
            )
            tasks = _fresh(
                (link for reply in new_replies for link in reply.reply.prev_task_hashes), seen_tasks
            )

    def _read_tasks(self, hashes: Sequence[bytes]) -> list[TaskRecord]:
        records = []
        calls = [self._call(abi.encode_get_agent_task(task_hash)) for task_hash in hashes]
        for task_hash, data in zip(hashes, self._returned(calls, "tasks"), strict=True):
            if data is not None:
                with self._as_workflow():
                    records.append(TaskRecord(task_hash, *abi.decode_get_agent_task(data)))
        self._tasks.update((record.task_hash, record) for record in records)
        return records

    def _read_replies(self, hashes: Sequence[bytes]) -> list[ReplyRecord]:
        records = []
        calls = [self._call(abi.encode_get_agent_reply(reply_hash)) for reply_hash in hashes]
        for reply_hash, data in zip(hashes, self._returned(calls, "replies"), strict=True):
            if data is not None:
                with self._as_workflow():
                    records.append(ReplyRecord(reply_hash, *abi.decode_get_agent_reply(data)))
        self._replies.update((record.reply_hash, record) for record in records)
        return records

    def _returned(self, calls: Sequence[tuple[str, Sequence[object]]], what: str) -> Iterator[bytes | None]:
        """What each call returned, ``None`` where the contract reverted: it does not know what it was asked for."""
        for answer in self._batch(calls, what):
            if not isinstance(answer, RpcError):
                yield hex_bytes(answer, f"what the contract returned for its {what}")
            elif answer.is_revert:
                yield None
            else:
                raise answer

    def _blocks(self, numbers: Iterable[int]) -> tuple[BlockRecord, ...]:
        wanted = list(numbers)
        calls = [("eth_getBlockByNumber", (hex(number), False)) for number in wanted]
        return tuple(
            self._read_block(_good(answer), f"block {number}")
            for number, answer in zip(wanted, self._batch(calls, "blocks"), strict=True)
        )

    def _transactions(self, hashes: Iterable[bytes]) -> tuple[TransactionRecord, ...]:
        wanted = list(hashes)
        calls = [("eth_getTransactionByHash", (f"0x{item.hex()}",)) for item in wanted]
        return tuple(
            _transaction(_good(answer), f"transaction 0x{item.hex()}")
            for item, answer in zip(wanted, self._batch(calls, "transactions"), strict=True)
        )

    def _batch(self, calls: Sequence[tuple[str, Sequence[object]]], what: str) -> list[Any]:
        return self._rpc.batch(
            calls, done=lambda count: self._progress(f"read {count} of {len(calls)} {what}")
        )


@contextmanager
def _client(rpc: str | Rpc) -> Iterator[Rpc]:
    """The client given, or one that is closed at the end."""
    if isinstance(rpc, Rpc):
        yield rpc
        return
    with Rpc(rpc) as own:
        yield own


def _is(log: LogRecord, event: abi.Event) -> bool:
    """True if the log names a task or reply, as far as its topics go; whether it is the event is for the verifier."""
    return len(log.topics) == 1 + len(event.indexed) and log.topics[0] == event.topic0


def _fresh(links: Iterable[bytes], seen: set[bytes]) -> list[bytes]:
    found = [link for link in dict.fromkeys(links) if link not in seen]
    seen.update(found)
    return found


def _log(answer: Any) -> LogRecord:
    fields = _fields(answer, "a log")
    if fields.get("removed"):
        raise Unreachable(
            "The chain reorganised while it was read: the node serves a removed log.", fix="Try again."
        )
    topics = fields.get("topics")
    if not isinstance(topics, list):
        raise Unreachable("The node's answer makes no sense: the topics of a log are not a list.")
    return LogRecord(
        address=hex_bytes(fields.get("address"), "the address of a log", 20),
        topics=tuple(hex_bytes(topic, "a topic of a log", 32) for topic in topics),
        data=hex_bytes(fields.get("data"), "the data of a log"),
        block_number=quantity(fields.get("blockNumber"), "the block number of a log"),
        block_hash=hex_bytes(fields.get("blockHash"), "the block hash of a log", 32),
        transaction_hash=hex_bytes(fields.get("transactionHash"), "the transaction hash of a log", 32),
        transaction_index=quantity(fields.get("transactionIndex"), "the transaction index of a log"),
        log_index=quantity(fields.get("logIndex"), "the index of a log"),
    )


def _transaction(answer: Any, name: str) -> TransactionRecord:
    fields = _fields(answer, name)
    to = fields.get("to")
    return TransactionRecord(
        hash=hex_bytes(fields.get("hash"), f"the hash of {name}", 32),
        sender=hex_bytes(fields.get("from"), f"the sender of {name}", 20),
        to=None if to is None else hex_bytes(to, f"the target of {name}", 20),
        block_number=quantity(fields.get("blockNumber"), f"the block number of {name}"),
        block_hash=hex_bytes(fields.get("blockHash"), f"the block hash of {name}", 32),
        index=quantity(fields.get("transactionIndex"), f"the index of {name}"),
    )


def _fields(answer: Any, name: str) -> dict[str, Any]:
    if answer is None:
        raise Unreachable(
            f"The node does not have {name}.", fix="Use a node that keeps these blocks, or another --block."
        )
    if not isinstance(answer, dict):
        raise Unreachable(f"The node's answer makes no sense: {name} is not an object.")
    return answer


def _good(answer: Any) -> Any:
    if isinstance(answer, RpcError):
        raise answer
    return answer


def _shown(address: bytes) -> str:
    return f"0x{address.hex()}"


def _silent(sentence: str) -> None:
    """The progress of a caller who asked for none."""
