"""Two workflows on a chain against a model of them in plain Python: whatever is done, both say the same.

Hypothesis draws sequences of actions, good ones and bad ones. The model tells in advance what an action does: the
events and hashes, or the error with all its values. After each action everything that the touched contract shows about
every run, task and reply is compared with the model. A refused action is made as a call, which is cheap, at the very
time for which the model refused it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from eth_abi import decode
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)

from provenflow import abi
from provenflow.abi import AgentReply, AgentReplyAnchored, NewAgentTask, WorkflowEvent
from provenflow.rpc import Rpc
from tests.support.fixtures import Drive
from tests.support.reference_hashing import keccak
from tests.support.reverts import reverts_with
from tests.support.workflow import WorkflowDriver
from tests.support.workflow_model import (
    AUDIT,
    DAY,
    FAILED,
    MAX_PROOF_BATCH,
    PENDING,
    PIPELINE,
    SUCCESS,
    Block,
    Event,
    Refusal,
    Reply,
    StaticWorkflowModel,
)

_STEPS = 25
_OPEN_TASK = "(bytes32,uint256,uint256,uint256,uint256)"
_OUTPUTS = (b"", b"an output", b"\x00" * 33, b"longer than a word: " * 4)
_UNKNOWN = keccak(b"nobody knows this")
_FAULTS = (
    "sender",
    "operation",
    "no task",
    "unknown task",
    "other run",
    "unknown run",
    "early",
    "late",
    "plaintext",
)
_BATCH_FAULTS = ("", "", "", "twice", "unknown", "too many")
_LIFETIMES = (60, 7 * DAY, 7 * DAY, 7 * DAY, 2**41, 2**255, 0, -1, -(10**9))


@dataclass
class Pair:
    """A contract and its model."""

    driver: WorkflowDriver
    model: StaticWorkflowModel


@dataclass
class World:
    """What a machine works on, and what all machines of a test have done together."""

    pipeline: Callable[[], Pair]
    audit: Callable[[], Pair]
    accounts: list[Any]
    errors: Any
    chain: Any
    done: Counter[str]
    refused: Counter[str]
    ended: Counter[int]


class WorkflowMachine(RuleBasedStateMachine):
    """Actions on two contracts."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        self._snapshot = self.world.chain.snapshot()
        self._pairs = [self.world.pipeline(), self.world.audit()]
        self._operations = 0
        self._steps = 0

    def teardown(self) -> None:
        try:
            for pair in self._pairs:
                self._compare(pair)
                self.world.ended.update(run.status for run in pair.model.runs.values())
        finally:
            self.world.chain.restore(self._snapshot)

    # ── Actions ──────────────────────────────────────────────────────────────

    @initialize()
    def first_run(self) -> None:
        """There is something to work on."""
        for pair in self._pairs:
            self._start(pair, 0, b"first", keccak(b"first"), 7 * DAY)

    @rule(seed=st.integers(0, 2**32))
    def act(self, seed: int) -> None:
        """Any action, all as likely: as rules of their own, some would be left out of whole sequences."""
        # Hypothesis likes to draw a number twice; the same action in the same place would say nothing new.
        self._steps += 1
        random = Random(f"{seed} {self._steps}")
        action = random.choice(self._actions)
        note(action.__name__)
        action(random)

    @property
    def _actions(self) -> list[Callable[[Random], None]]:
        # What comes twice is done twice as often.
        return [
            *[self.start] * 2,
            *[self.carry_on] * 2,
            *[self.reply] * 2,
            *[self.reply_to_several] * 2,
            *[self.reply_badly] * 3,
            self.submit_again,
            *[self.prove] * 2,
            *[self.prove_batch] * 3,
            *[self.time_out] * 2,
            self.wait,
        ]

    def start(self, random: Random) -> None:
        """A new run; with a lifetime of 0 or -1 it would be over at once, and far below it has no expiry."""
        plaintext = random.choice([b"", b"some input"])
        input_hash = keccak(plaintext if random.random() < 0.7 else b"something else")
        pair = random.choice(self._pairs)
        self._start(pair, self._anyone(random), plaintext, input_hash, random.choice(_LIFETIMES))

    def carry_on(self, random: Random) -> None:
        """The next right steps of a run: replies that are asked for, proofs that are waited for, timeouts."""
        pending = [
            (pair, run) for pair in self._pairs for run in pair.model.runs.values() if run.status == PENDING
        ]
        pair, run = random.choice(pending) if pending else (self._pairs[0], None)
        for _ in range(random.randint(1, 6) if run else 0):
            if run is None or not (open_tasks := run.open_tasks()):
                return
            task = random.choice(open_tasks)
            answers = [one for one in self._replies_of(pair) if task.hash in one.prev_task_hashes]
            who = self._anyone(random)
            if answers and pair.model.stages[task.stage].sync:
                self._prove(pair, who, [answers[0].hash], self._proof(pair, answers[0]), "prove")
            elif pair.driver.now >= task.expires_at:
                self._time_out(pair, who, task.hash, pair.driver.now + 1)
            else:
                self._reply(pair, who, self._new_reply(pair, (task.hash,), who, b"step", 0), "reply")

    def reply(self, random: Random) -> None:
        """An honest reply to an open task: soon, in the last second, or a second too late."""
        pair, task_hash = self._some_task(random, is_open=True)
        expires_at = pair.model.tasks[task_hash].expires_at
        moment = random.choice(["now"] * 6 + ["last", "past"])
        if moment != "now" and pair.driver.now + 1 < expires_at < pair.driver.now + 60 * DAY:
            pair.driver.set_time(expires_at - (1 if moment == "last" else 0))
        who = self._anyone(random)
        reply = self._new_reply(pair, (task_hash,), who, random.choice(_OUTPUTS), random.randint(0, 3))
        self._reply(pair, who, reply, "reply")

    def reply_to_several(self, random: Random) -> None:
        """One reply to several tasks of one run, open or not, now and then to too many or to one of them twice."""
        is_open = random.random() < 0.6
        pair, task_hash = self._some_task(random, is_open=is_open)
        run = pair.model.runs[pair.model.tasks[task_hash].run_id]
        tasks = [other.hash for other in (run.open_tasks() if is_open else run.tasks)] or [task_hash]
        # Mostly each once; also one of them twice, and more than a reply may name.
        count = random.choice([min(3, len(tasks)), min(2, len(tasks)), len(tasks) + 1, 9])
        random.shuffle(tasks)
        answered = tuple(tasks[place % len(tasks)] for place in range(count))
        who = self._anyone(random)
        self._reply(pair, who, self._new_reply(pair, answered, who, b"for all", 0), "reply to several")

    def reply_badly(self, random: Random) -> None:
        """A reply with a fault, mostly to an open task."""
        pair, task_hash = self._some_task(random, is_open=random.random() < 0.7)
        who = self._anyone(random)
        reply = self._new_reply(pair, (task_hash,), who, b"", 0)
        fault = random.choice(_FAULTS)
        note(fault)
        sender = who
        match fault:
            case "sender":
                sender = who + 1
            case "operation":
                reply = replace(reply, operation_id=bytes(32))
            case "no task":
                reply = replace(reply, prev_task_hashes=())
            case "unknown task":
                reply = replace(reply, prev_task_hashes=(task_hash, _UNKNOWN))
            case "other run":
                reply = replace(reply, run_id=random.choice(list(pair.model.runs)))
            case "unknown run":
                reply = replace(reply, run_id=_UNKNOWN)
            case "early":
                reply = replace(reply, timestamp=pair.model.tasks[task_hash].timestamp)
            case "late":
                reply = replace(reply, timestamp=self._next_block(pair).timestamp + 1)
            case "plaintext":
                reply = replace(reply, output=b"not this")
        self._reply(pair, sender, reply, "reply badly")

    def submit_again(self, random: Random) -> None:
        """A bound operation again: a retry, or other content under its id."""
        if (found := self._some_reply(random, waiting=False)) is None:
            return
        pair, anchored = found
        output = random.choice(_OUTPUTS)
        again = replace(anchored, output=output, timestamp=anchored.timestamp + random.randint(0, 1))
        if random.random() < 0.5:
            again = replace(again, output_hash=keccak(output + b"!"))
        self._reply(pair, self._number(anchored.replier), again, "submit again")

    def prove(self, random: Random) -> None:
        """A proof of one reply, by anyone; mostly a right one of a reply that waits for it."""
        if (found := self._some_reply(random, waiting=random.random() < 0.7)) is None:
            return
        pair, proven = found
        proof = self._proof(pair, proven) if random.random() < 0.7 else keccak(b"no proof")
        self._prove(pair, self._anyone(random), [proven.hash], proof, "prove")

    def prove_batch(self, random: Random) -> None:
        """One proof for several replies of a run, with the same statement or not."""
        if (found := self._some_reply(random, waiting=random.random() < 0.8)) is None:
            return
        pair, proven = found
        proof = self._proof(pair, proven)
        others = [one for one in self._replies_of(pair) if one != proven]
        own = [one for one in others if one.run_id == proven.run_id]
        batch = [proven.hash, *[one.hash for one in own if self._proof(pair, one) == proof]][
            : random.randint(0, 4)
        ]
        mixed = {
            "other run": [one.hash for one in others if one.run_id != proven.run_id],
            "other stage": [one.hash for one in own if self._stage(pair, one) != self._stage(pair, proven)],
        }
        fault = random.choice([*_BATCH_FAULTS, *[name for name in mixed if mixed[name]] * 2])
        note(fault)
        match fault:
            case "twice":
                batch = [*batch, *batch[:1]]
            case "unknown":
                batch = [*batch, _UNKNOWN]
            case "too many":
                batch = [proven.hash] * (MAX_PROOF_BATCH + 1)
            case "other run" | "other stage":
                batch = [proven.hash, random.choice(mixed[fault])]
        self._prove(pair, self._anyone(random), batch, proof, "prove batch")

    def time_out(self, random: Random) -> None:
        """A timeout of a task: now, in the last second before it is possible, or in the first."""
        pair, task_hash = self._some_task(random, is_open=random.random() < 0.8)
        at = self._next_block(pair).timestamp
        task = pair.model.tasks[task_hash]
        moment = random.choice(["first", "first", "last", "now"])
        if moment != "now" and task.is_open:
            wanted = pair.model.deadline(task) + (1 if moment == "first" else 0)
            at = wanted if at <= wanted < at + 60 * DAY else at
        asked = _UNKNOWN if random.random() < 0.1 else task_hash
        self._time_out(pair, self._anyone(random), asked, at)

    def wait(self, random: Random) -> None:
        """Time passes."""
        self._pairs[0].driver.advance_time(random.choice([1, 59, 3600, DAY]))
        self.world.done["wait"] += 1

    # ── Doing it, in the model first ─────────────────────────────────────────

    def _start(self, pair: Pair, who: int, plaintext: bytes, input_hash: bytes, lifetime: int) -> None:
        block = self._next_block(pair)
        expires_at = 0 if lifetime < -1 else block.timestamp + lifetime
        sender = self._account(who)
        self._act(
            pair,
            "start",
            lambda: pair.model.run(_bytes(sender), input_hash, plaintext, expires_at, block),
            lambda: (
                pair.driver.start_run(sender, plaintext, input_hash=input_hash, expires_at=expires_at).receipt
            ),
            lambda: pair.driver.workflow.run.call(input_hash, plaintext, expires_at, sender=sender),
            block,
        )

    def _reply(self, pair: Pair, who: int, reply: Reply, what: str) -> None:
        block = self._next_block(pair)
        sender = self._account(who)
        submitted = AgentReply(*(getattr(reply, name) for name in _REPLY_FIELDS))
        returned: list[bytes] = []

        def predict() -> list[Event]:
            canonical, events = pair.model.reply(reply, _bytes(sender), block)
            returned.append(canonical)
            return events

        def submit() -> Any:
            receipt = pair.driver.submit(submitted, sender, at=block.timestamp).receipt
            # By now it is a retry in any case.
            assert pair.driver.call_reply(submitted, sender) == returned[0]
            return receipt

        self._act(pair, what, predict, submit, lambda: pair.driver.call_reply(submitted, sender), block)

    def _prove(self, pair: Pair, who: int, hashes: list[bytes], proof: bytes, what: str) -> None:
        block = self._next_block(pair)
        sender = self._account(who)
        self._act(
            pair,
            what,
            lambda: pair.model.prove(hashes, proof, block),
            lambda: pair.driver.prove(hashes, sender, proof=proof, at=block.timestamp),
            lambda: pair.driver.call_prove(hashes, sender, proof=proof),
            block,
        )

    def _time_out(self, pair: Pair, who: int, task_hash: bytes, at: int) -> None:
        block = Block(0, at)  # the number plays no part
        sender = self._account(who)
        self._act(
            pair,
            "time out",
            lambda: pair.model.time_out(task_hash, block),
            lambda: pair.driver.time_out(task_hash, sender, at=at),
            lambda: pair.driver.workflow.replyTimeout.call(task_hash, sender=sender),
            block,
        )

    def _act(
        self,
        pair: Pair,
        what: str,
        predict: Callable[[], list[Event]],
        transact: Callable[[], Any],
        call: Callable[[], Any],
        block: Block,
    ) -> None:
        try:
            expected = predict()
        except Refusal as refusal:
            pair.driver.set_time(block.timestamp)
            with reverts_with(getattr(self.world.errors, refusal.name), **_values(refusal)):
                call()
            self.world.refused[refusal.name] += 1
        else:
            receipt = transact()
            assert _events_of(pair.driver, receipt) == expected
            self.world.done[what] += 1
        self._compare(pair)

    # ── Comparing ────────────────────────────────────────────────────────────

    def _compare(self, pair: Pair) -> None:
        """Everything that the contract shows is what the model says."""
        questions = list(_questions(pair.model))
        rpc: Rpc = pair.driver.rpc
        answers = rpc.batch(
            [
                ("eth_call", ({"to": pair.driver.workflow.address, "data": "0x" + data.hex()}, "latest"))
                for data, _, _ in questions
            ]
        )
        for (data, read, expected), answer in zip(questions, answers, strict=True):
            assert isinstance(answer, str), f"{data.hex()} failed: {answer}"
            assert read(bytes.fromhex(answer[2:])) == expected, data.hex()

    # ── Choosing ─────────────────────────────────────────────────────────────

    def _anyone(self, random: Random) -> int:
        return random.randrange(len(self.world.accounts))

    def _some_task(self, random: Random, *, is_open: bool) -> tuple[Pair, bytes]:
        """An open task if there is one and it is wanted; else any."""
        tasks = [(pair, task) for pair in self._pairs for task in pair.model.tasks.values()]
        preferred = [
            (pair, task)
            for pair, task in tasks
            if is_open and task.is_open and pair.model.runs[task.run_id].status == PENDING
        ]
        pair, task = random.choice(preferred or tasks)
        return pair, task.hash

    def _some_reply(self, random: Random, *, waiting: bool) -> tuple[Pair, Reply] | None:
        """A reply whose proof would be accepted, if there is one and it is wanted; else any."""
        replies = [(pair, anchored) for pair in self._pairs for anchored in pair.model.replies.values()]
        preferred = [
            (pair, anchored)
            for pair, anchored in replies
            if waiting and not anchored.proven and pair.model.runs[anchored.reply.run_id].status == PENDING
        ]
        if not replies:
            return None
        pair, anchored = random.choice(preferred or replies)
        return pair, anchored.reply

    @staticmethod
    def _replies_of(pair: Pair) -> list[Reply]:
        return [anchored.reply for anchored in pair.model.replies.values()]

    @staticmethod
    def _stage(pair: Pair, reply: Reply) -> int:
        return pair.model.tasks[reply.prev_task_hashes[0]].stage

    def _account(self, who: int) -> Any:
        return self.world.accounts[who % len(self.world.accounts)]

    def _number(self, address: bytes) -> int:
        return [_bytes(account) for account in self.world.accounts].index(address)

    def _new_reply(self, pair: Pair, tasks: tuple[bytes, ...], who: int, output: bytes, age: int) -> Reply:
        self._operations += 1
        return Reply(
            operation_id=keccak(f"operation {self._operations}".encode()),
            output_hash=keccak(output),
            output=output,
            timestamp=max(self._next_block(pair).timestamp - age, pair.model.tasks[tasks[0]].timestamp + 1),
            replier=_bytes(self._account(who)),
            prev_task_hashes=tasks,
            run_id=pair.model.tasks[tasks[0]].run_id,
        )

    @staticmethod
    def _proof(pair: Pair, reply: Reply) -> bytes:
        return keccak(pair.model.tasks[reply.prev_task_hashes[0]].input_hash + reply.output_hash)

    def _next_block(self, pair: Pair) -> Block:
        latest = pair.driver.rpc.call("eth_getBlockByNumber", "latest", False)
        return Block(int(latest["number"], 16) + 1, int(latest["timestamp"], 16) + 1)


_REPLY_FIELDS = (
    "operation_id",
    "output_hash",
    "output",
    "timestamp",
    "replier",
    "prev_task_hashes",
    "run_id",
)


def _questions(model: StaticWorkflowModel) -> Iterator[tuple[bytes, Callable[[bytes], Any], Any]]:
    """Calldata of a view, how its answer is read, and what it must be; for everything in the model."""
    for run in model.runs.values():
        open_tasks = tuple(
            (task.hash, task.task_seq, task.lane, task.expires_at, model.deadline(task))
            for task in run.open_tasks()
        )
        result = (run.status, run.final_task, run.completed_at)
        yield _ask("result", run.id), _reader("uint8", "bytes32", "uint256"), result
        state = (run.status, run.stage, open_tasks)
        yield _ask("runState", run.id), _reader("uint8", "uint8", f"{_OPEN_TASK}[]"), state
        yield _ask("runExists", run.id), _reader("bool"), (True,)
    for task_hash, task in model.tasks.items():
        stored = (
            task.stage, task.task_seq, task.input_hash, task.input, task.timestamp, task.expires_at,
            task.prev_reply_hashes, task.run_id,
        )  # fmt: skip
        yield (
            _ask("getAgentTask", task_hash),
            _reader(abi.TASK_TUPLE, "bool"),
            (stored, model.is_task_proven(task)),
        )
        yield _ask("isChainProven", task_hash), _reader("bool"), (model.is_chain_proven(task),)
    for reply_hash, anchored in model.replies.items():
        reply = anchored.reply
        verifier, digest = model.verification(anchored)
        stored = (
            reply.operation_id, reply.output_hash, reply.output, reply.timestamp, _hex(reply.replier),
            reply.prev_task_hashes, reply.run_id,
        )  # fmt: skip
        view = (stored, _hex(verifier), anchored.proven, digest)
        yield _ask("getAgentReply", reply_hash), _reader(abi.REPLY_TUPLE, "address", "bool", "bytes32"), view
        yield _ask("replyAnchorTime", reply_hash), _reader("uint256"), (anchored.anchored_at,)
        operation = abi.encode_get_reply_hash_by_operation(reply.run_id, reply.replier, reply.operation_id)
        yield operation, _reader("bytes32"), (reply_hash,)
        operation = abi.encode_get_reply_hash_by_operation(reply.run_id, reply.replier, _UNKNOWN)
        yield operation, _reader("bytes32"), (bytes(32),)
    yield _ask("result", _UNKNOWN), _reader("uint8", "bytes32", "uint256"), (PENDING, bytes(32), 0)
    yield _ask("runExists", _UNKNOWN), _reader("bool"), (False,)


def _ask(function: str, argument: bytes) -> bytes:
    return keccak(f"{function}(bytes32)".encode())[:4] + argument


def _reader(*types: str) -> Callable[[bytes], Any]:
    return lambda data: decode(types, data)


def _events_of(driver: WorkflowDriver, receipt: Any) -> list[Event]:
    """The workflow's own events in a transaction, in log order, as the model writes them."""
    raw = driver.rpc.call("eth_getTransactionReceipt", receipt.txn_hash)
    own = [log for log in raw["logs"] if log["address"].lower() == driver.workflow.address.lower()]
    return [_event(driver.decode_log(log)) for log in own]


def _event(event: WorkflowEvent) -> Event:
    match event:
        case NewAgentTask():
            return ("NewAgentTask", event.workflow_run_id, event.stage, event.task_hash)
        case AgentReplyAnchored():
            return ("AgentReplyAnchored", event.workflow_run_id, event.reply_hash, event.replier)
        case _:
            return (
                "WorkflowCompleted",
                event.workflow_run_id,
                int(event.status),
                event.final_task_hash,
                event.timestamp,
            )


def _values(refusal: Refusal) -> dict[str, Any]:
    """The values of an error as `reverts_with` takes them: addresses as text."""
    addresses = ("replier", "sender")
    return {name: _hex(value) if name in addresses else value for name, value in refusal.values.items()}


def _hex(value: bytes) -> str:
    return "0x" + value.hex()


def _bytes(account: Any) -> bytes:
    return bytes.fromhex(str(account.address)[2:])


@pytest.mark.requirement("EXE-001")
def test_workflow__any_sequence_of_actions__is_what_the_model_says(
    deployer: Any,
    project: Any,
    chain: Any,
    drive: Drive,
    agent_verifier: Any,
    requester: Any,
    agent: Any,
    other_agent: Any,
) -> None:
    verifier = _bytes(agent_verifier)
    pipeline = deployer.deploy(project.SequentialPipelineWorkflow, agent_verifier)
    audit = deployer.deploy(project.ParallelAuditWorkflow, agent_verifier)
    world = World(
        lambda: Pair(drive(pipeline), StaticWorkflowModel(PIPELINE, verifier)),
        lambda: Pair(drive(audit), StaticWorkflowModel(AUDIT, verifier)),
        [requester, agent, other_agent],
        project.IAgentWorkflowErrors,
        chain,
        Counter(),
        Counter(),
        Counter(),
    )
    machine = type("Machine", (WorkflowMachine,), {"world": world})
    run_state_machine_as_test(
        machine,
        settings=settings(
            settings.default,
            max_examples=min(settings.default.max_examples // 2, 200),
            stateful_step_count=_STEPS,
            suppress_health_check=list(HealthCheck),
        ),
    )
    print(world.done, world.refused, world.ended, sep="\n")
    # An empty campaign proves nothing: everything happened, and every refusal that these workflows know was met.
    assert min(world.done[what] for what in _ALL_ACTIONS) > 0, world.done
    assert [name for name in _ALL_REFUSALS if world.refused[name] == 0] == [], world.refused
    assert min(world.ended[status] for status in (PENDING, SUCCESS, FAILED)) > 0, world.ended


_ALL_ACTIONS = (
    "start",
    "reply",
    "reply to several",
    "submit again",
    "prove",
    "prove batch",
    "time out",
    "wait",
)
_ALL_REFUSALS = (
    "InputHashMismatch",
    "ExpiryRequired",
    "ExpiryNotInFuture",
    "ReplierMismatch",
    "ZeroOperationId",
    "OperationConflict",
    "EmptyPrevTaskHashes",
    "TooManyPrevTaskHashes",
    "UnknownTask",
    "ForeignTask",
    "DuplicateTaskHash",
    "RunNotPending",
    "TaskNotOpen",
    "TimestampNotAfterTask",
    "TimestampInFuture",
    "TaskExpired",
    "OutputHashMismatch",
    "EmptyReplyHashes",
    "TooManyReplyHashes",
    "UnknownReply",
    "DuplicateReplyHash",
    "MixedRuns",
    "MixedStages",
    "ProofRejected",
    "TaskNotExpired",
)
