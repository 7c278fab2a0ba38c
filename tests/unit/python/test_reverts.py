"""``reverts_with`` passes for exactly one error with exactly its arguments, and fails for everything else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from ape.exceptions import DecodingError, VirtualMachineError

from tests.support.reverts import error_data, reverts_with

# Enough for every function of the mock, and little enough to burn quickly.
GAS = 200_000
WORD = b"\x01" * 32
POINT = (5, b"\x02" * 32)
ALL_KINDS = {
    "flag": True,
    "number": -3,
    "word": WORD,
    "data": b"abc",
    "text": "hey",
    "point": POINT,
    "words": [WORD, bytes(32)],
}

Send = Callable[..., Any]


@pytest.fixture(scope="module")
def mock(deployer: Any, project: Any) -> Any:
    return deployer.deploy(project.RevertingMock)


@pytest.fixture(scope="module")
def other_mock(deployer: Any, project: Any) -> Any:
    return deployer.deploy(project.RevertingMock)


@pytest.fixture
def errors(project: Any) -> Any:
    return project.IRevertingMockErrors


@pytest.fixture(params=["transaction", "transaction with gas limit", "call"])
def send(request: pytest.FixtureRequest, mock: Any, stranger: Any) -> Send:
    """Calls a function of the mock in each way a test may."""

    def send(function: str, *arguments: Any) -> Any:
        method = getattr(mock, function)
        if request.param == "call":
            return method.call(*arguments, sender=stranger)
        # Without a limit of its own a transaction has that of the block: too much to burn and to trace.
        limited = request.param == "transaction with gas limit" or function == "burnAllGas"
        options = {"gas": GAS} if limited else {}
        return method(*arguments, sender=stranger, **options)

    return send


def test_reverts_with__error_without_arguments__passes(send: Send, errors: Any) -> None:
    with reverts_with(errors.NoArguments) as revert:
        send("revertNoArguments")

    assert revert.data.hex() == "6b835654"


def test_reverts_with__all_arguments_right__passes(send: Send, errors: Any, agent: Any) -> None:
    with reverts_with(errors.Arguments, id=7, who=agent):
        send("revertArguments", 7, agent)


def test_reverts_with__every_kind_of_argument__passes(send: Send, errors: Any) -> None:
    with reverts_with(errors.AllKinds, **ALL_KINDS):
        send("revertAllKinds", *ALL_KINDS.values())


@pytest.mark.parametrize("changed", ALL_KINDS)
def test_reverts_with__one_argument_of_any_kind_wrong__fails(mock: Any, errors: Any, changed: str) -> None:
    others = {
        "flag": False,
        "number": -4,
        "word": bytes(32),
        "data": b"abd",
        "text": "hex",
        "point": (5, WORD),
        "words": [bytes(32), WORD],
    }
    with (
        pytest.raises(AssertionError, match=f"other arguments:\n  {changed}: expected"),
        reverts_with(errors.AllKinds, **{**ALL_KINDS, changed: others[changed]}),
    ):
        mock.revertAllKinds.call(*ALL_KINDS.values())


def test_reverts_with__error_of_the_contract_or_its_abi__passes(mock: Any, project: Any, agent: Any) -> None:
    for error in (mock.Arguments, project.RevertingMock.Arguments, mock.Arguments.abi):
        with reverts_with(error, id=7, who=agent):
            mock.revertArguments.call(7, agent)


def test_reverts_with__address_given_as_text__passes(mock: Any, errors: Any, agent: Any) -> None:
    with reverts_with(errors.Arguments, id=7, who=agent.address):
        mock.revertArguments.call(7, agent)


def test_reverts_with__bytes_given_as_hex_text__passes(mock: Any, errors: Any) -> None:
    with reverts_with(errors.AllKinds, **{**ALL_KINDS, "word": "0x" + WORD.hex(), "data": "0x616263"}):
        mock.revertAllKinds.call(*ALL_KINDS.values())


def test_reverts_with__caught_exception__is_given_back(mock: Any, errors: Any, agent: Any) -> None:
    with reverts_with(errors.Arguments, id=7, who=agent) as revert:
        mock.revertArguments.call(7, agent)

    assert revert.exception is not None
    assert revert.exception.address == mock.address


@pytest.mark.parametrize(
    ("function", "arguments", "said"),
    [
        pytest.param("succeed", (), "nothing reverted", id="no revert"),
        pytest.param("revertArguments", (8, "agent"), "id: expected 7, was 8", id="other number"),
        pytest.param("revertArguments", (7, "stranger"), "who: expected", id="other address"),
        pytest.param(
            "revertSameArguments",
            (7, "agent"),
            r"SameArguments\(|unknown error 0x",
            id="error with same arguments",
        ),
        pytest.param("revertNoArguments", (), r"NoArguments\(\)|unknown error 0x6b835654", id="other error"),
        pytest.param("revertString", ("Arguments",), "a plain string: 'Arguments'", id="string"),
        pytest.param("revertString", ("",), "a plain string", id="empty string"),
        pytest.param("revertPanic", (), "a panic", id="panic"),
        pytest.param("revertEmpty", (), "reverted without data", id="empty"),
        pytest.param("revertRaw", (b"\xd2\xeb",), "unknown error 0xd2eb", id="half a selector"),
        pytest.param("revertRaw", ("longer",), "not canonical", id="something behind the arguments"),
        pytest.param("burnAllGas", (), "failed without revert data", id="out of gas"),
    ],
)
def test_reverts_with__anything_else__fails(
    send: Send,
    errors: Any,
    agent: Any,
    stranger: Any,
    function: str,
    arguments: tuple[Any, ...],
    said: str,
) -> None:
    payload = (7).to_bytes(32, "big") + bytes(12) + bytes.fromhex(agent.address[2:])
    named = {
        "agent": agent,
        "stranger": stranger,
        "longer": bytes.fromhex("d2ebb6b3") + payload + b"\x00" * 32,
    }
    with pytest.raises(AssertionError, match=said), reverts_with(errors.Arguments, id=7, who=agent):
        send(function, *(named.get(value, value) if isinstance(value, str) else value for value in arguments))


def test_reverts_with__error_cut_off_after_its_selector__fails(send: Send, errors: Any, agent: Any) -> None:
    # Of a transaction Ape itself gives up on the arguments.
    with (
        pytest.raises((AssertionError, DecodingError), match=r"malformed arguments: 0x$|only got 0 bytes"),
        reverts_with(errors.Arguments, id=7, who=agent),
    ):
        send("revertRaw", bytes.fromhex("d2ebb6b3"))


def test_reverts_with__string_that_reads_like_the_error__fails(send: Send, errors: Any) -> None:
    with pytest.raises(AssertionError, match="a plain string"), reverts_with(errors.NoArguments):
        send("revertString", "custom error 0x6b835654")
    with pytest.raises(AssertionError, match="a plain string"), reverts_with(errors.NoArguments):
        send("revertString", "0x6b835654")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "id is missing, who is missing"),
        ({"id": 7}, "who is missing"),
        ({"id": 7, "who": "agent", "why": 1}, "there is no why"),
        ({"id": 7, "whom": "agent"}, "who is missing, there is no whom"),
        ({"id": True, "who": "agent"}, "id must be uint256, not True"),
        ({"id": -1, "who": "agent"}, "id must be uint256, not -1"),
        ({"id": "7", "who": "agent"}, "id must be uint256, not '7'"),
        ({"id": 7, "who": 7}, "who must be address, not 7"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_reverts_with__expectation_that_does_not_fit__fails_before_the_call(
    mock: Any, errors: Any, agent: Any, given: dict[str, Any], said: str
) -> None:
    entered = False
    arguments = {name: agent if value == "agent" else value for name, value in given.items()}

    with pytest.raises(AssertionError, match=said), reverts_with(errors.Arguments, **arguments):
        entered = True

    assert not entered


@pytest.mark.parametrize(
    ("changed", "value", "said"),
    [
        ("word", WORD[:31], "word must be bytes32"),
        ("word", WORD + b"\x00", "word must be bytes32"),
        ("word", 1, "word must be bytes32"),
        ("data", 5, "data must be bytes"),
        ("flag", 1, "flag must be bool"),
        ("number", 128, "number must be int8"),
        ("text", b"hey", "text must be string"),
        ("point", {"x": 5, "y": WORD}, "point must be a tuple of 2 values"),
        ("point", (5,), "point must be a tuple of 2 values"),
        ("point", (5, WORD[:2]), r"point\.y must be bytes32"),
        ("words", WORD, "words must be a list"),
        ("words", [WORD[:31]], r"words\[0\] must be bytes32"),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_reverts_with__expected_value_of_another_type__fails(
    mock: Any, errors: Any, changed: str, value: Any, said: str
) -> None:
    with (
        pytest.raises(AssertionError, match=said),
        reverts_with(errors.AllKinds, **{**ALL_KINDS, changed: value}),
    ):
        mock.revertAllKinds.call(*ALL_KINDS.values())


def test_reverts_with__error_with_unnamed_arguments__cannot_be_expected(mock: Any, errors: Any) -> None:
    with pytest.raises(AssertionError, match="unnamed arguments"), reverts_with(errors.Unnamed):
        mock.revertUnnamed.call(7)


def test_reverts_with__error_of_another_instance__fails(mock: Any, other_mock: Any, agent: Any) -> None:
    with (
        pytest.raises(
            AssertionError, match=f"is that of {other_mock.address}, but .* went to {mock.address}"
        ),
        reverts_with(other_mock.Arguments, id=7, who=agent),
    ):
        mock.revertArguments.call(7, agent)


def test_reverts_with__other_exception_in_the_block__is_not_swallowed(errors: Any) -> None:
    with pytest.raises(ZeroDivisionError), reverts_with(errors.NoArguments):
        1 / 0  # noqa: B018


def test_reverts_with__earlier_failed_call_in_the_block__does_not_count(mock: Any, errors: Any) -> None:
    def fail_twice() -> None:
        with contextlib.suppress(VirtualMachineError):
            mock.revertNoArguments.call()
        mock.revertPanic.call()

    with pytest.raises(AssertionError, match="a panic"), reverts_with(errors.NoArguments):
        fail_twice()


def test_reverts_with__after_the_block__leaves_the_connection_as_it_was(
    mock: Any, errors: Any, chain: Any
) -> None:
    rpc = chain.provider.web3.provider
    before = rpc.make_request

    with reverts_with(errors.NoArguments):
        mock.revertNoArguments.call()
    with pytest.raises(AssertionError, match="nothing reverted"), reverts_with(errors.NoArguments):
        pass

    assert rpc.make_request == before


def test_error_data__same_arguments__is_what_the_call_reverts_with(
    mock: Any, errors: Any, agent: Any
) -> None:
    with reverts_with(errors.Arguments, id=7, who=agent) as revert:
        mock.revertArguments.call(7, agent)

    assert error_data(errors.Arguments, id=7, who=agent) == revert.data
    assert error_data(errors.Arguments, id=8, who=agent) != revert.data
    with pytest.raises(AssertionError, match="who is missing"):
        error_data(errors.Arguments, id=7)
