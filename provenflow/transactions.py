"""Sending transactions from accounts that the node itself holds, as a development node does.

Accounts with keys elsewhere belong to Ape (``ape run deploy``). What comes back is checked: a transaction counts only
when its receipt says that it succeeded, and a refusal of the contract is told with the name and values of its error.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from eth_abi.abi import decode
from eth_abi.exceptions import DecodingError
from eth_utils.abi import collapse_if_tuple

from provenflow.errors import Invalid, Unreachable
from provenflow.hashing import keccak256
from provenflow.rpc import Rpc, RpcError, hex_bytes, quantity

# Built into Solidity: revert("…") and failed assertions, overflows, divisions by zero.
_BUILT_IN: tuple[Mapping[str, Any], ...] = (
    {"type": "error", "name": "Error", "inputs": [{"name": "message", "type": "string"}]},
    {"type": "error", "name": "Panic", "inputs": [{"name": "code", "type": "uint256"}]},
)


@dataclass(frozen=True)
class Receipt:
    """A mined, successful transaction.

    Parameters
    ----------
    transaction:
        Its hash, ``0x…``.
    block:
        Number of its block.
    contract:
        Address of the contract that it created, as the node spells it, or None.
    logs:
        Its logs, as the node gave them.
    """

    transaction: str
    block: int
    contract: str | None
    logs: list[Any]


class Refused(Invalid):
    """A contract refused a transaction or a call.

    Parameters
    ----------
    what:
        What was tried, for the sentence.
    reason:
        The contract's error with its values, or why there is none.
    """

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(f"The contract refused {what}: {reason}.")
        self.reason = reason


def send(
    rpc: Rpc,
    sender: str,
    *,
    what: str,
    data: bytes,
    to: str | None = None,
    errors: Iterable[Mapping[str, Any]] = (),
    timeout: float = 120.0,
) -> Receipt:
    """Send a transaction from an unlocked account and wait until it is mined.

    Parameters
    ----------
    rpc:
        A node that holds the sender's key.
    sender:
        Address of the account.
    what:
        Names the transaction in errors, for instance ``"run()"``.
    data:
        Calldata, or init code when `to` is None.
    to:
        The contract called; None creates one.
    errors:
        ABI entries with the contract's custom errors, to name a refusal.
    timeout:
        Seconds to wait for the block.

    Raises
    ------
    Refused
        The transaction reverted.
    Unreachable
        The node did not answer, or the transaction was not mined in time; then the sentence has its hash.
    """
    transaction = {"from": sender, "data": "0x" + data.hex()}
    if to is not None:
        transaction["to"] = to
    try:
        identifier = rpc.call("eth_sendTransaction", transaction)
    except RpcError as trouble:
        raise _refusal(trouble, what, errors) from None
    sent = "0x" + hex_bytes(identifier, "the hash of a sent transaction", 32).hex()
    receipt = _wait(rpc, sent, what, timeout)
    if quantity(receipt.get("status"), "the status of a receipt") != 1:
        raise Refused(what, _why_mined_and_failed(rpc, transaction, receipt, errors))
    created = receipt.get("contractAddress")
    logs = receipt.get("logs")
    return Receipt(
        transaction=sent,
        block=quantity(receipt.get("blockNumber"), "the block number of a receipt"),
        contract=created if isinstance(created, str) else None,
        logs=logs if isinstance(logs, list) else [],
    )


def call(rpc: Rpc, to: str, data: bytes, *, what: str, errors: Iterable[Mapping[str, Any]] = ()) -> bytes:
    """What a view returns, at the latest block.

    Raises
    ------
    Refused
        The call reverted.
    Unreachable
        The node did not answer.
    """
    try:
        answer = rpc.call("eth_call", {"to": to, "data": "0x" + data.hex()}, "latest")
    except RpcError as trouble:
        raise _refusal(trouble, what, errors) from None
    return hex_bytes(answer, f"the answer of {what}")


def explain_revert(data: bytes, errors: Iterable[Mapping[str, Any]] = ()) -> str:
    """Revert data as ``Name(argument=value, …)``, or what can be said about it when no ABI entry fits.

    Parameters
    ----------
    data:
        What the contract returned with the revert.
    errors:
        ABI entries; those that are no errors are ignored.
    """
    if not data:
        return "it reverted without a reason"
    for entry in (*errors, *_BUILT_IN):
        if entry.get("type") != "error":
            continue
        types = [collapse_if_tuple(dict(parameter)) for parameter in entry["inputs"]]
        if data[:4] != keccak256(f"{entry['name']}({','.join(types)})".encode())[:4]:
            continue
        try:
            values = decode(types, data[4:])
        except (DecodingError, OverflowError):
            continue
        named = zip((parameter["name"] for parameter in entry["inputs"]), values, strict=True)
        return f"{entry['name']}({', '.join(f'{name}={_shown(value)}' for name, value in named)})"
    return f"an error that is not in its ABI (0x{data[:36].hex()}{'…' if len(data) > 36 else ''})"


def _wait(rpc: Rpc, identifier: str, what: str, timeout: float) -> Mapping[str, Any]:
    deadline = time.monotonic() + timeout
    pause = 0.002
    while True:
        receipt = rpc.call("eth_getTransactionReceipt", identifier)
        if isinstance(receipt, dict):
            return receipt
        if time.monotonic() > deadline:
            raise Unreachable(
                f"{what} was sent ({identifier}) but not mined within {timeout:g} s.",
                fix="Look the transaction up before sending it again.",
            )
        time.sleep(pause)
        pause = min(pause * 2, 0.25)


def _refusal(trouble: RpcError, what: str, errors: Iterable[Mapping[str, Any]]) -> Exception:
    if not trouble.is_revert:
        return trouble
    try:
        data = hex_bytes(trouble.data, "revert data")
    except Unreachable:
        return Refused(what, trouble.text)
    return Refused(what, explain_revert(data, errors))


def _why_mined_and_failed(
    rpc: Rpc, transaction: Mapping[str, str], receipt: Mapping[str, Any], errors: Iterable[Mapping[str, Any]]
) -> str:
    """A receipt has no revert data, so the transaction is tried once more as a call on the block before."""
    before = quantity(receipt.get("blockNumber"), "the block number of a receipt") - 1
    try:
        rpc.call("eth_call", dict(transaction), hex(before))
    except RpcError as trouble:
        refusal = _refusal(trouble, "", errors)
        if isinstance(refusal, Refused):
            return refusal.reason
    return "it reverted when it was mined"


def _shown(value: object) -> str:
    return f"0x{value.hex()}" if isinstance(value, bytes) else str(value)
