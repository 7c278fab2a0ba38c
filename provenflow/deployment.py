"""The one way the suite is deployed: by the tests, by ``provenflow devnet``, and by ``ape run deploy``.

What is deployed, in which order and with which arguments is the table :data:`SUITE`. A :class:`Deployer` only knows how
to send one creation transaction; see :mod:`provenflow.deployers` for the two there are.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Protocol

from eth_utils.address import (
    is_address,
    is_checksum_address,
    is_checksum_formatted_address,
    to_checksum_address,
)

from provenflow import artifacts
from provenflow.artifacts import Artifact, Artifacts
from provenflow.deployment_record import Record, code_hash
from provenflow.errors import Invalid, ProvenflowError, WrongUse
from provenflow.hashing import keccak256
from provenflow.toolchain import checkout_root

# Chain ids of development nodes: anvil and hardhat, ganache and geth --dev.
LOCAL_CHAIN_IDS: Final = frozenset({31337, 1337})

# As a constructor argument: the agent verifier, which a caller may choose.
VERIFIER: Final = "verifier"
_DEFAULT_VERIFIER: Final = "MockAgentVerifier"
# Two agents commit and reveal in ERC-8301's Scenario 4.
_QUORUM: Final = 2


@dataclass(frozen=True)
class Step:
    """One contract of the suite.

    Parameters
    ----------
    contract:
        Its name.
    arguments:
        One for each constructor parameter: a number, or the name of an earlier contract of the suite, whose address is
        meant, or :data:`VERIFIER`.
    """

    contract: str
    arguments: tuple[str | int, ...] = ()


SUITE: Final = (
    Step("MockAgentVerifier"),
    Step("MockProofVerifier"),
    Step("SingleStageWorkflow", (VERIFIER,)),
    Step("InputProvenanceWorkflow", (VERIFIER,)),
    Step("CompetitiveSelectionWorkflow", (VERIFIER,)),
    Step("SequentialPipelineWorkflow", (VERIFIER,)),
    Step("CommitRevealWorkflow", (VERIFIER, _QUORUM)),
    Step("ParallelAuditWorkflow", (VERIFIER,)),
)


@dataclass(frozen=True)
class Deployed:
    """A contract on the chain.

    Parameters
    ----------
    address:
        Where it is, with checksum.
    transaction:
        Hash of the creating transaction, ``0x…``.
    block:
        Number of its block.
    init_code:
        The init code that was sent.
    """

    address: str
    transaction: str
    block: int
    init_code: bytes


class Deployer(Protocol):
    """Sends creation transactions to one chain from one account."""

    @property
    def chain_id(self) -> int:
        """The chain's id."""

    @property
    def network(self) -> str:
        """The network's name, for people."""

    @property
    def local(self) -> bool:
        """Whether the node is known to be a development node on this machine."""

    @property
    def account(self) -> str:
        """Address of the deploying account."""

    def deploy(self, artifact: Artifact, *arguments: str | int) -> Deployed:
        """Deploy one contract and wait until it is mined."""

    def code(self, address: str) -> bytes:
        """Runtime code at `address`; empty when there is none."""

    def nonce(self) -> int:
        """Nonce of the account's next transaction."""


def is_local(deployer: Deployer) -> bool:
    """Whether mocks may be deployed: the backend says the node is local, and the chain id is a development node's.

    Both are asked, because either alone can be wrong: a tunnel can end at a public node, and anyone may run a public
    chain with a development node's id.
    """
    return deployer.local and deployer.chain_id in LOCAL_CHAIN_IDS


def plan(*, local: bool, verifier: str | None = None, only: Collection[str] = ()) -> tuple[Step, ...]:
    """The steps of a deployment, in order.

    Parameters
    ----------
    local:
        Whether the chain is local, so that the mocks are part of the suite.
    verifier:
        Address of an ERC-8274 agent verifier for the workflows; None for the mock, on a local chain only. With a
        verifier the mocks are left out, unless `only` names them.
    only:
        Names of the contracts wanted, with what they need; empty for the whole suite.

    Raises
    ------
    WrongUse
        The verifier is no address or is missing, or a name is not in the suite.
    """
    if verifier is not None:
        verifier = checked_address(verifier, "The verifier")
    in_suite = {step.contract: step for step in SUITE}
    if unknown := sorted(set(only) - in_suite.keys()):
        raise WrongUse(
            f"The suite has no {', '.join(unknown)}.",
            fix=f"It has {', '.join(step.contract for step in SUITE)}.",
        )
    wanted = set(only) or {
        name for name in in_suite if (local and verifier is None) or not artifacts.load(name).is_mock
    }
    needed = {
        argument for name in wanted for argument in in_suite[name].arguments if isinstance(argument, str)
    }
    if VERIFIER in needed:
        if verifier is None and not local:
            raise WrongUse(
                "A workflow on a network that is not local needs a real verifier.",
                fix="Give the address of an ERC-8274 agent verifier with --verifier.",
            )
        if verifier is None:
            wanted.add(_DEFAULT_VERIFIER)
    wanted |= needed - {VERIFIER}
    return tuple(step for step in SUITE if step.contract in wanted)


def deploy(
    deployer: Deployer,
    steps: Collection[Step],
    *,
    verifier: str | None = None,
    records: Path | None = None,
    force: bool = False,
    progress: Callable[[str, Deployed], None] | None = None,
) -> dict[str, Deployed]:
    """Deploy `steps` in order; what can be refused is refused before the first transaction.

    Parameters
    ----------
    deployer:
        Sends the transactions.
    steps:
        From :func:`plan`.
    verifier:
        Address for :data:`VERIFIER`; None for the mock deployed by an earlier step.
    records:
        Folder for the record; None writes none.
    force:
        Replace what is recorded for a chain that is not local.
    progress:
        Called after each contract.

    Returns
    -------
    dict
        The deployed contracts by name, in order.

    Raises
    ------
    WrongUse
        A mock is meant for a chain that is not local, the verifier has no code or is a mock there, a recorded contract
        would be replaced without `force`, or the compiled contracts are missing or stale.
    Invalid
        The chain has other code than was meant. What was deployed stays in the partial record.
    Unreachable
        The node did not answer. Likewise.
    """
    compiled = artifacts.load_all()
    local = is_local(deployer)
    check(deployer, steps, compiled, verifier)
    record = None
    if records is not None:
        record = Record(records, deployer.chain_id, deployer.network)
        record.begin([step.contract for step in steps], deployer.code, local=local, force=force)

    done: dict[str, Deployed] = {}
    addresses: dict[str, str] = {} if verifier is None else {VERIFIER: to_checksum_address(verifier)}
    commit = _commit()
    try:
        for step in steps:
            artifact = compiled.contracts[step.contract]
            arguments = [addresses[item] if isinstance(item, str) else item for item in step.arguments]
            if record is not None:
                record.sending(_announcement(deployer, artifact, arguments))
            deployed = deployer.deploy(artifact, *arguments)
            done[step.contract] = deployed
            addresses[step.contract] = deployed.address
            if step.contract == _DEFAULT_VERIFIER:
                addresses.setdefault(VERIFIER, deployed.address)
            runtime = deployer.code(deployed.address)
            if record is not None:
                record.add(
                    step.contract,
                    _entry(deployer, artifact, arguments, deployed, runtime, compiled, commit),
                )
            if not runtime:
                raise Invalid(f"There is no code at {deployed.address}, where {step.contract} was deployed.")
            if deployed.init_code != artifact.init_code(*arguments):
                raise Invalid(
                    f"{step.contract} was deployed with other code than the compiled contracts have.",
                    fix="Run 'make compile' and deploy again.",
                )
            if progress is not None:
                progress(step.contract, deployed)
        if record is not None:
            record.finish()
    except ProvenflowError as trouble:
        if record is not None and record.partial_path.exists():
            there = ", ".join(f"{name} at {deployed.address}" for name, deployed in done.items())
            trouble.message += f" Deployed so far: {there or 'nothing'}; it is kept in {record.partial_path}."
        raise
    return done


def check(deployer: Deployer, steps: Collection[Step], compiled: Artifacts, verifier: str | None) -> None:
    """Refuse a deployment that must not be, before anything is sent. Raises as :func:`deploy`."""
    mocks = [step.contract for step in steps if compiled.contracts[step.contract].is_mock]
    if mocks and not is_local(deployer):
        raise WrongUse(
            f"Mocks accept what anyone can make, and chain {deployer.chain_id} is not local: {', '.join(mocks)}.",
            fix="Deploy them to a local chain only.",
        )
    if verifier is None:
        return
    address = checked_address(verifier, "The verifier")
    code = deployer.code(address)
    if not code:
        raise WrongUse(
            f"The verifier {address} has no code on chain {deployer.chain_id}.", fix="Is it on another chain?"
        )
    if not is_local(deployer):
        for artifact in compiled.contracts.values():
            if artifact.is_mock and code.hex() == artifact.deployed_bytecode.removeprefix("0x"):
                raise WrongUse(
                    f"The verifier {address} is {artifact.name}, which accepts proofs that anyone can make.",
                    fix="Give the address of a real verifier.",
                )


def checked_address(text: str, what: str) -> str:
    """`text` as an address with checksum.

    Raises
    ------
    WrongUse
        It is no address, its checksum is wrong, or it is the zero address.
    """
    if not text.startswith("0x") or not is_address(text) or int(text, 16) == 0:
        raise WrongUse(f"{what} must be a non-zero address of 0x and 40 hex digits, not {text[:80]!r}.")
    if is_checksum_formatted_address(text) and not is_checksum_address(text):
        raise WrongUse(f"{what} {text} has a wrong checksum.", fix="Is a digit mistyped?")
    return str(to_checksum_address(text))


def describe(step: Step, verifier: str | None) -> str:
    """A step as it would be written in Solidity, for people."""
    given = [(verifier or _DEFAULT_VERIFIER) if item == VERIFIER else str(item) for item in step.arguments]
    return f"{step.contract}({', '.join(given)})"


def create_address(account: str, nonce: int) -> str:
    """Address of the contract that `account` creates with its transaction number `nonce`.

    The last 20 bytes of ``keccak256(rlp([account, nonce]))`` (Yellow Paper, section 7).
    """
    number = nonce.to_bytes((nonce.bit_length() + 7) // 8, "big")
    if len(number) != 1 or number[0] >= 0x80:  # a byte below 0x80 is its own RLP
        number = bytes([0x80 + len(number)]) + number
    payload = b"\x94" + bytes.fromhex(account.removeprefix("0x")) + number
    return str(to_checksum_address(keccak256(bytes([0xC0 + len(payload)]) + payload)[12:]))


def _announcement(deployer: Deployer, artifact: Artifact, arguments: list[str | int]) -> dict[str, object]:
    nonce = deployer.nonce()
    return {
        "name": artifact.name,
        "address": create_address(deployer.account, nonce),
        "initCodeHash": code_hash(artifact.init_code(*arguments)),
        "deployer": deployer.account,
        "nonce": nonce,
        "time": _now(),
    }


def _entry(
    deployer: Deployer,
    artifact: Artifact,
    arguments: list[str | int],
    deployed: Deployed,
    runtime: bytes,
    compiled: Artifacts,
    commit: Mapping[str, object] | None,
) -> dict[str, object]:
    return {
        "address": deployed.address,
        "arguments": [
            {"name": declared["name"], "type": declared["type"], "value": value}
            for declared, value in zip(artifact.constructor_inputs, arguments, strict=True)
        ],
        "transaction": deployed.transaction,
        "block": deployed.block,
        "initCodeHash": code_hash(deployed.init_code),
        "runtimeCodeHash": code_hash(runtime),
        "compiler": dict(compiled.compiler),
        "inputs": compiled.inputs,
        "source": artifact.source_id,
        "git": commit,
        "deployer": deployer.account,
        "time": _now(),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _commit() -> dict[str, object] | None:
    """The checkout's commit and whether files differ from it; None outside a git checkout."""
    root = checkout_root()
    if root is None:
        return None

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(root), *words], check=True, capture_output=True, text=True, timeout=20
        ).stdout.strip()

    try:
        return {"commit": git("rev-parse", "HEAD"), "modified": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return None


__all__ = [
    "LOCAL_CHAIN_IDS",
    "SUITE",
    "VERIFIER",
    "Deployed",
    "Deployer",
    "Step",
    "check",
    "checked_address",
    "create_address",
    "deploy",
    "describe",
    "is_local",
    "plan",
]
