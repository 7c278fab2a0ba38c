"""The conformance page says what the markers say, no more, and the committed page is up to date."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import conformance
from tests.support.requirements import Requirement, load_catalog

CATALOG = {
    entry.id: entry
    for entry in (
        Requirement("EXE-001", "MUST", "First | statement, a <b> and more.", "contract-test"),
        Requirement("EXE-002", "MUST NOT", "Second.", "python-test"),
        Requirement("EXE-003", "SHOULD", "Third. " + "Long. " * 100, "contract-test"),
        Requirement("EXE-004", "MUST", "Fourth.", "doc"),
        Requirement("TOOL-001", "MUST", "Fifth.", "e2e-test"),
    )
}


def _rows(page: str) -> dict[str, list[str]]:
    """The cells of every statement's row, by id."""
    lines = [line.replace("\\|", "\\") for line in page.splitlines()]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return {row[0]: row for row in cells if row[0] in load_catalog()}


def test_render__statement_without_a_test__is_not_shown_yet() -> None:
    rows = _rows(
        conformance.render({"EXE-002": {"tests/test_b.py::test_2", "tests/test_a.py::test_1"}}, CATALOG)
    )

    assert set(rows) == set(CATALOG)
    assert rows["EXE-002"][1:] == [
        "MUST NOT",
        "Second.",
        "python-test",
        "`tests/test_a.py::test_1`<br>`tests/test_b.py::test_2`",
    ]
    assert {identifier for identifier, row in rows.items() if row[4] == "not shown yet"} == set(CATALOG) - {
        "EXE-002"
    }


def test_render__nothing_shown__nothing_counted_as_shown() -> None:
    page = conformance.render({}, CATALOG)

    assert "| ERC-8301 AI Agent Execution (`EXE`) | 4 | 2 | 0 | 2 | 0 |" in page
    assert "Shown: MUST 0 of 2, MUST NOT 0 of 1, SHOULD 0 of 1." in page


def test_render__summary__counts_testable_musts_apart() -> None:
    shown_by = {identifier: {"tests/test_a.py::test_1"} for identifier in ("EXE-001", "EXE-003", "TOOL-001")}

    page = conformance.render(shown_by, CATALOG)

    assert "| ERC-8301 AI Agent Execution (`EXE`) | 4 | 2 | 1 | 1 | 1 |" in page
    assert "| ERC-8257 Agent Tool Registry (`TOOL`) | 1 | 1 | 1 | 0 | 0 |" in page
    assert "Shown: MUST 1 of 2, MUST NOT 0 of 1, SHOULD 1 of 1." in page


def test_render__statement__fits_one_cell() -> None:
    page = conformance.render({}, CATALOG)

    assert "| First \\| statement, a &lt;b> and more. |" in page
    (row,) = [line for line in page.splitlines() if line.startswith("| EXE-003 ")]
    assert row.split(" | ")[2].endswith("…")
    assert 100 < len(row.split(" | ")[2]) <= conformance.STATEMENT_LENGTH


def test_render__whole_catalogue__has_every_statement_once() -> None:
    page = conformance.render({}, load_catalog())

    assert set(_rows(page)) == set(load_catalog())
    assert all(page.count(f"\n| {identifier} |") == 1 for identifier in load_catalog())


def test_collect__marked_tests__by_requirement(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        test_sample="""
        import pytest

        @pytest.mark.requirement("EXE-001")
        @pytest.mark.parametrize("x", [1, 2])
        def test_a(x): pass

        class TestGroup:
            @pytest.mark.requirement("EXE-001", "FB-001")
            def test_b(self): raise AssertionError("a collected test does not run")

        def test_c(): pass
        """
    )

    assert conformance.collect([str(pytester.path)]) == {
        "EXE-001": {"test_sample.py::test_a", "test_sample.py::TestGroup::test_b"},
        "FB-001": {"test_sample.py::TestGroup::test_b"},
    }


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_module", "no_such_module"),
        ("import pytest\n@pytest.mark.requirement('EXE-999')\ndef test_a(): pass", "EXE-999"),
        ("", "no tests"),
    ],
    ids=["does not import", "unknown id", "no tests"],
)
def test_collect__not_everything_collected__is_an_error(
    pytester: pytest.Pytester, source: str, said: str
) -> None:
    pytester.makepyfile(test_sample=source)

    with pytest.raises(conformance.CollectionFailed, match=said):
        conformance.collect([str(pytester.path)])


@pytest.fixture
def page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A page of its own for ``main``, made from two shown statements."""
    monkeypatch.setattr(conformance, "ROOT", tmp_path)
    monkeypatch.setattr(conformance, "PAGE", tmp_path / "docs" / "CONFORMANCE.md")
    monkeypatch.setattr(conformance, "collect", lambda _: {"EXE-001": {"tests/test_a.py::test_1"}})
    return tmp_path / "docs" / "CONFORMANCE.md"


def test_main__check__tells_equal_from_out_of_date_from_missing(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert conformance.main(["--check"]) == 1
    assert not page.exists()
    assert conformance.main([]) == 0
    assert conformance.main(["--check"]) == 0
    page.write_text(page.read_text() + "more\n")
    assert conformance.main(["--check"]) == 1
    assert (
        capsys.readouterr().err.splitlines()
        == ["error: docs/CONFORMANCE.md is out of date; run python -m tests.support.conformance"] * 2
    )


def test_main__wrong_option__is_wrong_use(page: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert conformance.main(["--verify"]) == 2
    assert capsys.readouterr().err == "error: the only option is --check\n"
    assert not page.exists()


def test_main__collection_failed__writes_nothing_and_is_unknown(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> dict[str, set[str]]:
        raise conformance.CollectionFailed("tests/test_a.py does not import")

    monkeypatch.setattr(conformance, "collect", fail)

    assert conformance.main([]) == 3
    assert conformance.main(["--check"]) == 3
    assert not page.exists()
    assert "tests/test_a.py does not import" in capsys.readouterr().err


def test_conformance_page__as_committed__is_up_to_date() -> None:
    root = Path(__file__).resolve().parents[3]

    answer = subprocess.run(
        [sys.executable, "-m", "tests.support.conformance", "--check"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )

    assert answer.stderr == ""
    assert answer.returncode == 0
