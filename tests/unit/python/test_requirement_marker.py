"""The ``requirement`` marker: good markers pass, every bad one stops the collection with one clear sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import requirements

NINE = ", ".join(f'"EXE-{number:03}"' for number in range(1, 10))


def _run(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    """Run a test file with the plugin and without Ape."""
    pytester.makepyfile(test_sample="import pytest\n" + source)
    return pytester.runpytest_inprocess(
        "-p", "no:ape_test", "-p", "no:hypothesispytest", "-p", "tests.support.requirements", *options
    )


@pytest.mark.parametrize(
    "source",
    [
        pytest.param("def test_a(): pass", id="no marker"),
        pytest.param("@pytest.mark.requirement('EXE-001')\ndef test_a(): pass", id="one id"),
        pytest.param(
            f"@pytest.mark.requirement({NINE.rpartition(',')[0]})\ndef test_a(): pass", id="eight ids"
        ),
        pytest.param(
            "pytestmark = pytest.mark.requirement('EXE-001')\n"
            "@pytest.mark.requirement('TOOL-001', 'FB-001')\n"
            "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.requirement('AVIP-001'))])\n"
            "def test_a(x): pass",
            id="on module, function and parameter",
        ),
    ],
)
def test_requirement_marker__right__runs(pytester: pytest.Pytester, source: str) -> None:
    _run(pytester, source).assert_outcomes(passed=1)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        pytest.param(
            "@pytest.mark.requirement('EXE-999')\ndef test_a(): pass",
            "no such requirement in catalog.yaml: EXE-999",
            id="unknown id",
        ),
        pytest.param(
            "@pytest.mark.requirement('exe-001')\ndef test_a(): pass",
            "no such requirement in catalog.yaml: exe-001",
            id="other case",
        ),
        pytest.param(
            "@pytest.mark.requirement(1)\ndef test_a(): pass",
            "no such requirement in catalog.yaml: 1",
            id="not a text",
        ),
        pytest.param(
            "@pytest.mark.requirement('EXE-001', 'EXE-001')\ndef test_a(): pass",
            "names EXE-001 more than once",
            id="twice in one marker",
        ),
        pytest.param(
            "@pytest.mark.requirement('EXE-001')\n@pytest.mark.requirement('EXE-001')\ndef test_a(): pass",
            "names EXE-001 more than once",
            id="in two markers",
        ),
        pytest.param(
            "pytestmark = pytest.mark.requirement('EXE-001')\n"
            "@pytest.mark.requirement('EXE-001')\ndef test_a(): pass",
            "names EXE-001 more than once",
            id="on module and function",
        ),
        pytest.param("@pytest.mark.requirement()\ndef test_a(): pass", "needs one to eight ids", id="no id"),
        pytest.param(
            "@pytest.mark.requirement\ndef test_a(): pass", "needs one to eight ids", id="no parentheses"
        ),
        pytest.param(
            "@pytest.mark.requirement('EXE-001', level='MUST')\ndef test_a(): pass",
            "needs one to eight ids and nothing else",
            id="keyword",
        ),
        pytest.param(
            f"@pytest.mark.requirement({NINE})\ndef test_a(): pass",
            "names 9 requirements, and a test shows at most 8",
            id="nine ids",
        ),
        pytest.param(
            "@pytest.mark.parametrize('x', [pytest.param(1, marks=pytest.mark.requirement('EXE-999'))])\n"
            "def test_a(x): pass",
            "no such requirement in catalog.yaml: EXE-999",
            id="unknown id on a parameter",
        ),
        pytest.param(
            "@pytest.mark.skip\n@pytest.mark.requirement('EXE-001')\ndef test_a(): pass",
            "is marked skip, so it shows no requirement",
            id="skipped",
        ),
        pytest.param(
            "@pytest.mark.skipif(False, reason='x')\n@pytest.mark.requirement('EXE-001')\ndef test_a(): pass",
            "is marked skipif, so it shows no requirement",
            id="perhaps skipped",
        ),
        pytest.param(
            "@pytest.mark.xfail\n@pytest.mark.requirement('EXE-001')\ndef test_a(): pass",
            "is marked xfail, so it shows no requirement",
            id="expected to fail",
        ),
    ],
)
def test_requirement_marker__wrong__stops_the_collection_with_one_sentence(
    pytester: pytest.Pytester, source: str, said: str
) -> None:
    result = _run(pytester, source)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.assert_outcomes()
    errors = [line for line in result.errlines if line.startswith("ERROR:")]
    assert errors == [line for line in errors if line.startswith("ERROR: test_sample.py::test_a: ")]
    assert len(errors) == 1
    assert said in errors[0]
    assert "Traceback" not in result.stderr.str() + result.stdout.str()


def test_requirement_marker__parameters_of_one_function__are_reported_once(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        "@pytest.mark.requirement('EXE-999')\n@pytest.mark.parametrize('x', [1, 2, 3])\ndef test_a(x): pass",
    )

    assert result.stderr.str().count("EXE-999") == 1


def test_requirement_marker__deselected_test__is_checked_too(pytester: pytest.Pytester) -> None:
    result = _run(
        pytester,
        "@pytest.mark.requirement('EXE-999')\ndef test_a(): pass\ndef test_b(): pass",
        "-k",
        "test_b",
    )

    assert result.ret == pytest.ExitCode.USAGE_ERROR


def test_requirement_marker__wrong_in_worker_processes__is_an_error_of_the_test(
    pytester: pytest.Pytester,
) -> None:
    result = _run(
        pytester, "@pytest.mark.requirement('EXE-999')\ndef test_a(): pass", "-n", "2", "-p", "xdist"
    )

    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*test_a: no such requirement in catalog.yaml: EXE-999."])
    assert "Traceback" not in result.stdout.str()


def test_catalog__as_copied__has_every_statement_of_the_four_texts() -> None:
    catalog = requirements.load_catalog()

    assert len(catalog) == 766
    assert {identifier.split("-")[0] for identifier in catalog} == {"EXE", "TOOL", "FB", "AVIP"}
    assert catalog["EXE-001"].level == "MUST"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has no statements"),
        ("[{id: A-1, level: MUST, statement: s, check: doc}, {id: A-1}]", "has A-1 twice"),
    ],
)
def test_catalog__empty_or_with_a_repeated_id__is_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "catalog.yaml"
    path.write_text(text)

    with pytest.raises(ValueError, match=said):
        requirements.load_catalog(path)
