"""The typed report of :func:`provenflow.evidence.verify`, and the ledger in which the checks are written down."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from provenflow.abi import RunStatus
from provenflow.evidence.checks import CHECKS, CheckId

Verdict = Literal["holds", "fails", "unchecked"]
NodeKind = Literal["task", "reply"]
Value: TypeAlias = bytes | int | str

RUN: Final = "run"
"""Subject of what concerns the run as a whole."""

_SHOWN: Final = 3


@dataclass(frozen=True, slots=True)
class Finding:
    """One check on one subject that does not simply hold.

    Parameters
    ----------
    check:
        Id of the check.
    verdict:
        ``fails`` or ``unchecked``.
    subject:
        What it is about: ``0x…`` for a task or reply, ``log BLOCK/INDEX``, ``block NUMBER``, ``transaction 0x…``, or
        ``run``.
    detail:
        What was found, in one sentence.
    rests_on:
        For an unchecked one: on whose word the matter rests instead.
    """

    check: CheckId
    verdict: Verdict
    subject: str
    detail: str
    rests_on: str = ""


@dataclass(frozen=True, slots=True)
class CheckResult:
    """A check over all its subjects.

    `verdict` is that of the worst subject, `subjects` how many there were, `rests_on` whose word a "holds" takes.
    """

    id: CheckId
    verdict: Verdict
    detail: str
    rests_on: str
    subjects: int
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class NodeReport:
    """The verdict on one task or reply.

    Parameters
    ----------
    hash:
        32 bytes.
    kind:
        ``task`` or ``reply``.
    label:
        Short name within the report: ``T0``, ``T1`` …, ``R0``, ``R1`` … in the order of the events, ``Tf`` for the
        final task, with a ``?`` for one that no event names.
    on_path:
        True if the walk from ``result().finalTaskHash`` meets it.
    verdict:
        ``holds`` if every check that evidence must allow was made and holds. What stays open beyond those is in
        `findings` and `rests_on`.
    findings:
        What fails or could not be checked.
    rests_on:
        On whose word the unchecked matters rest.
    """

    hash: bytes
    kind: NodeKind
    label: str
    on_path: bool
    verdict: Verdict
    findings: tuple[Finding, ...]

    @property
    def rests_on(self) -> tuple[str, ...]:
        """On whose word the unchecked matters rest, each named once."""
        return tuple(dict.fromkeys(finding.rests_on for finding in self.findings if finding.rests_on))


@dataclass(frozen=True, slots=True)
class Note:
    """Something a reader should know that is no failure: a SHOULD not followed, a rare but allowed shape."""

    subject: str
    detail: str


@dataclass(frozen=True, slots=True)
class EvidenceReport:
    """What verification found.

    Parameters
    ----------
    verdict:
        ``fails`` if any check fails; ``unchecked`` if one that evidence must allow could not be made; else ``holds``.
    complete:
        True if the run ended with Success and the walk from its final task reaches ``run()`` on every branch.
    status:
        What ``result()`` says.
    checks:
        Every check that had something to look at, in a fixed order.
    nodes:
        Every task and reply, in the order of their events.
    notes:
        What is no failure but worth knowing.
    """

    verdict: Verdict
    complete: bool
    status: RunStatus
    checks: tuple[CheckResult, ...]
    nodes: tuple[NodeReport, ...]
    notes: tuple[Note, ...]

    def check(self, check_id: str) -> CheckResult | None:
        """The result of one check, ``None`` if it had nothing to look at."""
        return next((result for result in self.checks if result.id == check_id), None)

    def node(self, node_hash: bytes) -> NodeReport | None:
        """The report on one task or reply, ``None`` if it is not in the evidence."""
        return next((node for node in self.nodes if node.hash == node_hash), None)


class Ledger:
    """Collects what the checks find, subject by subject."""

    def __init__(self) -> None:
        self._looked_at: Counter[CheckId] = Counter()
        self._findings: list[Finding] = []
        self._notes: list[Note] = []

    def expect(self, check: CheckId, subject: bytes | str, holds: bool, detail: str, *values: Value) -> None:
        """Write down that `check` holds for `subject`, or that it fails and why.

        `detail` is a ``str.format`` template, filled with `values` only when it is needed.
        """
        self._looked_at[check] += 1
        if not holds:
            self._findings.append(Finding(check, "fails", _shown(subject), _filled(detail, values)))

    def leave_open(
        self, check: CheckId, subject: bytes | str, rests_on: str, detail: str, *values: Value
    ) -> None:
        """Write down that `check` could not be made for `subject`, why, and on whose word it rests instead."""
        self._looked_at[check] += 1
        finding = Finding(check, "unchecked", _shown(subject), _filled(detail, values), rests_on)
        self._findings.append(finding)

    def note(self, subject: bytes | str, detail: str, *values: Value) -> None:
        """Write down something that is no failure."""
        self._notes.append(Note(_shown(subject), _filled(detail, values)))

    def holds_everywhere(self, check: CheckId) -> bool:
        """True if `check` was made and nothing was found."""
        return self._looked_at[check] > 0 and all(finding.check != check for finding in self._findings)

    @property
    def notes(self) -> tuple[Note, ...]:
        return tuple(self._notes)

    def by_subject(self) -> dict[str, list[Finding]]:
        """The findings of every subject that has any."""
        grouped: dict[str, list[Finding]] = defaultdict(list)
        for finding in self._findings:
            grouped[finding.subject].append(finding)
        return grouped

    def results(self) -> tuple[CheckResult, ...]:
        """Every check that had something to look at."""
        grouped: dict[CheckId, list[Finding]] = defaultdict(list)
        for finding in self._findings:
            grouped[finding.check].append(finding)
        return tuple(
            self._result(check, tuple(grouped.get(check, ()))) for check in CHECKS if self._looked_at[check]
        )

    def _result(self, check: CheckId, findings: tuple[Finding, ...]) -> CheckResult:
        definition = CHECKS[check]
        count = self._looked_at[check]
        bad = [finding for finding in findings if finding.verdict == "fails"] or list(findings)
        if not bad:
            detail = f"{definition.statement} ({count} looked at)"
            return CheckResult(check, "holds", detail, definition.rests_on, count, ())
        shown = "; ".join(f"{finding.subject}: {finding.detail}" for finding in bad[:_SHOWN])
        more = f"; and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        word = "not so" if bad[0].verdict == "fails" else "not checked"
        detail = f"{definition.statement}: {word} for {len(bad)} of {count} ({shown}{more})"
        return CheckResult(check, bad[0].verdict, detail, definition.rests_on, count, findings)


def worst(findings: tuple[Finding, ...] | list[Finding]) -> Verdict:
    """The verdict that findings leave: what may stay open does not count."""
    if any(finding.verdict == "fails" for finding in findings):
        return "fails"
    if any(not CHECKS[finding.check].may_stay_open for finding in findings):
        return "unchecked"
    return "holds"


def _filled(detail: str, values: tuple[Value, ...]) -> str:
    return detail.format(*map(_shown, values))


def _shown(value: Value) -> str:
    """Bytes in hex; so a task or reply is named by its hash."""
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
