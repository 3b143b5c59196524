"""The parser of requests, byte by byte; and how long a client may take."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from waitress.adjustments import Adjustments

from bulksigner.channels import ChannelRules, Parser, Patience
from bulksigner.web.gate import BodyGate, BodyRule

GATE = BodyGate(lambda headers: headers.get("X_KEY") == "right", uploads_enabled=True, max_upload_bytes=3_000_000)
RULES = ChannelRules(GATE.judge, Patience(), 100)
SETTINGS = Adjustments(max_request_header_size=2000)
HEAD = b"POST /api/files HTTP/1.1\r\nHost: h\r\n"

REQUESTS = [
    b"GET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    HEAD + b"Content-Length: 5\r\n\r\nhello",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nTrailer: t\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\n\r\n-3\r\nabc\r\n0\r\n\r\n",
    HEAD + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    HEAD + b"Content-Length: 70000\r\n\r\n" + b"x" * 100,
    HEAD + b"X-Key: right\r\nContent-Length: 4000000\r\n\r\n" + b"x" * 100,
    HEAD + b"Host: other\r\n\r\n",
    HEAD + b"X: y\r\n folded\r\n\r\n",
    HEAD + b"X: " + b"y" * 3000,
    b"GET / HTTP/3.0\r\nHost: h\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
]


def read(pieces: list[bytes]) -> tuple[Any, ...]:
    """Feed pieces to parsers as a connection does, and return what came of the first request that is not empty."""
    parser = Parser(RULES, SETTINGS)
    for piece in pieces:
        data = piece
        while data:
            data = data[parser.received(data) :]
            if parser.completed:
                if not parser.empty:
                    return outcome(parser)
                parser = Parser(RULES, SETTINGS)
    return outcome(parser)


def outcome(parser: Parser) -> tuple[Any, ...]:
    if parser.error is not None:
        found = (parser.error.code, parser.error.reason)
    else:
        body = parser.get_body_stream().read() if parser.completed else None
        found = (parser.completed, dict(parser.headers), body)
    parser.close()
    return found


@pytest.mark.parametrize("raw", REQUESTS)
@given(st.data())
def test_a_request_means_the_same_however_it_is_cut(raw: bytes, data: st.DataObject) -> None:
    """SEC-64: a byte at a time, in any pieces, or all at once."""
    cuts = sorted(data.draw(st.sets(st.integers(1, len(raw) - 1), max_size=12)))
    pieces = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
    assert read(pieces) == read([raw])


@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_read_or_refused(raw: bytes, is_chunked: bool) -> None:
    """SEC-64: whatever comes, the parser ends, waits for more or refuses; it never fails."""
    start = HEAD + (b"Transfer-Encoding: chunked\r\n\r\n" if is_chunked else b"")
    found = read([start + raw])
    assert found[0] in (True, False, 400, 401, 413, 431, 501)


def test_a_body_may_be_as_long_as_its_rule_says() -> None:
    """SEC-68: the last byte allowed is allowed, and the next is refused with the code of the rule."""
    rules = ChannelRules(lambda *_: BodyRule(10, 413, "upload.too-large"), Patience(), 100)
    for length, error in ((10, None), (11, "upload.too-large")):
        for head in (b"Content-Length: %d\r\n\r\n" % length, b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % length):
            parser = Parser(rules, SETTINGS)
            raw = HEAD + head + b"x" * length + (b"\r\n0\r\n\r\n" if b"chunked" in head else b"")
            while raw and not parser.completed:
                raw = raw[parser.received(raw) :]
            assert parser.completed
            assert (parser.error.problem if parser.error is not None else None) == error
            parser.close()


@pytest.mark.parametrize(
    ("seconds", "quiet", "moved", "is_over"),
    [
        (59, 59, 0, False),
        (61, 61, 0, True),
        (61, 1, 0, True),
        (61, 1, 2048, False),
        (63, 1, 2048, True),
        (900, 61, 10**9, True),
    ],
)
def test_a_pace_and_signs_of_life(seconds: float, quiet: float, moved: int, is_over: bool) -> None:
    """SEC-64: 60 s of silence end a transfer, as does a pace below 1 KiB a second after the first 60 s."""
    assert (
        Patience().is_over(1000 + seconds, began_at=1000, moved_at=1000 + seconds - quiet, moved_bytes=moved) is is_over
    )
