"""Evidence as a file: canonical, whole or not at all, and read strictly."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from provenflow.errors import EvidenceError, Unreachable, WrongUse
from provenflow.evidence import Evidence, bundle, export, from_json, load, to_json
from tests.support.evidence_builder import AGENTS, HONEST, RunBuilder, fan_in, name, pipeline

SAFE = 2**53 - 1


# ── Writing and reading back ─────────────────────────────────────────────────


@pytest.mark.parametrize("make", HONEST.values(), ids=HONEST.keys())
def test_export_and_load__any_run__the_same_evidence(make: Callable[[], RunBuilder], tmp_path: Path) -> None:
    evidence = make().evidence()
    export(evidence, tmp_path / "run.json")
    assert load(tmp_path / "run.json") == evidence


def test_export__file__is_canonical_and_says_its_schema(tmp_path: Path) -> None:
    evidence = pipeline().evidence()
    export(evidence, tmp_path / "run.json")
    content = (tmp_path / "run.json").read_bytes()
    document = json.loads(content)
    assert content == rfc8785.dumps(document)
    assert document["schema"] == "provenflow-evidence/1"
    assert document == to_json(evidence)


def test_export__schema__has_these_fields_and_no_others() -> None:
    document = to_json(pipeline().evidence())
    assert sorted(document) == [
        "block", "blocks", "chainId", "codeHash", "contract", "logs", "replies", "result", "schema", "tasks",
        "transactions", "workflowRunId",
    ]  # fmt: skip
    assert sorted(document["block"]) == sorted(document["blocks"][0]) == ["hash", "number", "timestamp"]
    assert sorted(document["result"]) == ["completedAt", "finalTaskHash", "status"]
    assert sorted(document["tasks"][0]) == ["proven", "task", "taskHash"]
    assert sorted(document["tasks"][0]["task"]) == [
        "expiresAt", "input", "inputHash", "prevReplyHashes", "stage", "taskSeq", "timestamp", "workflowRunId",
    ]  # fmt: skip
    assert sorted(document["replies"][0]) == [
        "proven",
        "reply",
        "replyHash",
        "verificationDigest",
        "verifier",
    ]
    assert sorted(document["replies"][0]["reply"]) == [
        "operationId", "output", "outputHash", "prevTaskHashes", "replier", "timestamp", "workflowRunId",
    ]  # fmt: skip
    assert sorted(document["logs"][0]) == [
        "address", "blockHash", "blockNumber", "data", "logIndex", "topics", "transactionHash", "transactionIndex",
    ]  # fmt: skip
    assert sorted(document["transactions"][0]) == [
        "blockHash", "blockNumber", "from", "hash", "to", "transactionIndex",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("value", "written"), [(SAFE, SAFE), (SAFE + 1, str(SAFE + 1)), (2**256 - 1, str(2**256 - 1))]
)
def test_export__number_beyond_2_to_the_53__is_a_decimal_string(
    value: int, written: Any, tmp_path: Path
) -> None:
    run = RunBuilder()
    run.run(expires_at=value)
    export(run.evidence(), tmp_path / "run.json")
    assert json.loads((tmp_path / "run.json").read_bytes())["tasks"][0]["task"]["expiresAt"] == written
    assert load(tmp_path / "run.json").tasks[0].task.expires_at == value


def test_export__deployment_transaction__target_is_null(tmp_path: Path) -> None:
    run = RunBuilder()
    run.reply(AGENTS[0], run.run(), to=None)
    export(run.evidence(), tmp_path / "run.json")
    assert load(tmp_path / "run.json").transactions[-1].to is None


def test_export__file_that_exists__replaced(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    target.write_text("old")
    export(pipeline().evidence(), str(target))
    assert load(str(target)) == pipeline().evidence()
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_export__rename_fails__nothing_is_left_and_the_old_file_stays(tmp_path: Path) -> None:
    target = tmp_path / "run.json"
    target.mkdir()
    with pytest.raises(WrongUse, match=r"run\.json cannot be written"):
        export(pipeline().evidence(), target)
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_export__disk_full__nothing_is_left_and_the_old_file_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "run.json"
    target.write_text("old")

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WrongUse, match="cannot be written: no space left on device"):
        export(pipeline().evidence(), target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_export__folder_missing__wrong_use(tmp_path: Path) -> None:
    with pytest.raises(WrongUse, match="cannot be written: no such file or directory"):
        export(pipeline().evidence(), tmp_path / "missing" / "run.json")


# ── Files that cannot be read ────────────────────────────────────────────────


def test_load__file_missing__unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="No such file or directory"):
        load(tmp_path / "run.json")


def test_load__folder__unreachable(tmp_path: Path) -> None:
    with pytest.raises(Unreachable, match="not a regular file"):
        load(tmp_path)


def test_load__pipe__unreachable_and_no_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Unreachable, match="not a regular file"):
        load(tmp_path / "pipe")


def test_load__file_longer_than_the_limit__refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export(pipeline().evidence(), tmp_path / "run.json")
    length = (tmp_path / "run.json").stat().st_size
    monkeypatch.setattr(bundle, "MAX_BUNDLE_BYTES", length)
    load(tmp_path / "run.json")
    monkeypatch.setattr(bundle, "MAX_BUNDLE_BYTES", length - 1)
    with pytest.raises(EvidenceError, match="the limit of a bundle"):
        load(tmp_path / "run.json")


# ── Bytes that are no JSON of ours ───────────────────────────────────────────


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe", "is not JSON as it should be \\(not UTF-8\\)"),
        (b"\xef\xbb\xbf{}", "is not JSON"),
        (b"{} {}", "is not JSON"),
        (b"[" * 200_000, "nested deeper than 8 levels"),
        (b'{"a":' * 200_000, "nested deeper than 8 levels"),
        (b'{"schema": "provenflow-evidence/1", "schema": "provenflow-evidence/1"}', "same key twice"),
        (b'{"schema": {"a": 1, "a": 1}}', "same key twice"),
        (b'{"chainId": NaN}', "only whole numbers"),
        (b'{"chainId": Infinity}', "only whole numbers"),
        (b'{"chainId": 1.0}', "only whole numbers"),
        (b'{"chainId": 1e3}', "only whole numbers"),
        (b'{"chainId": 12345678901234567890}', "beyond 2\\*\\*53 - 1"),
        (b'{"chainId": ' + b"9" * 100_000 + b"}", "beyond 2\\*\\*53 - 1"),
        (b"[]", "the bundle is not an object"),
        (b"null", "the bundle is not an object"),
        (b"{}", "has no 'schema'"),
        (b'{"schema": "provenflow-evidence/2"}', "schema is 'provenflow-evidence/2'"),
        (b'{"schema": 1}', "schema is something else"),
        (b'{"schema": "' + b"A" * 1000 + b'"}', "schema is something else"),
    ],
)
def test_load__bytes_that_are_no_bundle__refused(content: bytes, reason: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(EvidenceError, match=reason) as refused:
        load(tmp_path / "run.json")
    assert len(str(refused.value)) < 300


def test_load__cut_off_anywhere__refused(tmp_path: Path) -> None:
    export(pipeline().evidence(), tmp_path / "run.json")
    content = (tmp_path / "run.json").read_bytes()
    for length in range(0, len(content), 97):
        (tmp_path / "cut.json").write_bytes(content[:length])
        with pytest.raises(EvidenceError):
            load(tmp_path / "cut.json")


# ── Documents that are not of the schema ─────────────────────────────────────


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every object in a document; of lists only the first item is looked into."""
    found = [path] if isinstance(value, dict) else []
    items = (
        value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
    )
    for key, item in items:
        found += _places(item, (*path, key))
    return found


def _at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


DOCUMENT = to_json(fan_in().evidence())
OBJECTS = _places(DOCUMENT)
FIELDS = [(*path, key) for path in OBJECTS for key in _at(DOCUMENT, path)]


def _changed(path: tuple[Any, ...], value: Any) -> Any:
    document = copy.deepcopy(DOCUMENT)
    _at(document, path[:-1])[path[-1]] = value
    return document


def _name(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path)) or "root"


@pytest.mark.parametrize("path", OBJECTS, ids=_name)
def test_from_json__unknown_field__refused(path: tuple[Any, ...]) -> None:
    document = copy.deepcopy(DOCUMENT)
    _at(document, path)["extra"] = 1
    with pytest.raises(EvidenceError, match="has an unknown field 'extra'"):
        from_json(document)


@pytest.mark.parametrize("path", FIELDS, ids=_name)
def test_from_json__field_missing__refused(path: tuple[Any, ...]) -> None:
    document = copy.deepcopy(DOCUMENT)
    del _at(document, path[:-1])[path[-1]]
    with pytest.raises(EvidenceError, match=f"has no '{path[-1]}'"):
        from_json(document)


# None is a value of "to" only; every other type is wrong everywhere else it is not the right one.
WRONG_VALUES: list[Any] = [
    None,
    True,
    -1,
    1.5,
    "",
    "0x",
    "0x0",
    "0xZZ",
    "0x00",
    [],
    {},
    [None],
    ["0x"],
    [5],
    "Unknown",
]


@pytest.mark.parametrize("path", FIELDS, ids=_name)
def test_from_json__value_of_another_type__refused(path: tuple[Any, ...]) -> None:
    right = _at(DOCUMENT, path)
    allowed: list[Any] = [right]
    if path[-1] in ("tasks", "replies", "logs", "blocks", "transactions", "topics"):
        allowed += [[]]
    if path[-1] in ("prevReplyHashes", "prevTaskHashes"):
        allowed += [[]]
    if path[-1] in ("input", "output", "data"):
        allowed += ["0x", "0x00"]
    if path[-1] == "to":
        allowed += [None]
    if path[-1] == "proven":
        allowed += [True]
    for wrong in WRONG_VALUES:
        if any(type(wrong) is type(value) and wrong == value for value in allowed):
            continue
        with pytest.raises(EvidenceError):
            from_json(_changed(path, wrong))


HEX_FIELDS = [path for path in FIELDS if str(_at(DOCUMENT, path)).startswith("0x")]
LETTERS = [path for path in HEX_FIELDS if any(char.isalpha() for char in _at(DOCUMENT, path)[2:])]


@pytest.mark.parametrize("path", HEX_FIELDS, ids=_name)
def test_from_json__hex_with_something_around_it__refused(path: tuple[Any, ...]) -> None:
    right = _at(DOCUMENT, path)
    for wrong in (right + "\n", " " + right, "0X" + right[2:], right[2:]):
        with pytest.raises(EvidenceError):
            from_json(_changed(path, wrong))


@pytest.mark.parametrize("path", LETTERS, ids=_name)
def test_from_json__hex_in_upper_case__refused(path: tuple[Any, ...]) -> None:
    length = "" if path[-1] in ("input", "output", "data") else r"\d\d bytes in "
    with pytest.raises(EvidenceError, match=f"is not {length}lower-case hex"):
        from_json(_changed(path, "0x" + _at(DOCUMENT, path)[2:].upper()))


@pytest.mark.parametrize("field", ["taskSeq", "timestamp", "expiresAt"])
@pytest.mark.parametrize(
    "wrong",
    [
        SAFE + 1,
        "1",
        str(SAFE),
        str(2**256),
        "0" + str(SAFE + 1),
        "+" + str(SAFE + 1),
        str(SAFE + 1) + "\n",
        "0x1",
        "1" * 9_999,
    ],
)
def test_from_json__number_not_in_its_one_form__refused(field: str, wrong: Any) -> None:
    with pytest.raises(EvidenceError, match=f"{field} is not a number of 256 bits"):
        from_json(_changed(("tasks", 0, "task", field), wrong))


@pytest.mark.parametrize(
    ("path", "bits"), [(("tasks", 0, "task", "stage"), 8), (("logs", 0, "logIndex"), 64)]
)
def test_from_json__number_too_large_for_its_type__refused(path: tuple[Any, ...], bits: int) -> None:
    too_large = 1 << bits
    with pytest.raises(EvidenceError, match=f"not a number of {bits} bits"):
        from_json(_changed(path, too_large if too_large <= SAFE else str(too_large)))


@pytest.mark.parametrize("status", ["success", "PENDING", "", 1, ["Success"], {}])
def test_from_json__unknown_status__refused(status: Any) -> None:
    with pytest.raises(EvidenceError, match=r"result\.status is none of Pending, Success, Failed"):
        from_json(_changed(("result", "status"), status))


def test_from_json__log_with_five_topics__refused() -> None:
    topic = f"0x{name('topic').hex()}"
    assert from_json(_changed(("logs", 0, "topics"), [topic] * 4)).logs[0].topics == (name("topic"),) * 4
    with pytest.raises(EvidenceError, match="a list of at most 4 items"):
        from_json(_changed(("logs", 0, "topics"), [topic] * 5))


def test_from_json__field_with_a_hostile_name__sentence_stays_short() -> None:
    document = copy.deepcopy(DOCUMENT)
    document["\x1b[2J" * 1000] = 1
    with pytest.raises(EvidenceError, match="an unknown field one with a very long name"):
        from_json(document)


def test_from_json__evidence_that_does_not_hold__is_read_all_the_same() -> None:
    # Judging is the verifier's; the loader must not hide what is wrong by refusing it.
    found: Evidence = pipeline().evidence()
    wrong = replace(found, tasks=found.tasks + found.tasks[:1], contract=bytes(20))
    assert from_json(to_json(wrong)) == wrong
