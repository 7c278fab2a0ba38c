"""What runs on this machine, and waiting for it: from /proc where there is one, else from ps."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

PATIENCE = 60.0
"""Seconds until a wait for another process is given up. No test passes because time passes."""


@dataclass(frozen=True)
class Process:
    """A process: its parent, its state letter (``Z`` for one that has ended) and its command line."""

    parent: int
    state: str
    arguments: str


def processes() -> dict[int, Process]:
    """All processes by id."""
    if Path("/proc/self/stat").exists():
        found = {}
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                # The name, in parentheses, may have spaces and parentheses itself.
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                arguments = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:  # it ended meanwhile
                continue
            found[int(folder.name)] = Process(int(parent), state, arguments)
        return found
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,stat=,args="], capture_output=True, text=True, check=True
    ).stdout
    rows = (line.split(None, 3) for line in listing.splitlines())
    return {int(pid): Process(int(parent), state[:1], "".join(rest)) for pid, parent, state, *rest in rows}


def is_running(pid: int) -> bool:
    """Whether the process exists and has not ended."""
    process = processes().get(pid)
    return process is not None and process.state != "Z"


def children(pid: int) -> list[int]:
    """The ids of the processes that `pid` started and that have not ended."""
    return [child for child, process in processes().items() if process.parent == pid and process.state != "Z"]


def is_listening(port: int) -> bool:
    """Whether something takes connections on 127.0.0.1 at `port`."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def until(what: str, condition: Callable[[], object]) -> None:
    """Wait for another process; the test fails when `condition` stays false."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"gave up waiting until {what}"
        time.sleep(0.02)
