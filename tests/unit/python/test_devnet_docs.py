"""``docs/DEVNET.md`` and ``docs/DEPLOYING.md`` say what the code does."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from provenflow import artifacts, deployment
from provenflow.cli.devnet import devnet as devnet_command
from provenflow.deployment_record import FORMAT
from provenflow.devnet import Devnet
from tests.unit.python.test_deployment import deploy_publicly, public

DOCS = Path(__file__).resolve().parents[3] / "docs"
DEVNET = (DOCS / "DEVNET.md").read_text()
DEPLOYING = (DOCS / "DEPLOYING.md").read_text()


def block(text: str, language: str) -> str:
    """The first code block of that language."""
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[1]


@pytest.fixture(scope="module")
def chain():
    with Devnet() as running:
        yield running


def test_devnet_options__table__is_that_of_the_command():
    options = {name for option in devnet_command.params for name in option.opts}

    assert set(re.findall(r"^\| `(--[a-z-]+)", DEVNET, re.MULTILINE)) == options


def test_devnet_file__example__has_the_shape_and_address_of_a_real_one(chain):
    example, real = json.loads(block(DEVNET, "json")), chain.document()

    assert example.keys() == real.keys()
    assert example["chainId"] == real["chainId"]
    assert example["accounts"][0] == real["accounts"][0]
    ((name, contract),) = example["contracts"].items()
    assert contract.keys() == real["contracts"][name].keys()
    assert contract["address"] == real["contracts"][name]["address"]


def test_devnet_from_python__example__runs():
    names: dict[str, object] = {}

    exec(compile(block(DEVNET, "python"), "DEVNET.md", "exec"), names)

    assert isinstance(names["run_id"], bytes)


def test_record__example__has_the_keys_of_a_real_one(tmp_path):
    chain = public()
    deploy_publicly(chain, tmp_path, "SingleStageWorkflow")
    real = json.loads((tmp_path / f"{chain.chain_id}.json").read_text())

    example = json.loads(block(DEPLOYING, "json"))

    assert example.keys() == real.keys()
    assert example["format"] == FORMAT
    entry, real_entry = example["contracts"]["SingleStageWorkflow"], real["contracts"]["SingleStageWorkflow"]
    assert list(entry) == list(real_entry)
    assert entry["arguments"][0].keys() == real_entry["arguments"][0].keys()
    assert entry["compiler"] == dict(artifacts.load_all().compiler)
    assert entry["source"] == real_entry["source"]


def test_local_chains__ids__are_those_of_the_code():
    assert {int(number) for number in re.findall(r"chain id is\s+(\d+) or (\d+)", DEPLOYING)[0]} == set(
        deployment.LOCAL_CHAIN_IDS
    )
