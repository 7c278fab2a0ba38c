"""Transactions from a node's own accounts, and the client that drives a workflow with them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from eth_abi.abi import encode

from provenflow import artifacts
from provenflow.abi import AgentReplyAnchored, NewAgentTask, RunStatus, WorkflowCompleted
from provenflow.devnet import Devnet
from provenflow.errors import Invalid, Unreachable
from provenflow.hashing import keccak256
from provenflow.rpc import Rpc, RpcError
from provenflow.transactions import Refused, call, explain_revert, send
from provenflow.workflow_client import WorkflowClient, mock_proof

HOUR = 3600


@pytest.fixture(scope="module")
def chain() -> Iterator[Devnet]:
    with Devnet() as running:
        yield running


@pytest.fixture
def workflow(chain) -> WorkflowClient:
    contract = chain.contracts["SingleStageWorkflow"]
    return WorkflowClient(chain.rpc, contract.address, contract.abi)


@pytest.fixture
def requester(chain) -> str:
    return chain.accounts[1]


@pytest.fixture
def agent(chain) -> str:
    return chain.accounts[2]


def head(chain: Devnet) -> int:
    return int(chain.rpc.call("eth_blockNumber"), 16)


# --- a run, driven -------------------------------------------------------------------------------------------------


def test_workflow_client__a_whole_run__is_on_the_chain(chain, workflow, requester, agent):
    first = head(chain) + 1
    run_id = workflow.run(requester, b"question", chain.clock() + HOUR)
    (dispatched,) = workflow.events(first, head(chain))
    assert dispatched.event == NewAgentTask(run_id, 0, dispatched.event.task_hash)
    task, proven = workflow.task(dispatched.event.task_hash)
    assert (task.input, task.workflow_run_id, proven) == (b"question", run_id, True)

    operation_id = b"\x07" * 32
    when = chain.next_second()
    reply_hash = workflow.reply(
        agent, dispatched.event.task_hash, b"answer", timestamp=when, operation_id=operation_id
    )
    reply, proven = workflow.get_reply(reply_hash)
    assert reply.reply_hash() == reply_hash
    assert (reply.output, reply.operation_id, reply.timestamp, proven) == (
        b"answer",
        operation_id,
        when,
        False,
    )
    assert "0x" + reply.replier.hex() == agent.lower()
    assert workflow.result(run_id).status is RunStatus.PENDING

    workflow.prove(agent, reply_hash, mock_proof(task, reply))
    result = workflow.result(run_id)
    assert result.status is RunStatus.SUCCESS
    assert [type(seen.event) for seen in workflow.events(first, head(chain))] == [
        NewAgentTask,
        AgentReplyAnchored,
        WorkflowCompleted,
    ]


def test_workflow_client__no_operation_id__takes_a_new_random_one_each_time(
    chain, workflow, requester, agent
):
    ids = set()
    for _ in range(2):
        first = head(chain) + 1
        workflow.run(requester, b"question", chain.clock() + HOUR)
        task_hash = workflow.events(first, head(chain))[0].event.task_hash
        reply_hash = workflow.reply(agent, task_hash, b"answer", timestamp=chain.next_second())
        ids.add(workflow.get_reply(reply_hash)[0].operation_id)

    assert len(ids) == 2
    assert bytes(32) not in ids


def test_workflow_client__events__only_those_of_the_blocks_asked_for(chain, workflow, requester):
    for _ in range(3):
        workflow.run(requester, b"question", chain.clock() + HOUR)
    last = head(chain)

    assert [seen.block for seen in workflow.events(last - 1, last)] == [last - 1, last]


# --- refusals ------------------------------------------------------------------------------------------------------


def test_run__contract_refuses__names_its_error_with_the_values(workflow, requester):
    with pytest.raises(
        Refused, match=r"The contract refused run\(\): ExpiryNotInFuture\(expiresAt=1, blockTimestamp=\d+\)\."
    ):
        workflow.run(requester, b"question", 1)


def test_reply__in_the_second_of_its_task__is_refused_by_the_contract(chain, workflow, requester, agent):
    first = head(chain) + 1
    workflow.run(requester, b"question", chain.clock() + HOUR)
    task_hash = workflow.events(first, head(chain))[0].event.task_hash
    anchored = workflow.task(task_hash)[0].timestamp

    with pytest.raises(
        Refused, match=f"TimestampNotAfterTask\\(timestamp={anchored}, anchorTime={anchored}\\)"
    ):
        workflow.reply(agent, task_hash, b"answer", timestamp=anchored)


def test_prove__wrong_proof__is_refused_by_the_contract(chain, workflow, requester, agent):
    first = head(chain) + 1
    workflow.run(requester, b"question", chain.clock() + HOUR)
    task_hash = workflow.events(first, head(chain))[0].event.task_hash
    reply_hash = workflow.reply(agent, task_hash, b"answer", timestamp=chain.next_second())

    with pytest.raises(Refused, match=f"ProofRejected\\(replyHash=0x{reply_hash.hex()}\\)"):
        workflow.prove(agent, reply_hash, b"\x00" * 32)


def test_call__unknown_task__is_refused_with_its_error(workflow):
    with pytest.raises(Refused, match=r"refused getAgentTask\(\): UnknownTask\(taskHash=0x0909"):
        workflow.task(b"\x09" * 32)


def test_send__mined_and_failed__is_refused_with_the_error(chain, workflow, requester):
    # With a gas limit of its own, the node does not try the transaction first, and it fails in its block.
    class GivesGas:
        def call(self, method: str, *parameters: object) -> object:
            if method == "eth_sendTransaction":
                parameters = ({**parameters[0], "gas": hex(1_000_000)},)  # type: ignore[dict-item]
            return chain.rpc.call(method, *parameters)

    blocks = head(chain)
    failing = WorkflowClient(GivesGas(), workflow.address, artifacts.load("SingleStageWorkflow").abi)

    with pytest.raises(Refused, match=r"ExpiryNotInFuture\(expiresAt=1"):
        failing.run(requester, b"question", 1)

    assert head(chain) == blocks + 1


def test_send__not_mined__gives_up_and_says_the_hash(chain, requester):
    chain.rpc.call("evm_setAutomine", False)
    try:
        with pytest.raises(
            Unreachable, match=r"a transfer was sent \(0x[0-9a-f]{64}\) but not mined within 0.2 s"
        ):
            send(chain.rpc, requester, what="a transfer", data=b"", to=requester, timeout=0.2)
    finally:
        chain.rpc.call("evm_mine")
        chain.rpc.call("evm_setAutomine", True)


def test_send__account_of_somebody_else__is_the_nodes_error(chain):
    with pytest.raises(RpcError, match="eth_sendTransaction"):
        send(chain.rpc, "0x" + "12" * 20, what="a transfer", data=b"", to=chain.accounts[0])


def test_run__contract_that_dispatches_nothing__is_invalid(chain, requester):
    # A call to an account without code succeeds and does nothing.
    nobody = WorkflowClient(chain.rpc, "0x" + "34" * 20)

    with pytest.raises(Invalid, match="dispatched no task"):
        nobody.run(requester, b"question", chain.clock() + HOUR)


def test_call__node_gone__is_unreachable():
    with pytest.raises(Unreachable):
        call(Rpc("http://127.0.0.1:9"), "0x" + "34" * 20, b"", what="a view")


# --- revert data ---------------------------------------------------------------------------------------------------

ERRORS = (
    {"type": "function", "name": "Twin", "inputs": []},
    {"type": "error", "name": "Twin", "inputs": []},
    {
        "type": "error",
        "name": "Pair",
        "inputs": [{"name": "id", "type": "bytes32"}, {"name": "count", "type": "uint256"}],
    },
    {
        "type": "error",
        "name": "Nested",
        "inputs": [{"name": "at", "type": "tuple", "components": [{"name": "x", "type": "uint8"}]}],
    },
)


def error(signature: str, types: tuple[str, ...] = (), *values: object) -> bytes:
    return keccak256(signature.encode())[:4] + encode(types, values)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "it reverted without a reason"),
        (error("Twin()"), "Twin()"),
        (
            error("Pair(bytes32,uint256)", ("bytes32", "uint256"), b"\1" * 32, 5),
            f"Pair(id=0x{'01' * 32}, count=5)",
        ),
        (error("Nested((uint8))", ("(uint8)",), (3,)), "Nested(at=(3,))"),
        (error("Error(string)", ("string",), "no funds"), "Error(message=no funds)"),
        (error("Panic(uint256)", ("uint256",), 0x11), "Panic(code=17)"),
        (bytes.fromhex("deadbeef"), "an error that is not in its ABI (0xdeadbeef)"),
        (bytes.fromhex("deadbeef") + bytes(60), f"an error that is not in its ABI (0xdeadbeef{'00' * 32}…)"),
        (
            error("Pair(bytes32,uint256)") + b"\1",
            f"an error that is not in its ABI (0x{error('Pair(bytes32,uint256)').hex()}01)",
        ),
    ],
    ids=[
        "empty",
        "no values",
        "values",
        "tuple",
        "string",
        "panic",
        "unknown",
        "unknown and long",
        "truncated",
    ],
)
def test_explain_revert__data__is_told_as_written(data, sentence):
    assert explain_revert(data, ERRORS) == sentence
