"""Set-up of the whole suite: fresh contracts, actors by role, one deployment a session."""

from __future__ import annotations

import pytest
from hypothesis import settings

from provenflow.build import ensure_compiled
from provenflow.errors import ProvenflowError

pytest_plugins = ["pytester", "tests.support.requirements", "tests.support.fixtures"]

# No deadline: a test fails for what it finds, never for the time it takes. Derandomised, so that it finds the same
# everywhere; `--hypothesis-profile nightly` searches further.
settings.register_profile("quick", deadline=None, derandomize=True, database=None, max_examples=50)
settings.register_profile("nightly", deadline=None, database=None, max_examples=2_000)
settings.load_profile("quick")


def pytest_configure(config: pytest.Config) -> None:
    if not config.pluginmanager.hasplugin("ape_test") or config.option.collectonly:
        return
    # Workers of xdist start after their controller has compiled.
    if not hasattr(config, "workerinput"):
        try:
            ensure_compiled()
        except ProvenflowError as error:
            raise pytest.UsageError(str(error)) from error
    _tame_ape()


def _tame_ape() -> None:
    from ape.pytest.gas import GasTracker
    from ape_ethereum.trace import Trace

    # Ape prints the trace of every failed transaction: noise where failing is what is tested, and most of its cost.
    Trace.show = _show_nothing  # type: ignore[method-assign]
    # With gas tracking Ape traces calls instead of making them, and a view that reverts does not revert. The report of
    # `ape test --gas` covers transactions only, without it.
    GasTracker.enabled = False  # type: ignore[assignment,method-assign]


def _show_nothing(*_: object, **__: object) -> None:
    """In place of ``Trace.show``."""
