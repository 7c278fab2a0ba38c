"""Ape plugin: plain ``ape`` commands find the pinned compiler and anvil, and never use stale bytecode.

Ape imports it at start. It changes nothing but the environment of this process and, for a checkout of provenflow, the
moment at which Ape reads its compilation cache; see ``provenflow.build`` for what is wrong with that cache.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ape.exceptions import CompilerError
from ape.managers.project import ContractManager, LocalProject
from ethpm_types import PackageManifest

from provenflow.build import drop_stale_cache, ensure_compiled, is_compiling, last_compilation
from provenflow.errors import ProvenflowError
from provenflow.toolchain import is_checkout, use_pinned_tools

_load_contracts = LocalProject.load_contracts
_get_contract = ContractManager.get

# Where a project object keeps which state of the cache it has read.
_STATE = "_provenflow_state"

# The checkouts that were compiled, when that was needed, for their first contract in this process.
_used: set[Path] = set()


def _manifest(self: LocalProject) -> PackageManifest:
    """The cache as Ape knows it: forgotten when it is stale, read again when another object has compiled since."""
    root = self.path
    if not is_compiling(root):
        state = (root, last_compilation(root))
        if self.__dict__.get(_STATE) != state:
            self.__dict__[_STATE] = state
            if is_checkout(root):
                self._manifest = _fresh_or_empty(self)
    manifest: PackageManifest = self._manifest
    return manifest


def _fresh_or_empty(project: LocalProject) -> PackageManifest:
    try:
        stale = drop_stale_cache(project.path)
    except ProvenflowError:
        # An incomplete set-up must not break commands that compile nothing; compiling reports it.
        stale = True
    return PackageManifest() if stale else project.load_manifest()


def _compile(project: LocalProject, *, force: bool = False) -> None:
    try:
        ensure_compiled(project, force=force)
    except ProvenflowError as error:
        raise CompilerError(str(error)) from error


def _load_fresh_contracts(
    self: LocalProject, *source_ids: Any, use_cache: bool = True, **options: Any
) -> Any:
    """``ape compile``, and everything else that wants all contracts: compiled whole when anything changed."""
    if not is_checkout(self.path):
        return _load_contracts(self, *source_ids, use_cache=use_cache, **options)
    _compile(self, force=not use_cache)
    known = {contract_type.source_id for contract_type in (self.manifest.contract_types or {}).values()}
    if known:
        # A file without a contract, only types, would be compiled anew each time: Ape sees nothing of it in its cache.
        paths = [self.path / source_id for source_id in source_ids or self.sources]
        source_ids = tuple(path for path in paths if path.relative_to(self.path).as_posix() in known)
        if not source_ids:
            return {}
    return _load_contracts(self, *source_ids, **options)


def _get_fresh_contract(self: ContractManager, name: str, *arguments: Any, **options: Any) -> Any:
    """``project.NAME``: at the first use of any in this process, compiled whole when anything changed."""
    root = self.project.path
    if root not in _used and is_checkout(root):
        _compile(self.project)
        _used.add(root)
    return _get_contract(self, name, *arguments, **options)


use_pinned_tools()
LocalProject.manifest = property(_manifest)  # type: ignore[method-assign,assignment]
LocalProject.load_contracts = _load_fresh_contracts  # type: ignore[method-assign]
ContractManager.get = _get_fresh_contract  # type: ignore[method-assign]
