"""``provenflow evidence``: verify a run, live or from a bundle, and export the bundle."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from provenflow.cli.output import (
    DOES_NOT_HOLD,
    HOLDS,
    UNREACHABLE,
    Check,
    CommandGroup,
    Outcome,
    json_option,
    printable,
    run_command,
)
from provenflow.errors import WrongUse
from provenflow.evidence import Evidence, EvidenceReport, collect, export, load, verify
from provenflow.evidence.report import CheckResult, Finding, Verdict
from provenflow.evidence.tree import plain, render
from provenflow.files import check_writable

_COLOURS = {"holds": "green", "fails": "red", "unchecked": "yellow"}
_QUIET_SECONDS = 1.0
_FROM_FILE = "read from a file: what rests on the node's word rests on the word of whoever wrote the file"

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Block(click.ParamType):
    """A block number, or one of the names that a node understands."""

    name = "block"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        if isinstance(value, int):
            return value
        text = str(value)
        if text in ("latest", "safe", "finalized"):
            return text
        if not (text.isascii() and text.isdigit()):
            self.fail(f"{value!r} is not a block number, nor latest, safe or finalized", param, ctx)
        return int(text)


def _run_options(command: _Command) -> _Command:
    """The options that say which run to read, and where."""
    options = (
        click.option("--rpc", metavar="URL", help="JSON-RPC URL of a node."),
        click.option("--contract", metavar="ADDR", help="Address of the workflow contract."),
        click.option("--run", "run_id", metavar="ID", help="workflowRunId, 32 bytes in hex."),
        click.option("--chain-id", type=click.IntRange(min=0), help="Refuse a node of another chain."),
        click.option(
            "--block", type=_Block(), help="Block to read at: a number, latest (default), safe or finalized."
        ),
        click.option(
            "--from-block", type=click.IntRange(min=0), help="First block to look for logs in (default 0)."
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0, min_open=True),
            default=10.0,
            show_default=True,
            help="Seconds to wait for the node.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


@click.group(cls=CommandGroup)
def evidence() -> None:
    """Check what a run of a workflow proves (ERC-8301), or keep the evidence in a file.

    \b
    Example:
      provenflow evidence verify --rpc http://127.0.0.1:8545 --contract ADDR --run ID
    """


@evidence.command("verify")
@click.argument("bundle", required=False, type=click.Path(path_type=Path))
@_run_options
@click.option(
    "--require-success", is_flag=True, help="Exit 1 unless the run is complete: Success, and all holds."
)
@click.option(
    "--export", "export_to", metavar="FILE", type=click.Path(path_type=Path), help="Also write the bundle."
)
@json_option
def verify_command(
    bundle: Path | None, require_success: bool, export_to: Path | None, as_json: bool, **options: Any
) -> None:
    """Verify a run, read from a node or from a BUNDLE, without trusting the contract's cache.

    The chain of tasks and replies is walked from the final task back to run(); every hash, link, time, event and sender
    is checked, and what cannot be checked is said. A run that has not ended is verified as far as it is.

    \b
    Exit codes: 0 all that could be checked holds; 1 something does not hold, or the run is unknown;
    2 wrong use; 3 the node or file could not be read.

    \b
    Examples:
      provenflow evidence verify --rpc http://127.0.0.1:8545 --contract ADDR --run ID
      provenflow evidence verify --require-success --chain-id 1 --rpc URL --contract ADDR --run ID
      provenflow evidence verify run.evidence.json
    """

    def body() -> Outcome:
        target = None if export_to is None else check_writable(export_to)
        found = _read(bundle, **options)
        report = verify(found)
        if target is not None:
            export(found, target)
        return _outcome(found, report, require_success, from_file=bundle is not None)

    run_command("evidence verify", as_json, body)


@evidence.command("export")
@_run_options
@click.option(
    "-o", "--output", metavar="FILE", required=True, type=click.Path(path_type=Path), help="File to write."
)
@json_option
def export_command(output: Path, as_json: bool, **options: Any) -> None:
    """Write everything that a node says about a run to FILE, canonical JSON (RFC 8785). Nothing is judged.

    \b
    Example:
      provenflow evidence export --rpc http://127.0.0.1:8545 --contract ADDR --run ID -o run.evidence.json
    """

    def body() -> Outcome:
        target = check_writable(output)
        found = _read(None, **options)
        export(found, target)
        text = (
            f"{output}: {len(found.tasks)} tasks and {len(found.replies)} replies as of block {found.block.number},"
            f" not verified; to verify: provenflow evidence verify {output}"
        )
        return Outcome(HOLDS, fields={"file": str(output), **_identity(found)}, text=printable(text))

    run_command("evidence export", as_json, body)


def _read(
    bundle: Path | None,
    rpc: str | None,
    contract: str | None,
    run_id: str | None,
    chain_id: int | None,
    block: int | str | None,
    from_block: int | None,
    timeout: float,
) -> Evidence:
    """The evidence that the options name: from a bundle or from a node, never from both."""
    given = [name for name, value in (("--rpc", rpc), ("--contract", contract), ("--run", run_id)) if value]
    if bundle is not None:
        if given or block is not None or from_block is not None:
            raise WrongUse(
                "A bundle is verified as it is, without a node.",
                fix="Give either BUNDLE, or --rpc, --contract and --run.",
            )
        found = load(bundle)
        if chain_id is not None and found.chain_id != chain_id:
            raise WrongUse(
                f"The bundle is of chain {found.chain_id}, not of chain {chain_id}.", fix="Give its bundle."
            )
        return found
    if rpc is None or contract is None or run_id is None:
        missing = ", ".join(name for name in ("--rpc", "--contract", "--run") if name not in given)
        raise WrongUse(
            f"To read a run from a node, {missing} must be given too.", fix="See --help for an example."
        )
    from provenflow.rpc import Rpc

    with Rpc(rpc, timeout=timeout) as client:
        return collect(
            client,
            contract,
            run_id,
            block=block,
            from_block=from_block,
            chain_id=chain_id,
            progress=_Progress(),
        )


class _Progress:
    """Says on a terminal what is being read, once it takes longer than a moment."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _QUIET_SECONDS
        self._shown = sys.stderr is not None and sys.stderr.isatty()

    def __call__(self, sentence: str) -> None:
        if self._shown and time.monotonic() >= self._next:
            click.echo(f"{sentence} …", err=True)
            self._next = time.monotonic() + _QUIET_SECONDS


def _outcome(found: Evidence, report: EvidenceReport, require_success: bool, *, from_file: bool) -> Outcome:
    code = {"holds": HOLDS, "fails": DOES_NOT_HOLD, "unchecked": UNREACHABLE}[report.verdict]
    checks = [Check(result.id, result.verdict, _detail(result)) for result in report.checks]
    paint = _paint if _wants_colour() else plain
    text = f"{_FROM_FILE}\n\n" if from_file else ""
    text += render(found, report, paint)
    if require_success:
        verdict: Verdict = "holds" if report.complete else "fails"
        said = (
            "the run is complete" if report.complete else f"the run is not complete ({report.status.label})"
        )
        checks.append(Check("run.complete", verdict, f"{said}; asked for by --require-success"))
        if not report.complete:
            code = code or DOES_NOT_HOLD
            text += "\n" + paint(f"✗ fails: {said}, and --require-success was given", verdict)
    fields = {"source": "bundle" if from_file else "node", **_fields(found, report)}
    return Outcome(code, checks, fields, text)


def _fields(found: Evidence, report: EvidenceReport) -> dict[str, object]:
    return {
        "verdict": report.verdict,
        "complete": report.complete,
        "status": report.status.label,
        **_identity(found),
        "nodes": [
            {
                "hash": f"0x{node.hash.hex()}",
                "kind": node.kind,
                "label": node.label,
                "onPath": node.on_path,
                "verdict": node.verdict,
                "restsOn": list(node.rests_on),
                "findings": [_finding(finding) for finding in node.findings],
            }
            for node in report.nodes
        ],
        "notes": [{"subject": note.subject, "detail": note.detail} for note in report.notes],
    }


def _identity(found: Evidence) -> dict[str, object]:
    return {
        "chainId": found.chain_id,
        "contract": f"0x{found.contract.hex()}",
        "workflowRunId": f"0x{found.workflow_run_id.hex()}",
        "block": {"number": found.block.number, "hash": f"0x{found.block.hash.hex()}"},
    }


def _finding(finding: Finding) -> dict[str, str]:
    return {
        "check": finding.check,
        "verdict": finding.verdict,
        "detail": finding.detail,
        "restsOn": finding.rests_on,
    }


def _detail(result: CheckResult) -> str:
    return f"{result.detail}; rests on {result.rests_on}"


def _paint(text: str, verdict: Verdict) -> str:
    return click.style(text, fg=_COLOURS[verdict])


def _wants_colour() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")
