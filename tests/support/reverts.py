"""``reverts_with``: a strict replacement of ``ape.reverts``.

``ape.reverts`` accepts a plain-string revert, and sometimes another custom error, where a custom error is expected; it
ignores misspelt arguments; without arguments it accepts everything. Here the raw revert data must equal, byte for byte,
the encoding of one error with all its arguments.

    with reverts_with(project.IAgentWorkflowErrors.UnknownTask, taskHash=task_hash):
        workflow.onAgentReply(reply, sender=agent)
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ape.exceptions import CustomError, ProviderError, VirtualMachineError
from ape.utils.basemodel import ManagerAccessMixin
from eth_abi import decode, encode
from eth_abi.exceptions import DecodingError, EncodingError
from ethpm_types.abi import ABIType, ErrorABI

from provenflow.hashing import keccak256

_ERROR_STRING = keccak256(b"Error(string)")[:4]
_PANIC = keccak256(b"Panic(uint256)")[:4]


@dataclass
class Revert:
    """What was caught: filled in when the block ends."""

    data: bytes = b""
    exception: VirtualMachineError | None = None


@contextmanager
def reverts_with(error: type[CustomError] | ErrorABI, **arguments: Any) -> Iterator[Revert]:
    """Pass only when the block reverts with exactly this custom error.

    Works for transactions, for ``.call(…)`` and for views.

    Parameters
    ----------
    error:
        An error of a contract, of an interface (``project.IErrors.Name``; errors are compared by selector) or of an
        instance (``workflow.Name``; then the called contract must be that instance).
    arguments:
        Every argument of the error by name. ``bytes`` may be given as 0x text, an address as account or contract; a
        struct is a tuple, an array a list.

    Raises
    ------
    AssertionError
        The block does not revert; reverts in any other way (string, panic, other error, other arguments, without data,
        out of gas); or the arguments given here are not exactly those of the error.
    """
    abi = _abi(error)
    expected = _encode_error(abi, arguments)
    caught = Revert()
    try:
        with _errors_of_calls() as errors_of_calls:
            yield caught
    except VirtualMachineError as exception:
        data = _revert_data(exception, errors_of_calls)
        if data is None:
            raise AssertionError(
                f"expected {abi.signature}, but it failed without revert data: {exception!r}"
            ) from exception
        if data != expected:
            raise AssertionError(_difference(abi, expected, data, exception)) from exception
        _check_address(error, exception)
        caught.data, caught.exception = data, exception
    else:
        raise AssertionError(f"expected {abi.signature}, but nothing reverted")


def error_data(error: type[CustomError] | ErrorABI, **arguments: Any) -> bytes:
    """What a call reverts with that reverts with this error; the parameters are those of :func:`reverts_with`."""
    return _encode_error(_abi(error), arguments)


def _abi(error: type[CustomError] | ErrorABI) -> ErrorABI:
    return error if isinstance(error, ErrorABI) else error.abi  # type: ignore[attr-defined,no-any-return]


def _encode_error(abi: ErrorABI, arguments: dict[str, Any]) -> bytes:
    """The revert data of the error: selector and ABI-encoded arguments."""
    names = [parameter.name for parameter in abi.inputs]
    if not all(names):
        raise AssertionError(f"{abi.signature} has unnamed arguments, which cannot be checked by name")
    if problems := [f"{name} is missing" for name in names if name not in arguments] + [
        f"there is no {name}" for name in arguments if name not in names
    ]:
        raise AssertionError(f"{abi.signature} takes ({', '.join(names)}): {', '.join(problems)}")
    types = [parameter.canonical_type for parameter in abi.inputs]
    values = [_value(parameter, parameter.name, arguments[parameter.name]) for parameter in abi.inputs]
    return keccak256(abi.selector.encode())[:4] + encode(types, values)


def _value(parameter: ABIType, name: str, value: Any, type_name: str | None = None) -> Any:
    """``value`` as eth-abi takes it; what does not fit the type fails the test."""
    type_name = type_name or str(parameter.type)
    if type_name.endswith("]"):
        element = type_name.rpartition("[")[0]
        if not isinstance(value, (list, tuple)):
            raise AssertionError(f"{name} must be a list for {type_name}, not {value!r}")
        return [_value(parameter, f"{name}[{index}]", item, element) for index, item in enumerate(value)]
    if type_name == "tuple":
        components = parameter.components or []
        if not isinstance(value, tuple) or len(value) != len(components):
            raise AssertionError(f"{name} must be a tuple of {len(components)} values, not {value!r}")
        return tuple(
            _value(component, f"{name}.{component.name}", item)
            for component, item in zip(components, value, strict=True)
        )
    if type_name == "address":
        value = getattr(value, "address", value)
    elif type_name.startswith("bytes"):
        if isinstance(value, str) and value.startswith("0x"):
            value = bytes.fromhex(value[2:])
        # eth-abi pads a bytesN that is too short.
        if type_name != "bytes" and (not isinstance(value, bytes) or len(value) != int(type_name[5:])):
            raise AssertionError(f"{name} must be {type_name}, not {value!r}")
    try:
        encode([type_name], [value])
    except EncodingError as error:
        raise AssertionError(f"{name} must be {type_name}, not {value!r}") from error
    return value


@contextmanager
def _errors_of_calls() -> Iterator[dict[str, str]]:
    """Revert data by message of every ``eth_call`` that fails in the block.

    Of a failed call Ape keeps the message alone, and a plain string may read like the message of a custom error.
    """
    rpc = ManagerAccessMixin.provider.web3.provider
    make_request = rpc.make_request
    errors: dict[str, str] = {}

    def recording_request(method: Any, params: Any) -> Any:
        response = make_request(method, params)
        error = response.get("error")
        if method == "eth_call" and isinstance(error, dict):
            errors[error.get("message", "")] = error.get("data", "")
        return response

    rpc.make_request = recording_request
    try:
        yield errors
    finally:
        rpc.make_request = make_request


def _revert_data(exception: VirtualMachineError, errors_of_calls: dict[str, str]) -> bytes | None:
    """The bytes that the EVM gave back; None when the node gave none (out of gas, for instance)."""
    current: BaseException | None = exception
    while current is not None:
        data = getattr(current, "data", None)
        if isinstance(current, ProviderError):
            data = errors_of_calls.get(str(current))
        if isinstance(data, str) and data.startswith("0x"):
            return bytes.fromhex(data[2:])
        # Not base_err: Ape loses it when it enriches an error.
        current = current.__cause__
    return None


def _check_address(error: type[CustomError] | ErrorABI, exception: VirtualMachineError) -> None:
    """An error taken from a contract instance must come from a call of that instance."""
    bound = getattr(error, "contract_address", None)
    if bound is not None and exception.address != bound:
        raise AssertionError(
            f"the expected error is that of {bound}, but the call that reverted went to {exception.address}"
        ) from exception


def _difference(abi: ErrorABI, expected: bytes, data: bytes, exception: VirtualMachineError) -> str:
    """One readable line (for arguments: a line each) on how the revert differs."""
    start = f"expected {abi.signature}, but it reverted with"
    selector, payload = data[:4], data[4:]
    if not data:
        return f"{start}out data"
    if selector == expected[:4]:
        types = [parameter.canonical_type for parameter in abi.inputs]
        try:
            values = zip(abi.inputs, decode(types, expected[4:]), decode(types, payload), strict=True)
        except DecodingError:
            return f"{start} malformed arguments: 0x{payload.hex()}"
        lines = [
            f"  {item.name}: expected {wanted!r}, was {was!r}"
            for item, wanted, was in values
            if wanted != was
        ]
        return "\n".join([f"{start} other arguments:", *(lines or [f"  not canonical: 0x{payload.hex()}"])])
    if selector == _ERROR_STRING:
        return f"{start} a plain string: {exception.message!r}"
    if selector == _PANIC:
        return f"{start} a panic: {exception.message}"
    name = f"{exception!r}" if isinstance(exception, CustomError) else f"an unknown error 0x{data.hex()}"
    return f"{start} {name}"
