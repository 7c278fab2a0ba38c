"""Run a program that ends when its starter ends, however that happens.

Called as a script, ``python leash.py STARTER_PID PROGRAM ARGUMENTS…``, and using the standard library only. On Linux
the kernel is asked to kill the program when its starter dies, and this process becomes the program; a hook between
fork and exec in the starter itself would be unsafe there, since it may have threads. Elsewhere this process stays,
looks whether the starter is still its parent, and ends the program when it is not.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from types import FrameType

_PR_SET_PDEATHSIG = 1  # linux/prctl.h
_LOOK_EVERY = 0.2  # seconds


def ask_kernel() -> bool:
    """Have the kernel kill this process when its parent dies; False where that cannot be asked."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) == 0)


def watch(starter: int, command: list[str]) -> int:
    """Run `command` until it ends or `starter` is no longer our parent; its exit code."""
    with subprocess.Popen(command) as child:

        def stop(_signal: int, _frame: FrameType | None) -> None:
            child.terminate()

        signal.signal(signal.SIGTERM, stop)
        signal.signal(signal.SIGINT, stop)
        while child.poll() is None:
            if os.getppid() != starter:
                child.kill()
            time.sleep(_LOOK_EVERY)
        return child.returncode


def main(arguments: list[str]) -> int:
    """Become the program, which does not return, or run it and return its exit code."""
    starter, command = int(arguments[0]), arguments[1:]
    if command[0] == "--watch":  # the way without the kernel's help, whatever the platform
        return watch(starter, command[1:])
    if not ask_kernel():
        return watch(starter, command)
    if os.getppid() == starter:  # else it died before the kernel was asked
        os.execv(command[0], command)  # noqa: S606 - no shell is wanted
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
