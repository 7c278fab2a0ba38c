"""The chain of a run as text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from provenflow.evidence import CHECKS, CheckId, Evidence, verify
from provenflow.evidence.tree import render
from tests.support.evidence_builder import (
    AGENTS,
    REQUESTER,
    START,
    RunBuilder,
    fan_in,
    name,
    pending,
    pipeline,
)


def test_render__joining_run__final_task_on_top_and_branches_down_to_run() -> None:
    lines = _lines(fan_in().evidence())
    start = lines.index("")
    heads = [line.split(" 0x")[0] for line in lines[start + 1 : start + 14]]
    assert heads == [
        "Tf  task",
        "R4  reply",
        "T3  task",
        "├─ R0  reply",
        "│  T0  task",
        "├─ R1  reply",
        "│  T1  task",
        "└─ R2  reply",
        "   T2  task",
        "",
        "not on the path from the final task:",
        "R3  reply",
        "T1 (above)",
    ]


def test_render__every_node__has_a_verdict_on_its_line() -> None:
    found = pipeline().evidence()
    report = verify(found)
    text = render(found, report)
    for node in report.nodes:
        (line,) = [line for line in text.splitlines() if line.startswith(f"{node.label}  ")]
        assert "✓ holds" in line


def test_render__failing_node__says_why_below_it() -> None:
    found = pipeline().evidence()
    altered = replace(found.replies[1], reply=replace(found.replies[1].reply, operation_id=name("forged")))
    lines = _lines(replace(found, replies=(found.replies[0], altered, found.replies[2])))
    (place,) = [place for place, line in enumerate(lines) if line.startswith("R1  ")]
    assert "✗ fails" in lines[place]
    assert lines[place + 1].startswith("    ✗ fails reply.hash: its fields hash to 0x")
    assert lines[-1].startswith("✗ fails: the run is complete;")


def test_render__checks__one_line_each_with_short_names() -> None:
    lines = _lines(pipeline().evidence())
    holds, proof = CHECKS[CheckId.TASK_HASH].statement, CHECKS[CheckId.REPLY_PROOF].statement
    assert f"✓ holds task.hash: {holds} (4)" in lines
    assert (
        f"? unchecked reply.proof: {proof}: not checked for R2 (of 1); rests on the contract's claim" in lines
    )


def test_render__pending_run__latest_on_top() -> None:
    labels = [line[:2] for line in _lines(pending().evidence())]
    assert [label for label in labels if label in ("T0", "R0", "T1")] == ["T1", "R0", "T0"]


@pytest.mark.parametrize(("made", "state"), [(pipeline, "complete"), (pending, "not complete (Pending)")])
def test_render__last_line__counts(made: Callable[[], RunBuilder], state: str) -> None:
    found = made().evidence()
    report = verify(found)
    counts = dict.fromkeys(("holds", "fails", "unchecked"), 0)
    for result in report.checks:
        counts[result.verdict] += 1
    assert counts["unchecked"] < counts["holds"]
    assert render(found, report).splitlines()[-1] == (
        f"✓ holds: the run is {state}; {len(found.tasks)} tasks, {len(found.replies)} replies;"
        f" {counts['holds']} checks hold, 0 fail, {counts['unchecked']} unchecked"
    )


def test_render__check_that_fails_for_five__all_named() -> None:
    run = RunBuilder()
    run.run((0,) * 5, timestamp=START + 1)
    (line,) = [line for line in _lines(run.evidence()) if line.startswith("✗ fails task.time")]
    assert "T4 (" in line
    assert "more" not in line


def test_render__failing_check__line_says_what_was_found_and_where() -> None:
    run = RunBuilder()
    tasks = run.run((0,) * 7, timestamp=START + 1)
    lines = _lines(run.evidence())
    found = f"its timestamp is {START + 1}, that of its block {START}"
    named = ", ".join(f"T{place} ({found})" for place in range(5))
    statement = CHECKS[CheckId.TASK_TIME].statement
    assert f"✗ fails task.time: {statement}: not so for {named} and 2 more (of {len(tasks)})" in lines


def test_render__plaintext_that_is_not_the_one_committed__said_below_its_node() -> None:
    run = RunBuilder()
    run.run(input=b"forged", input_hash=name("committed"))
    lines = _lines(run.evidence())
    (place,) = [place for place, line in enumerate(lines) if line.startswith("T0  ")]
    assert "input not on chain" not in lines[place]
    assert lines[place + 1].startswith("    ✗ fails task.input: its input hashes to 0x")


def test_render__tasks__say_their_stage_or_that_they_are_final() -> None:
    lines = _lines(pipeline().evidence())
    words = {
        line.split("  ")[0]: line.split("  ")[2] for line in lines if line[:2] in ("T0", "T1", "T2", "Tf")
    }
    assert words == {"T0": "stage 0", "T1": "stage 1", "T2": "stage 2", "Tf": "final"}


def test_render__replier_did_not_sign__line_says_what_it_rests_on() -> None:
    run = RunBuilder()
    run.reply(AGENTS[0], run.run(), sender=REQUESTER)
    lines = _lines(run.evidence())
    (line,) = [line for line in lines if line.startswith("R0  ")]
    assert line.endswith("✓ holds  (rests on the contract's own check of msg.sender)")


def test_render__missing_reply__named_in_full() -> None:
    found = pipeline().evidence()
    lines = _lines(replace(found, replies=found.replies[1:]))
    missing = found.replies[0].reply_hash
    (line,) = [line for line in lines if line.startswith("R0  ")]
    assert missing.hex()[:8] in line
    assert "unknown to the contract" in line


def test_render__link_to_nothing_known__named_in_full() -> None:
    run = pending()
    run.dispatch(2, (name("unknown"),))
    lines = _lines(run.evidence())
    assert f"0x{name('unknown').hex()}  is not in the evidence" in lines


def test_render__nodes_in_a_circle__each_printed_once() -> None:
    found = pending().evidence()
    circled = replace(
        found.tasks[0], task=replace(found.tasks[0].task, prev_reply_hashes=(found.replies[0].reply_hash,))
    )
    lines = _lines(replace(found, tasks=(circled,), logs=found.logs[:-1]))
    assert [line[:10] for line in lines if line.startswith(("T0", "R0"))] == [
        "T0  task 0",
        "R0  reply ",
        "T0 (above)",
    ]


def test_render__hostile_plaintexts__nothing_reaches_the_terminal_raw() -> None:
    hostile = '\x1b[2J\x1b]0;owned\x07\r\u202egnp\u2066\x9b31m\n"quoted" \\ \ud7ff'.encode() + b"\xff\xfe\x00"
    run = RunBuilder()
    run.reply(AGENTS[0], run.run(input=hostile), output=hostile)
    text = "\n".join(_lines(run.evidence()))
    assert all(char.isprintable() or char == "\n" for char in text)
    assert '"\\x1b[2J\\x1b]0;owned\\x07\\r\\u202egnp' in text


@pytest.mark.parametrize(
    ("plaintext", "shown"),
    [
        (b"A" * 40, f'"{"A" * 40}" (40 bytes)'),
        (b"A" * 41, f'"{"A" * 40}…" (41 bytes)'),
        (b"A" * 10_000, f'"{"A" * 40}…" (10000 bytes)'),
        ("😀".encode() * 40, f'"{"😀" * 40}" (160 bytes)'),
        ("😀".encode() * 41, f'"{"😀" * 40}…" (164 bytes)'),
        (b'say "\\x1b"', '"say \\"\\\\x1b\\"" (10 bytes)'),
    ],
)
def test_render__plaintext__quoted_escaped_and_cut(plaintext: bytes, shown: str) -> None:
    run = RunBuilder()
    run.run(input=plaintext)
    (line,) = [line for line in _lines(run.evidence()) if line.startswith("T0  ")]
    assert f"  input {shown}  " in line


def test_render__times__counted_from_the_start_of_the_run() -> None:
    (final,) = [line for line in _lines(pipeline().evidence()) if line.startswith("Tf")]
    assert "+48 s" in final


def test_render__deeply_nested_joins__lines_stay_short() -> None:
    run = RunBuilder()
    tasks = run.run((0, 0))
    for stage in range(1, 60):
        run.mine()
        replies = tuple(run.reply(AGENTS[place], (task,), mine=False) for place, task in enumerate(tasks))
        tasks = (run.dispatch(stage, replies), run.dispatch(stage, replies))
    assert max(len(line) for line in _lines(run.evidence())) < 220


def _lines(found: Evidence) -> list[str]:
    return render(found, verify(found)).splitlines()
