"""Every MUST and MUST NOT of ERC-8301 that a test can show has its marked test, or a written reason why not yet."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping

import pytest

from tests.support.conformance import ROOT, is_core, load_reasons
from tests.support.requirements import Requirement, load_catalog

# Collected in a process of its own: this one is busy with a collection.
_COLLECT = """
import json
from tests.support.conformance import ROOT, CollectionFailed, collect
try:
    shown_by = collect([str(ROOT / "tests"), f"--rootdir={ROOT}"])
except CollectionFailed as error:
    raise SystemExit("\\n".join(str(error).splitlines()[-30:]))
print(json.dumps({identifier: sorted(tests) for identifier, tests in shown_by.items()}))
"""


def problems(
    catalog: Mapping[str, Requirement], shown: Collection[str], reasons: Mapping[str, str]
) -> list[str]:
    """What is wrong with the coverage of ERC-8301, a sentence each, in the order of the catalogue.

    A reason may stand for a test only where the statement is about a part that can be missing: never for what a
    contract test has to show.
    """
    found = []
    for entry in catalog.values():
        core = entry.id.startswith("EXE-") and is_core(entry)
        if entry.id in reasons:
            if entry.id in shown:
                found.append(f"{entry.id} has a test and a reason for having none")
            elif not core:
                found.append(f"{entry.id} needs no test, and so no reason")
            elif entry.check == "contract-test":
                found.append(f"{entry.id} is for a contract test to show")
        elif core and entry.id not in shown:
            found.append(f"{entry.id} has no test: {entry.statement}")
    found += [
        f"{identifier} is no statement of the catalogue"
        for identifier in reasons
        if identifier not in catalog
    ]
    return found


@pytest.fixture(scope="module")
def shown() -> dict[str, list[str]]:
    """Tests of the whole suite by the statement that they show."""
    answer = subprocess.run([sys.executable, "-c", _COLLECT], capture_output=True, text=True, cwd=ROOT)
    assert answer.returncode == 0, answer.stderr
    return dict(json.loads(answer.stdout))


def test_coverage__every_must_of_erc_8301__has_a_test_or_a_reason(shown: dict[str, list[str]]) -> None:
    assert problems(load_catalog(), shown, load_reasons()) == []


def test_coverage__tests_of_the_contracts__are_among_the_collected(shown: dict[str, list[str]]) -> None:
    # An empty or partial collection must not look like an answer.
    files = {test.split("::")[0] for tests in shown.values() for test in tests}
    assert {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "tests" / "scenarios").glob("test_scenario_*.py")
    } <= files


CATALOG = {
    entry.id: entry
    for entry in (
        Requirement("EXE-001", "MUST", "One.", "contract-test"),
        Requirement("EXE-002", "MUST NOT", "Two.", "python-test"),
        Requirement("EXE-003", "SHOULD", "Three.", "contract-test"),
        Requirement("EXE-004", "MUST", "Four.", "doc"),
        Requirement("EXE-005", "MUST", "Five.", "e2e-test"),
        Requirement("TOOL-001", "MUST", "Six.", "contract-test"),
    )
}


@pytest.mark.parametrize(
    ("shown", "reasons", "expected"),
    [
        ({"EXE-001", "EXE-002", "EXE-005"}, {}, []),
        ({"EXE-001", "EXE-005"}, {"EXE-002": "no runtime"}, []),
        ({"EXE-001"}, {"EXE-002": "no runtime"}, ["EXE-005 has no test: Five."]),
        (
            set(),
            {},
            ["EXE-001 has no test: One.", "EXE-002 has no test: Two.", "EXE-005 has no test: Five."],
        ),
        (
            {"EXE-001", "EXE-002", "EXE-005"},
            {"EXE-002": "no runtime"},
            ["EXE-002 has a test and a reason for having none"],
        ),
        (
            {"EXE-002", "EXE-005"},
            {"EXE-001": "too hard"},
            ["EXE-001 is for a contract test to show"],
        ),
        (
            {"EXE-001", "EXE-002", "EXE-005"},
            {"EXE-003": "a SHOULD", "EXE-004": "a document", "TOOL-001": "another text"},
            [
                "EXE-003 needs no test, and so no reason",
                "EXE-004 needs no test, and so no reason",
                "TOOL-001 needs no test, and so no reason",
            ],
        ),
        (
            {"EXE-001", "EXE-002", "EXE-005"},
            {"EXE-999": "misspelt"},
            ["EXE-999 is no statement of the catalogue"],
        ),
    ],
    ids=[
        "all shown",
        "one excused",
        "one missing",
        "all missing",
        "excused and shown",
        "contract test excused",
        "excused without need",
        "unknown id excused",
    ],
)
def test_problems__shown_and_excused__every_gap_is_named(
    shown: set[str], reasons: dict[str, str], expected: list[str]
) -> None:
    assert problems(CATALOG, shown, reasons) == expected


def test_reasons__each__is_a_sentence() -> None:
    reasons = load_reasons()
    assert reasons
    assert all(len(reason.split()) > 5 for reason in reasons.values())
