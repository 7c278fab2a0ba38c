"""Evidence as a file: schema ``provenflow-evidence/1``, canonical JSON (RFC 8785).

The schema is described in ``docs/EVIDENCE.md``. Bytes are lower-case hex; a number beyond 2**53 - 1, which JSON cannot
carry exactly, is a decimal string. Reading is strict: what is not exactly of the schema is refused.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import rfc8785

from provenflow import bounded_json
from provenflow.abi import AgentReply, AgentTask, RunResult, RunStatus
from provenflow.errors import EvidenceError, Unreachable
from provenflow.evidence.model import (
    BlockRecord,
    Evidence,
    LogRecord,
    ReplyRecord,
    TaskRecord,
    TransactionRecord,
)
from provenflow.files import write_bytes

SCHEMA: Final = "provenflow-evidence/1"
MAX_BUNDLE_BYTES: Final = 128 * 1024 * 1024
MAX_TOPICS: Final = 4
MAX_DEPTH: Final = 8

_SAFE: Final = 2**53 - 1
_HEX: Final = re.compile(r"0x(?:[0-9a-f]{2})*")
_DECIMAL: Final = re.compile(r"[1-9][0-9]{15,77}")
_STATUS: Final = {status.label: status for status in RunStatus}

_Record = TypeVar("_Record")
_Path = str | os.PathLike[str]


def export(evidence: Evidence, path: _Path) -> None:
    """Write evidence to a file, whole or not at all.

    Parameters
    ----------
    evidence:
        From :func:`provenflow.evidence.collect`.
    path:
        File to write; one that exists is replaced by an atomic rename.

    Raises
    ------
    WrongUse
        The file cannot be written there.
    """
    write_bytes(Path(path), rfc8785.dumps(to_json(evidence)))


def load(path: _Path) -> Evidence:
    """Read evidence from a file that :func:`export` wrote, strictly.

    Only the form is judged here; whether the evidence holds is for :func:`provenflow.evidence.verify`.

    Parameters
    ----------
    path:
        A regular file of at most :data:`MAX_BUNDLE_BYTES` bytes.

    Raises
    ------
    Unreachable
        The file cannot be read.
    EvidenceError
        It is too large, no JSON, has a key twice, or is not exactly of the schema; the sentence says where.
    """
    return from_json(_parse(_read(Path(path))))


def to_json(evidence: Evidence) -> dict[str, Any]:
    """Evidence as the JSON object of the schema."""
    result = evidence.result
    return {
        "schema": SCHEMA,
        "chainId": _number(evidence.chain_id),
        "contract": _hex(evidence.contract),
        "codeHash": _hex(evidence.code_hash),
        "workflowRunId": _hex(evidence.workflow_run_id),
        "block": _block_to_json(evidence.block),
        "result": {
            "status": result.status.label,
            "finalTaskHash": _hex(result.final_task_hash),
            "completedAt": _number(result.completed_at),
        },
        "tasks": [
            {
                "taskHash": _hex(record.task_hash),
                "task": {
                    "stage": record.task.stage,
                    "taskSeq": _number(record.task.task_seq),
                    "inputHash": _hex(record.task.input_hash),
                    "input": _hex(record.task.input),
                    "timestamp": _number(record.task.timestamp),
                    "expiresAt": _number(record.task.expires_at),
                    "prevReplyHashes": [_hex(link) for link in record.task.prev_reply_hashes],
                    "workflowRunId": _hex(record.task.workflow_run_id),
                },
                "proven": record.proven,
            }
            for record in evidence.tasks
        ],
        "replies": [
            {
                "replyHash": _hex(record.reply_hash),
                "reply": {
                    "operationId": _hex(record.reply.operation_id),
                    "outputHash": _hex(record.reply.output_hash),
                    "output": _hex(record.reply.output),
                    "timestamp": _number(record.reply.timestamp),
                    "replier": _hex(record.reply.replier),
                    "prevTaskHashes": [_hex(link) for link in record.reply.prev_task_hashes],
                    "workflowRunId": _hex(record.reply.workflow_run_id),
                },
                "verifier": _hex(record.verifier),
                "proven": record.proven,
                "verificationDigest": _hex(record.verification_digest),
            }
            for record in evidence.replies
        ],
        "logs": [
            {
                "address": _hex(log.address),
                "topics": [_hex(topic) for topic in log.topics],
                "data": _hex(log.data),
                "blockNumber": _number(log.block_number),
                "blockHash": _hex(log.block_hash),
                "transactionHash": _hex(log.transaction_hash),
                "transactionIndex": _number(log.transaction_index),
                "logIndex": _number(log.log_index),
            }
            for log in evidence.logs
        ],
        "blocks": [_block_to_json(block) for block in evidence.blocks],
        "transactions": [
            {
                "hash": _hex(transaction.hash),
                "from": _hex(transaction.sender),
                "to": None if transaction.to is None else _hex(transaction.to),
                "blockNumber": _number(transaction.block_number),
                "blockHash": _hex(transaction.block_hash),
                "transactionIndex": _number(transaction.index),
            }
            for transaction in evidence.transactions
        ],
    }


def from_json(document: object) -> Evidence:
    """Evidence from the JSON object of the schema.

    Raises
    ------
    EvidenceError
        The object is not exactly of the schema; the sentence says where.
    """
    root = _Object(document, "the bundle")
    schema = root.take("schema")
    if schema != SCHEMA:
        shown = repr(schema) if isinstance(schema, str) and len(schema) < 60 else "something else"
        raise EvidenceError(f"The bundle's schema is {shown}, not {SCHEMA!r}.", fix=_FIX)
    evidence = Evidence(
        chain_id=root.number("chainId"),
        contract=root.hex("contract", 20),
        code_hash=root.hex("codeHash", 32),
        workflow_run_id=root.hex("workflowRunId", 32),
        block=_block(root.child("block")),
        result=_result(root.child("result")),
        tasks=root.records("tasks", _task),
        replies=root.records("replies", _reply),
        logs=root.records("logs", _log),
        blocks=root.records("blocks", _block),
        transactions=root.records("transactions", _transaction),
    )
    root.end()
    return evidence


_FIX: Final = "Export it again from a node."


class _Object:
    """A JSON object being read: every key must be taken, with the right type, and none may be left."""

    def __init__(self, value: object, where: str) -> None:
        if not isinstance(value, dict):
            raise EvidenceError(f"In the bundle, {where} is not an object.", fix=_FIX)
        self._rest = dict(value)
        self._where = where

    def take(self, key: str) -> object:
        if key not in self._rest:
            raise EvidenceError(f"In the bundle, {self._where} has no {key!r}.", fix=_FIX)
        return self._rest.pop(key)

    def hex(self, key: str, length: int | None = None) -> bytes:
        return self._bytes(self.take(key), key, length)

    def optional_hex(self, key: str, length: int) -> bytes | None:
        value = self.take(key)
        return None if value is None else self._bytes(value, key, length)

    def hashes(self, key: str, limit: int | None = None) -> tuple[bytes, ...]:
        items = self._list(key)
        if limit is not None and len(items) > limit:
            raise self._wrong(key, f"a list of at most {limit} items")
        return tuple(self._bytes(item, f"{key}[{place}]", 32) for place, item in enumerate(items))

    def number(self, key: str, bits: int = 256) -> int:
        value = self.take(key)
        if isinstance(value, str) and _DECIMAL.fullmatch(value) and _SAFE < int(value) < 1 << bits:
            return int(value)
        # bool is an int in Python, and true is no number in JSON.
        if type(value) is int and 0 <= value <= min(_SAFE, (1 << bits) - 1):
            return value
        raise self._wrong(key, f"a number of {bits} bits, as a decimal string beyond 2**53 - 1")

    def boolean(self, key: str) -> bool:
        value = self.take(key)
        if not isinstance(value, bool):
            raise self._wrong(key, "true or false")
        return value

    def child(self, key: str) -> _Object:
        return _Object(self.take(key), f"{self._where}.{key}")

    def records(self, key: str, read: Callable[[_Object], _Record]) -> tuple[_Record, ...]:
        return tuple(read(_Object(item, f"{key}[{place}]")) for place, item in enumerate(self._list(key)))

    def end(self) -> None:
        """Refuse what no key of the schema took."""
        if self._rest:
            key = min(self._rest)
            shown = repr(key) if len(key) < 60 else "one with a very long name"
            raise EvidenceError(f"In the bundle, {self._where} has an unknown field {shown}.", fix=_FIX)

    def _list(self, key: str) -> list[Any]:
        value = self.take(key)
        if not isinstance(value, list):
            raise self._wrong(key, "a list")
        return value

    def _bytes(self, value: object, key: str, length: int | None) -> bytes:
        if isinstance(value, str) and _HEX.fullmatch(value) and length in (None, len(value) // 2 - 1):
            return bytes.fromhex(value[2:])
        raise self._wrong(key, "lower-case hex" if length is None else f"{length} bytes in lower-case hex")

    def _wrong(self, key: str, expected: str) -> EvidenceError:
        return EvidenceError(f"In the bundle, {self._where}.{key} is not {expected}.", fix=_FIX)


def _result(source: _Object) -> RunResult:
    status = source.take("status")
    if not isinstance(status, str) or status not in _STATUS:
        raise EvidenceError(f"In the bundle, result.status is none of {', '.join(_STATUS)}.", fix=_FIX)
    result = RunResult(_STATUS[status], source.hex("finalTaskHash", 32), source.number("completedAt"))
    source.end()
    return result


def _task(source: _Object) -> TaskRecord:
    fields = source.child("task")
    task = AgentTask(
        stage=fields.number("stage", 8),
        task_seq=fields.number("taskSeq"),
        input_hash=fields.hex("inputHash", 32),
        input=fields.hex("input"),
        timestamp=fields.number("timestamp"),
        expires_at=fields.number("expiresAt"),
        prev_reply_hashes=fields.hashes("prevReplyHashes"),
        workflow_run_id=fields.hex("workflowRunId", 32),
    )
    fields.end()
    record = TaskRecord(source.hex("taskHash", 32), task, source.boolean("proven"))
    source.end()
    return record


def _reply(source: _Object) -> ReplyRecord:
    fields = source.child("reply")
    reply = AgentReply(
        operation_id=fields.hex("operationId", 32),
        output_hash=fields.hex("outputHash", 32),
        output=fields.hex("output"),
        timestamp=fields.number("timestamp"),
        replier=fields.hex("replier", 20),
        prev_task_hashes=fields.hashes("prevTaskHashes"),
        workflow_run_id=fields.hex("workflowRunId", 32),
    )
    fields.end()
    record = ReplyRecord(
        source.hex("replyHash", 32),
        reply,
        source.hex("verifier", 20),
        source.boolean("proven"),
        source.hex("verificationDigest", 32),
    )
    source.end()
    return record


def _log(source: _Object) -> LogRecord:
    log = LogRecord(
        address=source.hex("address", 20),
        topics=source.hashes("topics", MAX_TOPICS),
        data=source.hex("data"),
        block_number=source.number("blockNumber", 64),
        block_hash=source.hex("blockHash", 32),
        transaction_hash=source.hex("transactionHash", 32),
        transaction_index=source.number("transactionIndex", 64),
        log_index=source.number("logIndex", 64),
    )
    source.end()
    return log


def _block(source: _Object) -> BlockRecord:
    block = BlockRecord(source.number("number", 64), source.hex("hash", 32), source.number("timestamp"))
    source.end()
    return block


def _transaction(source: _Object) -> TransactionRecord:
    transaction = TransactionRecord(
        hash=source.hex("hash", 32),
        sender=source.hex("from", 20),
        to=source.optional_hex("to", 20),
        block_number=source.number("blockNumber", 64),
        block_hash=source.hex("blockHash", 32),
        index=source.number("transactionIndex", 64),
    )
    source.end()
    return transaction


def _block_to_json(block: BlockRecord) -> dict[str, Any]:
    return {
        "number": _number(block.number),
        "hash": _hex(block.hash),
        "timestamp": _number(block.timestamp),
    }


def _hex(value: bytes) -> str:
    return f"0x{value.hex()}"


def _number(value: int) -> int | str:
    return value if value <= _SAFE else str(value)


def _read(path: Path) -> bytes:
    try:
        # A pipe or a device would block or never end.
        if not stat.S_ISREG(path.stat().st_mode):
            raise Unreachable(f"{path} is not a regular file.", fix="Give the path of an evidence bundle.")
        with path.open("rb") as file:
            content = file.read(MAX_BUNDLE_BYTES + 1)
    except OSError as error:
        raise Unreachable(f"{path} cannot be read ({error.strerror}).", fix="Check the path.") from None
    if len(content) > MAX_BUNDLE_BYTES:
        raise EvidenceError(f"{path} is longer than {MAX_BUNDLE_BYTES:,} bytes, the limit of a bundle.")
    return content


def _parse(content: bytes) -> object:
    try:
        return bounded_json.parse(
            content,
            MAX_DEPTH,
            object_pairs_hook=_no_duplicates,
            parse_int=_small_int,
            parse_float=_no_float,
            parse_constant=_no_float,
        )
    except ValueError as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise EvidenceError(f"The bundle is not JSON as it should be ({reason}).", fix=_FIX) from None


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise EvidenceError("In the bundle, an object has the same key twice.", fix=_FIX)
    return members


def _small_int(digits: str) -> int:
    if len(digits) > len(str(_SAFE)):
        raise EvidenceError(
            "The bundle has a number beyond 2**53 - 1 that is not a decimal string.", fix=_FIX
        )
    return int(digits)


def _no_float(text: str) -> float:
    raise EvidenceError(f"The bundle has {text[:20]}, and only whole numbers are allowed.", fix=_FIX)
