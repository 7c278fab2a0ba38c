"""Install the wheel in ``dist/`` into an empty environment and use it there, without the checkout, Ape or web3.

Called by ``make test-wheel``, which builds the wheel first. Needs the Python package registry.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# Runs inside the empty environment. Every import that a command makes must work with the core dependencies alone.
PROBE = """
import importlib, importlib.metadata, importlib.util, pathlib, pkgutil, sys
import provenflow
from provenflow import artifacts, hashing, toolchain

here = pathlib.Path(provenflow.__file__).parent
assert pathlib.Path(sys.prefix) in here.parents, f"imported from {here}, not from the wheel"
assert toolchain.checkout_root() is None, "an installed wheel takes itself for a checkout"
for missing in ("ape", "ape_solidity", "ape_foundry", "ape_provenflow", "web3", "yaml", "pytest"):
    assert importlib.util.find_spec(missing) is None, f"{missing} is installed in the empty environment"
for module in pkgutil.walk_packages(provenflow.__path__, "provenflow."):
    importlib.import_module(module.name)
assert hashing.keccak256(b"").hex().startswith("c5d24601"), "keccak256 of nothing is wrong"
contracts = artifacts.load_all().contracts
for name in ("SingleStageWorkflow", "SequentialPipelineWorkflow", "MockAgentVerifier"):
    assert contracts[name].abi and contracts[name].bytecode.startswith("0x6"), f"{name} is not in the wheel"
files = {str(file) for file in importlib.metadata.files("provenflow")}
for licence in ("LICENSE", "contracts/interfaces/LICENSE"):
    assert any(file.endswith("licenses/" + licence) for file in files), f"{licence} is not in the wheel"
assert "provenflow/py.typed" in files, "the wheel has no type marker"
print(f"the wheel works alone: {len(contracts)} contracts, version {provenflow.__version__}")
"""


def run(*command: str | Path, cwd: Path) -> str:
    """Run a command in a bare environment; its output, or the end of this script with what went wrong."""
    keep = (
        "PATH",
        "TMPDIR",
        "SSL_CERT_FILE",
        "PIP_CERT",
        "PIP_INDEX_URL",
        "PIP_EXTRA_INDEX_URL",
        "PIP_FIND_LINKS",
    )
    environment = {name: os.environ[name] for name in keep if name in os.environ} | {"HOME": str(cwd)}
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=environment, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(
            f"error: {' '.join(map(str, command[:4]))} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout


def main() -> None:
    """Build nothing; install and use."""
    wheels = list((ROOT / "dist").glob("provenflow-*.whl"))
    if len(wheels) != 1:
        sys.exit(f"error: dist/ has {len(wheels)} wheels of provenflow, not one. Run 'make wheel'.")
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        venv.create(home / "env", with_pip=True)
        python, command = home / "env" / "bin" / "python", home / "env" / "bin" / "provenflow"
        pip = (python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        run(*pip, "-c", ROOT / "requirements.lock", wheels[0], cwd=home)
        run(python, "-m", "pip", "check", cwd=home)
        print(run(python, "-c", PROBE, cwd=home), end="")
        help_text = run(command, "--help", cwd=home)
        for word in ("devnet", "evidence"):
            if word not in help_text:
                sys.exit(f"error: 'provenflow --help' does not name the command {word}:\n{help_text}")


if __name__ == "__main__":
    main()
