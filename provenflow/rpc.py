"""A small JSON-RPC client for Ethereum nodes, over HTTP.

What comes back from a node is not trusted: its size is bounded, its shape is checked, redirects are not followed, and
trouble of any kind is one sentence (:class:`provenflow.errors.Unreachable`). A node's own error is a
:class:`RpcError`, so that a call that reverted can be told from a node that did not answer.
"""

from __future__ import annotations

import ipaddress
import re
import time
from collections.abc import Callable, Iterable, Sequence
from http.client import HTTPException
from types import TracebackType
from typing import Any, Final, Self
from urllib.parse import SplitResult, unquote, urlsplit

import requests
from urllib3.exceptions import HTTPError, ReadTimeoutError

from provenflow import bounded_json
from provenflow.errors import Unreachable, WrongUse

MAX_RESPONSE_BYTES: Final = 64 * 1024 * 1024
MAX_BATCH: Final = 100
_WHOLE_ANSWER: Final = 10
_CHUNK: Final = 64 * 1024
_TEXT_LIMIT: Final = 300
_DEEPEST: Final = 64
_HEX: Final = re.compile(r"0x(?:[0-9a-fA-F]{2})*")
_QUANTITY: Final = re.compile(r"0x[0-9a-fA-F]{1,64}")


class RpcError(Unreachable):
    """The node answered a call with an error of its own.

    Parameters
    ----------
    method:
        The JSON-RPC method called.
    code:
        The node's error code.
    text:
        The node's message, as it came (not safe for a terminal).
    data:
        The node's ``data`` member, ``None`` if there was none. For a revert it is usually the revert data in hex.
    """

    def __init__(self, method: str, code: int, text: str, data: object = None) -> None:
        shown = text if len(text) <= _TEXT_LIMIT else f"{text[:_TEXT_LIMIT]}…"
        super().__init__(f"The node refused {method}: {shown!r} (code {code}).")
        self.method = method
        self.code = code
        self.text = text
        self.data = data

    @property
    def is_revert(self) -> bool:
        """True if the EVM reverted, as far as nodes let one tell.

        No standard says how a revert looks. Code 3 and revert data in hex are sure signs; some clients only say it in
        words.
        """
        has_revert_data = isinstance(self.data, str) and _HEX.fullmatch(self.data) is not None
        return self.code == 3 or has_revert_data or "revert" in self.text.lower()


class ResponseTooLarge(Unreachable):
    """An answer was longer than the limit; asking for less may help."""


class Rpc:
    """A JSON-RPC endpoint.

    Parameters
    ----------
    url:
        ``http://`` or ``https://`` URL. User name and password in it are used for basic authentication and never shown.
    timeout:
        Seconds to connect and to wait for the next piece of an answer; a whole answer may take ten times as long.
    max_response_bytes:
        Longest answer accepted, in bytes.

    Raises
    ------
    WrongUse
        The URL is not an HTTP URL with a host, or a limit is not positive.
    """

    def __init__(self, url: str, timeout: float = 10.0, max_response_bytes: int = MAX_RESPONSE_BYTES) -> None:
        parts = _split(url)
        if timeout <= 0 or max_response_bytes <= 0:
            raise WrongUse("The timeout and the size limit of an RPC client must be positive.")
        self.endpoint: Final = _public(parts)
        """The URL without user name, password, path and query, which may hold keys: fit to be printed."""
        self._url = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
        self._timeout = timeout
        self._max_response_bytes = max_response_bytes
        self._next_id = 1
        self._batches = True
        self._session = requests.Session()
        # A proxy from the environment is meant for the outside world; a node on this machine is not there.
        self._session.trust_env = not _is_loopback(parts.hostname or "")
        # Set in any case: without it requests would look for a password in the user's .netrc.
        self._session.auth = _credentials(parts)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection to the node."""
        self._session.close()

    def call(self, method: str, *params: object) -> Any:
        """The result of one call.

        Raises
        ------
        RpcError
            The node answered with an error.
        Unreachable
            The node could not be reached in time, or its answer is not a JSON-RPC answer to this call.
        """
        request = self._request(method, params)
        answer = self._post(request)
        if not isinstance(answer, dict):
            raise self._trouble("answered with JSON that is not a JSON-RPC answer")
        self._check_id(answer, request["id"])
        outcome = self._outcome(answer, method)
        if isinstance(outcome, RpcError):
            raise outcome
        return outcome

    def batch(
        self, calls: Iterable[tuple[str, Sequence[object]]], *, done: Callable[[int], None] | None = None
    ) -> list[Any]:
        """The results of many calls, in their order, with as few round trips as the node allows.

        A node that does not take batches is asked one call at a time, and an answer that is too large is asked for
        again in halves.

        Parameters
        ----------
        calls:
            ``(method, params)`` pairs.
        done:
            Called after each round trip with the number of calls answered so far.

        Returns
        -------
        list
            One entry per call: its result, or the :class:`RpcError` that the node answered.

        Raises
        ------
        Unreachable
            As for :meth:`call`, or the answers do not fit the calls one to one.
        """
        todo = list(calls)
        results: list[Any] = []
        size = MAX_BATCH
        while len(results) < len(todo):
            part = todo[len(results) : len(results) + size]
            try:
                results += self._one_batch(part) if self._batches else [self._single(*part[0])]
            except ResponseTooLarge:
                if len(part) == 1:
                    raise
                size = (len(part) + 1) // 2
            else:
                if done is not None:
                    done(len(results))
        return results

    def _single(self, method: str, params: Sequence[object]) -> Any:
        try:
            return self.call(method, *params)
        except RpcError as error:
            return error

    def _one_batch(self, calls: Sequence[tuple[str, Sequence[object]]]) -> list[Any]:
        wanted = [self._request(method, params) for method, params in calls]
        answer = self._post(wanted)
        if isinstance(answer, dict) and answer.get("error") is not None:
            # One error for the whole batch is how a node says that it takes none.
            self._batches = False
            return [self._single(*calls[0])]
        if not isinstance(answer, list) or not all(isinstance(item, dict) for item in answer):
            raise self._trouble("answered a batch with something that is not a list of JSON-RPC answers")
        by_id = {item["id"]: item for item in answer if type(item.get("id")) is int}
        if len(answer) != len(wanted) or by_id.keys() != {request["id"] for request in wanted}:
            raise self._trouble("answered a batch with answers that do not fit its calls one to one")
        return [self._outcome(by_id[request["id"]], request["method"]) for request in wanted]

    def _request(self, method: str, params: Sequence[object]) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "id": self._next_id, "method": method, "params": list(params)}
        self._next_id += 1
        return request

    def _check_id(self, answer: dict[str, Any], wanted: int) -> None:
        identifier = answer.get("id")
        # A node that could not read the request answers with an error and a null id.
        if identifier is None and answer.get("error") is not None:
            return
        if type(identifier) is not int or identifier != wanted:
            raise self._trouble("answered another call than the one made (its id does not match)")

    def _outcome(self, answer: dict[str, Any], method: str) -> Any:
        error = answer.get("error")
        if error is not None:
            code = error.get("code") if isinstance(error, dict) else None
            text = error.get("message") if isinstance(error, dict) else None
            if type(code) is not int or not isinstance(text, str):
                raise self._trouble(f"answered {method} with an error that has no code and message")
            return RpcError(method, code, text, error.get("data"))
        if "result" not in answer:
            raise self._trouble(f"answered {method} with neither a result nor an error")
        return answer["result"]

    def _post(self, document: object) -> Any:
        """POST a JSON document, return the JSON answer; every trouble is `Unreachable`."""
        deadline = time.monotonic() + _WHOLE_ANSWER * self._timeout
        try:
            with self._session.post(
                self._url,
                json=document,
                # An unpacked answer can be a thousand times as long as a packed one; plain bytes keep the limit honest.
                headers={"Accept": "application/json", "Accept-Encoding": "identity"},
                timeout=self._timeout,
                allow_redirects=False,
                stream=True,
            ) as response:
                self._check_head(response)
                body = self._read(response, deadline)
        except (requests.exceptions.Timeout, ReadTimeoutError):
            raise self._trouble(
                f"did not answer within {self._timeout:g} s",
                fix="Try again, or use a node that answers faster.",
            ) from None
        except (requests.exceptions.RequestException, HTTPError, HTTPException, OSError) as error:
            raise self._trouble(f"cannot be reached ({_reason(error)})") from None
        try:
            return bounded_json.parse(body, _DEEPEST, parse_constant=_refuse)
        except ValueError:
            raise self._trouble(
                "did not answer with JSON", fix="Check that the URL is a JSON-RPC URL."
            ) from None

    def _check_head(self, response: requests.Response) -> None:
        status = response.status_code
        if 300 <= status < 400:
            raise self._trouble(
                f"redirects elsewhere (HTTP {status}), which is not followed", fix="Give the final URL."
            )
        if status in (401, 403):
            raise self._trouble(
                f"refuses access (HTTP {status})", fix="Check the key or password in the URL."
            )
        if status == 429:
            raise self._trouble("limits the rate of calls (HTTP 429)", fix="Wait, or use another node.")
        if status == 413:
            raise ResponseTooLarge(f"The node at {self.endpoint} finds the call too large (HTTP 413).")
        if status != 200:
            raise self._trouble(f"answered with HTTP {status}", fix="Check that the URL is a JSON-RPC URL.")
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise self._trouble("compresses its answer although it was asked not to", fix="Use another node.")

    def _read(self, response: requests.Response, deadline: float) -> bytes:
        pieces: list[bytes] = []
        length = 0
        # read1 returns what has arrived, so a node that sends byte by byte still meets the deadline.
        while piece := response.raw.read1(_CHUNK):
            pieces.append(piece)
            length += len(piece)
            if length > self._max_response_bytes:
                raise ResponseTooLarge(
                    f"The node at {self.endpoint} answered with more than {self._max_response_bytes:,} bytes.",
                    fix="Ask for less at a time, or check that the URL is a JSON-RPC URL.",
                )
            if time.monotonic() > deadline:
                raise self._trouble(
                    f"did not finish its answer within {_WHOLE_ANSWER * self._timeout:g} s",
                    fix="Try again, or use a node that answers faster.",
                )
        return b"".join(pieces)

    def _trouble(self, what: str, fix: str = "Check the URL and that the node is running.") -> Unreachable:
        return Unreachable(f"The node at {self.endpoint} {what}.", fix=fix)


def quantity(value: object, subject: str) -> int:
    """A JSON-RPC quantity (``0x`` and up to 64 hex digits) as a number.

    Parameters
    ----------
    value:
        What the node answered.
    subject:
        Names it in the error, for instance ``"the timestamp of block 7"``.

    Raises
    ------
    Unreachable
        It is no quantity.
    """
    if isinstance(value, str) and _QUANTITY.fullmatch(value):
        return int(value, 16)
    raise _malformed(subject, "a number in hex")


def hex_bytes(value: object, subject: str, length: int | None = None) -> bytes:
    """JSON-RPC data (``0x`` and two hex digits a byte) as bytes.

    Parameters
    ----------
    value:
        What the node answered.
    subject:
        Names it in the error.
    length:
        Number of bytes that it must have, ``None`` for any.

    Raises
    ------
    Unreachable
        It is no such data.
    """
    if isinstance(value, str) and _HEX.fullmatch(value) and length in (None, len(value) // 2 - 1):
        return bytes.fromhex(value[2:])
    raise _malformed(subject, "bytes in hex" if length is None else f"{length} bytes in hex")


def _malformed(subject: str, expected: str) -> Unreachable:
    return Unreachable(
        f"The node's answer makes no sense: {subject} is not {expected}.", fix="Use another node."
    )


def _split(url: object) -> SplitResult:
    fix = "Give one like http://127.0.0.1:8545."
    if not isinstance(url, str) or not url.isprintable() or " " in url:
        raise WrongUse("The RPC URL is not a URL.", fix=fix)
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise WrongUse("The RPC URL is not a URL.", fix=fix) from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        # Only the scheme is shown: anything behind it may hold a password.
        shown = f"{parts.scheme}://…" if parts.scheme else "one without http://"
        raise WrongUse(f"The RPC URL must be an http:// or https:// URL with a host, not {shown}.", fix=fix)
    return parts


def _public(parts: SplitResult) -> str:
    host = parts.netloc.rpartition("@")[2]
    hidden = "/…" if parts.path.strip("/") or parts.query else ""
    return f"{parts.scheme}://{host}{hidden}"


def _credentials(parts: SplitResult) -> Any:
    if parts.username is None:
        return lambda request: request
    return (unquote(parts.username), unquote(parts.password or ""))


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _reason(error: BaseException) -> str:
    """The innermost cause that the system gave, without the URL that requests puts around it."""
    reason = type(error).__name__
    current: BaseException | None = error
    while current is not None:
        if isinstance(current, OSError) and current.strerror:
            reason = current.strerror
        current = current.__cause__ or current.__context__
    return reason[:1].lower() + reason[1:]


def _refuse(constant: str) -> None:
    """NaN and Infinity are Python's, not JSON's."""
    raise ValueError(constant)
