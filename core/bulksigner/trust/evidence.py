"""Revocation lists and answers: fetched, kept on disk while they count, and read from a folder of the operator's."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import ocsp

from bulksigner.contract.errors import TemporaryFailure
from bulksigner.files import durable
from bulksigner.formats.chain import Link, next_update
from bulksigner.trust.fetch import fetch

__all__ = ["Evidence", "EvidenceDesk"]

LIST_LIMIT_BYTES = 64 << 20
ANSWER_LIMIT_BYTES = 256 << 10
_LONGEST_KEPT = datetime.timedelta(days=60)
_LIST_SUFFIXES = frozenset({".crl", ".pem", ".der"})
_OCSP_HEADERS = {"Content-Type": "application/ocsp-request", "Accept": "application/ocsp-response"}


@attrs.define
class Evidence:
    """What could be had for a path; `until` is when the first piece of it ends, `gaps` tells what was in the way."""

    lists: list[bytes] = attrs.field(factory=list)
    answers: list[bytes] = attrs.field(factory=list)
    until: datetime.datetime | None = None
    gaps: list[str] = attrs.field(factory=list)
    is_from_cache: bool = False
    """Whether some of it was taken as it lay on disk, without asking whether there is newer."""

    def add(self, piece: bytes, *, is_list: bool, until: datetime.datetime | None) -> None:
        """Take in a list or an answer that counts until a time."""
        (self.lists if is_list else self.answers).append(piece)
        if until is not None:
            self.until = until if self.until is None else min(until, self.until)


@attrs.frozen
class EvidenceDesk:
    """Gathers evidence for paths; `cache` is a folder of its own."""

    cache: Path
    clock: Callable[[], datetime.datetime]
    offline: bool = False
    lists_folder: Path | None = None
    limit_seconds: float = 10.0

    def gather(self, path: Iterable[Link], *, no_older_than: datetime.timedelta, thorough: bool = False) -> Evidence:
        """Return what can be had for each certificate of a path: the answer of OCSP, else the list, both if `thorough`.

        What was fetched within `no_older_than` is not fetched again. What is older counts where nothing newer can be
        had, until its own end.
        """
        found = Evidence()
        self._add_operator_lists(found)
        for link in path:
            is_answered = self._add_answer(link, found, no_older_than)
            if thorough or not is_answered:
                is_answered |= self._add_list(link, found, no_older_than)
            if self.offline and not is_answered and (link.ocsp_urls or link.crl_urls):
                found.gaps.append("Signing:Trust:Offline is true, so nothing was fetched")
        return found

    def prune(self) -> None:
        """Remove what was fetched long ago."""
        oldest = (self.clock() - _LONGEST_KEPT).timestamp()
        with contextlib.suppress(OSError):  # a cache that cannot be tidied up still serves
            for kept in self.cache.iterdir():
                if kept.stat().st_mtime < oldest:
                    kept.unlink()

    def _add_operator_lists(self, found: Evidence) -> None:
        if self.lists_folder is None:
            return
        try:
            paths = sorted(path for path in self.lists_folder.iterdir() if path.suffix.casefold() in _LIST_SUFFIXES)
            for path in paths:
                content = path.read_bytes()
                encoded = _to_der(content)
                until = None if encoded is None else next_update(encoded, is_list=True)
                if encoded is None or until is None:
                    found.gaps.append(f"{path} is no revocation list that says when it ends")
                elif until > self.clock():
                    found.add(encoded, is_list=True, until=until)
                else:
                    found.gaps.append(f"{path} ended at {until:%Y-%m-%d %H:%M} UTC")
        except OSError as error:
            found.gaps.append(f"{self.lists_folder} cannot be read: {error.strerror}")

    def _add_answer(self, link: Link, found: Evidence, no_older_than: datetime.timedelta) -> bool:
        if not link.ocsp_urls:
            return False
        request = _ask(link)
        return any(
            self._add(url, found, no_older_than, is_list=False, body=request, limit_bytes=ANSWER_LIMIT_BYTES)
            for url in link.ocsp_urls
        )

    def _add_list(self, link: Link, found: Evidence, no_older_than: datetime.timedelta) -> bool:
        return any(
            self._add(url, found, no_older_than, is_list=True, body=None, limit_bytes=LIST_LIMIT_BYTES)
            for url in link.crl_urls
        )

    def _add(
        self,
        url: str,
        found: Evidence,
        no_older_than: datetime.timedelta,
        *,
        is_list: bool,
        body: bytes | None,
        limit_bytes: int,
    ) -> bool:
        """Add what one address has, or had; tell whether there was anything."""
        now = self.clock()
        name = hashlib.sha256(url.encode() + b"\0" + (body or b"")).hexdigest()
        kept = self.cache / f"{name}.{'crl' if is_list else 'ocsp'}"
        piece, fetched_at = _read_kept(kept)
        until = None if piece is None else next_update(piece, is_list=is_list)
        counts = piece is not None and until is not None and until > now
        if counts and fetched_at is not None and (now - fetched_at < no_older_than or self.offline):
            found.is_from_cache = True
        elif not self.offline:
            headers = _OCSP_HEADERS if body is not None else None
            try:
                fresh = fetch(
                    url, limit_seconds=self.limit_seconds, limit_bytes=limit_bytes, body=body, headers=headers
                )
            except TemporaryFailure as error:
                found.gaps.append(error.message)
            else:
                fresh = _to_der(fresh) or fresh if is_list else fresh
                ends = next_update(fresh, is_list=is_list)
                if ends is not None and ends > now:
                    piece, until, counts = fresh, ends, True
                    self._keep(kept, fresh)
                else:
                    what = "answers with what is no fresh list" if is_list else "gives no fresh answer"
                    found.gaps.append(f"{url} {what}")
        if not counts or piece is None:
            return False
        found.add(piece, is_list=is_list, until=until)
        return True

    def _keep(self, target: Path, piece: bytes) -> None:
        with contextlib.suppress(OSError):  # a full disk costs a fetch more, and no signature
            self.cache.mkdir(mode=durable.FOLDER_MODE, parents=True, exist_ok=True)
            durable.write_beside(target, lambda out: out.write(piece))


def _ask(link: Link) -> bytes:
    certificate, issuer = (x509.load_der_x509_certificate(one) for one in (link.certificate, link.issuer))
    # SHA-1 names the issuer here and proves nothing; it is what every responder answers (RFC 6960 4.1.1).
    builder = ocsp.OCSPRequestBuilder().add_certificate(certificate, issuer, hashes.SHA1())  # noqa: S303
    return builder.build().public_bytes(serialization.Encoding.DER)


def _read_kept(path: Path) -> tuple[bytes | None, datetime.datetime | None]:
    try:
        return path.read_bytes(), datetime.datetime.fromtimestamp(path.stat().st_mtime, datetime.UTC)
    except OSError:
        return None, None


def _to_der(content: bytes) -> bytes | None:
    """Return a revocation list as DER, whichever way it is written; None for anything else."""
    try:
        if content.lstrip().startswith(b"-----BEGIN"):
            return x509.load_pem_x509_crl(content).public_bytes(serialization.Encoding.DER)
        x509.load_der_x509_crl(content)
    except ValueError:
        return None
    return content
