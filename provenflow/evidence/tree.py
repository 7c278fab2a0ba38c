"""The chain of a run as text: from the final task down to ``run()``, a line and a verdict per node."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from eth_utils.address import to_checksum_address

from provenflow.evidence.checks import CHECKS, CheckId
from provenflow.evidence.graph import RunGraph
from provenflow.evidence.model import Evidence, ReplyRecord, TaskRecord
from provenflow.evidence.report import CheckResult, EvidenceReport, Finding, NodeReport, Verdict

Paint = Callable[[str, Verdict], str]
"""Colours a text by a verdict; :func:`plain` leaves it as it is."""

# Said in the node's own line, because it is so for almost every node.
_IN_LINE: Final = {
    CheckId.TASK_INPUT: "input not on chain",
    CheckId.REPLY_OUTPUT: "output not on chain",
    CheckId.REPLY_PROOF: "proven (claimed)",
}
_MARKS: Final[dict[Verdict, str]] = {"holds": "✓", "fails": "✗", "unchecked": "?"}
_PREVIEW: Final = 40
_LISTED: Final = 5
_DEEPEST: Final = 60


def plain(text: str, _verdict: Verdict) -> str:
    """No colour."""
    return text


def render(evidence: Evidence, report: EvidenceReport, paint: Paint = plain) -> str:
    """The run as text: its chain, what lies off the path, the checks, the notes and one line that sums up.

    Parameters
    ----------
    evidence, report:
        What was verified, and what :func:`provenflow.evidence.verify` said.
    paint:
        How verdicts are coloured.

    Returns
    -------
    str
        Lines of text. Plaintexts are shown escaped: nothing in them can act on a terminal.
    """
    return "\n".join(_Renderer(evidence, report, paint).lines())


class _Renderer:
    def __init__(self, evidence: Evidence, report: EvidenceReport, paint: Paint) -> None:
        self._evidence = evidence
        self._report = report
        self._paint = paint
        self._graph = RunGraph.of(evidence)
        self._nodes = {node.hash: node for node in report.nodes}
        self._printed: set[bytes] = set()
        first = min((block.timestamp for block in evidence.blocks), default=evidence.block.timestamp)
        self._start = first

    def lines(self) -> Iterable[str]:
        evidence, report = self._evidence, self._report
        yield f"run 0x{evidence.workflow_run_id.hex()}"
        yield f"    of {to_checksum_address(evidence.contract)} on chain {evidence.chain_id}"
        yield f"    read at block {evidence.block.number}, 0x{evidence.block.hash.hex()}"
        yield f"    {report.status.label}"
        yield ""
        final = self._graph.final_hash
        if final is not None:
            yield from self._tree(final)
            yield ""
        rest = [node for node in self._nodes if node not in self._printed]
        if rest:
            if final is not None:
                yield "not on the path from the final task:"
            yield from self._forest(rest)
            yield ""
        for result in report.checks:
            yield f"{self._mark(result.verdict)} {result.id}: {self._detail(result)}"
        yield ""
        for note in report.notes:
            yield f"note: {self._name(note.subject)}: {note.detail}"
        yield self._summary()

    def _forest(self, nodes: list[bytes]) -> Iterable[str]:
        used = {link for node in nodes for link in self._graph.previous(node)}
        for root in [node for node in nodes if node not in used] + nodes:
            # The second part only matters when links run in a circle, which has no root.
            if root not in self._printed:
                yield from self._tree(root)

    def _tree(self, root: bytes) -> Iterable[str]:
        """A chain runs straight down; where several nodes join, each gets a branch of its own. Not recursive."""
        todo = [(root, "", "")]
        while todo:
            node, head, body = todo.pop()
            if node in self._printed:
                yield f"{head}{self._label(node)} (above)"
                continue
            self._printed.add(node)
            yield head + self._line(node)
            for finding in self._apart(node):
                yield f"{body}    {self._mark(finding.verdict)} {finding.check}: {_reason(finding)}"
            links = list(dict.fromkeys(self._graph.previous(node)))
            if len(links) == 1:
                todo.append((links[0], body, body))
                continue
            # Deeply nested joins would leave the screen; the names still say what belongs where.
            base = body if len(body) < _DEEPEST else ""
            for place in range(len(links) - 1, -1, -1):
                last = place == len(links) - 1
                head, inner = ("└─ ", "   ") if last else ("├─ ", "│  ")
                todo.append((links[place], base + head, base + inner))

    def _line(self, node: bytes) -> str:
        report = self._nodes.get(node)
        if report is None:
            return f"0x{node.hex()}  {self._paint('is not in the evidence', 'fails')}"
        parts = [report.label, *self._words(node, report)]
        parts += [_IN_LINE[finding.check] for finding in report.findings if _said_in_line(finding)]
        apart = " ".join(f"(rests on {basis})" for basis in _bases(self._apart(node)))
        verdict = self._paint(f"{_MARKS[report.verdict]} {report.verdict}", report.verdict)
        return "  ".join(part for part in (*parts, verdict, apart) if part)

    def _words(self, node: bytes, report: NodeReport) -> list[str]:
        if report.kind == "task":
            task = self._graph.tasks.get(node)
            return [
                f"task 0x{node.hex()[:8]}…",
                *(self._task_words(task) if task else ["unknown to the contract"]),
            ]
        reply = self._graph.replies.get(node)
        return [
            f"reply 0x{node.hex()[:8]}…",
            *(self._reply_words(reply) if reply else ["unknown to the contract"]),
        ]

    def _task_words(self, record: TaskRecord) -> list[str]:
        task = record.task
        final = record.task_hash == self._graph.final_hash
        return [
            "final" if final else f"stage {task.stage}",
            self._time(task.timestamp),
            "" if task.prev_reply_hashes else "initial",
            f"input {_preview(task.input)}" if task.input else "",
        ]

    def _reply_words(self, record: ReplyRecord) -> list[str]:
        reply = record.reply
        return [
            f"by {_short_address(reply.replier)}",
            self._time(reply.timestamp),
            f"output {_preview(reply.output)}" if reply.output else "",
            "" if record.proven else "not proven",
        ]

    def _time(self, timestamp: int) -> str:
        return f"{timestamp - self._start:+d} s"

    def _label(self, node: bytes) -> str:
        report = self._nodes.get(node)
        return report.label if report else f"0x{node.hex()}"

    def _apart(self, node: bytes) -> list[Finding]:
        """The findings of a node that get lines of their own."""
        report = self._nodes.get(node)
        return (
            [] if report is None else [finding for finding in report.findings if not _said_in_line(finding)]
        )

    def _detail(self, result: CheckResult) -> str:
        """Like the result's own detail, with short names, and without reasons that the node's line has given."""
        statement = CHECKS[result.id].statement
        if result.verdict == "holds":
            return f"{statement} ({result.subjects})"
        bad = [finding for finding in result.findings if finding.verdict == result.verdict]
        shown = [self._name(finding.subject) for finding in bad[:_LISTED]]
        if result.verdict == "fails":
            shown = [f"{name} ({finding.detail})" for name, finding in zip(shown, bad, strict=False)]
        more = f" and {len(bad) - _LISTED} more" if len(bad) > _LISTED else ""
        bases = " and ".join(_bases(bad))
        rest = f"; rests on {bases}" if bases else ""
        word = "not so" if result.verdict == "fails" else "not checked"
        return f"{statement}: {word} for {', '.join(shown)}{more} (of {result.subjects}){rest}"

    def _name(self, subject: str) -> str:
        if not subject.startswith("0x"):
            return subject
        report = self._nodes.get(bytes.fromhex(subject[2:]))
        return subject if report is None else report.label

    def _mark(self, verdict: Verdict) -> str:
        return self._paint(f"{_MARKS[verdict]} {verdict}", verdict)

    def _summary(self) -> str:
        report = self._report
        counts = {
            verdict: sum(1 for result in report.checks if result.verdict == verdict) for verdict in _MARKS
        }
        state = "complete" if report.complete else f"not complete ({report.status.label})"
        tasks = sum(1 for node in report.nodes if node.kind == "task")
        return (
            f"{self._mark(report.verdict)}: the run is {state}; {tasks} tasks, {len(report.nodes) - tasks} replies;"
            f" {counts['holds']} checks hold, {counts['fails']} fail, {counts['unchecked']} unchecked"
        )


def _said_in_line(finding: Finding) -> bool:
    return finding.verdict == "unchecked" and finding.check in _IN_LINE


def _bases(findings: Iterable[Finding]) -> list[str]:
    return list(dict.fromkeys(finding.rests_on for finding in findings if finding.rests_on))


def _reason(finding: Finding) -> str:
    return f"{finding.detail}; rests on {finding.rests_on}" if finding.rests_on else finding.detail


def _short_address(address: bytes) -> str:
    full = to_checksum_address(address)
    return f"{full[:6]}…{full[-4:]}"


def _preview(data: bytes) -> str:
    """The beginning of a plaintext, in quotes, with everything that is not plainly printable escaped."""
    # No character of UTF-8 is longer than four bytes.
    text = data[: 4 * _PREVIEW + 4].decode("utf-8", "backslashreplace")
    more = "…" if len(text) > _PREVIEW else ""
    return f'"{"".join(map(_escaped, text[:_PREVIEW]))}{more}" ({len(data)} bytes)'


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if char.isprintable() else char.encode("unicode_escape").decode()
