"""What every command prints, and the exit code it ends with.

Exit codes: 0 it holds; 1 it was read and does not hold; 2 wrong use; 3 it could not be read or reached; 130 it was
interrupted. Results go to stdout, errors to stderr as one plain sentence with the fix. With ``--json`` a command prints
exactly one document on stdout, whatever happens: ``{"command", "ok", "exit", "checks": […], …}``, and ``"error"`` if
it failed. A stack trace is shown only when the environment says ``PROVENFLOW_DEBUG=1``.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Literal, NoReturn, TextIO

import click

from provenflow.errors import ProvenflowError, Unreachable

HOLDS = 0
DOES_NOT_HOLD = 1
WRONG_USE = 2
UNREACHABLE = 3
INTERRUPTED = 130

Verdict = Literal["holds", "fails", "unchecked"]

_RESERVED = frozenset({"command", "ok", "exit", "checks", "error"})
# Everything a terminal could act on: C0 (line feed and tab aside), DEL, C1, and the marks that reorder text.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document on stdout instead of text."
)


@dataclass(frozen=True)
class Check:
    """One thing that a command looked at.

    Parameters
    ----------
    id:
        Stable name of the check, for programs.
    verdict:
        ``holds``, ``fails``, or ``unchecked`` when it could not be made. An unchecked thing is never a pass.
    detail:
        One sentence for people.
    """

    id: str
    verdict: Verdict
    detail: str


@dataclass
class Outcome:
    """What a command found.

    Parameters
    ----------
    exit:
        Exit code, 0 to 3.
    checks:
        The checks made, in the order they were made.
    fields:
        Further keys of the JSON document, JSON values only.
    text:
        What is printed without ``--json``; no final line feed needed.

    Raises
    ------
    ValueError
        The exit code is none of ours, says "holds" although a check fails, or ``fields`` hides a key that every
        document has. All three are mistakes of the command, not of its user.
    """

    exit: int
    checks: list[Check] = field(default_factory=list)
    fields: dict[str, object] = field(default_factory=dict)
    text: str = ""

    def __post_init__(self) -> None:
        if self.exit not in (HOLDS, DOES_NOT_HOLD, WRONG_USE, UNREACHABLE):
            raise ValueError(f"exit code {self.exit} is not one of 0, 1, 2, 3")
        if self.exit == HOLDS and any(check.verdict == "fails" for check in self.checks):
            raise ValueError("exit code 0 although a check fails")
        if hidden := _RESERVED & self.fields.keys():
            raise ValueError(f"fields may not replace {', '.join(sorted(hidden))}")


def run_command(name: str, as_json: bool, body: Callable[[], Outcome]) -> NoReturn:
    """Run the body of a command, print what it found, and exit.

    Parameters
    ----------
    name:
        The command as typed after ``provenflow``, for example ``"evidence verify"``.
    as_json:
        Print the JSON document instead of text.
    body:
        Does the work. Its ``ProvenflowError`` becomes one sentence and the exit code of its class.

    Raises
    ------
    SystemExit
        Always, with the exit code.
    """

    def run() -> int:
        outcome = body()
        if as_json:
            emit(_document(name, outcome.exit, outcome.checks, outcome.fields))
        elif outcome.text:
            emit(outcome.text)
        return outcome.exit

    def failed(code: int, sentence: str) -> None:
        if as_json:
            emit(failure_document(name, code, sentence))

    guard(run, failed)


def guard(body: Callable[[], int], failed: Callable[[int, str], None] | None = None) -> NoReturn:
    """Run `body` and exit with what it returns; every failure becomes one sentence on stderr and an exit code.

    Parameters
    ----------
    body:
        Returns the exit code.
    failed:
        Called with the exit code and the sentence when `body` raised, after the sentence was printed.

    Raises
    ------
    SystemExit
        Always, with the exit code.
    """
    try:
        code = body()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except (KeyboardInterrupt, click.Abort):
        code, sentence = INTERRUPTED, "interrupted."
        print_error(sentence)
        _report(failed, code, sentence)
    except Exception as trouble:  # noqa: BLE001 - the last line of defence against a stack trace
        code, sentence = _explain(trouble)
        _trace_if_asked()
        print_error(sentence)
        _report(failed, code, sentence)
    _flush_or_detach()
    sys.exit(code)


def emit(text: str) -> None:
    """Print `text` on stdout with a final line feed.

    A reader that has gone (``| head``) is no error and changes no exit code: the rest of the output is dropped.

    Raises
    ------
    Unreachable
        stdout cannot be written, for instance because the disk is full.
    """
    _write(sys.stdout, text)


def print_error(sentence: str) -> None:
    """Print ``error: …`` on stderr, as one line without control characters."""
    with contextlib.suppress(Unreachable):  # nowhere left to say it; the exit code still does
        _write(sys.stderr, "error: " + printable(" ".join(sentence.split())))


def failure_document(name: str, code: int, sentence: str) -> str:
    """The JSON document of a command that could not do its work."""
    return _document(name, code, [], {}, error=sentence)


def printable(text: str) -> str:
    """`text` with every character that a terminal could act on replaced by ``\\xNN``; line feeds and tabs stay."""
    return _CONTROL.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def usage_sentence(error: click.ClickException) -> str:
    """A click error as one sentence that names the command whose ``--help`` explains it."""
    message = " ".join(error.format_message().split()).rstrip(".")
    message = message[:1].lower() + message[1:]
    context = getattr(error, "ctx", None)
    return f"{message}; see {context.command_path} --help" if context else f"{message}; see --help"


class CommandGroup(click.Group):
    """A group that, called without a subcommand, shows its help on stderr and exits 2.

    click exits 0 there, which in a script would read as "it holds" although nothing was looked at.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(WRONG_USE)
        return super().parse_args(ctx, args)


def _explain(trouble: Exception) -> tuple[int, str]:
    """Exit code and sentence of an exception."""
    if isinstance(trouble, ProvenflowError):
        return trouble.exit_code, str(trouble)
    if isinstance(trouble, click.ClickException):
        return WRONG_USE, usage_sentence(trouble)
    reason = " ".join(f"{type(trouble).__name__}: {trouble}".split()).rstrip(":. ")
    return DOES_NOT_HOLD, f"unexpected failure ({reason}); PROVENFLOW_DEBUG=1 shows where."


def _report(failed: Callable[[int, str], None] | None, code: int, sentence: str) -> None:
    if failed is None:
        return
    try:
        failed(code, sentence)
    except ProvenflowError as also:
        print_error(str(also))


def _trace_if_asked() -> None:
    if os.environ.get("PROVENFLOW_DEBUG") == "1":
        traceback.print_exc()


def _document(
    name: str, code: int, checks: list[Check], fields: dict[str, object], error: str | None = None
) -> str:
    document: dict[str, object] = {"command": name, "ok": code == HOLDS, "exit": code}
    document["checks"] = [asdict(check) for check in checks]
    document.update(fields)
    if error is not None:
        document["error"] = error
    return json.dumps(document, indent=2)


def _write(stream: TextIO | None, text: str) -> None:
    if stream is None:  # started with the descriptor closed
        return
    try:
        # A terminal that cannot show a character gets "?", never a UnicodeEncodeError.
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")
        stream.flush()
    except BrokenPipeError:
        _detach(stream)
    except OSError as trouble:
        _detach(stream)
        raise Unreachable(
            f"the output cannot be written ({trouble.strerror}).", fix="Free some space or write elsewhere."
        ) from None


def _detach(stream: TextIO) -> None:
    """Point a dead stream at nothing, so that the interpreter does not complain about it at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def _flush_or_detach() -> None:
    streams: tuple[TextIO | None, ...] = (sys.stdout, sys.stderr)
    for stream in streams:
        if stream is None:
            continue
        try:
            stream.flush()
        except OSError:
            _detach(stream)


__all__ = [
    "DOES_NOT_HOLD",
    "HOLDS",
    "INTERRUPTED",
    "UNREACHABLE",
    "WRONG_USE",
    "Check",
    "CommandGroup",
    "Outcome",
    "Verdict",
    "emit",
    "failure_document",
    "guard",
    "json_option",
    "print_error",
    "printable",
    "run_command",
    "usage_sentence",
]
