"""Interfaces carry the licence of the ERC texts, everything else the project's own."""

from __future__ import annotations

import re
import tomllib

import pytest

from tests.toolchain.conftest import ROOT

SOURCES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "contracts").rglob("*.sol"))
SPDX = re.compile(r"\A// SPDX-License-Identifier: (\S+)\npragma solidity (\S+);\n")


def test_sources__are_found() -> None:
    assert "contracts/interfaces/IAgentWorkflow.sol" in SOURCES
    assert any(not name.startswith("contracts/interfaces/") for name in SOURCES)


@pytest.mark.parametrize("name", SOURCES)
def test_source__names_its_licence_and_compiler_first(name: str) -> None:
    match = SPDX.match((ROOT / name).read_text())
    assert match, f"{name} does not begin with its licence and pragma"
    if name.startswith("contracts/interfaces/"):
        # As in the ERC texts, so that others can use them with any 0.8 compiler.
        assert match.groups() == ("CC0-1.0", "^0.8.0")
    else:
        assert match.groups() == ("Apache-2.0", "^0.8.30")


@pytest.mark.parametrize(
    ("name", "first", "last"),
    [
        ("LICENSE", "Apache License", "limitations under the License."),
        ("contracts/interfaces/LICENSE", "Creative Commons Legal Code", "CC0 or use of the Work."),
    ],
)
def test_licence_text__is_whole(name: str, first: str, last: str) -> None:
    text = (ROOT / name).read_text().strip()
    assert text.startswith(first)
    assert text.endswith(last)
    assert len(text) > 6000


def test_package__names_both_licences() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["license"] == "Apache-2.0 AND CC0-1.0"
    assert project["license-files"] == ["LICENSE", "contracts/interfaces/LICENSE"]
