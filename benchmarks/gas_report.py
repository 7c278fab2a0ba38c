"""The tables of ``docs/GAS.md``, made from a gas snapshot and put between markers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from provenflow.errors import Invalid

DOCUMENT: Final = Path("docs", "GAS.md")
_BLOCK: Final = re.compile(r"(<!-- table: ([a-z ]+) -->\n).*?(<!-- end of table -->)", re.S)


def with_tables(text: str, snapshot: Mapping[str, Any], ceilings: Mapping[str, int]) -> str:
    """The document with every table made anew.

    Parameters
    ----------
    text:
        The document as it is.
    snapshot:
        A gas snapshot.
    ceilings:
        Gas that an action may cost, by its name.

    Raises
    ------
    Invalid
        The document has a marker for a table that does not exist, or lacks one.
    """
    tables = {
        "actions": actions_table(snapshot, ceilings),
        "growth": growth_table(snapshot),
        "code size": size_table(snapshot),
    }
    wanted = [name for _, name, _ in _BLOCK.findall(text)]
    if sorted(wanted) != sorted(tables):
        raise Invalid(
            f"{DOCUMENT} must have the tables {', '.join(sorted(tables))}, each once, not {wanted}."
        )
    return _BLOCK.sub(lambda found: f"{found[1]}\n{tables[found[2]]}\n\n{found[3]}", text)


def actions_table(snapshot: Mapping[str, Any], ceilings: Mapping[str, int]) -> str:
    """Gas of every action on the contracts and on the twin, the ratio, and what the action does to storage."""
    rows = []
    for name, figures in snapshot["actions"].items():
        storage = snapshot["storage"][name]
        ceiling = f"{ceilings[name]:,}" if name in ceilings else ""
        ratio = f"{figures['gas'] / figures['twin']:.2f}"
        rows.append(
            [
                name, f"{figures['gas']:,}", ceiling, f"{figures['twin']:,}", ratio,
                str(storage["created"]), str(storage["updated"]), str(storage["read"]), f"{storage['gas']:,}",
            ]
        )  # fmt: skip
    head = ["action", "gas", "ceiling", "plain twin", "ratio", "created", "updated", "read", "storage gas"]
    return _table(head, rows)


def growth_table(snapshot: Mapping[str, Any]) -> str:
    """How actions grow: a row for each thing that they grow with, its points as ``number: gas (twin)``."""
    rows = []
    for name, points in snapshot["growth"].items():
        ordered = sorted(points.items(), key=lambda point: int(point[0]))
        told = ", ".join(f"{number}: {figures['gas']:,} ({figures['twin']:,})" for number, figures in ordered)
        rows.append([name, told])
    return _table(["action, by what it grows with", "number: gas (twin)"], rows)


def size_table(snapshot: Mapping[str, Any]) -> str:
    """Bytes of runtime code of every example."""
    return _table(
        ["example", "bytes"], [[name, f"{size:,}"] for name, size in snapshot["runtimeBytes"].items()]
    )


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
