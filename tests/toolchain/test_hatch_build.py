"""A wheel is only built with the contracts of the present sources in it.

hatchling lives in pip's build environment, not here, so its base class is stood in for; `make test-wheel` builds with
the real one.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.toolchain.conftest import ROOT, TinyCheckout


class Interface:
    """What the hook uses of hatchling's BuildHookInterface."""

    def __init__(self, root: Path) -> None:
        self.root = str(root)


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hook's class."""
    names = ["hatchling", "hatchling.builders", "hatchling.builders.hooks", "hatchling.builders.hooks.plugin"]
    for name in names:
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    interface = ModuleType(f"{names[-1]}.interface")
    interface.BuildHookInterface = Interface  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, interface.__name__, interface)
    monkeypatch.setattr(sys, "path", list(sys.path))
    spec = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ArtifactsHook


def test_wheel__artifacts_fresh__carries_them(hook: Any, compiled: TinyCheckout) -> None:
    data: dict[str, Any] = {"force_include": {}}
    hook(compiled.root).initialize("standard", data)
    assert data["force_include"] == {str(compiled.artifacts_file): "provenflow/_artifacts/contracts.json"}


def test_wheel__artifacts_missing__is_refused(hook: Any, tiny: TinyCheckout) -> None:
    with pytest.raises(SystemExit, match="missing or older than the sources. Run 'make wheel'"):
        hook(tiny.root).initialize("standard", {"force_include": {}})


def test_wheel__artifacts_older_than_a_source__is_refused(hook: Any, compiled: TinyCheckout) -> None:
    compiled.edit("contracts/Base.sol", "41", "42")
    with pytest.raises(SystemExit, match="missing or older than the sources. Run 'make wheel'"):
        hook(compiled.root).initialize("standard", {"force_include": {}})


def test_wheel__set_up_incomplete__says_make_setup(hook: Any, compiled: TinyCheckout) -> None:
    (compiled.root / "node_modules" / "solc").unlink()
    with pytest.raises(SystemExit, match="Run 'make setup'"):
        hook(compiled.root).initialize("standard", {"force_include": {}})


def test_editable_install__not_compiled_yet__works(hook: Any, tiny: TinyCheckout) -> None:
    data: dict[str, Any] = {"force_include": {}}
    hook(tiny.root).initialize("editable", data)
    assert data == {"force_include": {}}
