"""``provenflow devnet`` against a real anvil: what it offers, how it ends, and what it says when it cannot start."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provenflow import devnet as module
from provenflow import leash
from provenflow.abi import INTERFACE_ID, RunStatus
from provenflow.artifacts import load
from provenflow.devnet import Devnet
from provenflow.errors import Unreachable, WrongUse
from provenflow.evidence import collect, verify
from provenflow.hashing import keccak256
from provenflow.rpc import Rpc, quantity
from provenflow.toolchain import find_anvil
from provenflow.transactions import call
from provenflow.workflow_client import WorkflowClient
from tests.support.processes import PATIENCE, children, is_listening, is_running, processes, until

PROVENFLOW = Path(sys.executable).with_name("provenflow")
ACCOUNTS = [
    "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266",
    "0x70997970C51812dc3A010C7d01b50e0d17dc79C8",
    "0x3C44CdDdB6a900fa2b585dd299e03d12FA4293BC",
    "0x90F79bf6EB2c4f870365E785982E1f101E93b906",
    "0x15d34AAf54267DB7D7c367839AAf71A00a2C6A65",
    "0x9965507D1a55bcC2695C58ba16FB37d819B0A4dc",
    "0x976EA74026E726554dB657fA54763abd0C3a0aa9",
    "0x14dC79964da2C08b23698B3D3cc7Ca32193d9955",
    "0x23618e81E3f5cdF7f54C3d65f7FBc0aBf5B21E8f",
    "0xa0Ee7A142d267C1f36714E4a8F75612F20a79720",
]


class Running:
    """A ``provenflow devnet`` in a process of its own, ready."""

    def __init__(self, process: subprocess.Popen[str], file: Path) -> None:
        self.process = process
        self.document = json.loads(file.read_text())
        self.rpc = Rpc(self.document["rpc"])
        self.port = int(self.document["rpc"].rpartition(":")[2])
        self.children = children(process.pid)

    def end(self) -> tuple[int, str, str]:
        """Exit code, output and errors, once it has ended."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output, errors

    def assert_nothing_left(self) -> None:
        assert self.children != []
        for pid in self.children:
            until(f"process {pid} is gone", lambda pid=pid: not is_running(pid))
        assert not is_listening(self.port)


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., Running]]:
    """``start("--seed-data", …)`` starts a devnet on a free port and waits until it is ready."""
    started: list[subprocess.Popen[str]] = []
    # A devnet inherits what becomes of a hang-up: the tests may run under nohup, the devnet of a test does not.
    hang_up = signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def begin(*options: str, before: tuple[str, ...] = ()) -> Running:
        file = tmp_path / "devnet.json"
        process = subprocess.Popen(
            [*before, str(PROVENFLOW), "devnet", "--port", "0", "--json", str(file), *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        until("the devnet is ready", lambda: file.exists() or process.poll() is not None)
        assert file.exists(), process.communicate()
        return Running(process, file)

    yield begin
    signal.signal(signal.SIGHUP, hang_up or signal.SIG_DFL)
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def refused(*options: str, env: dict[str, str] | None = None) -> tuple[int, str, str]:
    """Exit code, output and errors of a devnet that cannot start."""
    process = subprocess.run(
        [PROVENFLOW, "devnet", *options],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={**os.environ, **(env or {})},
    )
    assert process.stderr.count("\n") == 1
    assert process.stderr.startswith("error: ")
    return process.returncode, process.stdout, process.stderr


@pytest.fixture
def fake_anvil(tmp_path) -> Callable[[str], dict[str, str]]:
    """``fake_anvil(script)`` is an environment in which anvil is a shell script."""

    def make(script: str) -> dict[str, str]:
        path = tmp_path / "anvil"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return {"PROVENFLOW_ANVIL": str(path)}

    return make


VERSION = 'if [ "$1" = --version ]; then echo "anvil Version: {}"; exit; fi\n'


@pytest.fixture(scope="module")
def chain() -> Iterator[Devnet]:
    with Devnet() as running:
        yield running


@pytest.fixture(scope="module")
def seeded() -> Iterator[Devnet]:
    with Devnet(seed_data=True) as running:
        yield running


# --- what it offers ------------------------------------------------------------------------------------------------


def test_devnet__ready__file_has_exactly_the_documented_shape(start):
    document = start().document

    assert set(document) == {"chainId", "rpc", "accounts", "contracts"}
    assert document["chainId"] == 31337
    assert document["rpc"].startswith("http://127.0.0.1:")
    assert document["accounts"] == ACCOUNTS
    assert {
        "MockAgentVerifier",
        "MockProofVerifier",
        "SingleStageWorkflow",
        "SequentialPipelineWorkflow",
    } <= set(document["contracts"])
    for name, contract in document["contracts"].items():
        assert set(contract) == {"address", "abi"}
        assert contract["abi"] == [dict(entry) for entry in load(name).abi]


def test_devnet__ready__prints_what_is_where(start):
    devnet = start()
    devnet.process.send_signal(signal.SIGINT)
    _, output, errors = devnet.end()

    assert errors == ""
    assert devnet.document["rpc"] in output
    for account in ACCOUNTS:
        assert account in output
    for name, contract in devnet.document["contracts"].items():
        assert f"{name} " in output
        assert contract["address"] in output
    assert output.endswith("ready; Ctrl-C ends it\n")


def test_devnet__contracts__answer_and_were_deployed_by_the_first_account(chain):
    for name, contract in chain.contracts.items():
        code = chain.rpc.call("eth_getCode", contract.address, "latest")
        assert len(code) == len(load(name).deployed_bytecode)
        if name.endswith("Workflow"):
            data = keccak256(b"supportsInterface(bytes4)")[:4] + INTERFACE_ID.ljust(32, b"\0")
            assert int.from_bytes(call(chain.rpc, contract.address, data, what="supportsInterface()")) == 1
    nonces = [
        quantity(chain.rpc.call("eth_getTransactionCount", account, "latest"), "") for account in ACCOUNTS
    ]
    assert nonces == [len(chain.contracts), *[0] * 9]


def test_devnet__accounts__are_unlocked(chain):
    for sender in ACCOUNTS:
        transaction = chain.rpc.call(
            "eth_sendTransaction", {"from": sender, "to": ACCOUNTS[0], "value": "0x1"}
        )
        until("it is mined", lambda sent=transaction: chain.rpc.call("eth_getTransactionReceipt", sent))
        assert chain.rpc.call("eth_getTransactionReceipt", transaction)["status"] == "0x1"


def test_devnet__hard_fork__is_the_compilers_target(chain):
    assert chain.rpc.call("anvil_nodeInfo")["hardFork"].lower() == "prague"


def test_devnet__next_second__is_later_than_the_last_block(chain):
    for _ in range(3):
        last = quantity(chain.rpc.call("eth_getBlockByNumber", "latest", False)["timestamp"], "")
        when = chain.next_second()
        assert when > last
        chain.rpc.call("evm_mine")
        assert quantity(chain.rpc.call("eth_getBlockByNumber", "latest", False)["timestamp"], "") == when


def test_devnet__listens__on_loopback_only(chain):
    assert "--host 127.0.0.1" in processes()[chain.pid].arguments


def test_devnet__block_time__mines_by_itself_after_everything_is_deployed():
    with Devnet(block_time=1) as running:
        number = quantity(running.rpc.call("eth_blockNumber"), "")
        assert number == len(running.contracts)  # instant until here
        until("a block is mined", lambda: quantity(running.rpc.call("eth_blockNumber"), "") > number)


def test_devnet__seed_data__runs_are_as_they_are_said_to_be(seeded):
    assert len(seeded.seeded) == 5
    for line in seeded.seeded:
        name, rest = line.split(" run ", 1)
        run_id, state = rest.split(": ")
        workflow = WorkflowClient(seeded.rpc, seeded.contracts[name].address)
        result = workflow.result(bytes.fromhex(run_id[2:]))
        report = verify(collect(seeded.rpc, seeded.contracts[name].address, run_id))
        assert report.verdict == "holds"
        assert (result.status is RunStatus.SUCCESS) == report.complete == (state == "finished")
        assert {
            "finished": result.status is RunStatus.SUCCESS,
            "waits for a reply": report.status is RunStatus.PENDING and len(report.nodes) == 1,
            "waits for its proof": report.status is RunStatus.PENDING and len(report.nodes) == 2,
            "waits at StepB": report.status is RunStatus.PENDING and len(report.nodes) == 3,
        }[state]


def test_devnet__seed_data__is_the_same_every_time(seeded):
    with Devnet(seed_data=True) as again:
        assert again.seeded == seeded.seeded


def test_devnet__seed_data__leaves_the_clock_at_the_real_time(seeded):
    # Seeding starts ten minutes back and moves on by seconds; left like that the difference would be minutes.
    last = quantity(seeded.rpc.call("eth_getBlockByNumber", "latest", False)["timestamp"], "")

    assert abs(last - seeded.clock()) < 300
    assert abs(seeded.clock() - time.time()) < 300


def test_devnet__seed_data_on_the_command_line__lists_the_runs(start):
    devnet = start("--seed-data")
    devnet.process.send_signal(signal.SIGTERM)
    _, output, _ = devnet.end()

    assert output.count("SingleStageWorkflow run 0x") == 3
    assert output.count("SequentialPipelineWorkflow run 0x") == 2


# --- how it ends ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda stop: stop.name)
def test_devnet__asked_to_stop__exits_0_and_leaves_nothing(start, stop):
    devnet = start()

    devnet.process.send_signal(stop)

    code, _, errors = devnet.end()
    assert (code, errors) == (0, "")
    devnet.assert_nothing_left()


def test_devnet__killed_hard__leaves_nothing(start):
    devnet = start()

    devnet.process.kill()

    assert devnet.end()[0] == -signal.SIGKILL
    devnet.assert_nothing_left()


def test_devnet__started_in_the_background_of_a_script__ends_on_an_interrupt_but_not_on_a_hang_up(start):
    # The shell of a script ignores SIGINT for what it starts with &, nohup ignores SIGHUP.
    devnet = start(before=("sh", "-c", 'trap "" INT HUP; exec "$@"', "sh"))

    devnet.process.send_signal(signal.SIGHUP)
    assert quantity(devnet.rpc.call("eth_chainId"), "") == 31337
    assert devnet.process.poll() is None
    devnet.process.send_signal(signal.SIGINT)

    assert devnet.end()[0] == 0
    devnet.assert_nothing_left()


def test_devnet__node_dies__says_so_and_exits_3(start):
    devnet = start()

    (anvil,) = devnet.children
    os.kill(anvil, signal.SIGKILL)

    code, _, errors = devnet.end()
    assert code == 3
    assert errors.startswith("error: anvil ended by itself (signal SIGKILL")
    assert errors.endswith("Start the devnet again.\n")
    assert errors.count("\n") == 1


def test_devnet__interrupted_before_it_is_ready__exits_130_and_writes_nothing(tmp_path, fake_anvil):
    file = tmp_path / "devnet.json"
    process = subprocess.Popen(
        [PROVENFLOW, "devnet", "--port", "0", "--json", file],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={
            **os.environ,
            **fake_anvil(VERSION.format("1.7.1") + f"touch {tmp_path}/started; exec sleep 1000"),
        },
    )
    until("the fake anvil runs", (tmp_path / "started").exists)
    left = children(process.pid)

    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)

    assert (process.returncode, output, errors) == (
        130,
        "",
        "error: interrupted before the chain was ready.\n",
    )
    assert not file.exists()
    assert left != []
    assert not any(is_running(pid) for pid in left)


def test_devnet__with_block__is_over_when_it_is_left(chain):
    with pytest.raises(RuntimeError, match="mine"), Devnet() as running:  # noqa: PT012
        port, pid = running.port, running.pid
        assert is_listening(port)
        raise RuntimeError("mine")

    assert not is_listening(port)
    assert not is_running(pid)
    assert not Path(running._scratch.name if running._scratch else "/gone").exists()
    assert chain.rpc.call("eth_chainId") == "0x7a69"  # another devnet is not touched


def test_devnet__that_ignores_a_polite_request__is_killed(monkeypatch, fake_anvil):
    monkeypatch.setattr(module, "_STOP_TIMEOUT", 0.2)
    monkeypatch.setattr(module, "_START_TIMEOUT", 5.0)
    script = (
        VERSION.format("1.7.1") + 'trap "" TERM; echo "Listening on 127.0.0.1:1"; while :; do sleep 0.1; done'
    )
    monkeypatch.setenv("PROVENFLOW_ANVIL", fake_anvil(script)["PROVENFLOW_ANVIL"])
    devnet = Devnet()
    devnet._start()
    pid = devnet.pid

    devnet.stop()

    assert not is_running(pid)


def test_devnet__after_its_end__is_refused():
    with pytest.raises(WrongUse, match="The devnet is not running"):
        Devnet().wait()


# --- what cannot start ---------------------------------------------------------------------------------------------


def test_devnet__port_taken__is_one_sentence_with_the_fix():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]

        code, output, errors = refused("--port", str(port))

    assert (code, output) == (2, "")
    assert errors == (
        f"error: Port {port} is taken. Choose another with --port, or any free one with --port 0.\n"
    )


def test_devnet__port_taken_in_the_last_moment__is_told_the_same(monkeypatch, fake_anvil):
    script = VERSION.format("1.7.1") + 'echo "Error: Address already in use (os error 98)"; exit 1'
    monkeypatch.setenv("PROVENFLOW_ANVIL", fake_anvil(script)["PROVENFLOW_ANVIL"])

    with pytest.raises(WrongUse, match="Port 0 is taken"), Devnet():
        pass


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_devnet__port_that_is_none__is_wrong_use(port):
    code, _, errors = refused("--port", port)

    assert code == 2
    assert "see provenflow devnet --help" in errors


@pytest.mark.parametrize(
    ("setting", "reason"),
    [({"port": 65536}, "Port 65536"), ({"port": -1}, "Port -1"), ({"block_time": 0}, "block time")],
)
def test_devnet__setting_out_of_range__is_refused(setting, reason):
    with pytest.raises(WrongUse, match=reason):
        Devnet(**setting)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: folder, "it is no regular file"),
        (lambda folder: folder / "none" / "devnet.json", "there is no folder"),
        (lambda _: Path(os.devnull), "it is no regular file"),
        (lambda _: Path("-"), "devnet writes a file, not stdout"),
    ],
    ids=["a folder", "folder missing", "a device", "stdout"],
)
def test_devnet__file_that_cannot_be_written__is_told_before_anything_starts(
    tmp_path, fake_anvil, make, reason
):
    # An anvil that cannot start: had it been started first, the sentence would be about anvil.
    code, _, errors = refused("--port", "0", "--json", str(make(tmp_path)), env=fake_anvil("exit 1"))

    assert code == 2
    assert reason in errors


def test_devnet__file_from_an_earlier_run__is_gone_before_the_chain_is_ready(tmp_path, fake_anvil):
    file = tmp_path / "devnet.json"
    file.write_text("of a chain that has ended")

    refused("--port", "0", "--json", str(file), env=fake_anvil("exit 1"))

    assert not file.exists()


def test_devnet__anvil_missing__says_where_to_get_it(monkeypatch):
    monkeypatch.delenv("PROVENFLOW_ANVIL", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("provenflow.toolchain.checkout_root", lambda: None)

    with pytest.raises(WrongUse, match="No anvil was found") as missing, Devnet():
        pass

    assert "Install Foundry's anvil" in missing.value.fix


def test_devnet__named_anvil_missing__is_one_sentence():
    code, _, errors = refused("--port", "0", env={"PROVENFLOW_ANVIL": "/nowhere/anvil"})

    assert code == 2
    assert "PROVENFLOW_ANVIL is /nowhere/anvil, which is no executable file" in errors


@pytest.mark.parametrize(
    ("script", "code", "sentence"),
    [
        ("echo hello", 2, "does not say that it is anvil"),
        ("exit 3", 2, "cannot be run"),
        (VERSION.format("0.3.0"), 2, "is version 0.3.0, which does not know the prague hard fork"),
        (
            VERSION.format("1.7.1") + "echo broken; exit 1",
            3,
            "anvil ended before it was ready; it said: broken",
        ),
    ],
    ids=["another program", "fails", "too old", "ends at once"],
)
def test_devnet__anvil_that_does_not_work__is_one_sentence(fake_anvil, script, code, sentence):
    found, _, errors = refused("--port", "0", env=fake_anvil(script))

    assert found == code
    assert sentence in errors


def test_devnet__anvil_that_never_listens__is_given_up(monkeypatch, fake_anvil):
    monkeypatch.setattr(module, "_START_TIMEOUT", 0.5)
    script = VERSION.format("1.7.1") + "echo waiting; exec sleep 1000"
    monkeypatch.setenv("PROVENFLOW_ANVIL", fake_anvil(script)["PROVENFLOW_ANVIL"])

    with pytest.raises(Unreachable, match="anvil did not start within 0.5 s; it said: waiting"), Devnet():
        pass


def test_devnet__anvil_of_another_version__warns_and_works(monkeypatch, fake_anvil):
    script = VERSION.format("1.9.9") + f'exec {find_anvil()} "$@"'
    monkeypatch.setenv("PROVENFLOW_ANVIL", fake_anvil(script)["PROVENFLOW_ANVIL"])

    with Devnet() as running:
        assert running.warnings == ["anvil is version 1.9.9; provenflow is tested with 1.7.1."]
        assert running.contracts != {}


def test_devnet__pinned_anvil__gives_no_warning(chain):
    assert chain.warnings == []


def test_devnet__stale_artifacts__are_refused_before_anvil_starts(monkeypatch, fake_anvil):
    monkeypatch.setenv("PROVENFLOW_ANVIL", fake_anvil("exit 1")["PROVENFLOW_ANVIL"])
    monkeypatch.setattr("provenflow.artifacts.inputs_hash", lambda _: "ff" * 32)

    with pytest.raises(WrongUse, match="do not come from the sources as they are now"), Devnet():
        pass


# --- the leash -----------------------------------------------------------------------------------------------------

STARTER = """
import os, subprocess, sys, time
leashed = subprocess.Popen([sys.executable, "-I", "-S", sys.argv[1], str(os.getpid()), *sys.argv[2:]])
time.sleep(1000)
"""


@pytest.mark.parametrize("how", [[], ["--watch"]], ids=["with the kernel's help", "without"])
def test_leash__starter_killed__program_ends(tmp_path, how):
    program = [
        "/bin/sh",
        "-c",
        f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 1000",
    ]
    starter = subprocess.Popen([sys.executable, "-c", STARTER, leash.__file__, *how, *program])
    until("the program runs", (tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())
    assert is_running(pid)

    starter.kill()
    starter.wait()

    until("the program ends", lambda: not is_running(pid))


@pytest.mark.parametrize("how", [[], ["--watch"]], ids=["with the kernel's help", "without"])
def test_leash__program_ends__its_exit_code_is_passed_on(how):
    process = subprocess.run(
        [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), *how, "/bin/sh", "-c", "exit 7"]
    )

    assert process.returncode == 7


def test_leash__starter_is_gone_already__starts_nothing(tmp_path):
    # Process 1 is not our parent, as a starter that died would not be.
    marker = tmp_path / "ran"

    process = subprocess.run(
        [sys.executable, "-I", "-S", leash.__file__, "1", "/bin/sh", "-c", f"touch {marker}"]
    )

    assert process.returncode != 0
    assert not marker.exists()


def test_leash__watching_and_asked_to_stop__stops_the_program(tmp_path):
    program = [
        "/bin/sh",
        "-c",
        f"echo $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 1000",
    ]
    leashed = subprocess.Popen(
        [sys.executable, "-I", "-S", leash.__file__, str(os.getpid()), "--watch", *program]
    )
    until("the program runs", (tmp_path / "pid").exists)
    pid = int((tmp_path / "pid").read_text())

    leashed.terminate()
    leashed.wait(PATIENCE)

    assert not is_running(pid)
