"""Evidence of real runs on a real chain: collected, verified, exported, and lied about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from eth_abi.abi import encode

from provenflow import abi, artifacts
from provenflow.abi import AgentReply, NewAgentTask, RunStatus
from provenflow.cli import main
from provenflow.deployers import RpcDeployer
from provenflow.devnet import CHAIN_ID, Devnet
from provenflow.evidence import EvidenceReport, collect, export, load, verify
from provenflow.hashing import keccak256, to_address
from provenflow.rpc import Rpc, RpcError
from provenflow.transactions import send
from provenflow.workflow_client import WorkflowClient, mock_proof
from tests.support.json_rpc_server import NodeError, honest, serve

WINDOW = 7 * 24 * 3600


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    """A chain with the whole suite, for this module only."""
    with Devnet() as chain:
        yield chain


@dataclass
class Run:
    """A run on the chain, and what is needed to move it."""

    devnet: Devnet
    contract: str
    id: bytes
    first_block: int

    @property
    def client(self) -> WorkflowClient:
        deployed = self.devnet.contracts[self.contract]
        return WorkflowClient(self.devnet.rpc, deployed.address, deployed.abi)

    @property
    def address(self) -> str:
        return self.devnet.contracts[self.contract].address

    def tasks(self) -> list[bytes]:
        """Hashes of the tasks dispatched so far."""
        seen = [item.event for item in self.client.events(self.first_block, 2**53)]
        return [event.task_hash for event in seen if isinstance(event, NewAgentTask)]

    def reply(self, agent: int, task_hash: bytes) -> bytes:
        """An answer of one of the agents to a task."""
        sender = self.devnet.accounts[2 + agent]
        output = b"answer of agent %d" % agent
        return self.client.reply(sender, task_hash, output, timestamp=self.devnet.next_second())

    def prove(self, task_hash: bytes, reply_hash: bytes) -> None:
        """The mock's proof of a reply."""
        task, _ = self.client.task(task_hash)
        reply, _ = self.client.get_reply(reply_hash)
        self.client.prove(self.devnet.accounts[9], reply_hash, mock_proof(task, reply))

    def time_out(self) -> None:
        """``replyTimeout`` of the latest task, after its deadline."""
        self.devnet.rpc.call("evm_increaseTime", 9 * 24 * 3600)
        data = keccak256(b"replyTimeout(bytes32)")[:4] + self.tasks()[-1]
        deployed = self.devnet.contracts[self.contract]
        send(
            self.devnet.rpc,
            self.devnet.accounts[9],
            what="replyTimeout()",
            data=data,
            to=self.address,
            errors=deployed.abi,
        )

    def report(self, **options: Any) -> EvidenceReport:
        """What verification says of the run as the node shows it."""
        return verify(collect(self.devnet.rpc, self.address, self.id, **options))

    def options(self, url: str | None = None) -> list[str]:
        """The command-line options that name the run."""
        return ["--rpc", url or self.devnet.url, "--contract", self.address, "--run", f"0x{self.id.hex()}"]


def start(devnet: Devnet, contract: str) -> Run:
    """A new run."""
    first_block = int(devnet.rpc.call("eth_blockNumber"), 16) + 1
    run = Run(devnet, contract, b"", first_block)
    run.id = run.client.run(devnet.accounts[1], b"the input", devnet.clock() + WINDOW)
    return run


def finished_pipeline(devnet: Devnet) -> Run:
    """Scenario 3 from ``run()`` to Success; the first two replies are never proven."""
    run = start(devnet, "SequentialPipelineWorkflow")
    for agent in range(3):
        reply_hash = run.reply(agent, run.tasks()[-1])
    run.prove(run.tasks()[-1], reply_hash)
    return run


def command(*words: str | Path) -> Result:
    return CliRunner(mix_stderr=False).invoke(main, ["evidence", *map(str, words)])


def verified(*words: str | Path) -> tuple[int, dict[str, Any]]:
    """Exit code and document of ``evidence verify``."""
    result = command("verify", *words, "--json")
    return result.exit_code, json.loads(result.stdout)


# ── Honest runs ──────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-070", "EXE-155", "EXE-160", "EXE-175")
def test_verify__finished_pipeline__every_node_holds(devnet: Devnet) -> None:
    run = finished_pipeline(devnet)

    code, document = verified(*run.options(), "--require-success", "--chain-id", str(CHAIN_ID))

    assert (code, document["complete"], document["status"]) == (0, True, "Success")
    assert [(node["label"], node["verdict"], node["onPath"]) for node in document["nodes"]] == [
        (label, "holds", True) for label in ("T0", "R0", "T1", "R1", "T2", "R2", "Tf")
    ]
    unchecked = {check["id"] for check in document["checks"] if check["verdict"] != "holds"}
    # Later tasks carry no plaintext, and no proof is run again.
    assert unchecked == {"task.input", "reply.proof"}
    assert document["notes"] == []


@pytest.mark.requirement("EXE-172")
def test_verify__minimum_path__complete(devnet: Devnet) -> None:
    run = start(devnet, "SingleStageWorkflow")
    run.prove(run.tasks()[0], run.reply(0, run.tasks()[0]))
    report = run.report()
    assert (report.verdict, report.complete, report.notes) == ("holds", True, ())


@pytest.mark.requirement("EXE-177")
def test_verify__parallel_audit__three_branches_join(devnet: Devnet) -> None:
    run = start(devnet, "ParallelAuditWorkflow")
    for agent, task_hash in enumerate(run.tasks()):
        run.reply(agent, task_hash)
    for agent in (3, 4):
        task_hash = run.tasks()[-1]
        run.prove(task_hash, run.reply(agent, task_hash))

    report = run.report()

    assert (report.verdict, report.complete) == ("holds", True)
    assert len([node for node in report.nodes if node.on_path]) == 11
    text = command("verify", *run.options()).stdout
    assert "├─ R0  reply" in text
    assert "└─ R2  reply" in text


def test_verify__pending_run__holds_as_far_as_it_is(devnet: Devnet) -> None:
    run = start(devnet, "SequentialPipelineWorkflow")
    run.reply(0, run.tasks()[-1])
    code, document = verified(*run.options())
    assert (code, document["complete"], document["status"]) == (0, False, "Pending")
    assert [node["label"] for node in document["nodes"]] == ["T0", "R0", "T1"]
    assert verified(*run.options(), "--require-success")[0] == 1


def test_verify__run_that_timed_out_twice__failed_and_holds(devnet: Devnet) -> None:
    run = start(devnet, "SingleStageWorkflow")
    run.time_out()
    run.time_out()
    code, document = verified(*run.options())
    assert (code, document["complete"], document["status"]) == (0, False, "Failed")
    assert verified(*run.options(), "--require-success")[0] == 1


def test_verify__initial_task_dispatched_again__noted(devnet: Devnet) -> None:
    run = start(devnet, "SingleStageWorkflow")
    run.time_out()
    again = run.tasks()[-1]
    run.prove(again, run.reply(0, again))
    report = run.report()
    assert (report.verdict, report.complete) == ("holds", True)
    assert [note.subject for note in report.notes] == [f"0x{again.hex()}"]


def test_verify__reply_that_the_gate_did_not_need__verified_off_the_path(devnet: Devnet) -> None:
    run = start(devnet, "SingleStageWorkflow")
    task_hash = run.tasks()[0]
    winner, loser = run.reply(0, task_hash), run.reply(1, task_hash)
    run.prove(task_hash, winner)
    report = run.report()
    assert report.verdict == "holds"
    node = report.node(loser)
    assert node is not None
    assert (node.on_path, node.verdict) == (False, "holds")


def test_collect__earlier_block__the_run_as_it_was_then(devnet: Devnet) -> None:
    run = finished_pipeline(devnet)
    last = collect(devnet.rpc, run.address, run.id).logs[-1].block_number
    before, after = run.report(block=last - 1), run.report(block=last)
    assert (before.status, before.verdict) == (RunStatus.PENDING, "holds")
    assert (after.status, after.verdict) == (RunStatus.SUCCESS, "holds")


def test_collect__first_block_after_the_start__missing_events_are_failures(devnet: Devnet) -> None:
    run = finished_pipeline(devnet)
    assert run.report(from_block=run.first_block).verdict == "holds"
    late = run.report(from_block=run.first_block + 1)
    started = late.check("run.started")
    assert started is not None
    assert started.verdict == "fails"


# ── Who replied ──────────────────────────────────────────────────────────────


@pytest.mark.requirement("EXE-022")
def test_verify__replier_is_an_account__its_signature_is_checked(devnet: Devnet) -> None:
    run = start(devnet, "SingleStageWorkflow")
    reply_hash = run.reply(0, run.tasks()[0])
    report = run.report()
    signer, node = report.check("reply.signer"), report.node(reply_hash)
    assert signer is not None
    assert node is not None
    assert (signer.verdict, node.rests_on) == ("holds", ())


def test_verify__replier_is_a_contract__rests_on_the_workflow_s_own_check(devnet: Devnet) -> None:
    run = start(devnet, "SingleStageWorkflow")
    deployer = RpcDeployer(devnet.rpc, devnet.accounts[0], local=True)
    agent = deployer.deploy(artifacts.load("ContractAgent")).address
    reply = AgentReply(
        operation_id=keccak256(b"an operation of a contract"),
        output_hash=keccak256(b"output"),
        output=b"output",
        timestamp=devnet.next_second(),
        replier=to_address("replier", agent),
        prev_task_hashes=(run.tasks()[0],),
        workflow_run_id=run.id,
    )
    arguments = encode(["address", "bytes"], [run.address, abi.encode_on_agent_reply(reply)])
    data = keccak256(b"execute(address,bytes)")[:4] + arguments
    send(devnet.rpc, devnet.accounts[2], what="execute()", data=data, to=agent)

    code, document = verified(*run.options())

    assert (code, document["verdict"]) == (0, "holds")
    (node,) = [node for node in document["nodes"] if node["kind"] == "reply"]
    assert (node["verdict"], node["restsOn"]) == ("holds", ["the contract's own check of msg.sender"])
    (signer,) = [check for check in document["checks"] if check["id"] == "reply.signer"]
    assert signer["verdict"] == "unchecked"
    assert "(rests on the contract's own check of msg.sender)" in command("verify", *run.options()).stdout


# ── What is no run ───────────────────────────────────────────────────────────


def test_verify__not_there__each_with_its_exit_code(devnet: Devnet) -> None:
    run = start(devnet, "SingleStageWorkflow")
    options = run.options()
    wallet, verifier = devnet.accounts[5], devnet.contracts["MockAgentVerifier"].address
    for more, code, said in (
        (["--run", f"0x{'77' * 32}"], 1, "does not know the run"),
        (["--contract", wallet], 1, "There is no contract at"),
        (["--contract", verifier], 1, "does not answer as an IAgentWorkflow"),
        (["--contract", devnet.contracts["ParallelAuditWorkflow"].address], 1, "does not know the run"),
        (["--chain-id", "1"], 2, f"The node is on chain {CHAIN_ID}, not on chain 1"),
        (["--run", "0x77"], 2, "must be 32 bytes"),
        (["--block", "99999999"], 3, "does not have block 99999999"),
        (["--rpc", "http://127.0.0.1:1"], 3, "cannot be reached"),
    ):
        result = command("verify", *options, *more)
        assert (result.exit_code, result.stdout) == (code, "")
        assert said in result.stderr


# ── Bundles ──────────────────────────────────────────────────────────────────


def test_export__bundle__verifies_without_the_node(devnet: Devnet, tmp_path: Path) -> None:
    run = finished_pipeline(devnet)
    assert command("export", *run.options(), "-o", tmp_path / "run.json").exit_code == 0
    code, document = verified(tmp_path / "run.json", "--require-success")
    assert (code, document["complete"]) == (0, True)


def test_verify__tampered_copy__caught_at_the_altered_node(devnet: Devnet, tmp_path: Path) -> None:
    run = finished_pipeline(devnet)
    evidence = collect(devnet.rpc, run.address, run.id)
    altered = replace(evidence.replies[1], reply=replace(evidence.replies[1].reply, output=b"another answer"))
    export(
        replace(evidence, replies=(evidence.replies[0], altered, evidence.replies[2])),
        tmp_path / "tampered.json",
    )
    code, document = verified(tmp_path / "tampered.json")
    assert code == 1
    assert [node["label"] for node in document["nodes"] if node["verdict"] == "fails"] == ["R1"]
    assert load(tmp_path / "tampered.json").replies[1] == altered


# ── A lying node ─────────────────────────────────────────────────────────────

Lie = Callable[[Any, list[Any]], Any]
"""Makes of an honest answer, and of the params, what the proxy answers."""


@contextmanager
def proxy(devnet: Devnet, method: str, lie: Lie) -> Iterator[str]:
    """A node that forwards everything and lies about one method."""
    upstream = Rpc(devnet.url, timeout=30)

    def handle(called: str, params: list[Any]) -> Any:
        try:
            answer = upstream.call(called, *params)
        except RpcError as error:
            raise NodeError(error.code, error.text, error.data) from None
        return lie(answer, params) if called == method else answer

    with upstream, serve(honest(handle)) as server:
        yield server.url


def _nothing(answer: Any, _params: list[Any]) -> Any:
    return answer


def _another_output(answer: str, _params: list[Any]) -> str:
    return answer.replace(b"agent 1".hex(), b"agent X".hex())


def _another_replier(answer: str, params: list[Any]) -> str:
    if not params[0]["data"].startswith(f"0x{abi.GET_AGENT_REPLY.selector.hex()}"):
        return answer
    reply, verifier, proven, digest = abi.decode_get_agent_reply(bytes.fromhex(answer[2:]))
    fields = replace(reply, replier=bytes.fromhex("99" * 20)).as_tuple()
    return "0x" + encode(abi.GET_AGENT_REPLY.outputs, (fields, verifier, proven, digest)).hex()


def _all_proven(answer: str, params: list[Any]) -> str:
    if not params[0]["data"].startswith(f"0x{abi.GET_AGENT_TASK.selector.hex()}"):
        return answer
    task, _ = abi.decode_get_agent_task(bytes.fromhex(answer[2:]))
    return "0x" + encode(abi.GET_AGENT_TASK.outputs, (task.as_tuple(), True)).hex()


def _another_final_task(answer: str, params: list[Any]) -> str:
    if not params[0]["data"].startswith(f"0x{abi.RESULT.selector.hex()}"):
        return answer
    result = abi.decode_result(bytes.fromhex(answer[2:]))
    return "0x" + encode(abi.RESULT.outputs, (1, bytes.fromhex("99" * 32), result.completed_at)).hex()


def _a_second_later(answer: dict[str, Any], _params: list[Any]) -> dict[str, Any]:
    return answer | {"timestamp": hex(int(answer["timestamp"], 16) + 1)}


def _one_log_less(answer: list[Any], _params: list[Any]) -> list[Any]:
    return answer[:2] + answer[3:]


def _one_log_twice(answer: list[Any], _params: list[Any]) -> list[Any]:
    return [*answer[:3], answer[2], *answer[3:]]


def _logs_of_another_contract(answer: list[Any], _params: list[Any]) -> list[Any]:
    return [log | {"address": "0x" + "99" * 20} for log in answer]


def _another_block_of_a_transaction(answer: dict[str, Any], _params: list[Any]) -> dict[str, Any]:
    return answer | {"blockNumber": "0x1"}


@pytest.mark.parametrize(
    ("method", "lie", "check"),
    [
        ("eth_call", _another_output, "reply.output"),
        ("eth_call", _another_replier, "reply.hash"),
        ("eth_call", _all_proven, "task.proven"),
        ("eth_call", _another_final_task, "task.record"),
        ("eth_getBlockByNumber", _a_second_later, "task.time"),
        ("eth_getLogs", _one_log_less, "task.event"),
        ("eth_getLogs", _one_log_twice, "log.order"),
        ("eth_getLogs", _logs_of_another_contract, "log.contract"),
        ("eth_getTransactionByHash", _another_block_of_a_transaction, "record.transaction"),
    ],
)
def test_verify__lying_node__caught(devnet: Devnet, method: str, lie: Lie, check: str) -> None:
    run = finished_pipeline(devnet)
    with proxy(devnet, method, lie) as url:
        code, document = verified(*run.options(url))
    assert (code, document["verdict"]) == (1, "fails")
    assert check in {item["id"] for item in document["checks"] if item["verdict"] == "fails"}


def test_verify__proxy_that_does_not_lie__holds(devnet: Devnet) -> None:
    run = finished_pipeline(devnet)
    with proxy(devnet, "eth_call", _nothing) as url:
        assert verified(*run.options(url))[0] == 0


def test_verify__node_that_names_another_signer__said_to_rest_on_the_contract(devnet: Devnet) -> None:
    run = finished_pipeline(devnet)
    with proxy(
        devnet, "eth_getTransactionByHash", lambda answer, _: answer | {"from": "0x" + "99" * 20}
    ) as url:
        _, document = verified(*run.options(url))
    (signer,) = [check for check in document["checks"] if check["id"] == "reply.signer"]
    assert signer["verdict"] == "unchecked"


def test_verify__node_gone_in_the_middle__exits_3(devnet: Devnet) -> None:
    run = finished_pipeline(devnet)

    def gone(_answer: Any, _params: list[Any]) -> Any:
        raise NodeError(-32000, "shutting down")

    with proxy(devnet, "eth_getTransactionByHash", gone) as url:
        code, document = verified(*run.options(url))
    assert (code, document["ok"]) == (3, False)
    assert "shutting down" in document["error"]
