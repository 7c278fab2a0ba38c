"""``docs/GAS.md`` says what ``snapshots/gas.json`` says, and the snapshot keeps to the ceilings."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from benchmarks import gas
from benchmarks.gas_report import DOCUMENT, actions_table, growth_table, size_table, with_tables
from provenflow import artifacts
from provenflow.errors import Invalid

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def snapshot() -> dict[str, Any]:
    return gas.read_snapshot(ROOT / gas.SNAPSHOT)


@pytest.fixture(scope="module")
def document() -> str:
    return (ROOT / DOCUMENT).read_text(encoding="utf-8")


def test_gas_docs__tables__are_those_of_the_snapshot(document: str, snapshot: dict[str, Any]) -> None:
    assert with_tables(document, snapshot, gas.CEILINGS) == document


def test_gas_docs__slot_by_slot__names_as_many_slots_as_were_measured(
    document: str, snapshot: dict[str, Any]
) -> None:
    _, _, account = document.partition("## Slot by slot")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]*)\| ([^|]*)\| ([^|]*)\|$", account.partition("\n## ")[0], re.M)
    told = {name: [_count(cell) for cell in cells] for name, *cells in rows if name not in ("action", "---")}
    measured = {
        name: [use["created"], use["updated"], use["read"]] for name, use in snapshot["storage"].items()
    }
    assert told == measured


def test_gas_snapshot__ceilings__are_kept(snapshot: dict[str, Any]) -> None:
    over = {name: snapshot["actions"][name]["gas"] for name, ceiling in gas.CEILINGS.items()
            if snapshot["actions"][name]["gas"] > ceiling}  # fmt: skip
    assert over == {}


def test_gas_snapshot__code_sizes__are_those_of_what_is_deployed(snapshot: dict[str, Any]) -> None:
    examples = {
        name: artifact
        for name, artifact in artifacts.load_all().contracts.items()
        if artifact.source_id.startswith("contracts/examples/")
    }
    sizes = {name: len(artifact.deployed_bytecode) // 2 - 1 for name, artifact in examples.items()}
    assert snapshot["runtimeBytes"] == sizes
    assert max(sizes.values()) <= gas.MAX_CODE_SIZE


def test_gas_snapshot__every_action__is_cheaper_than_on_the_plain_twin(snapshot: dict[str, Any]) -> None:
    assert [name for name, figures in snapshot["actions"].items() if figures["gas"] >= figures["twin"]] == []


def test_with_tables__another_figure__is_written_into_the_document(
    document: str, snapshot: dict[str, Any]
) -> None:
    other = json.loads(json.dumps(snapshot))
    other["actions"]["run, later"]["gas"] = 123_456
    changed = with_tables(document, other, gas.CEILINGS)
    assert changed != document
    assert "| run, later | 123,456 |" in changed
    assert with_tables(changed, snapshot, gas.CEILINGS) == document


def test_with_tables__marker_missing__is_refused(document: str, snapshot: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="must have the tables actions, code size, growth, each once"):
        with_tables(document.replace("<!-- table: growth -->", ""), snapshot, gas.CEILINGS)


def test_tables__ratio_and_ceiling__are_shown(snapshot: dict[str, Any]) -> None:
    figures = {
        "actions": {"a": {"gas": 1_500, "twin": 3_000}, "b": {"gas": 7, "twin": 8}},
        "storage": {name: {"created": 1, "updated": 2, "read": 3, "gas": 1_000} for name in "ab"},
        "growth": {"g": {"10": {"gas": 5, "twin": 6}, "2": {"gas": 3, "twin": 4}}},
        "runtimeBytes": {"C": 1_234},
    }
    assert actions_table(figures, {"a": 2_000}).splitlines()[2:] == [
        "| a | 1,500 | 2,000 | 3,000 | 0.50 | 1 | 2 | 3 | 1,000 |",
        "| b | 7 |  | 8 | 0.88 | 1 | 2 | 3 | 1,000 |",
    ]
    assert growth_table(figures).splitlines()[2:] == ["| g | 2: 3 (4), 10: 5 (6) |"]
    assert size_table(figures).splitlines()[2:] == ["| C | 1,234 |"]


def _count(cell: str) -> int:
    """How many slots a cell names: ``name; 3 × name`` are four."""
    names = [name.strip() for name in cell.split(";") if name.strip()]
    numbers = [re.search(r"(\d+) ×", name) for name in names]
    return sum(int(number[1]) if number else 1 for number in numbers)
