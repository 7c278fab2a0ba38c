"""Files are written whole or not at all (provenflow.files)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from provenflow.errors import WrongUse
from provenflow.files import check_writable, write_bytes, write_json


def test_write_json__new_file__is_whole_and_readable_by_all(tmp_path):
    write_json(tmp_path / "a.json", {"b": [1, "ü"]})

    assert json.loads((tmp_path / "a.json").read_text()) == {"b": [1, "ü"]}
    assert stat.S_IMODE((tmp_path / "a.json").stat().st_mode) == 0o644
    assert list(tmp_path.iterdir()) == [tmp_path / "a.json"]


def test_write_bytes__file_that_is_there__is_replaced_not_written_into(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"before")
    with path.open("rb") as reader:
        write_bytes(path, b"after")

        assert reader.read() == b"before"  # whoever was reading has the old file, whole
    assert path.read_bytes() == b"after"


def test_write_bytes__fails_before_the_rename__leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "a"
    path.write_bytes(b"before")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WrongUse, match="a cannot be written: no space left on device"):
        write_bytes(path, b"after")

    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]


def test_write_bytes__interrupted__leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    def interrupt(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "a", b"after")

    assert list(tmp_path.iterdir()) == []


def test_write_bytes__no_folder__is_wrong_use(tmp_path):
    with pytest.raises(WrongUse, match="cannot be written"):
        write_bytes(tmp_path / "none" / "a", b"")


def test_check_writable__good_place__gives_the_real_path_and_leaves_nothing(tmp_path):
    (tmp_path / "real").write_text("")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    assert check_writable(tmp_path / "new") == tmp_path / "new"
    assert check_writable(tmp_path / "link") == tmp_path / "real"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "real"]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda folder: folder, "it is no regular file"),
        (lambda folder: folder / "none" / "a", "there is no folder"),
        (lambda _: Path(os.devnull), "it is no regular file"),
        (lambda folder: folder / ("n" * 300), "file name too long"),
    ],
    ids=["folder", "no folder", "device", "long name"],
)
def test_check_writable__bad_place__is_wrong_use(tmp_path, make, reason):
    with pytest.raises(WrongUse, match=reason):
        check_writable(make(tmp_path))


def test_check_writable__links_in_a_circle__is_wrong_use(tmp_path):
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")

    with pytest.raises(WrongUse, match="cannot be written"):
        check_writable(tmp_path / "a")
