"""The record of what was deployed where: ``deployments/<chain id>.json``.

While a deployment runs, what is already on the chain, and what is just being sent, stands in
``<chain id>.partial.json``. The record itself is written, by atomic rename, only when everything is deployed. So a
record is always complete, and nothing that was deployed is forgotten when the rest fails.

An entry is never lost. On a public network a second deployment of a recorded contract, or one after a deployment that
stopped half-way, needs ``force``; the earlier entry then moves to ``replaced``. A local chain ends with its process, so
there an entry is dropped as soon as the chain no longer has its code.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, Final

from provenflow.errors import Invalid, WrongUse
from provenflow.files import write_json
from provenflow.hashing import keccak256

FORMAT: Final = "provenflow-deployment/1"
PARTIAL_FORMAT: Final = "provenflow-partial-deployment/1"

Entry = Mapping[str, Any]

_FORCE_FIX: Final = "--force deploys again and keeps the earlier entries under 'replaced'."


class Record:
    """The record of one chain.

    Parameters
    ----------
    folder:
        Where records live; made when missing.
    chain_id:
        The chain.
    network:
        Its name, for people.
    """

    def __init__(self, folder: Path, chain_id: int, network: str) -> None:
        self.path = folder / f"{chain_id}.json"
        self.partial_path = folder / f"{chain_id}.partial.json"
        self._chain_id = chain_id
        self._network = network
        self._contracts: dict[str, Entry] = {}
        self._replaced: list[Entry] = []
        self._added: dict[str, Entry] = {}

    def begin(
        self, names: Collection[str], code: Callable[[str], bytes], *, local: bool, force: bool
    ) -> None:
        """Read what is recorded and check that `names` may be deployed; nothing is written.

        Parameters
        ----------
        names:
            The contracts about to be deployed.
        code:
            The chain's runtime code at an address.
        local:
            The chain is local: entries without their code on it are dropped, and the others may be replaced.
        force:
            Deploy although there is an earlier entry; it moves to ``replaced``.

        Raises
        ------
        WrongUse
            On a public chain, without `force`: one of `names` is recorded, or an earlier deployment stopped half-way.
        Invalid
            A record that is there is not of this format or of this chain.
        """
        recorded = self._read(self.path, FORMAT)
        leftover = self._read(self.partial_path, PARTIAL_FORMAT)
        contracts: dict[str, Entry] = dict(recorded.get("contracts", {}))
        unfinished: list[Entry] = [
            {"name": name, **entry} for name, entry in leftover.get("contracts", {}).items()
        ]
        sending = leftover.get("sending")
        # What was being sent when everything stopped may or may not have arrived.
        if sending is not None and code(sending["address"]):
            unfinished.append(sending)
        replaced = [*recorded.get("replaced", ())]
        replaced += [entry for entry in leftover.get("replaced", ()) if entry not in replaced]
        if local:

            def is_live(entry: Entry) -> bool:
                runtime = code(entry["address"])
                return bool(runtime) and entry.get("runtimeCodeHash") == code_hash(runtime)

            contracts = {name: entry for name, entry in contracts.items() if is_live(entry)}
            unfinished = [entry for entry in unfinished if is_live(entry)]
            replaced = [entry for entry in replaced if is_live(entry)]

        again = sorted(set(names) & contracts.keys())
        if unfinished and not local and not force:
            there = ", ".join(f"{entry['name']} at {entry['address']}" for entry in unfinished)
            raise WrongUse(
                f"An earlier deployment stopped half-way; {self.partial_path} has {there}.", fix=_FORCE_FIX
            )
        if again and not local and not force:
            there = ", ".join(f"{name} at {contracts[name]['address']}" for name in again)
            raise WrongUse(f"{self.path} already has {there}.", fix=_FORCE_FIX)
        replaced += unfinished
        replaced += [{"name": name, **contracts.pop(name)} for name in again]
        self._contracts = contracts
        self._replaced = replaced

    def sending(self, entry: Entry) -> None:
        """Write down, before it is sent, which contract will stand at which address (``name`` and ``address``)."""
        self._write_partial(entry)

    def add(self, name: str, entry: Entry) -> None:
        """Write down a contract that is now on the chain, in the partial record."""
        self._added[name] = entry
        self._write_partial(None)

    def finish(self) -> None:
        """Write the record and remove the partial one."""
        self._make_folder()
        write_json(self.path, self._document(FORMAT, {**self._contracts, **self._added}))
        self.partial_path.unlink(missing_ok=True)

    def _write_partial(self, sending: Entry | None) -> None:
        self._make_folder()
        write_json(self.partial_path, {**self._document(PARTIAL_FORMAT, self._added), "sending": sending})

    def _document(self, form: str, contracts: Mapping[str, Entry]) -> dict[str, object]:
        return {
            "format": form,
            "chainId": self._chain_id,
            "network": self._network,
            "contracts": dict(contracts),
            "replaced": self._replaced,
        }

    def _make_folder(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as trouble:
            raise WrongUse(f"{self.path.parent} cannot be made: {trouble.strerror}.") from None

    def _read(self, path: Path, form: str) -> Mapping[str, Any]:
        if not path.exists():
            return {}
        problem = Invalid(
            f"{path} is not a deployment record of chain {self._chain_id}.", fix="Move it away or mend it."
        )
        try:
            document = json.loads(path.read_bytes())
            entries = [*document["contracts"].values(), *document["replaced"]]
            if document.get("sending") is not None:
                entries.append(document["sending"])
            whole = all(isinstance(entry["address"], str) for entry in entries)
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            raise problem from None
        if not whole or document.get("format") != form or document.get("chainId") != self._chain_id:
            raise problem
        return dict(document)


def code_hash(code: bytes) -> str:
    """keccak256 of init code or runtime code, ``0x…``, as records have it."""
    return "0x" + keccak256(code).hex()
