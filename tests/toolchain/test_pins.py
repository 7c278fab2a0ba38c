"""Every version is pinned, the locks agree with what asks for them, and nothing names a registry."""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from tests.toolchain.conftest import ROOT

EXACT = re.compile(r"^([A-Za-z0-9._-]+)(\[[a-z,]+\])?==(\d[\w.]*)$")
EXACT_NODE = re.compile(r"^\d+\.\d+\.\d+$")
# Where packages come from is the user's configuration (a mirror, a cache), never the project's.
REGISTRY = re.compile(
    r"registry\.(npmjs|yarnpkg)|npmjs\.org|pypi\.org|pythonhosted|--(extra-)?index-url|--find-links|"
    r"^\s*registry\s*=|\"resolved\"|binaries\.soliditylang",
    re.M,
)


def toml(name: str) -> dict[str, Any]:
    return tomllib.loads((ROOT / name).read_text())


def locked() -> dict[str, str]:
    lines = (ROOT / "requirements.lock").read_text().split()
    pins = dict(line.split("==") for line in lines)
    assert len(pins) == len(lines)
    return pins


def wanted() -> list[str]:
    """Every requirement of pyproject.toml and of the Ape plugin, without the project's own extras."""
    project, plugin = (
        toml("pyproject.toml")["project"],
        toml("tools/ape-provenflow/pyproject.toml")["project"],
    )
    found = [*project["dependencies"], *plugin["dependencies"]]
    for extra in project["optional-dependencies"].values():
        found += [requirement for requirement in extra if not requirement.startswith("provenflow[")]
    return found


def test_python_requirements__are_exact_and_in_the_lock() -> None:
    pins = locked()
    assert len(wanted()) > 15
    for requirement in wanted():
        match = EXACT.match(requirement)
        assert match, f"{requirement} is not pinned with =="
        assert pins.get(match[1].lower()) == match[3], f"{requirement} is not what requirements.lock has"


def test_python_lock__every_line_is_exact() -> None:
    for line in (ROOT / "requirements.lock").read_text().splitlines():
        assert EXACT.match(line), line


@pytest.mark.parametrize("name", ["pyproject.toml", "tools/ape-provenflow/pyproject.toml"])
def test_build_requirements__are_exact(name: str) -> None:
    requirements = toml(name)["build-system"]["requires"]
    assert requirements
    for requirement in requirements:
        assert EXACT.match(requirement), requirement


def test_node_requirements__are_exact_and_in_the_lock() -> None:
    package, lock = (json.loads((ROOT / name).read_text()) for name in ("package.json", "package-lock.json"))
    assert package["devDependencies"]
    for name, version in package["devDependencies"].items():
        assert EXACT_NODE.match(version), f"{name} {version} is not exact"
        assert lock["packages"][f"node_modules/{name}"]["version"] == version
    assert lock["packages"][""]["devDependencies"] == package["devDependencies"]


def test_node_lock__every_package_has_an_integrity_and_no_address() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    del packages[""]
    for name, entry in packages.items():
        assert entry["integrity"].startswith("sha512-"), name
        assert "resolved" not in entry, name


def test_npmrc__keeps_addresses_out_and_runs_no_scripts() -> None:
    assert set((ROOT / ".npmrc").read_text().split()) == {
        "omit-lockfile-registry-resolved=true",
        "ignore-scripts=true",
        "save-exact=true",
        "audit=false",
        "fund=false",
    }


def test_compiler_version__is_the_same_everywhere() -> None:
    version = json.loads((ROOT / "package.json").read_text())["devDependencies"]["solc"]
    assert (ROOT / "tools" / "solc" / f"solc-v{version}").is_file()
    assert f"  version: {version}\n" in (ROOT / "ape-config.yaml").read_text()
    forge = toml("foundry.toml")["profile"]["default"]
    assert forge["solc"] == f"tools/solc/solc-v{version}"
    ape = (ROOT / "ape-config.yaml").read_text()
    assert f"  evm_version: {forge['evm_version']}\n" in ape
    assert f"  optimization_runs: {forge['optimizer_runs']}\n" in ape


def configuration() -> list[str]:
    """Every configuration file and lock of the project, relative to its root; not what set-up and builds make."""
    made = {
        ".git",
        ".venv",
        ".lock-env",
        "node_modules",
        ".build",
        ".forge",
        ".ape-data",
        "dist",
        "_artifacts",
    }
    kinds = {".toml", ".yaml", ".yml", ".json", ".lock", ".cfg", ".ini", ".sh", ".mk"}
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in made and not name.endswith("_cache")]
        paths = [Path(folder, name) for name in files]
        found += [
            path for path in paths if path.suffix in kinds or path.name in {"Makefile", ".npmrc", "run"}
        ]
    return sorted(path.relative_to(ROOT).as_posix() for path in found)


def test_repository__names_no_registry() -> None:
    names = configuration()
    assert {"Makefile", "package-lock.json", "requirements.lock", ".npmrc", ".ci/run"} <= set(names)
    assert [name for name in names if REGISTRY.search((ROOT / name).read_text())] == []


@pytest.mark.parametrize(
    "text",
    [
        "https://registry.npmjs.org/x",
        "--index-url x",
        "registry = x",
        '"resolved": "x"',
        "https://pypi.org/simple",
    ],
)
def test_registry_pattern__finds_what_it_looks_for(text: str) -> None:
    assert REGISTRY.search(text)
