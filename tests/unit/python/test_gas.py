"""The gas benchmark's own judgement: what is a rise, a passed ceiling, forbidden growth; and the twin's sources."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from benchmarks import gas, twin
from benchmarks.gas_actions import Measured
from benchmarks.gas_chain import Outcome, StorageUse
from provenflow.errors import Invalid

_GROWTH = {
    "run, by earlier runs": {0: 100, 1: 100, 10: 100},
    "reply, by earlier replies": {0: 90, 1: 80, 10: 80},
    "reply, by bytes of output": {0: 10, 32: 20},
}


def _measured(actions: dict[str, int], growth: dict[str, dict[int, int]]) -> Measured:
    chain: Any = SimpleNamespace()
    storage = {name: StorageUse(1, 2, 3, 4) for name in actions}
    return Measured(chain, actions, storage, growth)


def _figures(
    gas_of: dict[str, int] | None = None,
    growth: dict[str, dict[int, int]] | None = None,
    size: int = 20_480,
) -> gas.Figures:
    actions = {**gas.CEILINGS, **(gas_of or {})}
    packed = _measured(actions, growth or _GROWTH)
    plain = _measured({name: 2 * cost for name, cost in actions.items()}, growth or _GROWTH)
    return gas.Figures(packed, plain, {"SingleStageWorkflow": size})


def test_problems_of__everything_at_its_limit__there_are_none() -> None:
    assert gas.problems_of(_figures()) == []


@pytest.mark.parametrize("name", list(gas.CEILINGS))
def test_problems_of__one_gas_over_a_ceiling__is_told(name: str) -> None:
    (problem,) = gas.problems_of(_figures({name: gas.CEILINGS[name] + 1}))
    assert problem.startswith(f"{name} costs {gas.CEILINGS[name] + 1:,} gas, over its ceiling")


def test_problems_of__one_byte_over_the_size__is_told() -> None:
    assert gas.problems_of(_figures(size=20_481)) == [
        "SingleStageWorkflow has 20,481 bytes of code, over the limit of 20,480."
    ]


@pytest.mark.parametrize(
    ("name", "points"),
    [
        ("run, by earlier runs", {0: 100, 1: 100, 10: 101}),
        ("run, by earlier runs", {0: 101, 1: 100, 10: 100}),
        ("reply, by earlier replies", {0: 90, 1: 91, 10: 91}),
        ("reply, by earlier replies", {0: 90, 1: 80, 10: 81}),
    ],
)
def test_problems_of__growth_with_what_came_before__is_told(name: str, points: dict[int, int]) -> None:
    (problem,) = gas.problems_of(_figures(growth=_GROWTH | {name: points}))
    assert problem.startswith(f"{name}: an action must")


@pytest.mark.parametrize("what", ["by earlier runs", "by earlier replies"])
def test_problems_of__growth_not_measured__is_told(what: str) -> None:
    growth = {name: points for name, points in _GROWTH.items() if not name.endswith(what)}
    assert gas.problems_of(_figures(growth=growth)) == [f"Nothing was measured {what}."]


def test_differences__same__there_are_none() -> None:
    document = _figures().document()
    assert gas.differences(document, json.loads(json.dumps(document))) == []


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (
            lambda actions: actions["run, later"].update(gas=150_001),
            "run, later / gas rose from 150,000 to 150,001 (+1).",
        ),
        (
            lambda actions: actions["run, later"].update(gas=149_999),
            "run, later / gas fell from 150,000 to 149,999 (-1).",
        ),
        (
            lambda actions: actions["run, later"].update(twin=1),
            "run, later / twin fell from 300,000 to 1 (-299,999).",
        ),
        (
            lambda actions: actions.pop("run, later"),
            "run, later is in the snapshot but is not measured any more.",
        ),
        (lambda actions: actions.update(new={"gas": 1}), "new is not in the snapshot."),
    ],
)
def test_differences__something_changed__is_told(change: Callable[[dict[str, Any]], Any], told: str) -> None:
    before = _figures().document()
    now = json.loads(json.dumps(before))
    change(now["actions"])
    assert gas.differences(before, now) == [f"actions / {told}"]


@pytest.mark.parametrize("content", [None, "no JSON", "[]", '{"format": "another"}'])
def test_read_snapshot__cannot_be_compared_with__is_an_error(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "gas.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(Invalid, match="make gas UPDATE=1"):
        gas.read_snapshot(path)


def _run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, figures: gas.Figures, *options: str) -> Any:
    monkeypatch.setattr(gas, "take", lambda: figures)
    monkeypatch.setattr(twin, "root", lambda: tmp_path)
    return CliRunner(mix_stderr=False).invoke(gas.main, options)


def _checkout(tmp_path: Path, figures: gas.Figures) -> Path:
    (tmp_path / "snapshots").mkdir()
    (tmp_path / "docs").mkdir()
    tables = "".join(
        f"<!-- table: {name} -->\n<!-- end of table -->\n" for name in ("actions", "growth", "code size")
    )
    (tmp_path / gas.DOCUMENT).write_text(tables)
    path = tmp_path / gas.SNAPSHOT
    path.write_text(json.dumps(figures.document()))
    return path


def test_check__nothing_changed__passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _checkout(tmp_path, _figures())
    result = _run(monkeypatch, tmp_path, _figures(), "--check")
    assert (result.exit_code, result.stderr) == (0, "")


@pytest.mark.parametrize("cost", [149_000, 149_002])
def test_check__rise_or_fall__fails_and_says_how_to_update(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cost: int
) -> None:
    path = _checkout(tmp_path, _figures({"run, later": 149_001}))
    before = path.read_text()
    result = _run(monkeypatch, tmp_path, _figures({"run, later": cost}), "--check")
    assert result.exit_code == 1
    assert "actions / run, later / gas" in result.stderr
    assert "make gas UPDATE=1" in result.stderr
    assert path.read_text() == before


def test_update__something_changed__rewrites_snapshot_and_tables(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = _checkout(tmp_path, _figures())
    result = _run(monkeypatch, tmp_path, _figures({"run, later": 149_001}), "--update")
    assert result.exit_code == 0
    assert json.loads(path.read_text())["actions"]["run, later"]["gas"] == 149_001
    assert "| run, later | 149,001 |" in (tmp_path / gas.DOCUMENT).read_text()
    assert _run(monkeypatch, tmp_path, _figures({"run, later": 149_001}), "--check").exit_code == 0


def test_update__over_a_ceiling__fails_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = _checkout(tmp_path, _figures())
    before = path.read_text()
    result = _run(monkeypatch, tmp_path, _figures({"run, later": 150_001}), "--update")
    assert (result.exit_code, path.read_text()) == (1, before)


def test_main__check_and_update__is_wrong_use(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    result = _run(monkeypatch, tmp_path, _figures(), "--check", "--update")
    assert result.exit_code == 2


def test_measured__one_name_twice__is_refused() -> None:
    chain: Any = SimpleNamespace(storage_use=lambda _: StorageUse(0, 0, 0, 0))
    measured = Measured(chain)
    outcome = Outcome(1, (), "0x00")
    measured.act("run", outcome)
    measured.grow("run, by x", 1, outcome)
    with pytest.raises(Invalid, match="Two actions are called run"):
        measured.act("run", outcome)
    with pytest.raises(Invalid, match="measured twice at 1"):
        measured.grow("run, by x", 1, outcome)


@pytest.mark.parametrize(
    ("records", "plain"), [(["a", "b"], ["a", "c"]), (["a", "b"], ["a"]), (["a"], ["a", "b"])]
)
def test_take__twin_gives_other_records__is_an_error(
    monkeypatch: pytest.MonkeyPatch, records: list[str], plain: list[str]
) -> None:
    both = {False: records, True: plain}
    monkeypatch.setattr(twin, "compile_contracts", lambda *, twin: twin)
    monkeypatch.setattr(gas, "_measure", lambda contracts: (_measured({}, {}), both[contracts]))
    with pytest.raises(Invalid, match="The plain twin gives another record"):
        gas.take()


def test_twin__sources__differ_in_the_storage_file_only() -> None:
    ours, plain = twin.sources(twin=False), twin.sources(twin=True)
    assert [name for name in ours | plain if ours.get(name) != plain.get(name)] == [twin.STORAGE]
    assert "library WorkflowStorage {" in plain[twin.STORAGE]
    assert "Plain" not in plain[twin.STORAGE].partition("library ")[2]
    assert '"../../' not in plain[twin.STORAGE]


@pytest.mark.parametrize(
    "name", ["contracts/workflow/AgentWorkflow.sol", "contracts/examples/SingleStageWorkflow.sol"]
)
def test_twin__sources__are_those_of_the_checkout(name: str) -> None:
    assert twin.sources(twin=True)[name] == (twin.root() / name).read_text()
