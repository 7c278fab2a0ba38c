"""The wheel carries the compiled contracts; a wheel without them, or with old ones, is not built."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class ArtifactsHook(BuildHookInterface):  # type: ignore[misc,unused-ignore]
    """Adds ``provenflow/_artifacts/contracts.json``, which git does not know."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called by hatchling before it builds; an editable install reads the file where it is."""
        if version == "editable":
            return
        root = Path(self.root)
        sys.path.insert(0, str(root))
        from provenflow.build import ARTIFACTS, artifacts_are_fresh
        from provenflow.errors import ProvenflowError

        try:
            fresh = artifacts_are_fresh(root)
        except ProvenflowError as error:
            sys.exit(f"error: {error}")
        if not fresh:
            sys.exit(f"error: {ARTIFACTS} is missing or older than the sources. Run 'make wheel'.")
        build_data["force_include"][str(root / ARTIFACTS)] = ARTIFACTS.as_posix()
