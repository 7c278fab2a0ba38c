"""The JSON-RPC client: what it asks, and one sentence for every way in which a node can let it down."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from provenflow.errors import Unreachable, WrongUse
from provenflow.rpc import MAX_BATCH, ResponseTooLarge, Rpc, RpcError, hex_bytes, quantity
from tests.support.json_rpc_server import Exchange, NodeError, Respond, answer, honest, serve

# Long enough for a busy machine; the tests that wait for it use less.
PATIENT = 30.0


def _echo(method: str, params: list[Any]) -> Any:
    return {"method": method, "params": params}


def _call(respond: Respond, **options: Any) -> Any:
    with serve(respond) as server, Rpc(server.url, **({"timeout": PATIENT} | options)) as rpc:
        return rpc.call("eth_thing", 1, "two")


# ── Calls ────────────────────────────────────────────────────────────────────


def test_call__node_answers__its_result() -> None:
    assert _call(honest(_echo)) == {"method": "eth_thing", "params": [1, "two"]}


def test_call__result_null__is_a_result() -> None:
    assert _call(honest(lambda _method, _params: None)) is None


def test_call__request__is_json_rpc_over_one_connection() -> None:
    with serve(honest(_echo)) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        rpc.call("first")
        rpc.call("second", {"key": 1})
    assert server.requests == [
        {"jsonrpc": "2.0", "id": 1, "method": "first", "params": []},
        {"jsonrpc": "2.0", "id": 2, "method": "second", "params": [{"key": 1}]},
    ]
    assert server.headers[0]["Content-Type"] == "application/json"
    assert server.headers[0]["Accept-Encoding"] == "identity"


def test_call__answer_in_chunks__is_put_together() -> None:
    def respond(exchange: Exchange) -> None:
        body = json.dumps(answer(_echo, exchange.document)).encode()
        http = exchange.http
        http.send_response(200)
        http.send_header("Transfer-Encoding", "chunked")
        http.end_headers()
        for piece in (body[:5], body[5:]):
            http.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
        http.wfile.write(b"0\r\n\r\n")

    assert _call(respond)["method"] == "eth_thing"


# ── The node's own errors ────────────────────────────────────────────────────


def _failing(code: int, message: str, data: Any = None) -> Respond:
    def handler(method: str, params: list[Any]) -> Any:
        raise NodeError(code, message, data)

    return honest(handler)


@pytest.mark.parametrize(
    ("code", "message", "data", "is_revert"),
    [
        (3, "execution reverted: custom error 0x12345678", "0x12345678", True),
        (3, "no words", None, True),
        (-32000, "execution reverted", None, True),
        (-32000, "VM Exception", "0x08c379a0", True),
        (-32015, "VM execution error.", "Reverted 0x", False),
        (-32000, "header not found", None, False),
        (-32602, "invalid params", {"why": "0x"}, False),
        (-32601, "method not found", "0xzz", False),
    ],
)
def test_call__node_error__code_message_and_data_are_kept(
    code: int, message: str, data: Any, is_revert: bool
) -> None:
    with pytest.raises(RpcError) as refused:
        _call(_failing(code, message, data))
    error = refused.value
    assert (error.method, error.code, error.text, error.data) == ("eth_thing", code, message, data)
    assert error.is_revert is is_revert
    assert error.exit_code == 3
    assert error.message == f"The node refused eth_thing: {message!r} (code {code})."


def test_call__node_error_with_a_hostile_message__sentence_is_short_and_escaped() -> None:
    with pytest.raises(RpcError) as refused:
        _call(_failing(1, "\x1b[2J" + "A" * 5_000))
    assert len(str(refused.value)) < 400
    assert "\x1b" not in str(refused.value)


@pytest.mark.parametrize(("length", "shown"), [(300, "A" * 300), (301, "A" * 300 + "…")])
def test_rpc_error__long_message__cut_in_the_sentence_only(length: int, shown: str) -> None:
    error = RpcError("eth_thing", 1, "A" * length)
    assert (error.text, error.message) == ("A" * length, f"The node refused eth_thing: '{shown}' (code 1).")


def test_call__node_error_without_id__is_still_the_node_s_error() -> None:
    with pytest.raises(RpcError, match="parse error"):
        _call(
            lambda exchange: exchange.send_json(
                {"id": None, "error": {"code": -32700, "message": "parse error"}}
            )
        )


# ── Answers that are none ────────────────────────────────────────────────────


def _with_id(document: dict[str, Any]) -> Respond:
    return lambda exchange: exchange.send_json({"id": exchange.document["id"]} | document)


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        (lambda exchange: exchange.send(b"<html>"), "did not answer with JSON"),
        (lambda exchange: exchange.send(b""), "did not answer with JSON"),
        (lambda exchange: exchange.send(b"\xff\xfe\x00"), "did not answer with JSON"),
        (lambda exchange: exchange.send(b"[" * 100_000), "did not answer with JSON"),
        (lambda exchange: exchange.send(b"9" * 10_000), "did not answer with JSON"),
        (lambda exchange: exchange.send(b'{"id": 1, "result": NaN}'), "did not answer with JSON"),
        (lambda exchange: exchange.send(b"[]"), "not a JSON-RPC answer"),
        (lambda exchange: exchange.send(b"null"), "not a JSON-RPC answer"),
        (lambda exchange: exchange.send_json({"id": 2, "result": 1}), "another call"),
        (lambda exchange: exchange.send_json({"id": "1", "result": 1}), "another call"),
        (
            lambda exchange: exchange.send_json({"id": 2, "error": {"code": 3, "message": "no"}}),
            "another call",
        ),
        (lambda exchange: exchange.send_json({"id": True, "result": 1}), "another call"),
        (lambda exchange: exchange.send_json({"result": 1}), "another call"),
        (lambda exchange: exchange.send_json({"id": None, "result": 1}), "another call"),
        (_with_id({"jsonrpc": "2.0"}), "neither a result nor an error"),
        (_with_id({"error": None}), "neither a result nor an error"),
        (_with_id({"error": "no"}), "no code and message"),
        (_with_id({"error": {"code": "3", "message": "no"}}), "no code and message"),
        (_with_id({"error": {"code": 3}}), "no code and message"),
        (lambda exchange: exchange.send(b"{}", 500), "HTTP 500"),
        (lambda exchange: exchange.send(b"{}", 404), "HTTP 404"),
        (lambda exchange: exchange.send(b"{}", 400), "answered with HTTP 400"),
        (lambda exchange: exchange.send(b"{}", 300), r"redirects elsewhere \(HTTP 300\)"),
        (lambda exchange: exchange.send(b"{}", 204), "HTTP 204"),
        (lambda exchange: exchange.send(b"{}", 401), "refuses access"),
        (lambda exchange: exchange.send(b"{}", 403), "refuses access"),
        (lambda exchange: exchange.send(b"{}", 429), "limits the rate"),
    ],
)
def test_call__answer_is_none__one_sentence(respond: Respond, reason: str) -> None:
    with pytest.raises(Unreachable, match=reason) as refused:
        _call(respond)
    assert not isinstance(refused.value, RpcError)
    assert refused.value.exit_code == 3
    assert refused.value.fix
    assert "\n" not in str(refused.value)


def test_call__redirect__not_followed() -> None:
    with (
        serve(honest(_echo)) as elsewhere,
        pytest.raises(Unreachable, match=r"redirects elsewhere \(HTTP 307\)"),
    ):
        _call(lambda exchange: exchange.send(b"", 307, Location=elsewhere.url))
    assert elsewhere.requests == []


def test_call__compressed_answer__refused() -> None:
    body = gzip.compress(b'{"id": 1, "result": 1}')
    with pytest.raises(Unreachable, match="compresses"):
        _call(lambda exchange: exchange.send(body, Content_Encoding="gzip"))


def test_call__answer_longer_than_the_limit__refused() -> None:
    big = honest(lambda _method, _params: "A" * 2_000)
    with pytest.raises(ResponseTooLarge, match="more than 1,000 bytes"):
        _call(big, max_response_bytes=1_000)
    assert len(_call(big, max_response_bytes=3_000)) == 2_000


def test_call__answer_as_long_as_the_limit__read() -> None:
    body = b'{"id": 1, "result": 5}'
    assert _call(lambda exchange: exchange.send(body), max_response_bytes=len(body)) == 5
    with pytest.raises(ResponseTooLarge):
        _call(lambda exchange: exchange.send(body), max_response_bytes=len(body) - 1)


def test_call__endless_answer__refused_at_the_limit() -> None:
    def respond(exchange: Exchange) -> None:
        exchange.http.send_response(200)
        exchange.http.send_header("Connection", "close")
        exchange.http.end_headers()
        while True:
            exchange.http.wfile.write(b" " * 65_536)

    with pytest.raises(ResponseTooLarge):
        _call(respond, max_response_bytes=10_000_000)


def test_call__answer_cut_off__one_sentence() -> None:
    def respond(exchange: Exchange) -> None:
        exchange.send(b'{"id": 1, "res', Content_Length="1000")
        exchange.http.close_connection = True

    with pytest.raises(Unreachable):
        _call(respond)


def test_call__connection_closed_without_an_answer__one_sentence() -> None:
    def respond(exchange: Exchange) -> None:
        exchange.http.close_connection = True
        exchange.http.connection.shutdown(socket.SHUT_RDWR)

    with pytest.raises(Unreachable, match="cannot be reached"):
        _call(respond)


# ── Waiting ──────────────────────────────────────────────────────────────────


def test_call__node_says_nothing__gives_up() -> None:
    release = threading.Event()
    try:
        with pytest.raises(Unreachable, match=r"did not answer within 0\.2 s"):
            _call(lambda _exchange: _wait_for(release), timeout=0.2)
    finally:
        release.set()


def test_call__node_falls_silent_in_the_middle__gives_up() -> None:
    release = threading.Event()

    def respond(exchange: Exchange) -> None:
        exchange.send(b'{"id"', Content_Length="1000")
        exchange.http.wfile.flush()
        release.wait(PATIENT)

    try:
        with pytest.raises(Unreachable, match=r"did not answer within 0\.2 s"):
            _call(respond, timeout=0.2)
    finally:
        release.set()


def test_call__node_sends_byte_by_byte__gives_up_in_the_end() -> None:
    stop = threading.Event()

    def respond(exchange: Exchange) -> None:
        exchange.send(b"", Content_Length="1000000")
        while not stop.wait(0.01):
            exchange.http.wfile.write(b" ")

    try:
        with pytest.raises(Unreachable, match="did not finish its answer within 1 s"):
            _call(respond, timeout=0.1)
    finally:
        stop.set()


def _wait_for(event: threading.Event) -> None:
    event.wait(PATIENT)


def test_call__nobody_listens__one_sentence_with_the_reason() -> None:
    with socket.socket() as reserved:
        # Bound and not listening: the port is taken, and connections to it are refused.
        reserved.bind(("127.0.0.1", 0))
        port = reserved.getsockname()[1]
        with pytest.raises(Unreachable) as refused, Rpc(f"http://127.0.0.1:{port}", timeout=PATIENT) as rpc:
            rpc.call("eth_chainId")
    assert str(refused.value) == (
        f"The node at http://127.0.0.1:{port} cannot be reached (connection refused)."
        " Check the URL and that the node is running."
    )


def test_call__unknown_host__one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*args: Any, **kwargs: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with pytest.raises(Unreachable, match=r"http://node\.invalid cannot be reached"):
        Rpc("http://node.invalid", timeout=PATIENT).call("eth_chainId")


# ── Batches ──────────────────────────────────────────────────────────────────


def test_batch__no_calls__no_request() -> None:
    with serve(honest(_echo)) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        assert rpc.batch([]) == []
    assert server.requests == []


def test_batch__answers_in_any_order__results_in_the_order_of_the_calls() -> None:
    def respond(exchange: Exchange) -> None:
        exchange.send_json([answer(_echo, call) for call in reversed(exchange.document)])

    with serve(respond) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        results = rpc.batch([("eth_thing", (number,)) for number in range(5)])
    assert [result["params"] for result in results] == [[0], [1], [2], [3], [4]]
    assert len(server.requests) == 1


def test_batch__many_calls__as_few_requests_as_the_limit_allows() -> None:
    told: list[int] = []
    with serve(honest(_echo)) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        results = rpc.batch(
            [("eth_thing", (number,)) for number in range(2 * MAX_BATCH + 1)], done=told.append
        )
    assert [result["params"] for result in results] == [[number] for number in range(2 * MAX_BATCH + 1)]
    assert [len(document) for document in server.requests] == [MAX_BATCH, MAX_BATCH, 1]
    assert told == [MAX_BATCH, 2 * MAX_BATCH, 2 * MAX_BATCH + 1]


def test_batch__one_call_fails__only_its_result_is_the_error() -> None:
    def handler(method: str, params: list[Any]) -> Any:
        if params == [1]:
            raise NodeError(3, "execution reverted", "0x")
        return params[0]

    with serve(honest(handler)) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        results = rpc.batch([("eth_thing", (number,)) for number in range(3)])
    assert (results[0], results[2]) == (0, 2)
    assert isinstance(results[1], RpcError)
    assert results[1].is_revert


def test_batch__node_takes_no_batches__asked_one_by_one() -> None:
    def handler(method: str, params: list[Any]) -> Any:
        if params == [1]:
            raise NodeError(3, "execution reverted", "0x")
        return params[0]

    def respond(exchange: Exchange) -> None:
        if isinstance(exchange.document, list):
            exchange.send_json(
                {"jsonrpc": "2.0", "id": None, "error": {"code": -32600, "message": "no batches"}}
            )
        else:
            exchange.send_json(answer(handler, exchange.document))

    with serve(respond) as server, Rpc(server.url, timeout=PATIENT) as rpc:
        results = rpc.batch([("eth_thing", (number,)) for number in range(3)])
        assert rpc.batch([("eth_thing", (9,))]) == [9]
    assert (results[0], results[2]) == (0, 2)
    assert isinstance(results[1], RpcError)
    # Once it has said so, it is not tried again.
    assert [isinstance(document, list) for document in server.requests] == [True, False, False, False, False]


@pytest.mark.parametrize("whole", ["answer", "call"])
def test_batch__too_large__asked_in_halves(whole: str) -> None:
    def respond(exchange: Exchange) -> None:
        if whole == "call" and len(exchange.body) > 400:
            exchange.send(b"", 413)
            return
        exchange.send_json([answer(lambda _method, _params: "A" * 300, call) for call in exchange.document])

    with serve(respond) as server, Rpc(server.url, timeout=PATIENT, max_response_bytes=1_000) as rpc:
        results = rpc.batch([("eth_thing", (number,)) for number in range(8)])
    assert results == ["A" * 300] * 8
    assert [len(document) for document in server.requests][:2] == [8, 4]


def test_batch__single_answer_too_large__refused() -> None:
    big = honest(lambda _method, _params: "A" * 3_000)
    with (
        serve(big) as server,
        Rpc(server.url, timeout=PATIENT, max_response_bytes=1_000) as rpc,
        pytest.raises(ResponseTooLarge),
    ):
        rpc.batch([("eth_thing", (1,)), ("eth_thing", (2,))])


@pytest.mark.parametrize(
    ("garble", "reason"),
    [
        (lambda answers: answers[:-1], "one to one"),
        (lambda answers: [*answers, answers[0]], "one to one"),
        (lambda answers: [answers[0], answers[0]], "one to one"),
        (lambda answers: [answers[0], answers[1] | {"id": 77}], "one to one"),
        (lambda answers: [answers[0], answers[1] | {"id": "2"}], "one to one"),
        (lambda answers: [answers[0], {"result": 1}], "one to one"),
        (lambda answers: [answers[0], 5], "not a list of JSON-RPC answers"),
        (lambda answers: answers[0], "not a list of JSON-RPC answers"),
        (lambda _answers: 5, "not a list of JSON-RPC answers"),
        (lambda _answers: {}, "not a list of JSON-RPC answers"),
        (lambda _answers: None, "not a list of JSON-RPC answers"),
        (lambda _answers: "text", "not a list of JSON-RPC answers"),
        (lambda answers: [answers[0], {"id": answers[1]["id"]}], "neither a result nor an error"),
    ],
)
def test_batch__answers_do_not_fit__refused(garble: Callable[[list[Any]], Any], reason: str) -> None:
    def respond(exchange: Exchange) -> None:
        exchange.send_json(garble([answer(_echo, call) for call in exchange.document]))

    with (
        serve(respond) as server,
        Rpc(server.url, timeout=PATIENT) as rpc,
        pytest.raises(Unreachable, match=reason),
    ):
        rpc.batch([("eth_thing", (1,)), ("eth_thing", (2,))])


# ── URLs ─────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:8545",
        "127.0.0.1:8545",
        "ws://127.0.0.1:8545",
        "file:///etc/passwd",
        "ftp://secret@127.0.0.1",
        "http://",
        "http:///path",
        "http://[::1",
        "http://127.0.0.1:99999",
        "http://127.0.0.1:0",
        "http://127.0.0.1:port",
        "http://127.0.0.1 :8545",
        "http://127.0.0.1:8545/\n",
        "http://127.0.0.1:8545/\x1b[2J",
        None,
    ],
)
def test_rpc__not_an_http_url__wrong_use(url: Any) -> None:
    with pytest.raises(WrongUse) as refused:
        Rpc(url)
    assert "secret" not in str(refused.value)
    assert str(refused.value).isprintable()


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": -1.0}, {"max_response_bytes": 0}])
def test_rpc__limit_not_positive__wrong_use(options: dict[str, Any]) -> None:
    with pytest.raises(WrongUse, match="must be positive"):
        Rpc("http://127.0.0.1:8545", **options)


@pytest.mark.parametrize(
    ("url", "endpoint"),
    [
        ("http://127.0.0.1:8545", "http://127.0.0.1:8545"),
        ("http://127.0.0.1:8545/", "http://127.0.0.1:8545"),
        ("https://user:secret@node.invalid", "https://node.invalid"),
        ("https://node.invalid/v3/secret", "https://node.invalid/…"),
        ("https://node.invalid?key=secret", "https://node.invalid/…"),
        ("https://a@b:secret@[::1]:1/secret", "https://[::1]:1/…"),
    ],
)
def test_rpc__url_with_secrets__not_in_what_is_shown(url: str, endpoint: str) -> None:
    assert Rpc(url).endpoint == endpoint


def test_call__url_with_secrets__sent_to_the_node_and_never_shown() -> None:
    with serve(lambda exchange: exchange.send(b"", 500)) as server:
        url = server.url.replace("http://", "http://us%40er:sec%3Aret@") + "/key-secret?token=secret"
        with pytest.raises(Unreachable) as refused:
            Rpc(url, timeout=PATIENT).call("eth_chainId")
    assert server.headers[0]["Authorization"] == "Basic dXNAZXI6c2VjOnJldA=="
    assert "sec" not in str(refused.value)


def test_call__url_with_a_name_and_no_password__sent_so() -> None:
    with serve(honest(_echo)) as server:
        Rpc(server.url.replace("http://", "http://user@"), timeout=PATIENT).call("eth_chainId")
    assert server.headers[0]["Authorization"] == "Basic dXNlcjo="


def test_call__password_in_netrc__not_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine localhost login user password secret\n")
    monkeypatch.setenv("NETRC", str(netrc))
    with serve(honest(_echo)) as server:
        rpc = Rpc(server.url.replace("127.0.0.1", "localhost"), timeout=PATIENT)
        # As for a node elsewhere: requests looks into the environment and into .netrc.
        rpc._session.trust_env = True
        rpc.call("eth_chainId")
    assert "Authorization" not in server.headers[0]


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_call__proxy_in_the_environment__not_used_for_this_machine(
    monkeypatch: pytest.MonkeyPatch, host: str
) -> None:
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, "http://proxy.invalid:1")
    with serve(honest(_echo)) as server, Rpc(server.url.replace("127.0.0.1", host), timeout=PATIENT) as rpc:
        assert rpc.call("eth_chainId")["method"] == "eth_chainId"


# ── Values ───────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "value"), [("0x0", 0), ("0xfF", 255), ("0x007", 7), ("0x" + "f" * 64, 2**256 - 1)]
)
def test_quantity__hex__its_number(text: str, value: int) -> None:
    assert quantity(text, "it") == value


@pytest.mark.parametrize(
    "wrong", ["0x", "1", "0xg", "-0x1", "0x" + "1" * 65, "0x1\n", 1, None, True, ["0x1"]]
)
def test_quantity__anything_else__unreachable(wrong: Any) -> None:
    with pytest.raises(Unreachable, match="makes no sense: it is not a number in hex"):
        quantity(wrong, "it")


def test_hex_bytes__hex__its_bytes() -> None:
    assert hex_bytes("0x", "it") == b""
    assert hex_bytes("0x00Ff", "it") == b"\x00\xff"
    assert hex_bytes("0x00ff", "it", 2) == b"\x00\xff"


@pytest.mark.parametrize("wrong", ["", "00", "0x0", "0xgg", "0x00\n", None, 5, b"0x"])
def test_hex_bytes__anything_else__unreachable(wrong: Any) -> None:
    with pytest.raises(Unreachable, match="makes no sense: it is not bytes in hex"):
        hex_bytes(wrong, "it")


@pytest.mark.parametrize("wrong", ["0x", "0x00", "0x000000"])
def test_hex_bytes__another_length__unreachable(wrong: str) -> None:
    with pytest.raises(Unreachable, match="it is not 2 bytes in hex"):
        hex_bytes(wrong, "it", 2)
