"""JSON from somebody who may not mean well: UTF-8 only, and nested no deeper than the reader can bear.

The parser of the standard library recurses. How deep it gets before it says so depends on the recursion limit of the
process, which some libraries raise so far that the process crashes first. So the depth is measured before.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

_STRING: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))


def parse(content: bytes, max_depth: int, **hooks: Any) -> Any:
    """The value of a JSON text.

    Parameters
    ----------
    content:
        The text, UTF-8 without a byte order mark.
    max_depth:
        How many arrays and objects may lie in each other.
    hooks:
        Passed on to :func:`json.loads`.

    Raises
    ------
    ValueError
        It is not UTF-8, not JSON (then a :class:`json.JSONDecodeError`), or nested deeper than that. What a hook raises
        is passed on.
    """
    text = content.decode("utf-8")
    if _depth(content) > max_depth:
        raise ValueError(f"nested deeper than {max_depth} levels")
    return json.loads(text, **hooks)


def _depth(content: bytes) -> int:
    """The deepest nesting of brackets outside strings; of what is no JSON, at least that far as a parser would get."""
    depth = deepest = 0
    for bracket in _STRING.sub(b"", content).translate(None, _NO_BRACKETS):
        if bracket in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        else:
            depth -= 1
    return deepest
