"""``WorkflowDriver``: runs, replies, proofs and time of one workflow contract, for contract tests.

Time is exact. Every transaction of the driver is mined one second after the block before it, and a reply is built in a
block of its own, so that its timestamp is later than every task and not later than any call or transaction to come.
Nothing depends on the clock of the machine or on chance.

    run = driver.start_run(requester, b"input")
    answer = driver.reply_to(run.task_hash, agent, b"output")
    driver.prove(answer.reply_hash, sender=prover)
    assert driver.result(run.id).status is RunStatus.SUCCESS
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any

from eth_utils import to_checksum_address

from provenflow import abi
from provenflow.abi import AgentReply, AgentTask, RunResult, RunStatus, WorkflowEvent, decode_event
from provenflow.hashing import keccak256
from provenflow.rpc import Rpc, RpcError

DAY = 24 * 60 * 60
DEFAULT_INPUT = b"the input"
DEFAULT_OUTPUT = b"the output"

_RUN_STATE = ("uint8", "uint8", "(bytes32,uint256,uint256,uint256,uint256)[]")
_known_accounts: dict[str, Any] = {}
# Distinct in the whole session, and the same in every session.
_operations = count(1)


@dataclass(frozen=True)
class StartedRun:
    """A run as ``run()`` left it: its id, the tasks it dispatched in order, and the receipt."""

    id: bytes
    task_hashes: tuple[bytes, ...]
    receipt: Any

    @property
    def task_hash(self) -> bytes:
        """The one task that was dispatched; an error when there are several."""
        (task_hash,) = self.task_hashes
        return task_hash


@dataclass(frozen=True)
class Submission:
    """A reply as the contract took it: the canonical reply hash, the tasks dispatched by the same transaction."""

    reply: AgentReply
    reply_hash: bytes
    task_hashes: tuple[bytes, ...]
    receipt: Any

    @property
    def task_hash(self) -> bytes:
        """The one task that was dispatched; an error when there are none or several."""
        (task_hash,) = self.task_hashes
        return task_hash


@dataclass(frozen=True)
class StoredReply:
    """What ``getAgentReply`` returns: `verifier` is a checksummed address, `verification_digest` 32 bytes."""

    reply: AgentReply
    verifier: str
    proven: bool
    verification_digest: bytes


@dataclass(frozen=True)
class OpenTask:
    """One open task of ``runState``; `expires_at` and `deadline` in Unix seconds, 0 = never."""

    task_hash: bytes
    task_seq: int
    lane: int
    expires_at: int
    deadline: int


@dataclass(frozen=True)
class RunState:
    """What ``runState`` returns."""

    status: RunStatus
    stage: int
    open_tasks: tuple[OpenTask, ...]


class WorkflowDriver:
    """Drives one deployed workflow.

    Parameters
    ----------
    workflow:
        The contract instance.
    chain:
        Ape's ``chain``.
    accounts:
        Ape's test accounts; a reply is sent by the account of its replier unless told otherwise.
    """

    def __init__(self, workflow: Any, chain: Any, accounts: Any) -> None:
        self.workflow = workflow
        self.rpc = Rpc(str(chain.provider.uri))
        self._chain = chain
        self._accounts = accounts

    # ── Runs ─────────────────────────────────────────────────────────────────

    def start_run(
        self,
        requester: Any,
        plaintext: bytes = DEFAULT_INPUT,
        *,
        input_hash: bytes | None = None,
        expires_at: int | None = None,
    ) -> StartedRun:
        """Call ``run`` in a transaction.

        Parameters
        ----------
        requester:
            Account that asks for the work.
        plaintext:
            The input; ``b""`` withholds it (then give `input_hash`).
        input_hash:
            Default keccak256 of the plaintext.
        expires_at:
            Default seven days ahead.
        """
        if expires_at is None:
            expires_at = self.now + 7 * DAY
        if input_hash is None:
            input_hash = keccak256(plaintext)
        with self._next_block():
            receipt = self.workflow.run(input_hash, plaintext, expires_at, sender=requester)
        dispatched = self.dispatched(receipt)
        (workflow_run_id,) = {run_id for run_id, _, _ in dispatched}
        return StartedRun(workflow_run_id, tuple(task_hash for _, _, task_hash in dispatched), receipt)

    def result(self, workflow_run_id: bytes) -> RunResult:
        """``result()`` of a run."""
        return abi.decode_result(self._view("result", workflow_run_id))

    def state(self, workflow_run_id: bytes) -> RunState:
        """``runState()`` of a run."""
        data = self._view("runState", workflow_run_id)
        status, stage, open_tasks = abi.decode_exactly(_RUN_STATE, data, "runState() returned")
        return RunState(RunStatus(status), stage, tuple(OpenTask(*task) for task in open_tasks))

    # ── Replies ──────────────────────────────────────────────────────────────

    def build_reply(
        self,
        task_hashes: bytes | Sequence[bytes],
        replier: Any,
        output: bytes = DEFAULT_OUTPUT,
        *,
        output_hash: bytes | None = None,
        operation_id: bytes | None = None,
        timestamp: int | None = None,
        workflow_run_id: bytes | None = None,
    ) -> AgentReply:
        """A reply that the contract should take, unless a parameter says otherwise; nothing is sent.

        Without a timestamp a block is mined, and the reply has its time. Change one field of the answer with
        ``dataclasses.replace``.

        Parameters
        ----------
        task_hashes:
            The task answered, or several; the first is the primary one.
        replier:
            The agent's account.
        output:
            Plaintext; ``b""`` withholds it (then give `output_hash`).
        output_hash:
            Default keccak256 of the output.
        operation_id:
            Default a fresh one.
        timestamp:
            Unix seconds; default the time of the block mined for it.
        workflow_run_id:
            Default the run of the first task.
        """
        prev_task_hashes = (task_hashes,) if isinstance(task_hashes, bytes) else tuple(task_hashes)
        if workflow_run_id is None:
            workflow_run_id = self.task(prev_task_hashes[0]).workflow_run_id
        if timestamp is None:
            timestamp = self.advance_time(1)
        return AgentReply(
            operation_id=self.fresh_operation_id() if operation_id is None else operation_id,
            output_hash=keccak256(output) if output_hash is None else output_hash,
            output=output,
            timestamp=timestamp,
            replier=bytes.fromhex(str(replier.address)[2:]),
            prev_task_hashes=prev_task_hashes,
            workflow_run_id=workflow_run_id,
        )

    def submit(self, reply: AgentReply, sender: Any = None, *, at: int | None = None) -> Submission:
        """``onAgentReply`` in a transaction.

        Parameters
        ----------
        reply:
            The reply, a retry of an earlier one included.
        sender:
            Account; default the replier's.
        at:
            Timestamp of the block; default one second after the last.
        """
        with self._next_block(at):
            receipt = self.workflow.onAgentReply(_as_tuple(reply), sender=sender or self._account(reply))
        reply_hash = bytes(
            self.workflow.getReplyHashByOperation(
                reply.workflow_run_id, to_checksum_address(reply.replier), reply.operation_id
            )
        )
        tasks = tuple(task_hash for _, _, task_hash in self.dispatched(receipt))
        return Submission(reply, reply_hash, tasks, receipt)

    def call_reply(self, reply: AgentReply, sender: Any = None) -> bytes:
        """What ``onAgentReply`` would return now: the cheap way to see a refusal, or the returned hash."""
        return bytes(self.workflow.onAgentReply.call(_as_tuple(reply), sender=sender or self._account(reply)))

    def reply_to(
        self,
        task_hashes: bytes | Sequence[bytes],
        replier: Any,
        output: bytes = DEFAULT_OUTPUT,
        **fields: Any,
    ) -> Submission:
        """:meth:`build_reply` and :meth:`submit`."""
        return self.submit(self.build_reply(task_hashes, replier, output, **fields), replier)

    def reply(self, reply_hash: bytes) -> StoredReply:
        """``getAgentReply``; the record must hash to the hash it was asked by."""
        reply, verifier, proven, digest = abi.decode_get_agent_reply(self._view("getAgentReply", reply_hash))
        assert reply.reply_hash() == reply_hash
        return StoredReply(reply, to_checksum_address(verifier), proven, digest)

    # ── Proofs ───────────────────────────────────────────────────────────────

    def proof_for(self, reply_hash: bytes, metadata: bytes = b"") -> bytes:
        """The proof that the mock verifiers accept for a reply.

        Parameters
        ----------
        reply_hash:
            An anchored reply.
        metadata:
            The stage's metadata for option B; empty for option A.
        """
        reply = self.reply(reply_hash).reply
        primary = self.task(reply.prev_task_hashes[0])
        return keccak256(primary.input_hash + reply.output_hash + metadata)

    def prove(
        self,
        reply_hashes: bytes | Sequence[bytes],
        sender: Any,
        *,
        proof: bytes | None = None,
        at: int | None = None,
    ) -> Any:
        """``onAgentProve`` in a transaction; returns the receipt.

        Parameters
        ----------
        reply_hashes:
            The reply, or several of one statement.
        sender:
            Anyone.
        proof:
            Default :meth:`proof_for` the first reply.
        at:
            Timestamp of the block; default one second after the last.
        """
        hashes = [reply_hashes] if isinstance(reply_hashes, bytes) else list(reply_hashes)
        if proof is None:
            proof = self.proof_for(hashes[0])
        with self._next_block(at):
            return self.workflow.onAgentProve(hashes, proof, sender=sender)

    def call_prove(
        self, reply_hashes: bytes | Sequence[bytes], sender: Any, *, proof: bytes | None = None
    ) -> None:
        """``onAgentProve`` without a transaction: the cheap way to see a refusal."""
        hashes = [reply_hashes] if isinstance(reply_hashes, bytes) else list(reply_hashes)
        if proof is None:
            proof = self.proof_for(hashes[0])
        self.workflow.onAgentProve.call(hashes, proof, sender=sender)

    # ── Timeouts ─────────────────────────────────────────────────────────────

    def time_out(self, task_hash: bytes, sender: Any, *, at: int | None = None) -> Any:
        """``replyTimeout`` in a transaction; returns the receipt.

        Parameters
        ----------
        task_hash:
            The task.
        sender:
            Anyone.
        at:
            Timestamp of the block; default one second after the task's deadline.
        """
        if at is None:
            state = self.state(self.task(task_hash).workflow_run_id)
            (at,) = (task.deadline + 1 for task in state.open_tasks if task.task_hash == task_hash)
        with self._next_block(at):
            return self.workflow.replyTimeout(task_hash, sender=sender)

    # ── Tasks and events ─────────────────────────────────────────────────────

    def task(self, task_hash: bytes) -> AgentTask:
        """The task of ``getAgentTask``; the record must hash to the hash it was asked by."""
        return self._stored_task(task_hash)[0]

    def is_proven(self, task_hash: bytes) -> bool:
        """The ``proven`` of ``getAgentTask``."""
        return self._stored_task(task_hash)[1]

    def dispatched(self, receipt: Any) -> list[tuple[bytes, int, bytes]]:
        """(run id, stage, task hash) of every ``NewAgentTask`` of this workflow in a receipt, in log order."""
        return [
            (bytes(log.workflowRunId), int(log.stage), bytes(log.taskHash))
            for log in self.workflow.NewAgentTask.from_receipt(receipt)
        ]

    def events(self, workflow_run_id: bytes | None = None) -> list[WorkflowEvent]:
        """Every event of this workflow on the chain, in log order; of one run, or of all."""
        logs = self.rpc.call(
            "eth_getLogs", {"address": self.workflow.address, "fromBlock": "earliest", "toBlock": "latest"}
        )
        events = [self.decode_log(log) for log in logs]
        return [event for event in events if workflow_run_id in (None, event.workflow_run_id)]

    @staticmethod
    def decode_log(log: Mapping[str, Any]) -> WorkflowEvent:
        """An event of the interface from a log as the node gives it; anything else fails."""
        return decode_event(
            [bytes.fromhex(topic[2:]) for topic in log["topics"]], bytes.fromhex(log["data"][2:])
        )

    def event_names(self, receipt: Any) -> list[str]:
        """Names of this workflow's own events in a receipt, in log order."""
        return [log.event_name for log in receipt.events if log.contract_address == self.workflow.address]

    # ── Time ─────────────────────────────────────────────────────────────────

    @property
    def now(self) -> int:
        """Timestamp of the latest block, which calls see too."""
        return int(self.rpc.call("eth_getBlockByNumber", "latest", False)["timestamp"], 16)

    def advance_time(self, seconds: int) -> int:
        """Mine a block that many seconds (at least one) after the latest; returns its timestamp."""
        return self.set_time(self.now + seconds)

    def set_time(self, timestamp: int) -> int:
        """Mine a block with exactly this timestamp, later than the latest; returns it."""
        with self._next_block(timestamp):
            self._chain.provider.mine(1)
        return timestamp

    @staticmethod
    def fresh_operation_id() -> bytes:
        """An operation id that no other reply of the session has."""
        return keccak256(f"operation {next(_operations)} of the tests".encode())

    @contextmanager
    def _next_block(self, timestamp: int | None = None) -> Iterator[None]:
        """The transaction inside is mined at `timestamp`, by default one second after the latest block."""
        wanted = self.now + 1 if timestamp is None else timestamp
        self._chain.provider.set_timestamp(wanted)
        yield

    def _stored_task(self, task_hash: bytes) -> tuple[AgentTask, bool]:
        task, proven = abi.decode_get_agent_task(self._view("getAgentTask", task_hash))
        assert task.task_hash() == task_hash
        return task, proven

    def _view(self, function: str, argument: bytes) -> bytes:
        """What a view of one bytes32 returns, read straight from the node: through Ape it takes ten times as long."""
        calldata = keccak256(f"{function}(bytes32)".encode())[:4] + argument
        call = {"to": self.workflow.address, "data": f"0x{calldata.hex()}"}
        try:
            return bytes.fromhex(self.rpc.call("eth_call", call, "latest")[2:])
        except RpcError:
            # `reverts_with` knows the errors of Ape.
            getattr(self.workflow, function)(argument)
            raise

    def _account(self, reply: AgentReply) -> Any:
        address = to_checksum_address(reply.replier)
        # Ape derives every account anew each time it looks one up.
        if address not in _known_accounts:
            _known_accounts[address] = self._accounts[address]
        return _known_accounts[address]


def _as_tuple(reply: AgentReply) -> tuple[Any, ...]:
    """The reply as Ape encodes it."""
    return (
        reply.operation_id,
        reply.output_hash,
        reply.output,
        reply.timestamp,
        to_checksum_address(reply.replier),
        list(reply.prev_task_hashes),
        reply.workflow_run_id,
    )
