"""JSON from strangers: its depth is measured before a parser gets to recurse."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from provenflow.bounded_json import parse


def test_parse__json__its_value() -> None:
    value = {"a": [1, "two", {"ü": None}], "b": {}}
    assert parse(json.dumps(value, ensure_ascii=False).encode(), 3) == value


@pytest.mark.parametrize(
    ("content", "depth"),
    [
        (b"1", 0),
        (b"[]", 1),
        (b"[[1], [2], [3]]", 2),
        (b'{"a": {"b": [1]}}', 3),
        (b'["[[[[", "\\"[[[", "\\\\", [1]]', 2),
        ('["\u2222[[[", "\u005b"]'.encode(), 1),
        (b'{"[[[": "{{{"}', 1),
    ],
)
def test_parse__nested_to_the_limit__allowed_and_one_deeper_refused(content: bytes, depth: int) -> None:
    assert parse(content, depth) == json.loads(content)
    with pytest.raises(ValueError, match=f"nested deeper than {depth - 1} levels"):
        parse(content, depth - 1)


@pytest.mark.parametrize("piece", [b"[", b'{"a":', b'[{"a":'])
def test_parse__bomb__refused_whatever_the_recursion_limit(piece: bytes) -> None:
    # With such a limit the parser alone would end the process.
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(10**6)
    try:
        with pytest.raises(ValueError, match="nested deeper"):
            parse(piece * 200_000, 100)
    finally:
        sys.setrecursionlimit(before)


@pytest.mark.parametrize(
    "content", [b"", b"[", b"]", b'"', b'["', b'["]', b"[1,]", b"{} {}", b"\xef\xbb\xbf{}"]
)
def test_parse__no_json__refused(content: bytes) -> None:
    with pytest.raises(json.JSONDecodeError):
        parse(content, 5)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-32", "latin-1"])
def test_parse__another_encoding__refused(encoding: str) -> None:
    # json.loads alone would guess it.
    with pytest.raises(ValueError, match=r"utf-8|Extra data|Expecting|property name|control character"):
        parse('{"ü": 1}'.encode(encoding), 5)


def test_parse__hook__used_and_its_error_passed_on() -> None:
    def refuse(_text: str) -> Any:
        raise LookupError

    assert parse(b"1", 0, parse_int=str) == "1"
    with pytest.raises(LookupError):
        parse(b"1.5", 0, parse_float=refuse)
