"""Verification of evidence: pure, without a network, and without trust in what can be recomputed."""

from __future__ import annotations

from itertools import count

from provenflow.abi import AgentReplyAnchored, NewAgentTask
from provenflow.evidence.checks import CheckId
from provenflow.evidence.graph import RunGraph
from provenflow.evidence.model import Evidence
from provenflow.evidence.record_checks import check_records
from provenflow.evidence.reply_checks import check_replies
from provenflow.evidence.report import EvidenceReport, Ledger, NodeKind, NodeReport, worst
from provenflow.evidence.run_checks import check_run
from provenflow.evidence.task_checks import check_tasks


def verify(evidence: Evidence) -> EvidenceReport:
    """Verify evidence of a run (ERC-8301, Evidence Chain).

    Every hash is recomputed from the returned struct; links, run ids, order, times, events and the end of the run are
    checked for every record, on the path from ``result().finalTaskHash`` or off it. The contract's ``proven`` is never
    believed, never used to skip anything, and only checked against itself. A check that could not be made is reported
    as unchecked, with what the matter rests on.

    Parameters
    ----------
    evidence:
        From :func:`provenflow.evidence.collect` or :func:`provenflow.evidence.load`.

    Returns
    -------
    EvidenceReport
        Nothing is raised for evidence that does not hold: that is a verdict. The work is linear in nodes and links.
    """
    graph = RunGraph.of(evidence)
    ledger = Ledger()
    check_records(graph, ledger)
    check_tasks(graph, ledger)
    check_replies(graph, ledger)
    check_run(graph, ledger)
    results = ledger.results()
    return EvidenceReport(
        verdict=worst([finding for result in results for finding in result.findings]),
        # Only a run that ended with Success is walked.
        complete=ledger.holds_everywhere(CheckId.CHAIN_WALK),
        status=evidence.result.status,
        checks=results,
        nodes=_nodes(graph, ledger),
        notes=ledger.notes,
    )


def _nodes(graph: RunGraph, ledger: Ledger) -> tuple[NodeReport, ...]:
    findings = ledger.by_subject()
    on_path = graph.reach([graph.final_hash]) if graph.final_hash is not None else {}
    nodes = []
    for (node, kind), label in _labels(graph).items():
        found = tuple(findings.get(f"0x{node.hex()}", ()))
        nodes.append(NodeReport(node, kind, label, node in on_path, worst(found), found))
    return tuple(nodes)


def _labels(graph: RunGraph) -> dict[tuple[bytes, NodeKind], str]:
    """Short names: in the order of the events, then the final task, then what no event names."""
    labels: dict[tuple[bytes, NodeKind], str] = {}
    numbers = {"T": count(), "R": count(), "T?": count(), "R?": count()}
    for sighting in graph.sightings:
        match sighting.event:
            case NewAgentTask(task_hash=task_hash) if (task_hash, "task") not in labels:
                labels[task_hash, "task"] = f"T{next(numbers['T'])}"
            case AgentReplyAnchored(reply_hash=reply_hash) if (reply_hash, "reply") not in labels:
                labels[reply_hash, "reply"] = f"R{next(numbers['R'])}"
    if graph.final_hash is not None:
        labels.setdefault((graph.final_hash, "task"), "Tf")
    for task_hash in graph.tasks:
        if (task_hash, "task") not in labels:
            labels[task_hash, "task"] = f"T?{next(numbers['T?'])}"
    for reply_hash in graph.replies:
        if (reply_hash, "reply") not in labels:
            labels[reply_hash, "reply"] = f"R?{next(numbers['R?'])}"
    return labels
