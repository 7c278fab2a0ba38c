"""Compiling without stale bytecode, and exporting the ABIs and bytecode that the package carries.

Ape recompiles only the file whose own text changed: after a change in an imported base, in a library, or in the
compiler settings, and after a deletion, its cache keeps old bytecode. Here every input is hashed instead. A cache made
from other inputs is thrown away, and what is exported always comes from one compilation of the whole project.

``python -m provenflow.build`` compiles when something changed; with the project's Ape plugin, so does plain
``ape compile``. Ape is imported only when there is something to compile.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from provenflow.errors import Invalid, ProvenflowError, WrongUse
from provenflow.files import write_json
from provenflow.toolchain import SOLC_VERSION, checkout_root, use_pinned_tools

if TYPE_CHECKING:
    from ape.managers.project import LocalProject

FORMAT: Final = "provenflow-artifacts/1"
ARTIFACTS: Final = Path("provenflow", "_artifacts", "contracts.json")

# Ape's cache, and beside it the record of the last whole compilation: the hash of its inputs and of the cache it left.
# A cache that Ape has written to since is not the record's any more, whatever it holds.
_CACHE: Final = Path(".build", "__local__.json")
_RECORD: Final = Path(".build", "provenflow-record")
_LOCK: Final = Path(".build", "provenflow-lock")

# What turns sources into a compiler input is Ape's; another version may do it otherwise.
_COMPILING_PACKAGES: Final = ("ape-solidity", "eth-ape", "py-solc-x")
_IMPORTED_PACKAGE: Final = re.compile(r"=\s*node_modules/((?:@[\w.-]+/)?[\w.-]+)")
_CONTRACT: Final = re.compile(r"^\s*(abstract\s+)?(contract|interface|library)\s+\w+\s*(is\b|\{)", re.M)

# The checkouts that this process compiles just now.
_in_progress: Final[set[Path]] = set()


class BuildError(Invalid):
    """The contracts do not compile, compile with warnings, or changed while they were compiled."""


def inputs_hash(root: Path) -> str:
    """The hash of everything that decides the bytecode.

    The sources under ``contracts/``, ``ape-config.yaml``, the locked versions of the compiler, of the imported Solidity
    libraries and of the Python packages that drive the compiler, and the compiler wrapper.

    Parameters
    ----------
    root:
        The checkout.

    Returns
    -------
    str
        SHA-256 as 64 hex digits.

    Raises
    ------
    WrongUse
        An input is missing, or ``node_modules`` holds another version than the lock.
    """
    digest = hashlib.sha256()

    def add(name: str, content: bytes) -> None:
        # Lengths keep the parts apart: no two different sets of inputs give the same stream.
        digest.update(f"{len(name)}:{name}:{len(content)}:".encode())
        digest.update(content)

    config = _read(root / "ape-config.yaml")
    add("ape-config.yaml", config)
    add("compiler wrapper", _read(root / "tools" / "solc" / f"solc-v{SOLC_VERSION}"))
    packages = json.loads(_read(root / "package-lock.json"))["packages"]
    for package in sorted({"solc", *_IMPORTED_PACKAGE.findall(config.decode())}):
        add(f"npm {package}", json.dumps(_locked(root, packages, package)).encode())
    for line in _read(root / "requirements.lock").decode().splitlines():
        if line.split("==")[0] in _COMPILING_PACKAGES:
            add("python", line.encode())
    for source in sorted((root / "contracts").rglob("*.sol")):
        add(source.relative_to(root).as_posix(), source.read_bytes())
    return digest.hexdigest()


def artifacts_are_fresh(root: Path) -> bool:
    """Whether the exported artifacts exist, are readable, and come from the inputs as they are now.

    Parameters
    ----------
    root:
        The checkout.

    Raises
    ------
    WrongUse
        As in :func:`inputs_hash`.
    """
    try:
        document = json.loads((root / ARTIFACTS).read_bytes())
    except (OSError, ValueError):
        return False
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        return False
    return bool(document.get("inputs") == inputs_hash(root))


def cache_is_fresh(root: Path) -> bool:
    """Whether Ape's cache is what a whole compilation of the present inputs left.

    Parameters
    ----------
    root:
        The checkout.

    Raises
    ------
    WrongUse
        As in :func:`inputs_hash`.
    """
    inputs = inputs_hash(root)
    try:
        return bool(json.loads((root / _RECORD).read_bytes()) == _record(root, inputs))
    except (OSError, ValueError):
        return False


def last_compilation(root: Path) -> object:
    """Something that differs after each whole compilation: whoever has read the cache before must read it again.

    Parameters
    ----------
    root:
        The checkout.
    """
    try:
        return (root / _RECORD).stat().st_mtime_ns
    except OSError:
        return None


def is_compiling(root: Path) -> bool:
    """Whether this process is just compiling the checkout ``root``: the cache is in the making."""
    return root in _in_progress


def drop_stale_cache(root: Path) -> bool:
    """Throw Ape's cache away unless it is fresh, and the exported artifacts unless they are.

    Parameters
    ----------
    root:
        The checkout.

    Returns
    -------
    bool
        True when the cache was not fresh: an Ape project that has read it already must forget it too.

    Raises
    ------
    WrongUse
        As in :func:`inputs_hash`.
    """
    if cache_is_fresh(root):
        return False
    with _only_one(root, wait=False) as alone:
        # When another process compiles, the files are its business.
        if alone:
            (root / _CACHE).unlink(missing_ok=True)
            if not artifacts_are_fresh(root):
                (root / ARTIFACTS).unlink(missing_ok=True)
    return True


def ensure_compiled(project: LocalProject | None = None, *, force: bool = False) -> bool:
    """Compile the whole project unless the exported artifacts and Ape's cache are both fresh.

    Processes that call this at the same time wait for each other. When it fails, nothing is left that counts as fresh.

    Parameters
    ----------
    project:
        The Ape project; default the checkout that this package is imported from.
    force:
        Compile in any case.

    Returns
    -------
    bool
        True when it compiled.

    Raises
    ------
    BuildError
        The compiler reports an error, or a warning in one of the project's own sources, or a source changed meanwhile.
    WrongUse
        There is no checkout, or its set-up is incomplete.
    """
    root = project.path if project is not None else checkout_root()
    if root is None:
        raise WrongUse("There are no sources to compile here.", fix="Run it in a checkout of provenflow.")
    if is_compiling(root):
        # Compiling loads the project's contracts, and the Ape plugin calls this whenever they are loaded.
        return False
    with _only_one(root):
        if not force and artifacts_are_fresh(root) and cache_is_fresh(root):
            return False
        use_pinned_tools()
        if project is None:
            from ape import Project

            project = Project(root)
        _in_progress.add(root)
        try:
            _compile_whole(project)
        finally:
            _in_progress.discard(root)
    return True


def main() -> None:
    """``python -m provenflow.build``: compile when needed, and say in a line what happened."""
    try:
        compiled = ensure_compiled()
    except ProvenflowError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    print(f"{'compiled' if compiled else 'up to date'}: {ARTIFACTS}")


def _compile_whole(project: LocalProject) -> None:
    from ape.exceptions import ApeException

    root = project.path
    inputs = inputs_hash(root)
    (root / ARTIFACTS).unlink(missing_ok=True)
    (root / _RECORD).unlink(missing_ok=True)
    project.clean()  # type: ignore[no-untyped-call]
    project.refresh_sources()  # type: ignore[no-untyped-call]
    with _own_warnings() as warnings:
        try:
            contracts = project.load_contracts()
        except ApeException as error:
            raise BuildError(f"The contracts do not compile:\n{error}") from error
    if warnings:
        raise BuildError(
            "The compiler warns about the project's own sources:\n" + "\n".join(sorted(warnings))
        )
    if inputs_hash(root) != inputs:
        raise BuildError("A source or a setting changed while it was compiled.", fix="Compile again.")
    compiled = {container.contract_type.source_id for container in contracts.values()}
    missing = [name for name in project.sources if name not in compiled and _defines_contract(root / name)]
    if missing:
        raise BuildError(
            f"Nothing was compiled from {', '.join(sorted(missing))}.",
            fix="Does another source define a contract of the same name?",
        )
    settings = project.config.solidity
    document = {
        "format": FORMAT,
        "inputs": inputs,
        "compiler": {
            "solc": settings.version,
            "evmVersion": settings.evm_version,
            "optimizerRuns": settings.optimization_runs if settings.optimize else 0,
        },
        "contracts": {name: _artifact(container.contract_type) for name, container in contracts.items()},
    }
    (root / ARTIFACTS).parent.mkdir(parents=True, exist_ok=True)
    write_json(root / ARTIFACTS, _sorted(document))
    write_json(root / _RECORD, _record(root, inputs))


def _artifact(contract_type: Any) -> dict[str, object]:
    source_id = Path(contract_type.source_id).as_posix()
    return {
        "abi": [
            entry.model_dump(mode="json", by_alias=True, exclude_none=True) for entry in contract_type.abi
        ],
        "bytecode": _bytecode(contract_type.deployment_bytecode),
        "deployedBytecode": _bytecode(contract_type.runtime_bytecode),
        "sourceId": source_id,
        "mock": source_id.startswith("contracts/mocks/"),
    }


def _bytecode(part: Any) -> str:
    code = str(part.bytecode) if part is not None and part.bytecode else ""
    return "" if code in ("", "0x") else code


@contextmanager
def _own_warnings() -> Iterator[list[str]]:
    """Collect the compiler's warnings about the project's own sources, which ape-solidity drops."""
    compiler: Any = import_module("ape_solidity.compiler")
    original = compiler.compile_standard
    found: list[str] = []

    def compile_standard(*args: Any, **kwargs: Any) -> Any:
        output = original(*args, **kwargs)
        for problem in output.get("errors", []):
            source = (problem.get("sourceLocation") or {}).get("file", "")
            if source.startswith("contracts/"):
                found.append(problem["formattedMessage"].strip())
        return output

    compiler.compile_standard = compile_standard
    try:
        yield found
    finally:
        compiler.compile_standard = original


@contextmanager
def _only_one(root: Path, *, wait: bool = True) -> Iterator[bool]:
    """Hold the checkout's build lock; without waiting, yield whether it was free."""
    lock = root / _LOCK
    lock.parent.mkdir(exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True


def _locked(root: Path, packages: dict[str, Any], package: str) -> dict[str, str]:
    entry = packages.get(f"node_modules/{package}")
    if entry is None:
        raise WrongUse(
            f"package-lock.json does not name {package}.", fix=f"Run 'npm install --save-dev {package}'."
        )
    manifest = root / "node_modules" / package / "package.json"
    installed = json.loads(manifest.read_bytes())["version"] if manifest.is_file() else "nothing"
    if installed != entry["version"]:
        raise WrongUse(
            f"package-lock.json wants {package} {entry['version']}, but node_modules has {installed}.",
            fix="Run 'make setup'.",
        )
    return {"version": entry["version"], "integrity": entry.get("integrity", "")}


def _record(root: Path, inputs: str) -> dict[str, str]:
    """What the record says when Ape's cache, as it is now, was left by a compilation of ``inputs``."""
    return {"inputs": inputs, "cache": hashlib.sha256((root / _CACHE).read_bytes()).hexdigest()}


def _sorted(document: object) -> object:
    return json.loads(json.dumps(document, sort_keys=True))


def _defines_contract(source: Path) -> bool:
    """Whether the file declares a contract: a file with only structs, enums or free functions compiles to nothing."""
    return _CONTRACT.search(source.read_text(encoding="utf-8")) is not None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WrongUse(
            f"{path} cannot be read: {error.strerror}.", fix="Is the checkout complete?"
        ) from error


if __name__ == "__main__":
    # Run with -m this file is a module of its own, and the Ape plugin imports it a second time: that one must be the
    # one that knows what is being compiled.
    import_module("provenflow.build").main()
