"""The ``requirement`` marker: which statements of the law a test shows.

``@pytest.mark.requirement("EXE-101", "EXE-102")`` names statements of ``tests/data/catalog.yaml``. A test shows at most
eight of them; a test that claims more claims too much. An unknown id, an id given twice, a marker without ids, and a
marker on a test that is skipped or expected to fail stop the collection with one sentence each.

The module is a pytest plugin (loaded by ``tests/conftest.py``) and reads the catalogue for the conformance page.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pytest
import yaml

CATALOG = Path(__file__).resolve().parent.parent / "data" / "catalog.yaml"
MAX_IDS_PER_TEST = 8
MARKER = "requirement"

# libyaml reads the catalogue twenty times faster; the pure Python loader gives the same.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Requirement:
    """One statement of the catalogue: ``level`` is the RFC 2119 word, ``check`` says where it can be shown."""

    id: str
    level: str
    statement: str
    check: str


@lru_cache
def load_catalog(path: Path = CATALOG) -> dict[str, Requirement]:
    """Every statement by id, in the order of the catalogue.

    Raises
    ------
    ValueError
        The catalogue is empty, or an id occurs twice.
    """
    entries = yaml.load(path.read_text(encoding="utf-8"), Loader=_Loader)
    if not entries:
        raise ValueError(f"{path} has no statements")
    catalog: dict[str, Requirement] = {}
    for entry in entries:
        if entry["id"] in catalog:
            raise ValueError(f"{path} has {entry['id']} twice")
        catalog[entry["id"]] = Requirement(entry["id"], entry["level"], entry["statement"], entry["check"])
    return catalog


def requirement_ids(item: pytest.Item) -> list[str]:
    """The ids of all ``requirement`` markers of a test: its own, its parameter's, its class's and its module's."""
    return [identifier for marker in item.iter_markers(MARKER) for identifier in marker.args]


def problem_of(item: pytest.Item) -> str:
    """What is wrong with the markers of a test, as one sentence; ``""`` when nothing is."""
    markers = list(item.iter_markers(MARKER))
    if not markers:
        return ""
    if any(not marker.args or marker.kwargs for marker in markers):
        return "a requirement marker needs one to eight ids and nothing else"
    ids = requirement_ids(item)
    catalog = load_catalog()
    if unknown := [identifier for identifier in ids if identifier not in catalog]:
        return f"no such requirement in {CATALOG.name}: {', '.join(map(str, unknown))}"
    if repeated := sorted({identifier for identifier in ids if ids.count(identifier) > 1}):
        return f"names {', '.join(repeated)} more than once"
    if len(ids) > MAX_IDS_PER_TEST:
        return f"names {len(ids)} requirements, and a test shows at most {MAX_IDS_PER_TEST}"
    if mark := next((name for name in ("skip", "skipif", "xfail") if item.get_closest_marker(name)), None):
        return f"is marked {mark}, so it shows no requirement"
    return ""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if _is_xdist_worker(config):
        return
    # Parameters of one function usually share a problem: it is said once.
    problems = {f"{item.nodeid.split('[')[0]}: {problem}." for item in items if (problem := problem_of(item))}
    if problems:
        raise pytest.UsageError("\n".join(sorted(problems)))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # What a worker says while it collects is lost on its way to the user; a failing test is not.
    if _is_xdist_worker(item.config) and (problem := problem_of(item)):
        pytest.fail(f"{item.nodeid}: {problem}.", pytrace=False)


def _is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
