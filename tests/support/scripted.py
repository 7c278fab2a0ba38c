"""``ScriptedDriver``: drives a ``ScriptedWorkflow``, whose hooks answer what the test says and keep what they were asked.

flow.script(retry(), passes(Stage.SYNC))
first = flow.reply_to(run.task_hash, agent)          # the gate answers "retry"
second = flow.reply_to(first.task_hash, agent)       # and then "pass"
assert flow.gate_inputs[1].task_hash == first.task_hash
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from enum import IntEnum
from typing import Any

from eth_abi import decode, encode

from provenflow.abi import (
    REPLY_TUPLE,
    AgentReply,
    decode_get_agent_reply,
    encode_on_agent_prove,
    encode_on_agent_reply,
)
from tests.support.blocks import mine_together, replying
from tests.support.workflow import DAY, WorkflowDriver

FINAL_STAGE = 255
MAX_PREV_TASKS = 8
MAX_PROOF_BATCH = 32
MAX_TRIGGERS = 64
MAX_PARALLEL_TASKS = 64
MAX_WAITING_TASKS = 256
NOBODY = "0x0000000000000000000000000000000000000000"


class Mode(IntEnum):
    """``StageMode``."""

    ASYNC = 0
    SYNC = 1


class Option(IntEnum):
    """``VerifierOption``."""

    NONE = 0
    AGENT_VERIFIER = 1
    PROOF_VERIFIER = 2


@dataclass(frozen=True)
class StageConfig:
    """One stage, as the constructors take it; windows in seconds."""

    mode: Mode
    option: Option
    verifier: Any = NOBODY
    window: int = 0
    proof_window: int = 0
    max_retries: int = 0
    require_upstream_proven: bool = False
    metadata: bytes = b""

    def as_tuple(self) -> tuple[Any, ...]:
        """As Ape encodes it."""
        return tuple(getattr(self, name) for name in self.__dataclass_fields__)


class Stage(IntEnum):
    """The stages of :func:`stage_table`. Every window is another, so that no stage can be taken for its neighbour."""

    OPEN = 0  # async, one retry
    NEXT = 1  # async
    SYNC = 2  # sync, option A, proof window, one retry
    SYNC_B = 3  # sync, option B with metadata
    UNPROVABLE = 4  # async, takes no proofs, tasks do not expire
    STRICT = 5  # async, upstream must be proven
    STRICT_SYNC = 6  # sync, upstream must be proven
    HOSTILE = 7  # sync, option A, by the misbehaving verifier
    HOSTILE_B = 8  # sync, option B, by the misbehaving verifier


METADATA = b"circuit key of the tests"


def stage_table(agent_verifier: Any, proof_verifier: Any, hostile_verifier: Any) -> list[StageConfig]:
    """A stage of every kind; see :class:`Stage`."""
    option_a, option_b = Option.AGENT_VERIFIER, Option.PROOF_VERIFIER
    table = {
        Stage.OPEN: StageConfig(Mode.ASYNC, option_a, agent_verifier, window=7 * DAY, max_retries=1),
        Stage.NEXT: StageConfig(Mode.ASYNC, option_a, agent_verifier, window=3 * DAY),
        Stage.SYNC: StageConfig(
            Mode.SYNC, option_a, agent_verifier, window=5 * DAY, proof_window=DAY, max_retries=1
        ),
        Stage.SYNC_B: StageConfig(
            Mode.SYNC, option_b, proof_verifier, window=2 * DAY, proof_window=DAY // 2, metadata=METADATA
        ),
        Stage.UNPROVABLE: StageConfig(Mode.ASYNC, Option.NONE),
        Stage.STRICT: StageConfig(
            Mode.ASYNC, option_a, agent_verifier, window=4 * DAY, max_retries=1, require_upstream_proven=True
        ),
        Stage.STRICT_SYNC: StageConfig(
            Mode.SYNC, option_a, agent_verifier, window=6 * DAY, require_upstream_proven=True
        ),
        Stage.HOSTILE: StageConfig(Mode.SYNC, option_a, hostile_verifier, window=8 * DAY),
        Stage.HOSTILE_B: StageConfig(
            Mode.SYNC, option_b, hostile_verifier, window=9 * DAY, metadata=METADATA
        ),
    }
    return [table[stage] for stage in Stage]


@dataclass(frozen=True)
class StaticStage:
    """One stage of a static workflow."""

    config: StageConfig
    tasks: int = 1
    next: int = FINAL_STAGE

    def as_tuple(self) -> tuple[Any, ...]:
        """As Ape encodes it."""
        return (self.config.as_tuple(), self.tasks, self.next)


class Verdict(IntEnum):
    """``Verdict``."""

    SILENT = 0
    PASS = 1
    RETRY = 2
    ABORT = 3


@dataclass(frozen=True)
class Decision:
    """``GateDecision``: what a gate or a timeout policy answers."""

    verdict: Verdict
    next_stage: int = 0
    triggers: tuple[bytes, ...] = ()
    input_hashes: tuple[bytes, ...] = ()
    tasks: int = 0
    tally: int = 0
    consume: bool = False


def silent(tally: int = 0, *, consume: bool = False) -> Decision:
    """Silent."""
    return Decision(Verdict.SILENT, tally=tally, consume=consume)


def passes(
    next_stage: int,
    triggers: Iterable[bytes] = (),
    input_hashes: Iterable[bytes] = (),
    tasks: int = 0,
) -> Decision:
    """Pass to a stage, or (``FINAL_STAGE``) to the end."""
    return Decision(Verdict.PASS, next_stage, tuple(triggers), tuple(input_hashes), tasks)


def retry(triggers: Iterable[bytes] = (), tally: int = 0) -> Decision:
    """Retry."""
    return Decision(Verdict.RETRY, triggers=tuple(triggers), tally=tally)


def abort() -> Decision:
    """Abort."""
    return Decision(Verdict.ABORT)


@dataclass(frozen=True)
class GateInput:
    """What the gate was asked about; `anchored_at`, `stored` and `proven` are what could be read of the reply by then."""

    workflow_run_id: bytes
    stage: int
    task_hash: bytes
    lane: int
    tally: int
    reply_hash: bytes
    reply: AgentReply
    anchored_at: int
    stored: AgentReply
    proven: bool


@dataclass(frozen=True)
class TimeoutInput:
    """What the timeout policy was asked about."""

    workflow_run_id: bytes
    stage: int
    task_hash: bytes
    lane: int
    attempt: int
    max_retries: int
    answered: bool


_GATE_INPUT = f"(bytes32,uint8,bytes32,uint8,uint32,bytes32,{REPLY_TUPLE})"
_TIMEOUT_INPUT = "(bytes32,uint8,bytes32,uint8,uint8,uint8,bool)"


class ScriptedDriver(WorkflowDriver):
    """A :class:`WorkflowDriver` of a ``ScriptedWorkflow``: says what its hooks answer, and reads what they were asked."""

    # ── What the hooks answer ────────────────────────────────────────────────

    def plan_begin(self, stage: int, *input_hashes: bytes) -> None:
        """From now on runs begin here, with one task for each hash."""
        self._tell("planBegin", stage, list(input_hashes))

    def script(self, *decisions: Decision) -> None:
        """The gate's next answers, in order; after the last it is silent."""
        for decision in decisions:
            self._tell("scriptGate", astuple(decision))

    def script_timeouts(self, *decisions: Decision) -> None:
        """The timeout policy's next answers, in order; after the last it is the base's default."""
        for decision in decisions:
            self._tell("scriptTimeout", astuple(decision))

    def bar(self, account: Any, barred: bool = True) -> None:
        """Whether the account may not reply."""
        self._tell("bar", account, barred)

    def _tell(self, function: str, *arguments: Any) -> None:
        with self._next_block():
            getattr(self.workflow, function)(*arguments, sender=self._accounts[0])

    # ── What the hooks were asked ────────────────────────────────────────────

    @property
    def begin_inputs(self) -> list[tuple[bytes, bytes]]:
        """(run id, input hash) of every call of ``_begin``, in order."""
        inputs = self.workflow.beginInputs()
        return [tuple(decode(["bytes32", "bytes32"], data)) for data in inputs]

    @property
    def gate_inputs(self) -> list[GateInput]:
        """Every question to the gate that it answered, in order."""
        inputs = []
        for data in self.workflow.gateInputs():
            values, anchored_at, answer = decode([_GATE_INPUT, "uint256", "bytes"], data)
            *head, (operation_id, output_hash, output, timestamp, replier, tasks, run_id) = values
            reply = AgentReply(
                operation_id, output_hash, output, timestamp, bytes.fromhex(replier[2:]), tuple(tasks), run_id
            )
            stored, _, proven, _ = decode_get_agent_reply(answer)
            inputs.append(GateInput(*head, reply, anchored_at, stored, proven))
        return inputs

    @property
    def timeout_inputs(self) -> list[TimeoutInput]:
        """Every question to the timeout policy that it answered, in order."""
        return [
            TimeoutInput(*values)
            for data in self.workflow.timeoutInputs()
            for values in decode([_TIMEOUT_INPUT], data)
        ]

    # ── Reaching a stage ─────────────────────────────────────────────────────

    def reach(self, stage: int, requester: Any, agent: Any, *, tasks: int = 1) -> Reached:
        """Start a run at ``Stage.OPEN`` and let its first reply, which stays unproven, pass to `stage`."""
        run = self.start_run(requester)
        self.script(passes(stage, tasks=tasks))
        first = self.reply_to(run.task_hash, agent, b"the output of the first stage")
        return Reached(run.id, run.task_hash, first.reply_hash, first.task_hashes)

    # ── Proofs ───────────────────────────────────────────────────────────────

    def prove_within(self, gas: int, reply_hash: bytes, sender: Any, proof: bytes) -> Any:
        """``onAgentProve`` in a transaction with this gas limit, for verifiers that would use up any other."""
        with self._next_block():
            return self.workflow.onAgentProve([reply_hash], proof, sender=sender, gas=gas)

    # ── Contracts that act ───────────────────────────────────────────────────

    def reply_through(self, contract_agent: Any, *replies: AgentReply, at: int | None = None) -> list[Any]:
        """Submit replies as a ``ContractAgent``, all in one transaction, whether they are accepted or not.

        Returns
        -------
        list
            (success, data) of every call: the returned hash, or what it reverted with.
        """
        return self._try_all(contract_agent, [encode_on_agent_reply(reply) for reply in replies], at)

    def submit_as(self, contract: Any, reply: AgentReply) -> None:
        """``onAgentReply`` as a contract that has no function for it: the node is asked to act as the contract."""
        self.rpc.call("anvil_setBalance", contract.address, hex(10**18))
        self.rpc.call("anvil_impersonateAccount", contract.address)
        (outcome,) = mine_together(self, [replying(reply, contract)])
        self.rpc.call("anvil_stopImpersonatingAccount", contract.address)
        assert outcome.returned == reply.reply_hash()

    def prove_through(self, contract_agent: Any, *batches: tuple[Sequence[bytes], bytes]) -> list[Any]:
        """The same with ``onAgentProve``: (reply hashes, proof) of each call."""
        return self._try_all(contract_agent, [encode_on_agent_prove(*batch) for batch in batches], None)

    def _try_all(self, contract_agent: Any, calls: list[bytes], at: int | None) -> list[Any]:
        done = len(contract_agent.outcomes())
        with self._next_block(at):
            contract_agent.tryAll(self.workflow, calls, sender=self._accounts[0])
        return [(bool(success), bytes(data)) for success, data in contract_agent.outcomes()[done:]]


@dataclass(frozen=True)
class Reached:
    """A run that has passed its first stage: the first task and its reply, and the open tasks of the stage reached."""

    run_id: bytes
    first_task: bytes
    first_reply: bytes
    task_hashes: tuple[bytes, ...]

    @property
    def task_hash(self) -> bytes:
        """The one open task; an error when there are several."""
        (task_hash,) = self.task_hashes
        return task_hash


def split_proofs(proofs: Sequence[bytes]) -> bytes:
    """One proof for each reply of a batch, as a workflow that splits proofs expects them."""
    return encode(["bytes[]"], [list(proofs)])
