"""The one exception tree of provenflow.

Every error is a plain sentence that says what is wrong and, where there is one, how to mend it. The class decides the
exit code of a command: 1 it was read and does not hold, 2 wrong use, 3 it could not be read or reached.
"""

from __future__ import annotations

from typing import ClassVar


class ProvenflowError(Exception):
    """Base of every error that provenflow raises on purpose.

    Parameters
    ----------
    message:
        One sentence: what is wrong.
    fix:
        One sentence: what the user can do about it, or ``""``.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message} {self.fix}".strip()


class Invalid(ProvenflowError):
    """Something was read and does not hold: malformed, truncated, over a limit, or contradicting itself."""

    exit_code = 1


class HashingError(Invalid, ValueError):
    """A value that does not fit its ABI type, so that it has no hash in the ERC's sense.

    ``field`` names the argument as the ERC spells it, ``value`` is what was given.
    """

    def __init__(self, field: str, value: object, expected: str) -> None:
        super().__init__(f"{field} must be {expected}, not {_shown(value)}.")
        self.field = field
        self.value = value


class EvidenceError(Invalid):
    """Evidence that cannot be evidence: a bundle or an answer that is malformed, or a run that does not exist."""


class WrongUse(ProvenflowError):
    """The command or function was called in a way that cannot work: wrong option, wrong chain, missing tool."""

    exit_code = 2


class Unreachable(ProvenflowError):
    """Something could not be read or reached, so nothing is known about whether it holds."""

    exit_code = 3


def _shown(value: object, limit: int = 160) -> str:
    """``repr(value)``, cut so that one sentence stays one sentence whatever was given."""
    try:
        text = repr(value)
    except ValueError:  # CPython refuses to print integers of more than 4300 digits
        return f"a {type(value).__name__} too long to print"
    return text if len(text) <= limit else f"{text[:limit]}…"
