"""Evidence of a run (ERC-8301): collect it from a node, keep it in a file, verify it without trusting either.

    evidence = collect("http://127.0.0.1:8545", contract, run_id)
    report = verify(evidence)
    assert report.verdict == "holds" and report.complete
    export(evidence, "run.evidence.json")

What is checked, and what each verdict rests on, is in ``docs/EVIDENCE.md``.
"""

from provenflow.evidence.bundle import SCHEMA, export, from_json, load, to_json
from provenflow.evidence.checks import CHECKS, CheckDefinition, CheckId
from provenflow.evidence.collector import collect
from provenflow.evidence.model import (
    BlockRecord,
    Evidence,
    LogRecord,
    ReplyRecord,
    TaskRecord,
    TransactionRecord,
)
from provenflow.evidence.report import CheckResult, EvidenceReport, Finding, NodeReport, Note
from provenflow.evidence.verifier import verify

__all__ = [
    "CHECKS",
    "SCHEMA",
    "BlockRecord",
    "CheckDefinition",
    "CheckId",
    "CheckResult",
    "Evidence",
    "EvidenceReport",
    "Finding",
    "LogRecord",
    "NodeReport",
    "Note",
    "ReplyRecord",
    "TaskRecord",
    "TransactionRecord",
    "collect",
    "export",
    "from_json",
    "load",
    "to_json",
    "verify",
]
