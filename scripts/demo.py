"""``make demo``: three agents work on a text, step by step on a local chain, and a stranger checks their work.

Nothing here is told that does not happen: events are read from the chain by a cursor, agents read their tasks and the
outputs before them from the chain, and the exit code is 0 only if the run completes, its evidence holds, and each
forged copy of it is caught.
"""

from __future__ import annotations

import json
import secrets
import signal
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import click

from provenflow.abi import AgentReplyAnchored, AgentTask, NewAgentTask, RunStatus, WorkflowCompleted
from provenflow.cli.output import HOLDS, emit, guard, printable
from provenflow.demo_agents import clean, report, summarise
from provenflow.devnet import Devnet
from provenflow.errors import Invalid, WrongUse
from provenflow.evidence import collect, export, load, verify
from provenflow.evidence.tree import render
from provenflow.hashing import keccak256
from provenflow.rpc import quantity
from provenflow.workflow_client import SeenEvent, WorkflowClient, mock_proof

DEFAULT_FILE = Path(__file__).resolve().parent.parent / "examples" / "data" / "agent-work.txt"
# The text is stored on the chain, as the input and, cleaned, as the first output. At about 22,700 gas for 32 bytes each
# of them is 17.5 of the 30 million gas of a block.
MAX_BYTES = 24 * 1024
STEPS = ("StepA cleans", "StepB summarises", "StepC reports")
WINDOW = 3600  # seconds that the first agent has
WIDTH = 110


@click.command()
@click.argument("file", required=False, type=click.Path(path_type=Path))
def cli(file: Path | None) -> None:
    """Run a workflow of three agents over a text FILE on a local chain, verify it, and catch two forgeries.

    FILE is UTF-8 text of at most 24 KB. Default: examples/data/agent-work.txt.

    \b
    Examples:
      make demo FILE=README.md
      python scripts/demo.py README.md
    """
    guard(lambda: _demo(file or DEFAULT_FILE))


def _demo(file: Path) -> int:
    text = read_text(file)
    clean(text)  # refuses a text without words before anything is started
    with (
        _terminate_politely(),
        Devnet() as chain,
        tempfile.TemporaryDirectory(prefix="provenflow-demo-") as folder,
    ):
        _title("1", "A local chain")
        contract = chain.contracts["SequentialPipelineWorkflow"]
        emit(f"anvil at {chain.url}, SequentialPipelineWorkflow (ERC-8301, Scenario 3) at {contract.address}")

        _title("2", f"Three agents work on {file.name}, {len(text):,} bytes")
        story = Story(chain, WorkflowClient(chain.rpc, contract.address, contract.abi))
        run_id = story.tell(text)

        _title("3", "The report, as the chain has it")
        emit(_short(story.final_output(run_id)))

        _title("4", "A stranger verifies the evidence, without trusting the contract's own word")
        bundle = Path(folder) / "run.evidence.json"
        _verify(chain, contract.address, run_id, bundle)

        _title("5", "Forged copies of that evidence")
        for what, forge in FORGERIES:
            _catch(bundle, what, forge)
    emit("\nall as it should be: the run is complete, its evidence holds, and both forgeries were caught")
    return HOLDS


def read_text(file: Path) -> bytes:
    """The bytes of a text file.

    Raises
    ------
    WrongUse
        It is not there, is no regular file, or may not be read.
    Invalid
        It is empty, longer than :data:`MAX_BYTES`, or no UTF-8 text.
    """
    fix = f"Name a UTF-8 text file of at most {MAX_BYTES:,} bytes."
    try:
        if not file.exists():
            raise WrongUse(f"There is no file {file}.", fix=fix)
        if not file.is_file():
            raise WrongUse(f"{file} is no regular file.", fix=fix)
        with file.open("rb") as source:
            content = source.read(MAX_BYTES + 1)
    except OSError as trouble:  # permissions, a name too long, links in a circle
        raise WrongUse(
            f"{file} cannot be read: {(trouble.strerror or str(trouble)).lower()}.", fix=fix
        ) from None
    if not content.strip():
        raise Invalid(f"{file} is empty.", fix=fix)
    if len(content) > MAX_BYTES:
        raise Invalid(
            f"{file} is longer than {MAX_BYTES:,} bytes, which would not fit into a block.", fix=fix
        )
    try:
        content.decode()
    except UnicodeDecodeError as trouble:
        raise Invalid(f"{file} is no UTF-8 text (byte {trouble.start:,}).", fix=fix) from None
    if b"\0" in content:
        raise Invalid(f"{file} is a binary file (it has a zero byte).", fix=fix)
    return content


class Story:
    """The run as it happens: whoever acts, acts on an event that was read from the chain.

    Parameters
    ----------
    chain:
        The devnet.
    workflow:
        The pipeline contract on it.
    """

    def __init__(self, chain: Devnet, workflow: WorkflowClient) -> None:
        self.chain = chain
        self.workflow = workflow
        # By task: random, made before the first try and kept, so that a retry is the same operation.
        self.operations: dict[bytes, bytes] = {}
        _, self.requester, *self.agents = self.chain.accounts
        self.prover = self.chain.accounts[-1]
        self.cursor = self._head() + 1

    def tell(self, text: bytes) -> bytes:
        """Start a run over `text` and follow it to its end; its id.

        Raises
        ------
        Invalid
            The run did not end with Success, or stopped moving.
        """
        emit(f"         the requester {_account(self.requester)} calls run()")
        run_id = self.workflow.run(self.requester, text, self.chain.clock() + WINDOW)
        while events := self._new_events():
            for seen in events:
                _show(seen)
            for seen in events:
                match seen.event:
                    case NewAgentTask(stage=stage, task_hash=task_hash):
                        self._work(stage, task_hash)
                    case AgentReplyAnchored(reply_hash=reply_hash):
                        self._prove(reply_hash)
                    case WorkflowCompleted(status=status):
                        if status is not RunStatus.SUCCESS:
                            raise Invalid(f"The run ended as {status.label}.")
                        return run_id
        raise Invalid("The run stopped: no event, and it is not complete.")

    def final_output(self, run_id: bytes) -> bytes:
        """The output of the reply that completed the run, found from ``result()``."""
        final, _ = self.workflow.task(self.workflow.result(run_id).final_task_hash)
        return self.workflow.get_reply(final.prev_reply_hashes[0])[0].output

    def _work(self, stage: int, task_hash: bytes) -> None:
        """An agent answers a task: it reads the task and what came before from the chain, works, and replies."""
        task, _ = self.workflow.task(task_hash)
        agent = self.agents[stage]
        given = self._input_of(task)
        if stage == 0:
            output = clean(given)
        elif stage == 1:
            output = summarise(given)
        else:
            # The reporter needs the text under the summary too: two links back along the chain.
            summary_reply, _ = self.workflow.get_reply(task.prev_reply_hashes[0])
            summary_task, _ = self.workflow.task(summary_reply.prev_task_hashes[0])
            output = report(self._input_of(summary_task), given)
        emit(
            f"         {_account(agent)}, {STEPS[stage]}: {len(given):,} bytes read, {len(output):,} written;"
            " calls onAgentReply()"
        )
        operation_id = self.operations.setdefault(task_hash, secrets.token_bytes(32))
        # A reply's time must be after its task's, and on this chain a second passes when we say so.
        self.workflow.reply(
            agent, task_hash, output, timestamp=self.chain.next_second(), operation_id=operation_id
        )

    def _input_of(self, task: AgentTask) -> bytes:
        """The plaintext that a task is about: its own, or the output of the reply that triggered it.

        Raises
        ------
        Invalid
            It is not what the task's ``inputHash`` commits to.
        """
        plaintext = task.input
        if task.prev_reply_hashes:
            plaintext = self.workflow.get_reply(task.prev_reply_hashes[0])[0].output
        if keccak256(plaintext) != task.input_hash:
            raise Invalid("The chain gave an agent another text than its task commits to.")
        return plaintext

    def _prove(self, reply_hash: bytes) -> None:
        """The prover proves a reply: late for StepA and StepB, which have moved on, and decisive for StepC."""
        reply, _ = self.workflow.get_reply(reply_hash)
        task, _ = self.workflow.task(reply.prev_task_hashes[0])
        emit(
            f"         the prover {_account(self.prover)} calls onAgentProve() for reply {_hash(reply_hash)}"
        )
        self.workflow.prove(self.prover, reply_hash, mock_proof(task, reply))

    def _new_events(self) -> list[SeenEvent]:
        head = self._head()
        if head < self.cursor:
            return []
        first, self.cursor = self.cursor, head + 1
        return self.workflow.events(first, head)

    def _head(self) -> int:
        return quantity(self.chain.rpc.call("eth_blockNumber"), "the block number")


def _verify(chain: Devnet, address: str, run_id: bytes, bundle: Path) -> None:
    evidence = collect(chain.rpc, address, run_id)
    found = verify(evidence)
    # The long list of what holds is left to the command; here: the chain, what stays open, and the sum.
    held = tuple(f"✓ holds {check.id}:" for check in found.checks if check.verdict == "holds")
    emit("\n".join(line for line in render(evidence, found).split("\n") if not line.startswith(held)))
    if found.verdict != "holds" or not found.complete:
        raise Invalid(f"The evidence of an honest run is not complete or does not hold ({found.verdict}).")
    export(evidence, bundle)


def _catch(bundle: Path, what: str, forge: Callable[[dict[str, Any]], None]) -> None:
    """Forge a copy of the bundle, verify it, and say why it does not hold.

    Raises
    ------
    Invalid
        The forgery was not caught.
    """
    document = json.loads(bundle.read_bytes())
    forge(document)
    copy = bundle.with_name("forged.evidence.json")
    copy.write_text(json.dumps(document))
    found = verify(load(copy))
    broken = [finding for check in found.checks for finding in check.findings if finding.verdict == "fails"]
    if found.verdict != "fails" or not broken:
        raise Invalid(f"A forgery was not caught: {what}.")
    labels = {f"0x{node.hash.hex()}": node.label for node in found.nodes}
    emit(f"{what}: caught")
    for finding in broken[:3]:
        who = labels.get(finding.subject, finding.subject)
        emit(f"  ✗ fails {finding.check} of {who}: {_shorten_hashes(printable(finding.detail))}")


def _reply_of_step_b(document: dict[str, Any]) -> dict[str, Any]:
    """The reply to the task of stage 1."""
    asked = next(record["taskHash"] for record in document["tasks"] if record["task"]["stage"] == 1)
    return next(
        record["reply"] for record in document["replies"] if asked in record["reply"]["prevTaskHashes"]
    )


def _change_a_byte(document: dict[str, Any]) -> None:
    """One bit of the first byte of StepB's output."""
    reply = _reply_of_step_b(document)
    output = bytearray.fromhex(reply["output"][2:])
    output[0] ^= 1
    reply["output"] = "0x" + output.hex()


def _change_and_cover_up(document: dict[str, Any]) -> None:
    """The same, and the output hash made to fit: then the reply is no longer the one that the chain anchored."""
    _change_a_byte(document)
    reply = _reply_of_step_b(document)
    reply["outputHash"] = "0x" + keccak256(bytes.fromhex(reply["output"][2:])).hex()


FORGERIES: tuple[tuple[str, Callable[[dict[str, Any]], None]], ...] = (
    ("one byte of StepB's output changed", _change_a_byte),
    ("the same, and its outputHash made to fit", _change_and_cover_up),
)


def _show(seen: SeenEvent) -> None:
    match seen.event:
        case NewAgentTask(stage=stage, task_hash=task_hash):
            what = f"NewAgentTask        {_hash(task_hash)}  {STEPS[stage].split()[0]}"
        case AgentReplyAnchored(reply_hash=reply_hash, replier=replier):
            what = f"AgentReplyAnchored  {_hash(reply_hash)}  by {_account('0x' + replier.hex())}"
        case WorkflowCompleted(status=status, final_task_hash=final_task_hash):
            what = f"WorkflowCompleted   {_hash(final_task_hash)}  {status.label}"
    emit(f"block {seen.block:>2} {what}")


def _title(number: str, what: str) -> None:
    emit(f"\n{number}  {printable(what)}\n")


def _short(text: bytes, lines: int = 24) -> str:
    """A text for the screen: wrapped, cut after `lines` lines, harmless to a terminal."""
    wrapped = [
        piece
        for line in printable(text.decode()).split("\n")
        for piece in textwrap.wrap(line, WIDTH - 2, subsequent_indent="  ") or [""]
    ]
    cut = [f"… and {len(wrapped) - lines} more lines"] if len(wrapped) > lines else []
    return "\n".join(f"  {line}" for line in wrapped[:lines] + cut)


def _shorten_hashes(text: str) -> str:
    return " ".join(
        f"{word[:10]}…{word[66:]}" if word.startswith("0x") and len(word) >= 66 else word
        for word in text.split()
    )


def _hash(value: bytes) -> str:
    return f"0x{value.hex()[:8]}…"


def _account(address: str) -> str:
    return f"{address[:6].lower()}…"


@contextmanager
def _terminate_politely() -> Iterator[None]:
    """Let SIGTERM unwind the program as Ctrl-C does, so that nothing stays behind."""

    def stop(_signal: int, _frame: FrameType | None) -> None:
        sys.exit(128 + signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    cli()
