"""Link the native Foundry binaries, and node, into the environment's ``bin``: an activated environment is enough.

Called by ``make setup`` after ``npm ci``: ``.venv/bin/python tools/link_tools.py``.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from provenflow.errors import ProvenflowError, WrongUse
from provenflow.toolchain import FOUNDRY_TOOLS, native_foundry

ROOT = Path(__file__).resolve().parent.parent


def link(target: Path, name: str) -> None:
    """Make ``bin/<name>`` of this environment a link to ``target``, replacing an older one."""
    place = Path(sys.prefix) / "bin" / name
    fresh = place.with_name(f".{name}.new")
    fresh.unlink(missing_ok=True)
    fresh.symlink_to(target)
    fresh.replace(place)


def main() -> None:
    """Link everything, or say in one sentence what is missing."""
    if sys.prefix == sys.base_prefix:
        raise WrongUse("This is not the project's environment.", fix="Run 'make setup'.")
    for tool in FOUNDRY_TOOLS:
        native = native_foundry(ROOT, tool)
        if not native.is_file():
            raise WrongUse(
                f"npm did not install {native.relative_to(ROOT)}.",
                fix="Run 'npm ci' without --omit=optional and without --omit=dev.",
            )
        link(native, tool)
    # The compiler is a node script. The node on PATH, not what it resolves to: version managers move that.
    own = (Path(sys.prefix) / "bin").resolve()
    path = [entry for entry in os.environ.get("PATH", os.defpath).split(os.pathsep) if entry]
    node = shutil.which("node", path=os.pathsep.join(entry for entry in path if Path(entry).resolve() != own))
    if node is None:
        raise WrongUse("node is not on PATH.", fix="Install Node.js 20 or newer.")
    link(Path(node).absolute(), "node")


if __name__ == "__main__":
    try:
        main()
    except ProvenflowError as error:
        sys.exit(f"error: {error}")
