"""A chain on which every figure is the same in every run: time, accounts and calldata are chosen, not met.

Gas of a transaction has two sources of noise. One is time and chance (timestamps, salts): here every block gets its
timestamp, and every value is derived from a name. The other is calldata, where a zero byte costs 4 gas and another 16:
a hash with a zero byte in it would make an action 12 gas cheaper. Hashes that chance would give are taken without zero
bytes: those that the benchmark chooses by trying names, those that a contract makes by doing the action again in a
later block.
"""

from __future__ import annotations

import os
import queue
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from provenflow import abi, leash
from provenflow.abi import AgentReply, AgentReplyAnchored, NewAgentTask, WorkflowCompleted, WorkflowEvent
from provenflow.artifacts import Artifact
from provenflow.errors import Invalid, Unreachable
from provenflow.hashing import keccak256, to_address
from provenflow.rpc import Rpc, RpcError, hex_bytes, quantity
from provenflow.toolchain import find_anvil

HARDFORK: Final = "prague"
DAY: Final = 24 * 60 * 60
INPUT_HASH: Final = bytes.fromhex("11" * 32)
_START_TIME: Final = 0x6B111111  # in 2026
_GAS_LIMIT: Final = 25_000_000
_ATTEMPTS: Final = 500
# Gas of an SSTORE that sets a slot from zero, and of one that changes another value (EIP-2200, EIP-2929); in each case
# the slot was touched before, or not.
_CREATES: Final = (20_000, 22_100)
_UPDATES: Final = (2_900, 5_000)
_LISTENING: Final = re.compile(r"Listening on 127\.0\.0\.1:(\d+)")
_REPLY_TIMEOUT: Final = abi.Function("replyTimeout", ("bytes32",), ())
_RUN_STATE: Final = abi.Function("runState", ("bytes32",), ())


@dataclass(frozen=True)
class Outcome:
    """What a transaction did.

    Parameters
    ----------
    gas:
        ``gasUsed`` of its receipt.
    events:
        The workflow's events, in log order.
    transaction:
        Its hash, ``0x…``.
    """

    gas: int
    events: tuple[WorkflowEvent, ...]
    transaction: str

    @property
    def run_id(self) -> bytes:
        """Run of the first event."""
        return self.events[0].workflow_run_id

    @property
    def tasks(self) -> tuple[bytes, ...]:
        """Hashes of the tasks dispatched, in order."""
        return tuple(event.task_hash for event in self.events if isinstance(event, NewAgentTask))

    @property
    def task(self) -> bytes:
        """Hash of the one task dispatched."""
        (task_hash,) = self.tasks
        return task_hash

    @property
    def reply(self) -> bytes:
        """Hash of the one reply anchored."""
        (reply_hash,) = (event.reply_hash for event in self.events if isinstance(event, AgentReplyAnchored))
        return reply_hash

    @property
    def completed(self) -> bool:
        """Whether the run ended."""
        return any(isinstance(event, WorkflowCompleted) for event in self.events)


@dataclass(frozen=True)
class StorageUse:
    """The storage slots that a transaction touched, each once, and the gas that all accesses to them cost.

    Parameters
    ----------
    created:
        Slots that were zero before and are not now.
    updated:
        Other slots that were written.
    read:
        Slots that were only read.
    gas:
        Of every SLOAD and SSTORE.
    """

    created: int
    updated: int
    read: int
    gas: int


@dataclass
class GasChain:
    """anvil with freshly deployed contracts, for the time of a ``with`` block.

    Parameters
    ----------
    contracts:
        Compiled contracts by name.

    Raises
    ------
    Unreachable
        anvil did not start.
    """

    contracts: Mapping[str, Artifact]
    transcript: list[str] = field(default_factory=list)
    """Every event and, after :meth:`record`, every view: what a twin must repeat."""

    def __enter__(self) -> Self:
        command = [
            sys.executable, "-I", "-S", str(Path(leash.__file__)), str(os.getpid()), str(find_anvil()),
            "--host", "127.0.0.1", "--port", "0", "--hardfork", HARDFORK, "--timestamp", str(_START_TIME),
            "--no-request-size-limit", "--no-mining", "--steps-tracing",
        ]  # fmt: skip
        self._process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        try:
            self._rpc = Rpc(f"http://127.0.0.1:{self._port()}")
            self._now = _START_TIME
            self._labels: dict[str, int] = {}
            self._workflows: list[Workflow] = []
            accounts = [to_address("account", account) for account in self._rpc.call("eth_accounts")]
            # Their addresses are in calldata too.
            self.deployer, *self.agents = [account for account in accounts if 0 not in account]
            self.verifier = self._deploy("MockAgentVerifier")
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def deploy(self, name: str, *arguments: object) -> Workflow:
        """Deploy a workflow.

        Parameters
        ----------
        name:
            The contract.
        arguments:
            Those of its constructor after the first, which is the verifier.
        """
        workflow = Workflow(self, self._deploy(name, "0x" + self.verifier.hex(), *arguments))
        self._workflows.append(workflow)
        return workflow

    def record(self) -> None:
        """Append to the transcript what the views of every workflow say about everything that happened on it."""
        for workflow in self._workflows:
            for data in workflow.questions():
                answer = self._rpc.call(
                    "eth_call", {"to": _hex(workflow.address), "data": _hex(data)}, "latest"
                )
                self.transcript.append(f"{data.hex()} -> {answer}")

    def storage_use(self, outcome: Outcome) -> StorageUse:
        """The storage that a transaction touched, from its trace.

        Raises
        ------
        Unreachable
            anvil gave no trace.
        """
        options = {"disableStorage": True, "enableMemory": False}
        trace = self._rpc.call("debug_traceTransaction", outcome.transaction, options)
        steps = trace.get("structLogs") if isinstance(trace, dict) else None
        if not steps:
            raise Unreachable("anvil gave no trace of a transaction.")
        accesses = [
            (step["op"], int(step["gasCost"]), (step["depth"], step["stack"][-1]))
            for step in steps
            if step["op"] in ("SLOAD", "SSTORE")
        ]
        touched = {slot for _, _, slot in accesses}
        created = {slot for operation, gas, slot in accesses if operation == "SSTORE" and gas in _CREATES}
        written = {
            slot for operation, gas, slot in accesses if operation == "SSTORE" and gas in _UPDATES
        } - created
        return StorageUse(
            created=len(created),
            updated=len(written),
            read=len(touched - created - written),
            gas=sum(gas for _, gas, _ in accesses),
        )

    # ── Used by Workflow ─────────────────────────────────────────────────────

    def chosen(self, label: str, accept: Callable[[bytes], bool] = lambda _: True) -> bytes:
        """32 bytes without a zero byte, another with every call; derived from `label` and nothing else.

        Parameters
        ----------
        label:
            What it is for.
        accept:
            A further condition.
        """
        for _ in range(_ATTEMPTS):
            number = self._labels[label] = self._labels.get(label, 0) + 1
            value = keccak256(f"{label} {number}".encode())
            if 0 not in value and accept(value):
                return value
        raise Invalid(f"No {label} without a zero byte was found.")

    def next_time(self) -> int:
        """A timestamp later than every block, without a zero byte; it counts as used."""
        self._now += 1
        while 0 in self._now.to_bytes(4, "big"):
            self._now += 1
        return self._now

    def advance(self, seconds: int) -> None:
        """Let time pass; nothing is mined."""
        self._now += seconds

    def mine(self) -> int:
        """Mine an empty block; its timestamp."""
        self._rpc.call("evm_setNextBlockTimestamp", self.next_time())
        self._rpc.call("evm_mine")
        return self._now

    def send(self, sender: bytes, to: bytes | None, data: bytes) -> Mapping[str, Any]:
        """A transaction in a block of its own; its receipt.

        Raises
        ------
        Invalid
            It reverted.
        """
        transaction = {"from": _hex(sender), "data": _hex(data), "gas": hex(_GAS_LIMIT)}
        if to is not None:
            transaction["to"] = _hex(to)
        self._rpc.call("evm_setNextBlockTimestamp", self.next_time())
        try:
            identifier = self._rpc.call("eth_sendTransaction", transaction)
        except RpcError as error:
            raise Invalid(f"A transaction of the benchmark was refused: {error.text} {error.data}") from None
        # Mined by hand: anvil's own miner may still hold a transaction when a snapshot is taken or restored.
        self._rpc.call("evm_mine")
        receipt = self._rpc.call("eth_getTransactionReceipt", identifier)
        if not isinstance(receipt, dict) or quantity(receipt.get("status"), "a status") != 1:
            raise Invalid(f"A transaction of the benchmark reverted: {data[:4].hex()}")
        return receipt

    def until_clean(self, action: Callable[[], Outcome]) -> Outcome:
        """Do `action`, again in a later block until no hash that it makes has a zero byte."""
        for attempt in range(1, _ATTEMPTS):
            snapshot = self._rpc.call("evm_snapshot")
            outcome = action()
            made = [outcome.run_id, *outcome.tasks] if outcome.events else []
            made += [event.reply_hash for event in outcome.events if isinstance(event, AgentReplyAnchored)]
            if not any(0 in value for value in made):
                self.transcript += [repr(event) for event in outcome.events]
                return outcome
            if self._rpc.call("evm_revert", snapshot) is not True:
                raise Unreachable("anvil did not go back to a snapshot.")
            for _ in range(attempt):  # a run id depends on the block's number, not on its time
                self.mine()
        raise Invalid("No hash without a zero byte was found.")

    def _deploy(self, name: str, *arguments: object) -> bytes:
        receipt = self.send(self.deployer, None, self.contracts[name].init_code(*arguments))
        return hex_bytes(receipt.get("contractAddress"), f"the address of {name}", 20)

    def _port(self) -> int:
        lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()

        def read() -> None:
            for line in self._process.stdout or ():
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        said = ""
        try:
            while (line := lines.get(timeout=30)) is not None:
                if found := _LISTENING.search(line):
                    return int(found[1])
                said = line.strip() or said
        except queue.Empty:
            pass
        raise Unreachable(f"anvil did not start: {said}")

    def _stop(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass
class Workflow:
    """One deployed workflow on a chain of the benchmark. Every method is one transaction, measured whole."""

    chain: GasChain
    address: bytes
    _runs: list[bytes] = field(default_factory=list)
    _tasks: list[bytes] = field(default_factory=list)
    _replies: list[bytes] = field(default_factory=list)

    def run(self, *, input_bytes: int = 0, tasks: int = 1) -> Outcome:
        """Start a run.

        Parameters
        ----------
        input_bytes:
            Length of the input plaintext, without zero bytes in it; 0 withholds it.
        tasks:
            Tasks that the workflow dispatches then, to be sure of what is measured.
        """
        plaintext, input_hash = _plaintext(input_bytes, lambda _: True) if input_bytes else (b"", INPUT_HASH)

        def act() -> Outcome:
            expires_at = self.chain.next_time() + 7 * DAY
            while 0 in expires_at.to_bytes(4, "big"):
                expires_at += 1
            return self._send(abi.encode_run(input_hash, plaintext, expires_at))

        outcome = self.chain.until_clean(act)
        if len(outcome.tasks) != tasks:
            raise Invalid(f"A run dispatched {len(outcome.tasks)} tasks, not {tasks}.")
        self._runs.append(outcome.run_id)
        self._tasks += outcome.tasks
        return outcome

    def reply(
        self,
        *tasks: bytes,
        agent: int = 0,
        output: bytes | None = None,
        output_bytes: int = 0,
        output_hash: bytes | None = None,
        dispatches: int = 0,
    ) -> Outcome:
        """Answer tasks.

        Parameters
        ----------
        tasks:
            The tasks answered, the primary one first.
        agent:
            Which account.
        output:
            Output plaintext; default withheld.
        output_bytes:
            Instead of `output`: its length, without zero bytes in it.
        output_hash:
            Default that of the plaintext, or a fresh one.
        dispatches:
            Tasks that this dispatches.
        """
        stored = self.task(tasks[0])

        def provable(candidate: bytes) -> bool:
            return 0 not in keccak256(stored.input_hash + candidate)

        if output_bytes:
            output, output_hash = _plaintext(output_bytes, provable)
        elif output is not None:
            output_hash = keccak256(output)
        elif output_hash is None:
            output_hash = self.chain.chosen("output", provable)
        operation_id = self.chain.chosen("operation")

        def act() -> Outcome:
            return self._submit(
                AgentReply(
                    operation_id=operation_id,
                    output_hash=output_hash,
                    output=output or b"",
                    timestamp=self.chain.mine(),
                    replier=self.chain.agents[agent],
                    prev_task_hashes=tasks,
                    workflow_run_id=stored.workflow_run_id,
                )
            )

        outcome = self.chain.until_clean(act)
        self._replies.append(outcome.reply)
        return self._expect(outcome, dispatches)

    def retry(self, reply_hash: bytes) -> Outcome:
        """Submit an anchored reply once more, unchanged."""
        outcome = self._submit(self.stored_reply(reply_hash))
        if outcome.events:
            raise Invalid("A retry had an effect.")
        return outcome

    def prove(self, *replies: bytes, dispatches: int = 0, completes: bool = False) -> Outcome:
        """Prove replies with the proof of the first.

        Parameters
        ----------
        replies:
            Hashes of anchored replies over the same input and output.
        dispatches:
            Tasks that this dispatches.
        completes:
            Whether this ends the run.
        """
        first = self.stored_reply(replies[0])
        proof = keccak256(self.task(first.prev_task_hashes[0]).input_hash + first.output_hash)
        data = abi.encode_on_agent_prove(replies, proof)
        return self._expect(self.chain.until_clean(lambda: self._send(data)), dispatches, completes)

    def timeout(self, task: bytes, *, dispatches: int = 0, completes: bool = False) -> Outcome:
        """Time a task out, long after its deadline."""
        self.chain.advance(30 * DAY)
        data = _REPLY_TIMEOUT.encode(task)
        return self._expect(self.chain.until_clean(lambda: self._send(data)), dispatches, completes)

    def task(self, task_hash: bytes) -> abi.AgentTask:
        """A stored task; it must hash to the hash it is asked by."""
        task, _ = abi.decode_get_agent_task(self._view(abi.encode_get_agent_task(task_hash)))
        if task.task_hash() != task_hash:
            raise Invalid(f"Task 0x{task_hash.hex()} does not hash to its hash.")
        return task

    def stored_reply(self, reply_hash: bytes) -> AgentReply:
        """A stored reply; it must hash to the hash it is asked by."""
        reply, *_ = abi.decode_get_agent_reply(self._view(abi.encode_get_agent_reply(reply_hash)))
        if reply.reply_hash() != reply_hash:
            raise Invalid(f"Reply 0x{reply_hash.hex()} does not hash to its hash.")
        return reply

    def questions(self) -> list[bytes]:
        """Calldata of every getter of the ERC about every run, task and reply so far."""
        asked = [abi.encode_result(run_id) for run_id in self._runs]
        asked += [_RUN_STATE.encode(run_id) for run_id in self._runs]
        final = [
            abi.decode_result(self._view(abi.encode_result(run_id))).final_task_hash for run_id in self._runs
        ]
        asked += [abi.encode_get_agent_task(task) for task in [*self._tasks, *final] if task != bytes(32)]
        for reply_hash in self._replies:
            reply = self.stored_reply(reply_hash)
            asked.append(abi.encode_get_agent_reply(reply_hash))
            asked.append(
                abi.encode_get_reply_hash_by_operation(
                    reply.workflow_run_id, reply.replier, reply.operation_id
                )
            )
        return asked

    def _submit(self, reply: AgentReply) -> Outcome:
        return self._send(abi.encode_on_agent_reply(reply), reply.replier)

    def _send(self, data: bytes, sender: bytes | None = None) -> Outcome:
        receipt = self.chain.send(sender or self.chain.deployer, self.address, data)
        events = [
            abi.decode_event(
                [hex_bytes(topic, "a topic", 32) for topic in log["topics"]], hex_bytes(log["data"], "data")
            )
            for log in receipt["logs"]
            if hex_bytes(log["address"], "the address of a log", 20) == self.address
        ]
        gas = quantity(receipt.get("gasUsed"), "gasUsed")
        return Outcome(gas, tuple(events), str(receipt["transactionHash"]))

    def _view(self, data: bytes) -> bytes:
        answer = self.chain._rpc.call("eth_call", {"to": _hex(self.address), "data": _hex(data)}, "latest")
        return hex_bytes(answer, "the answer of a view")

    def _expect(self, outcome: Outcome, dispatches: int, completes: bool = False) -> Outcome:
        """What is measured must be what its name says."""
        if len(outcome.tasks) != dispatches or outcome.completed != completes:
            raise Invalid(f"Expected {dispatches} tasks, completed: {completes}; there was {outcome.events}.")
        self._tasks += outcome.tasks
        return outcome


def _plaintext(length: int, accept: Callable[[bytes], bool]) -> tuple[bytes, bytes]:
    """Bytes of this length and their hash, neither with a zero byte."""
    for value in range(1, 256):
        plaintext = bytes([value]) * length
        digest = keccak256(plaintext)
        if 0 not in digest and accept(digest):
            return plaintext, digest
    raise Invalid(f"No plaintext of {length} bytes has a hash without a zero byte.")


def _hex(data: bytes) -> str:
    return "0x" + data.hex()
