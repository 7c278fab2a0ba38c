"""What is measured: the actions of users of a workflow, by name, and how each grows.

Where nothing else is said, an action has one previous task or reply and withholds the plaintext.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from eth_abi.abi import encode

from benchmarks.gas_chain import GasChain, Outcome, StorageUse
from provenflow.errors import Invalid

_ASYNC: Final = 0
_SYNC: Final = 1
_WIDTHS: Final = (1, 2, 4, 8)
_EARLIER: Final = (0, 1, 10)
_LENGTHS: Final = (0, 32, 256, 1024)


@dataclass
class Measured:
    """Gas of whole transactions.

    Parameters
    ----------
    chain:
        Where they are done.
    actions:
        By the name of the action.
    storage:
        What each action touches, by its name.
    growth:
        By ``"action, by what it grows with"``, then by that number.
    """

    chain: GasChain
    actions: dict[str, int] = field(default_factory=dict)
    storage: dict[str, StorageUse] = field(default_factory=dict)
    growth: dict[str, dict[int, int]] = field(default_factory=dict)

    def act(self, name: str, outcome: Outcome) -> Outcome:
        """Note an action."""
        if name in self.actions:
            raise Invalid(f"Two actions are called {name}.")
        self.actions[name] = outcome.gas
        self.storage[name] = self.chain.storage_use(outcome)
        return outcome

    def grow(self, name: str, number: int, outcome: Outcome) -> Outcome:
        """Note an action at one point of its growth."""
        figures = self.growth.setdefault(name, {})
        if number in figures:
            raise Invalid(f"{name} was measured twice at {number}.")
        figures[number] = outcome.gas
        return outcome


def measure(chain: GasChain) -> Measured:
    """Do everything on a fresh chain and note what it costs."""
    measured = Measured(chain)
    for part in (_single, _provenance, _pipeline, _audit, _selection, _timeouts):
        part(chain, measured)
    for growth in (_by_earlier_runs, _by_earlier_replies, _by_length, _by_previous, _by_children, _by_batch):
        growth(chain, measured)
    chain.record()
    return measured


# ── Actions ──────────────────────────────────────────────────────────────────


def _single(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("SingleStageWorkflow")
    run = measured.act("run, first of the contract", workflow.run())
    reply = measured.act("reply, waits for its proof", workflow.reply(run.task))
    measured.act("retry of an operation", workflow.retry(reply.reply))
    measured.act("final proof, input stored", workflow.prove(reply.reply, completes=True))
    measured.act("run, later", workflow.run())


def _provenance(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("InputProvenanceWorkflow")
    reply = workflow.reply(workflow.run().task)
    infer = measured.act("proof, dispatches the next task", workflow.prove(reply.reply, dispatches=1))
    reply = workflow.reply(infer.task, agent=1)
    measured.act("final proof, input derived", workflow.prove(reply.reply, completes=True))


def _pipeline(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("SequentialPipelineWorkflow")
    run = workflow.run()
    first = measured.act("reply, dispatches the next task", workflow.reply(run.task, dispatches=1))
    second = workflow.reply(first.task, agent=1, dispatches=1)
    measured.act("late proof, 1 child, input stored", workflow.prove(first.reply))
    measured.act("late proof, 1 child, input derived", workflow.prove(second.reply))
    measured.act("proof, repeated", workflow.prove(second.reply))


def _audit(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("ParallelAuditWorkflow")
    audits = measured.act("run, dispatches 3 tasks", workflow.run(tasks=3)).tasks
    measured.act("reply, accepted into a join", workflow.reply(audits[0]))
    measured.act("reply, accepted into a join, second", workflow.reply(audits[1], agent=1))
    measured.act("reply, ends a join of 3 and dispatches", workflow.reply(audits[2], agent=2, dispatches=1))


def _selection(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("CompetitiveSelectionWorkflow")
    bidding = workflow.run().task
    discarded = measured.act("reply, gate silent", workflow.reply(bidding))
    measured.act("late proof, no child, input stored", workflow.prove(discarded.reply))
    for agent in range(3):
        bid = workflow.reply(
            bidding, agent=agent, output=encode(["uint256", "bytes"], [agent + 1, b""]), dispatches=agent // 2
        )
    execution = workflow.reply(bid.task, agent=0)
    workflow.prove(execution.reply, completes=True)


def _timeouts(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("SequentialPipelineWorkflow")
    again = measured.act(
        "timeout, retries the initial task", workflow.timeout(workflow.run().task, dispatches=1)
    )
    measured.act("timeout, aborts", workflow.timeout(again.task, completes=True))
    later = workflow.reply(workflow.run().task, dispatches=1)
    measured.act("timeout, retries a later task", workflow.timeout(later.task, dispatches=1))


# ── Growth ───────────────────────────────────────────────────────────────────


def _by_earlier_runs(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("SequentialPipelineWorkflow")
    for number in range(_EARLIER[-1] + 1):
        run = workflow.run()
        first = workflow.reply(run.task, dispatches=1)
        second = workflow.reply(first.task, dispatches=1)
        late = workflow.prove(first.reply)
        third = workflow.reply(second.task)
        final = workflow.prove(third.reply, completes=True)
        if number in _EARLIER:
            measured.grow("run, by earlier runs", number, run)
            measured.grow("reply that dispatches, by earlier runs", number, first)
            measured.grow("late proof, by earlier runs", number, late)
            measured.grow("reply that waits, by earlier runs", number, third)
            measured.grow("final proof, by earlier runs", number, final)


def _by_earlier_replies(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("InputProvenanceWorkflow")
    for number in _EARLIER:
        task = workflow.run().task
        for _ in range(number):
            workflow.reply(task)
        reply = measured.grow("reply that waits, by earlier replies", number, workflow.reply(task))
        proof = workflow.prove(reply.reply, dispatches=1)
        measured.grow("proof that dispatches, by earlier replies", number, proof)
        for _ in range(number):
            workflow.reply(proof.task)
        final = workflow.prove(workflow.reply(proof.task).reply, completes=True)
        measured.grow("final proof, by earlier replies", number, final)
    workflow = chain.deploy("WideWorkflow", _ASYNC, 3, 1)
    for number in _EARLIER:
        tasks = workflow.run(tasks=3).tasks
        for _ in range(number):  # an answer to several tasks of a join is discarded
            workflow.reply(tasks[2], tasks[1])
        workflow.reply(tasks[0])
        workflow.reply(tasks[1])
        measured.grow(
            "reply that dispatches, by earlier replies", number, workflow.reply(tasks[2], dispatches=1)
        )


def _by_length(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("SequentialPipelineWorkflow")
    for length in _LENGTHS:
        run = measured.grow("run, by bytes of input", length, workflow.run(input_bytes=length))
        first = workflow.reply(run.task, output_bytes=length, dispatches=1)
        measured.grow("reply that dispatches, by bytes of output", length, first)
        second = workflow.reply(first.task, dispatches=1)
        third = workflow.reply(second.task, output_bytes=length)
        measured.grow("reply that waits, by bytes of output", length, third)
        final = workflow.prove(third.reply, completes=True)
        measured.grow("final proof, by bytes of the proven output", length, final)


def _by_previous(chain: GasChain, measured: Measured) -> None:
    for width in _WIDTHS:
        workflow = chain.deploy("WideWorkflow", _SYNC, width, 1)
        run = measured.grow("run, by tasks dispatched", width, workflow.run(tasks=width))
        reply = workflow.reply(*run.tasks)
        measured.grow("reply that waits, by previous tasks", width, reply)
        workflow = chain.deploy("WideWorkflow", _ASYNC, width, 1)
        tasks = workflow.run(tasks=width).tasks
        for task in tasks[:-1]:
            workflow.reply(task)
        last = workflow.reply(tasks[-1], dispatches=1)
        measured.grow("reply that dispatches, by previous replies of the task", width, last)
        final = workflow.reply(last.task)
        measured.grow(
            "final proof, by previous replies of the task", width, workflow.prove(final.reply, completes=True)
        )
        workflow = chain.deploy("WideWorkflow", _ASYNC, 1, width)
        last = workflow.reply(workflow.run().task, dispatches=width)
        measured.grow("reply that dispatches, by tasks dispatched", width, last)


def _by_children(chain: GasChain, measured: Measured) -> None:
    for children in _WIDTHS:
        workflow = chain.deploy("WideWorkflow", _ASYNC, 1, children)
        reply = workflow.reply(workflow.run().task, dispatches=children)
        measured.grow("late proof, by tasks that wait for it", children, workflow.prove(reply.reply))


def _by_batch(chain: GasChain, measured: Measured) -> None:
    workflow = chain.deploy("CompetitiveSelectionWorkflow")
    bidding = workflow.run().task
    for size in _WIDTHS:
        # One proof covers them: the same output from the same input.
        first = workflow.reply(bidding)
        output_hash = workflow.stored_reply(first.reply).output_hash
        others = [workflow.reply(bidding, output_hash=output_hash) for _ in range(size - 1)]
        replies = [outcome.reply for outcome in (first, *others)]
        measured.grow("late proof, by replies in the batch", size, workflow.prove(*replies))
