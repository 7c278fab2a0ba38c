"""``docs/EVIDENCE.md`` says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from click import Argument, Group

from provenflow.cli.evidence import evidence as evidence_command
from provenflow.evidence import CHECKS, SCHEMA, to_json
from provenflow.evidence.bundle import MAX_BUNDLE_BYTES
from tests.support.evidence_builder import pipeline

DOCUMENT = (Path(__file__).resolve().parents[3] / "docs" / "EVIDENCE.md").read_text()


def test_checks__table__is_that_of_the_code() -> None:
    rows = [line for line in DOCUMENT.splitlines() if re.match(r"\| `[a-z]+\.[a-z-]+` \|", line)]
    assert rows == [f"| `{check.id}` | {check.statement} | {check.rests_on} |" for check in CHECKS.values()]


def test_checks__that_may_stay_open__are_named() -> None:
    (_, listed) = DOCUMENT.split("Four checks may stay open")
    heads = [line.split(":")[0] for line in listed.split("What a ")[0].splitlines() if line.startswith("* ")]
    named = [name for head in heads for name in re.findall(r"`([^`]+)`", head)]
    assert sorted(named) == sorted(check.id for check in CHECKS.values() if check.may_stay_open)


def test_options__table__is_that_of_the_command() -> None:
    assert isinstance(evidence_command, Group)
    verify = evidence_command.commands["verify"]
    options = {name for option in verify.params if not isinstance(option, Argument) for name in option.opts}
    # They say which run, and stand in the example above the table.
    assert set(re.findall(r"^\| `(--[a-z-]+)", DOCUMENT, re.MULTILINE)) == options - {
        "--rpc",
        "--contract",
        "--run",
    }


def test_bundle__table__names_every_key() -> None:
    (_, section) = DOCUMENT.split("## The bundle")
    names = set(re.findall(r"`([A-Za-z]+)(?:\[\])?`", section))
    document = to_json(pipeline().evidence())
    keys = set(document) | set(document["block"]) | set(document["result"])
    for record in ("logs", "transactions", "tasks", "replies"):
        keys |= set(document[record][0])
    assert keys <= names
    assert SCHEMA in section
    assert f"{MAX_BUNDLE_BYTES // 2**20} MiB" in section
