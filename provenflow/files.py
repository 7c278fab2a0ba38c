"""Writing files so that a reader sees the whole of them or nothing."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

from provenflow.errors import WrongUse


def check_writable(path: Path) -> Path:
    """Make sure, before any work is done, that `path` can be written by :func:`write_bytes`.

    Parameters
    ----------
    path:
        The file to write. It may exist, but then as a regular file.

    Returns
    -------
    Path
        `path`, absolute and with links followed.

    Raises
    ------
    WrongUse
        The folder does not exist or admits no new file, or `path` is a folder or a device.
    """
    try:
        target = path.resolve()
        there_is_a_folder, is_another_kind = target.parent.is_dir(), target.exists() and not target.is_file()
    except (OSError, RuntimeError) as trouble:  # a name too long, links in a circle
        raise _unwritable(path, trouble) from None
    if not there_is_a_folder:
        raise WrongUse(f"{path} cannot be written: there is no folder {target.parent}.", fix="Make it first.")
    if is_another_kind:
        raise WrongUse(f"{path} cannot be written: it is no regular file.", fix="Name another file.")
    try:
        handle, probe = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    except OSError as trouble:
        raise _unwritable(path, trouble) from None
    os.close(handle)
    Path(probe).unlink()
    return target


def write_json(path: Path, document: object) -> None:
    """Write `document` as indented JSON; see :func:`write_bytes`."""
    write_bytes(path, (json.dumps(document, indent=2) + "\n").encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file by atomic rename.

    Parameters
    ----------
    path:
        The file; its folder exists. What was there before is replaced.
    content:
        All of it.

    Raises
    ------
    WrongUse
        The file cannot be written. Nothing is left half-written.
    """
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as trouble:
        raise _unwritable(path, trouble) from None
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes the file private; what we write is for whoever may read the folder.
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except OSError as trouble:
        Path(name).unlink(missing_ok=True)
        raise _unwritable(path, trouble) from None
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _unwritable(path: Path, trouble: OSError | RuntimeError) -> WrongUse:
    reason = (getattr(trouble, "strerror", None) or str(trouble)).lower()
    return WrongUse(f"{path} cannot be written: {reason}.", fix="Name a file in a folder you may write to.")
