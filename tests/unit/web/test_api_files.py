"""Uploads: the form in any order it may take, and every way it may be wrong."""

from __future__ import annotations

import os
import random
import tracemalloc
from collections.abc import Callable
from typing import Any, BinaryIO

import pytest
from falcon.testing import Result, TestClient

from bulksigner.contract.errors import NotAllowed, Refusal

BOUNDARY = "------limit"
TYPE = f"multipart/form-data; boundary={BOUNDARY}"
Making = Callable[..., TestClient]


def field(name: str, value: str) -> bytes:
    return f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'.encode()


def file(content: bytes = b"%PDF-1.7", *, name: str = "file", file_name: str | None = "folha.pdf") -> bytes:
    named = "" if file_name is None else f'; filename="{file_name}"'
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"{named}\r\nContent-Type: x/y\r\n\r\n'
    return head.encode() + content + b"\r\n"


END = f"--{BOUNDARY}--\r\n".encode()


def send(client: TestClient, *parts: bytes, query: str = "", content_type: str = TYPE) -> Result:
    return client.simulate_post(
        "/api/files", body=b"".join(parts), query_string=query, headers={"Content-Type": content_type}
    )


def code_of(answer: Result) -> tuple[int, str]:
    return answer.status_code, answer.json["code"]


def test_an_upload_is_taken_in(client: TestClient, service: Any) -> None:
    """API-23, API-56: 202 with id, cleaned name, minted path, format and status."""
    content = os.urandom(70_000)
    answer = send(client, file(content), END)
    assert answer.status_code == 202
    assert answer.json == {
        "jobId": "0f8fad5b-d9cb-469f-a165-000000000001",
        "fileName": "folha.pdf",
        "originalPath": "/in/minted.pdf",
        "format": "Pades",
        "status": "Queued",
    }
    assert answer.headers["location"] == "/api/jobs/0f8fad5b-d9cb-469f-a165-000000000001"
    (upload,) = service.uploads
    assert upload["content"] == content
    assert upload["length"] == len(b"".join([file(content), END]))


@pytest.mark.parametrize(
    ("parts", "query", "profile", "format"),
    [
        ([file()], "", None, None),
        ([file()], "profile=folha&format=Cades", "folha", "Cades"),
        ([field("profile", "folha"), field("format", "Xades"), file()], "", "folha", "Xades"),
        ([field("profile", "form"), file()], "profile=query", "query", None),
        ([file(), field("profile", "form")], "profile=query", "query", None),
        ([field("profile", " folha "), file(), field("profile", "folha")], "", "folha", None),
        ([field("profile", "  "), file()], "profile=", None, None),
        ([file(), field("profile", "")], "", None, None),
        ([field("other", "x"), file(), field("metadata-of-mine", "y")], "", None, None),
    ],
)
def test_which_values_count(
    client: TestClient, service: Any, parts: list[bytes], query: str, profile: str | None, format: str | None
) -> None:
    """API-54: the query wins, a field before the file counts, one after it may repeat; blank means absent."""
    assert send(client, *parts, END, query=query).status_code == 202
    (upload,) = service.uploads
    assert (upload["profile"], upload["format"]) == (profile, format)


@pytest.mark.parametrize(
    ("parts", "name"),
    [
        ([file(), field("profile", "folha")], "profile"),
        ([field("format", "Cades"), file(), field("format", "Xades")], "format"),
        ([field("profile", "a"), field("profile", "b"), file()], "profile"),
    ],
)
def test_a_field_that_comes_too_late_or_contradicts(
    client: TestClient, service: Any, parts: list[bytes], name: str
) -> None:
    """API-54, API-55: a value that could not be checked before the file was read is refused; nothing is kept."""
    answer = send(client, *parts, END)
    assert code_of(answer) == (400, "request.invalid")
    assert list(answer.json["errors"]) == [name]
    assert service.uploads == []


@pytest.mark.parametrize("query", ["profile=a&profile=b", "format=Pades&format=Cades"])
def test_a_doubled_query_value(client: TestClient, query: str) -> None:
    """API-54: which of two values counts is never guessed."""
    assert code_of(send(client, file(), END, query=query)) == (400, "request.invalid")


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([END], "upload.empty"),
        ([field("profile", "x"), END], "upload.empty"),
        ([file(b""), END], "upload.empty"),
        ([file(file_name=None), END], "upload.invalid-name"),
        ([file(file_name=""), END], "upload.invalid-name"),
        ([file(), file(), END], "upload.invalid-name"),
        ([file(), file(name="second"), END], "upload.invalid-name"),
        ([file(name="first"), file(), END], "upload.invalid-name"),
    ],
    ids=["no part", "no file", "no bytes", "no name", "empty name", "two", "other after", "other before"],
)
def test_exactly_one_file_with_a_name(client: TestClient, service: Any, parts: list[bytes], code: str) -> None:
    """API-54: no part, no bytes, no name and more than one file have their codes."""
    assert code_of(send(client, *parts)) == (400, code)
    assert service.uploads == []


@pytest.mark.parametrize(
    ("parts", "name", "text"),
    [
        ([END], "file", "is missing; send the file in a part of this name"),
        ([file(b""), END], "file", "has no bytes"),
        ([file(file_name=None), END], "file", "has no filename"),
        ([file(), file(), END], "file", "is given twice"),
        ([file(name="upload"), END], "upload", "has a file; send exactly one, in a part named 'file'"),
        ([file(), file(name="second"), END], "second", "has a file"),
        ([file()], "body", "is not a whole multipart form"),
        ([file()[:30]], "body", "is not a whole multipart form"),
        ([field(f"other{number}", "x") for number in range(12)] + [file(), END], "body", "maximum number"),
    ],
    ids=["missing", "no bytes", "no name", "two", "wrong part", "other after", "cut off", "cut in a head", "many"],
)
def test_a_refused_form_names_what_is_wrong(
    client: TestClient, service: Any, parts: list[bytes], name: str, text: str
) -> None:
    """API-03, API-54: `errors` names the part in every environment, and what is wrong with it."""
    answer = send(client, *parts)
    assert answer.status_code == 400
    assert text in answer.json["errors"][name][0]
    assert service.uploads == []


def test_a_form_of_no_bytes_at_all(client: TestClient) -> None:
    """API-54: it has no part either."""
    answer = client.simulate_post("/api/files", headers={"Content-Type": TYPE, "Content-Length": "0"})
    assert code_of(answer) == (400, "upload.empty")


def test_a_missing_profile_is_told_before_a_missing_file(client: TestClient) -> None:
    """API-55: profile, then format, then the file."""
    assert code_of(send(client, END, query="profile=missing&format=x")) == (400, "profile.not-found")
    assert code_of(send(client, END, query="format=x")) == (400, "upload.format-unsupported")


def test_uploads_that_are_off_are_refused_first(make_client: Making) -> None:
    """API-55: 409 `upload.disabled` before anything else is looked at."""
    client = make_client(uploads_enabled=False)
    assert code_of(send(client, b"x" * 200_000, content_type="text/plain")) == (409, "upload.disabled")


def test_a_declared_length_over_the_cap_is_refused_unread(make_client: Making) -> None:
    """SEC-68: the declared length is looked at before the body and before the profile."""

    def unexpected(*_: object, **__: object) -> None:
        raise AssertionError

    client = make_client(receive_upload=unexpected)
    assert code_of(send(client, b"x" * 100_001, query="profile=missing")) == (413, "upload.too-large")


def test_the_cap_holds_on_the_stream_too(client: TestClient, service: Any) -> None:
    """SEC-68: a body of no declared length ends at the cap."""
    body = file(b"x" * 100_000) + END
    extras = {"wsgi.input_terminated": True}
    answer = client.simulate_post(
        "/api/files", body=body, headers={"Content-Type": TYPE, "Content-Length": ""}, extras=extras
    )
    assert code_of(answer) == (413, "upload.too-large")
    small = file(b"x" * 1000) + END
    answer = client.simulate_post(
        "/api/files", body=small, headers={"Content-Type": TYPE, "Content-Length": ""}, extras=extras
    )
    assert answer.status_code == 202
    assert [len(upload["content"]) for upload in service.uploads] == [1000]


@pytest.mark.parametrize(
    "body",
    [
        file(b"x" * 500)[:-2],
        file(b"x" * 500),
        file(b"x" * 500) + f"--{BOUNDARY}".encode(),
        file(b"x" * 500) + b"--other--\r\n",
        file()[:60],
        b"no form at all",
        file() + field("a", "b")[:-4],
    ],
    ids=["in content", "no end", "half end", "other end", "in head", "no form", "in a field"],
)
def test_a_form_that_is_cut_off_is_refused(client: TestClient, service: Any, body: bytes) -> None:
    """API-55: what may have lost bytes is never queued."""
    assert code_of(send(client, body)) == (400, "request.invalid")
    assert service.uploads == []


@pytest.mark.parametrize(
    "content_type",
    [
        "application/pdf",
        "",
        "multipart/form-data",
        "multipart/form-data; boundary=",
        "multipart/mixed; boundary=x",
        f"multipart/form-data; boundary={'x' * 71}",
    ],
)
def test_what_is_no_form_is_refused(client: TestClient, content_type: str) -> None:
    """API-54: only multipart/form-data with a boundary."""
    assert code_of(send(client, file(), END, content_type=content_type)) == (400, "request.invalid")


@pytest.mark.parametrize("position", ["before", "after"])
def test_too_many_parts(client: TestClient, service: Any, position: str) -> None:
    """SEC-64: at most ten parts."""
    fields = [field(f"f{number}", "x") for number in range(10)]
    parts = [*fields, file()] if position == "before" else [file(), *fields]
    assert code_of(send(client, *parts, END)) == (400, "request.invalid")
    assert service.uploads == []
    assert send(client, *fields[:9], file(), END).status_code == 202


def test_no_mangled_form_is_an_error_of_ours(client: TestClient, service: Any) -> None:
    """API-05: whatever a client does to a form, it is taken in or refused, never a 500."""
    chance = random.Random(7)
    whole = field("profile", "folha") + file(b"abc\r\n--x" * 20) + field("other", "v") + END
    seen = set()
    for _ in range(300):
        form = bytearray(whole)
        for _ in range(chance.randint(1, 5)):
            at = chance.randrange(len(form))
            form[at : at + chance.choice([0, 1, 1, 20])] = chance.randbytes(chance.choice([0, 1, 2]))
        seen.add(send(client, bytes(form)).status_code)
    assert seen == {202, 400}


@pytest.mark.parametrize("broken", ["file_name", "name", "type"])
@pytest.mark.parametrize("position", ["only", "after"])
def test_a_head_that_is_no_utf_8(client: TestClient, service: Any, broken: str, position: str) -> None:
    """API-54: names in Latin-1 are refused in words, not as an error of ours."""
    part = {
        "file_name": file(file_name="relat\0rio.pdf"),
        "name": file(name="f\0le"),
        "type": file().replace(b"x/y", b"x/\0"),
    }[broken].replace(b"\0", b"\xf3")
    answer = send(client, *([part] if position == "only" else [file(), part]), END)
    assert code_of(answer) == (400, "request.invalid")
    assert answer.json["errors"] == {"Content-Disposition": ["names in a form must be UTF-8"]}
    assert service.uploads == []


def test_a_field_that_is_too_long(client: TestClient) -> None:
    """SEC-64: a text field is read into memory only up to its limit."""
    assert code_of(send(client, field("profile", "x" * 20_000), file(), END)) == (400, "request.invalid")


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("profile.disabled", 409),
        ("job.path-too-long", 400),
        ("job.already-processing", 409),
        ("upload.invalid-name", 400),
    ],
)
def test_what_the_service_refuses(client: TestClient, service: Any, code: str, status: int) -> None:
    """API-23: the service's own refusals keep code and status."""
    service.refusal = NotAllowed("m", code=code)
    assert code_of(send(client, file(), END)) == (status, code)


def test_a_name_is_handed_over_as_sent(client: TestClient, service: Any) -> None:
    """SEC-65: cleaning is the upload service's, so the name arrives untouched, UTF-8 included."""
    assert send(client, file(file_name="../ç ã.pdf"), END).status_code == 202
    assert service.uploads[0]["name"] == "../ç ã.pdf"


def test_a_large_file_is_never_whole_in_memory(make_client: Making) -> None:
    """PERF-05, API-55: the stream is read in pieces and what is held does not grow with the file."""
    size = 20_000_000
    read = 0

    def receive(stream: BinaryIO, **_: object) -> None:
        nonlocal read
        tracemalloc.start()
        while chunk := stream.read(65_536):
            read += len(chunk)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        raise NotAllowed("enough seen", code="upload.empty")

    peaks: list[int] = []
    client = make_client(receive_upload=receive, max_upload_bytes=2 * size)
    send(client, file(bytes(size)), END)
    assert read == size
    assert peaks[0] < 2_000_000


def metadata_part(value: bytes, content_type: str = "") -> bytes:
    typed = f"\r\nContent-Type: {content_type}" if content_type else ""
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="metadata"{typed}\r\n\r\n'
    return head.encode() + value + b"\r\n"


@pytest.mark.parametrize("content_type", ["", "text/plain", "application/json", "application/json; charset=utf-8"])
def test_metadata_is_a_field_of_the_form(client: TestClient, service: Any, content_type: str) -> None:
    """API-97, PIPE-54: before the file, whatever type the client gives the part; after it, it may only repeat it."""
    given = metadata_part(' {"lote": "é"} '.encode(), content_type)
    assert send(client, given, file(), given, END).status_code == 202
    assert service.uploads[0]["metadata"] == '{"lote": "é"}'


@pytest.mark.parametrize("parts", [[file()], [metadata_part(b"  "), file()]])
def test_no_metadata_is_none(client: TestClient, service: Any, parts: list[bytes]) -> None:
    """API-97: absent or empty."""
    assert send(client, *parts, END).status_code == 202
    assert service.uploads[0]["metadata"] is None


@pytest.mark.parametrize(
    ("parts", "query", "text"),
    [
        ([file()], "metadata=%7B%7D", "is a field of the form, not of the query"),
        ([metadata_part(b'{"k": "segredo\xff"}'), file()], "", "is not UTF-8"),
        ([metadata_part(b'{"k": "segredo"}' + b" " * 16 * 1024), file()], "", "is longer than 16384 bytes"),
    ],
)
def test_metadata_that_is_none_of_a_form(
    client: TestClient, service: Any, parts: list[bytes], query: str, text: str
) -> None:
    """API-97, PIPE-119: never in a query, which ends up in logs; the rule is told, not the value."""
    answer = send(client, *parts, END, query=query)
    assert code_of(answer) == (400, "upload.metadata-invalid")
    assert answer.json["errors"] == {"metadata": [text]}
    assert "segredo" not in answer.text
    assert service.uploads == []


def test_metadata_after_the_file_is_refused(client: TestClient, service: Any) -> None:
    """API-54, API-97: it could not be checked before the file was read."""
    answer = send(client, file(), metadata_part(b"{}"), END)
    assert code_of(answer) == (400, "request.invalid")
    assert answer.json["errors"] == {"metadata": ["must stand before the file in the form"]}
    assert service.uploads == []


def test_the_rule_that_metadata_breaks_is_told_in_every_environment(client: TestClient, service: Any) -> None:
    """API-97, API-04: among the errors, as the detail is not shown in production."""
    service.refusal = Refusal("The metadata is not JSON.", code="upload.metadata-invalid")
    answer = send(client, metadata_part(b"{"), file(), END)
    assert code_of(answer) == (400, "upload.metadata-invalid")
    assert answer.json["errors"] == {"metadata": ["The metadata is not JSON."]}
