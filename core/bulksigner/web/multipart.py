"""An upload form as it arrives: fields, then the file as a stream, then what follows it.

The file is never whole in memory. What follows it is read before the stream reports its end, so that a form that is
cut off, or says later something else than what was used, is refused while the file is still a temporary one.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping
from typing import BinaryIO

import attrs
import falcon
from falcon.media.multipart import BodyPart, MultipartFormHandler, MultipartParseError, MultipartParseOptions

from bulksigner.contract.errors import NotAllowed, Refusal
from bulksigner.web.limits import MAX_FIELD_BYTES, MAX_PART_COUNT
from bulksigner.web.problems import InvalidRequest

__all__ = ["FIELDS", "METADATA", "METADATA_INVALID", "UploadForm", "read_upload", "too_large"]

FILE_PART = "file"
FIELDS = ("format", "profile")
METADATA = "metadata"
"""A field that stands in the form only: a query ends up in logs (API-97)."""
METADATA_INVALID = "upload.metadata-invalid"
_NAME = "upload.invalid-name"
_BUFFER_BYTES = 256 * 1024


@attrs.frozen
class UploadForm:
    """The file of a form and the values that count; a form without a file has an empty name and stream."""

    file_name: str
    stream: BinaryIO
    values: Mapping[str, str]
    has_file: bool = True

    def name_fault(self, refusal: Refusal) -> Refusal:
        """Say of a refusal for the form's sake which part of the form is at fault; others stay as they are."""
        if refusal.code == "upload.empty":
            problem = "has no bytes" if self.has_file else "is missing; send the file in a part of this name"
        elif refusal.code == _NAME and not isinstance(refusal, InvalidRequest):
            problem = refusal.message if self.file_name else "has no filename; name it in its Content-Disposition"
        elif refusal.code == METADATA_INVALID and not isinstance(refusal, InvalidRequest):
            return InvalidRequest(METADATA, refusal.message, code=METADATA_INVALID)
        else:
            return refusal
        return InvalidRequest(FILE_PART, problem, code=refusal.code)


def too_large(max_bytes: int) -> NotAllowed:
    """Return the refusal of a body over the cap."""
    return NotAllowed(f"The body is larger than {max_bytes} bytes (Upload:MaxBytes).", code="upload.too-large")


def read_upload(request: falcon.Request, query: Mapping[str, str], *, max_bytes: int) -> UploadForm:
    """Read the form up to its file.

    A value in the query wins over the form's; a field of the form counts when it stands before the file, and one
    after it may only repeat what counted.
    """
    content_type = request.content_type or ""
    if content_type.partition(";")[0].strip().lower() != falcon.MEDIA_MULTIPART:
        raise InvalidRequest("Content-Type", "must be multipart/form-data with one part named 'file'")
    parts = _Parts(_readable(_parts_of(request, content_type, max_bytes)), query)
    return parts.up_to_file()


def _parts_of(request: falcon.Request, content_type: str, max_bytes: int) -> Iterator[BodyPart]:
    options = MultipartParseOptions()
    options.max_body_part_count = MAX_PART_COUNT
    options.max_body_part_buffer_size = MAX_FIELD_BYTES
    if request.content_length == 0:
        return iter(())
    body = _CappedBody(request, max_bytes)
    # One byte more than allowed, so that the cap is what ends a body that is too long.
    form = MultipartFormHandler(options).deserialize(body, content_type, request.content_length or max_bytes + 1)
    return iter(form)


def _readable(parts: Iterator[BodyPart]) -> Iterator[BodyPart]:
    for part in _in_order(parts):
        try:
            _ = part.name, part.filename, part.content_type
        except UnicodeDecodeError:
            # Falcon decodes these when they are first asked for, and lets the error through.
            raise InvalidRequest("Content-Disposition", "names in a form must be UTF-8") from None
        yield part


def _in_order(parts: Iterator[BodyPart]) -> Iterator[BodyPart]:
    try:
        yield from parts
    except MultipartParseError as error:
        raise InvalidRequest(
            "body", f"is not a whole multipart form ({error.description}); a form ends with --boundary--"
        ) from error


class _CappedBody:
    """Counts what is read of a body and ends the request over the cap, whatever length was declared (SEC-68)."""

    def __init__(self, request: falcon.Request, max_bytes: int) -> None:
        self._source = request.stream if request.content_length is None else request.bounded_stream
        self._max_bytes = max_bytes
        self._read_bytes = 0

    def read(self, size: int | None = -1) -> bytes:
        chunk: bytes = self._source.read(-1 if size is None else size)
        self._read_bytes += len(chunk)
        if self._read_bytes > self._max_bytes:
            raise too_large(self._max_bytes)
        return chunk


class _Parts:
    """Walks through the parts of a form once."""

    def __init__(self, parts: Iterator[BodyPart], query: Mapping[str, str]) -> None:
        self._parts = parts
        self._query = query
        self._values = dict(query)

    def up_to_file(self) -> UploadForm:
        for part in self._parts:
            if part.name == FILE_PART:
                stream = io.BufferedReader(_FileStream(part, self), _BUFFER_BYTES)
                return UploadForm(part.filename or "", stream, self._values)
            self._refuse_file(part)
            self._take_field(part)
        return UploadForm("", io.BytesIO(), self._values, has_file=False)

    def check_rest(self) -> None:
        for part in self._parts:
            self._refuse_file(part)
            if self._counts(part) and self._values.get(part.name or "", "") != _text(part):
                where = "" if part.name == METADATA else ", or be in the query"
                raise InvalidRequest(part.name or "", f"must stand before the file in the form{where}")

    def _take_field(self, part: BodyPart) -> None:
        if not self._counts(part):
            return
        name, value = part.name or "", _text(part)
        if self._values.setdefault(name, value) != value:
            raise InvalidRequest(name, "is given twice with different values")

    def _counts(self, part: BodyPart) -> bool:
        return part.name in (*FIELDS, METADATA) and part.name not in self._query

    def _refuse_file(self, part: BodyPart) -> None:
        if part.name == FILE_PART:
            raise InvalidRequest(FILE_PART, "is given twice; send each file in a request of its own", code=_NAME)
        if part.filename is not None:
            raise InvalidRequest(part.name or "", "has a file; send exactly one, in a part named 'file'", code=_NAME)


def _text(part: BodyPart) -> str:
    if part.name != METADATA:
        return (part.text or "").strip()
    try:
        # Whatever media type the client gives it: falcon has no text of a part that calls itself JSON.
        return part.get_data().decode().strip()
    except MultipartParseError:
        raise InvalidRequest(METADATA, f"is longer than {MAX_FIELD_BYTES} bytes", code=METADATA_INVALID) from None
    except UnicodeDecodeError:
        raise InvalidRequest(METADATA, "is not UTF-8", code=METADATA_INVALID) from None


class _FileStream(io.RawIOBase):
    """The bytes of the file part; its end is reported only when the rest of the form is in order."""

    def __init__(self, part: BodyPart, parts: _Parts) -> None:
        super().__init__()
        self._source = part.stream
        self._parts = parts
        self._is_over = False

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._is_over:
            return 0
        chunk = self._source.read(len(buffer))
        buffer[: len(chunk)] = chunk
        if not chunk:
            self._parts.check_rest()
            self._is_over = True
        return len(chunk)
