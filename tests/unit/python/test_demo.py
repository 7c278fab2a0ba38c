"""``make demo``: the whole story in a process of its own, what it refuses, and that it fails when it should."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from provenflow.errors import Invalid, WrongUse
from tests.support.processes import PATIENCE, children, is_listening, is_running, until

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "scripts" / "demo.py"


def demo(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, timeout=300)


def port_of(output: str) -> int:
    found = re.search(r"anvil at http://127\.0\.0\.1:(\d+)", output)
    assert found is not None, output
    return int(found[1])


@pytest.fixture(scope="module")
def told() -> subprocess.CompletedProcess[str]:
    """The demo over its own text, once."""
    return demo()


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """The script as a module, for what the process cannot show."""
    specification = importlib.util.spec_from_file_location("demo_script", SCRIPT)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


# --- the story -----------------------------------------------------------------------------------------------------


def test_demo__own_text__succeeds_and_leaves_nothing(told):
    assert (told.returncode, told.stderr) == (0, "")
    assert told.stdout.endswith("both forgeries were caught\n")
    assert not is_listening(port_of(told.stdout))


def test_demo__events__come_in_the_order_of_the_scenario(told):
    events = re.findall(
        r"^block +\d+ (NewAgentTask|AgentReplyAnchored|WorkflowCompleted) .*?(StepA|StepB|StepC|by|Success)",
        told.stdout,
        re.MULTILINE,
    )

    assert events == [
        ("NewAgentTask", "StepA"),
        ("AgentReplyAnchored", "by"),
        ("NewAgentTask", "StepB"),
        ("AgentReplyAnchored", "by"),
        ("NewAgentTask", "StepC"),
        ("AgentReplyAnchored", "by"),
        ("WorkflowCompleted", "Success"),
    ]


def test_demo__agents__are_three_and_each_reply_is_proven(told):
    assert len(set(re.findall(r"AgentReplyAnchored .* by (0x[0-9a-f]{4})", told.stdout))) == 3
    assert told.stdout.count("calls onAgentProve()") == 3
    for step in ("StepA cleans", "StepB summarises", "StepC reports"):
        assert step in told.stdout


def test_demo__report__is_shown_with_its_figures(told):
    assert "22 sentences, 325 words" in told.stdout
    assert "summary, 4 of 22 sentences" in told.stdout


def test_demo__evidence__is_verified_as_a_tree(told):
    for node in ("Tf  task", "R2  reply", "T2  task", "R1  reply", "T1  task", "R0  reply", "T0  task"):
        assert re.search(rf"^{node} .*✓ holds$", told.stdout, re.MULTILINE)
    assert "✓ holds: the run is complete; 4 tasks, 3 replies" in told.stdout


def test_demo__forgeries__are_caught_with_the_reason(told):
    forged = told.stdout.split("Forged copies", 1)[1]

    assert (
        "one byte of StepB's output changed: caught\n  ✗ fails reply.output of R1: its output hashes to"
        in forged
    )
    assert "its outputHash made to fit: caught\n  ✗ fails reply.hash of R1: its fields hash to" in forged


@pytest.mark.parametrize(
    "text",
    [
        b"One word",
        "短い文。もう一つの文！".encode(),
        ("x" * 24_570 + " end.").encode(),
        b"Many sentences of a kind. " * 940,
    ],
    ids=["two words", "Japanese", "longest, one sentence", "longest, many sentences"],
)
def test_demo__other_text__succeeds(tmp_path, text):
    file = tmp_path / "other.txt"
    file.write_bytes(text)

    process = demo(str(file))

    assert (process.returncode, process.stderr) == (0, "")
    assert f"Three agents work on other.txt, {len(text):,} bytes" in process.stdout


def test_demo__text_with_terminal_sequences__prints_none_of_them(tmp_path):
    file = tmp_path / "rude.txt"
    file.write_bytes(b"A word \x1b[2J and \xc2\x9b31m more\x07.")

    process = demo(str(file))

    assert process.returncode == 0
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f]", process.stdout)


@pytest.mark.parametrize(("stop", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["INT", "TERM"])
def test_demo__asked_to_stop__leaves_nothing(tmp_path, stop, code):
    with subprocess.Popen(
        [sys.executable, SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        read = ""
        while "anvil at" not in read:
            line = process.stdout.readline()
            assert line, process.communicate()
            read += line
        started = children(process.pid)
        process.send_signal(stop)
        _, errors = process.communicate(timeout=PATIENCE)

    assert process.returncode == code
    assert "Traceback" not in errors
    assert started != []
    for pid in started:
        until(f"process {pid} is gone", lambda pid=pid: not is_running(pid))
    assert not is_listening(port_of(read))
    assert list(tmp_path.iterdir()) == []


# --- what it refuses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "code", "sentence"),
    [
        (None, 2, "There is no file"),
        ("folder", 2, "is no regular file"),
        (b"", 1, "is empty"),
        (b" \n\t ", 1, "is empty"),
        (b"... 12 !", 1, "The text has no words"),
        (b"\x89PNG\r\n\x1a\n\0\0", 1, "is no UTF-8 text (byte 0)"),
        (b"text, then \xff\xfe", 1, "is no UTF-8 text (byte 11)"),
        (b"text\0text", 1, "is a binary file"),
        (b"word " * 5000, 1, "is longer than 24,576 bytes"),
    ],
    ids=["missing", "folder", "empty", "blank", "no words", "image", "bad byte", "zero byte", "too long"],
)
def test_demo__file_that_it_cannot_use__is_one_sentence_and_starts_nothing(tmp_path, content, code, sentence):
    file = tmp_path / "text"
    if content == "folder":
        file.mkdir()
    elif content is not None:
        file.write_bytes(content)

    process = demo(str(file))

    assert (process.returncode, process.stdout) == (code, "")
    assert process.stderr.startswith("error: ")
    assert sentence in process.stderr
    assert process.stderr.count("\n") == 1


def test_demo__endless_device__is_refused():
    process = demo("/dev/zero")

    assert process.returncode == 2
    assert "is no regular file" in process.stderr


def test_demo__two_files__is_wrong_use():
    process = demo("a", "b")

    assert process.returncode == 2
    assert "Traceback" not in process.stderr


def test_demo__help__has_an_example():
    process = demo("--help")

    assert process.returncode == 0
    assert "make demo FILE=" in process.stdout.split("Examples:")[1]


def test_read_text__longest_allowed__is_read_whole(script, tmp_path):
    file = tmp_path / "text"
    file.write_bytes(b"w" * script.MAX_BYTES)

    assert len(script.read_text(file)) == script.MAX_BYTES

    file.write_bytes(b"w" * (script.MAX_BYTES + 1))
    with pytest.raises(Invalid, match="is longer than"):
        script.read_text(file)


def test_read_text__file_that_cannot_be_opened__is_wrong_use(script, tmp_path):
    loop = tmp_path / "loop"
    loop.symlink_to(loop)

    with pytest.raises(WrongUse):
        script.read_text(loop)


# --- that it can fail ----------------------------------------------------------------------------------------------


@pytest.fixture
def bundle(script, tmp_path) -> Path:
    """The evidence of a real run over a short text."""
    with script.Devnet() as chain:
        contract = chain.contracts["SequentialPipelineWorkflow"]
        story = script.Story(chain, script.WorkflowClient(chain.rpc, contract.address, contract.abi))
        run_id = story.tell(b"One sentence. Two sentences.")
        path = tmp_path / "run.evidence.json"
        script._verify(chain, contract.address, run_id, path)
        assert set(story.operations.values()).isdisjoint({bytes(32)})
        assert len(set(story.operations.values())) == 3
    return path


def test_demo__forgery_that_is_none__fails(script, bundle):
    with pytest.raises(Invalid, match="A forgery was not caught: nothing changed"):
        script._catch(bundle, "nothing changed", lambda _: None)


def test_demo__forgeries__change_only_the_output_of_step_b(script, bundle):
    honest = json.loads(bundle.read_bytes())
    forged = json.loads(bundle.read_bytes())
    script._change_a_byte(forged)

    changed = [
        (before["reply"], after["reply"])
        for before, after in zip(honest["replies"], forged["replies"], strict=True)
        if before != after
    ]
    ((before, after),) = changed
    assert {key for key in before if before[key] != after[key]} == {"output"}
    assert len(before["output"]) == len(after["output"])
    assert {**forged, "replies": honest["replies"]} == honest


def test_demo__evidence_that_does_not_hold__fails(script, bundle, monkeypatch, tmp_path):
    evidence = script.load(bundle)
    forged = json.loads(bundle.read_bytes())
    script._change_a_byte(forged)
    (tmp_path / "forged.json").write_text(json.dumps(forged))
    monkeypatch.setattr(script, "collect", lambda *_: script.load(tmp_path / "forged.json"))

    with pytest.raises(Invalid, match="is not complete or does not hold"):
        script._verify(type("Chain", (), {"rpc": None}), "", evidence.workflow_run_id, tmp_path / "out.json")

    assert not (tmp_path / "out.json").exists()


def test_demo__run_that_stops__fails(script):
    with script.Devnet() as chain:
        contract = chain.contracts["SequentialPipelineWorkflow"]
        story = script.Story(chain, script.WorkflowClient(chain.rpc, contract.address, contract.abi))
        story._work = lambda *_: None  # agents on strike

        with pytest.raises(Invalid, match="The run stopped: no event"):
            story.tell(b"One sentence.")


def test_demo__agent_given_another_text_than_its_task_says__refuses(script):
    with script.Devnet() as chain:
        contract = chain.contracts["SequentialPipelineWorkflow"]
        story = script.Story(chain, script.WorkflowClient(chain.rpc, contract.address, contract.abi))
        task = script.AgentTask(0, 0, bytes(32), b"another text", 1, 0, (), bytes(32))

        with pytest.raises(Invalid, match="another text than its task commits to"):
            story._input_of(task)
