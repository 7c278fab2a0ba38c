"""``ape run deploy`` in a process of its own: local, against a running devnet, and on a network that is not local."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from provenflow.devnet import Devnet
from provenflow.rpc import Rpc, quantity
from provenflow.toolchain import find_anvil
from tests.support.processes import PATIENCE, until

ROOT = Path(__file__).parents[3]
APE = Path(sys.executable).with_name("ape")
SEPOLIA = 11155111
# A contract that every anvil has from the start (a CREATE2 factory). No verifier, but code that is no mock of ours.
SOME_CONTRACT = "0x4e59b44847b379578588920cA78FbF26c0B4956C"

Deploy = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def deploy(tmp_path) -> Deploy:
    """``deploy("--network", …)`` runs the script with records in ``tmp_path / "records"``."""

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [APE, "run", "deploy", "--records", tmp_path / "records", *options],
            cwd=ROOT,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=300,
            env={**os.environ, "APE_DATA_FOLDER": str(tmp_path / "ape")},
        )

    return run


@pytest.fixture(scope="module")
def devnet() -> Iterator[Devnet]:
    with Devnet() as running:
        yield running


@pytest.fixture(scope="module")
def public() -> Iterator[str]:
    """URL of a node with a public network's chain id, which mines by itself, as Ape wants to see confirmations."""
    command = [
        find_anvil(),
        "--port",
        "0",
        "--chain-id",
        str(SEPOLIA),
        "--block-time",
        "1",
        "--hardfork",
        "prague",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = ""
            while "Listening on" not in line:
                line = process.stdout.readline()
                assert line, "anvil ended"
            url = f"http://{line.split()[-1]}"
            until("the node answers", lambda: quantity(Rpc(url).call("eth_chainId"), "") == SEPOLIA)
            yield url
        finally:
            process.terminate()
            process.communicate(timeout=PATIENCE)


def refused(process: subprocess.CompletedProcess[str], code: int, sentence: str) -> None:
    """The process failed with this code, and one sentence of ours about it."""
    told = [line for line in process.stderr.splitlines() if line.startswith("error: ")]
    assert process.returncode == code, process.stderr
    assert len(told) == 1, process.stderr
    assert sentence in told[0]
    assert "Traceback" not in process.stderr


def test_deploy__default_network__deploys_the_suite_and_records_it(deploy, tmp_path):
    process = deploy()

    assert process.returncode == 0, process.stderr
    assert "ERROR" not in process.stderr  # Ape says so about any script that it cannot read
    record = json.loads((tmp_path / "records" / "31337.json").read_text())
    assert {"MockAgentVerifier", "SingleStageWorkflow", "SequentialPipelineWorkflow"} <= set(
        record["contracts"]
    )
    for name, entry in record["contracts"].items():
        assert f"{name} " in process.stdout
        assert entry["address"] in process.stdout
    assert list((tmp_path / "records").iterdir()) == [tmp_path / "records" / "31337.json"]


def test_deploy__running_devnet_by_its_url__deploys_there(deploy, devnet, tmp_path):
    process = deploy("--network", devnet.url, "--only", "SequentialPipelineWorkflow")

    assert process.returncode == 0, process.stderr
    record = json.loads((tmp_path / "records" / "31337.json").read_text())
    assert list(record["contracts"]) == ["MockAgentVerifier", "SequentialPipelineWorkflow"]
    for entry in record["contracts"].values():
        assert len(devnet.rpc.call("eth_getCode", entry["address"], "latest")) > 2


def test_deploy__dry_run__says_the_plan_and_sends_nothing(deploy, devnet, tmp_path):
    before = devnet.rpc.call("eth_blockNumber")

    process = deploy("--network", devnet.url, "--dry-run")

    assert process.returncode == 0, process.stderr
    assert "would deploy\n  MockAgentVerifier()\n" in process.stdout
    assert "  CommitRevealWorkflow(MockAgentVerifier, 2)\n" in process.stdout
    assert devnet.rpc.call("eth_blockNumber") == before
    assert not (tmp_path / "records").exists()


def test_deploy__public_network_with_a_verifier__deploys_once(deploy, public, tmp_path):
    options = [
        "--network",
        public,
        "--account",
        "TEST::0",
        "--only",
        "SingleStageWorkflow",
        "--verifier",
        SOME_CONTRACT,
    ]

    first = deploy(*options)
    again = deploy(*options)

    assert first.returncode == 0, first.stderr
    entry = json.loads((tmp_path / "records" / f"{SEPOLIA}.json").read_text())["contracts"][
        "SingleStageWorkflow"
    ]
    assert entry["arguments"][0]["value"] == SOME_CONTRACT
    assert len(Rpc(public).call("eth_getCode", entry["address"], "latest")) > 2
    refused(again, 2, f"already has SingleStageWorkflow at {entry['address']}")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--account", "TEST::0", "--only", "MockAgentVerifier"], "is not local: MockAgentVerifier"),
        (["--verifier", SOME_CONTRACT], "needs an account"),
        (["--account", "TEST::0", "--verifier", "0x" + "00" * 19 + "aa"], "has no code on chain 11155111"),
    ],
    ids=["mock", "no account", "verifier without code"],
)
def test_deploy__public_network_wrongly__is_refused_before_anything_is_sent(
    deploy, public, tmp_path, options, sentence
):
    refused(deploy("--network", public, *options), 2, sentence)
    assert not (tmp_path / "records").exists()


def test_deploy__node_that_is_not_there__exits_3(deploy):
    refused(deploy("--network", "http://127.0.0.1:9"), 3, "The network could not be used")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--network", "ethereum:nowhere"], "No network in 'ethereum' named 'nowhere'"),
        (["--nonsense"], "no such option: --nonsense; see ape run deploy --help"),
    ],
    ids=["unknown network", "unknown option"],
)
def test_deploy__wrong_use__is_one_sentence(deploy, options, sentence):
    refused(deploy(*options), 2, sentence)


def test_deploy__help__has_an_example(deploy):
    process = deploy("--help")

    assert process.returncode == 0
    assert "ape run deploy --network http://127.0.0.1:8545" in process.stdout.split("Examples:")[1]
    documented = set(
        re.findall(r"^\| `(--[a-z-]+)", (ROOT / "docs" / "DEPLOYING.md").read_text(), re.MULTILINE)
    )
    apes_own = {"--help", "--verbosity", "--provider-settings"}
    assert documented == set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", process.stdout, re.MULTILINE)) - apes_own
