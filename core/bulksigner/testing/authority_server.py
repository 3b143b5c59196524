"""What an authority has on the network, on loopback: a revocation list, an OCSP responder, a time-stamp service."""

from __future__ import annotations

import datetime
import functools
import http.server
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
from asn1crypto import keys, tsp
from asn1crypto import x509 as asn1_x509
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
from pyhanko.sign.timestamps.dummy_client import DummyTimeStamper

from bulksigner.testing.certificates import Authority, KeyKind, PrivateKey, make_key

__all__ = ["AuthorityServer", "TimestampIdentity", "make_timestamp_identity", "running_authority"]

_HALF_LIFE = datetime.timedelta(hours=6)


@attrs.frozen
class TimestampIdentity:
    """The certificate and key of a time-stamp service, and the issuers of the certificate, nearest first."""

    certificate: x509.Certificate
    key: PrivateKey
    issuers: tuple[x509.Certificate, ...]


def make_timestamp_identity(
    authority: Authority, *, for_stamping: bool = True, is_over: bool = False, crl_url: str | None = None
) -> TimestampIdentity:
    """Issue the certificate of a time-stamp service.

    `for_stamping=False` leaves its extended key usage out; with `is_over` it ended an hour ago. `crl_url` is where its
    revocation can be asked for.
    """
    key = make_key(KeyKind.RSA_2048, "time stamps")
    now = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Carimbo de Teste")]))
        .issuer_name(authority.intermediate.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + (-datetime.timedelta(hours=1) if is_over else datetime.timedelta(days=365)))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    )
    if for_stamping:
        builder = builder.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.TIME_STAMPING]), critical=True)
    if crl_url is not None:
        place = x509.DistributionPoint([x509.UniformResourceIdentifier(crl_url)], None, None, None)
        builder = builder.add_extension(x509.CRLDistributionPoints([place]), critical=False)
    certificate = builder.sign(authority.intermediate_key, hashes.SHA256())
    return TimestampIdentity(certificate, key, (authority.intermediate, authority.root))


@attrs.define
class AuthorityServer:
    """Serves `/list.crl`, `/ocsp` and `/tsa` for the certificates of the authority's intermediate.

    `revoked` maps serial numbers to times. `broken` are the places that answer HTTP 503, `requests` counts what came.
    """

    authority: Authority
    port: int = 0
    revoked: dict[int, datetime.datetime] = attrs.field(factory=dict)
    broken: set[str] = attrs.field(factory=set)
    requests: list[str] = attrs.field(factory=list)
    lists_end: datetime.timedelta = datetime.timedelta(days=1)
    stamps: TimestampIdentity | None = None
    doctor: Any = None
    """A function of the tests that is given the token response's bytes and returns others; None leaves them."""

    @property
    def url(self) -> str:
        """Return the address of the server."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def crl_url(self) -> str:
        """Return the address of the revocation list."""
        return f"{self.url}/list.crl"

    @property
    def ocsp_url(self) -> str:
        """Return the address of the OCSP responder."""
        return f"{self.url}/ocsp"

    @property
    def tsa_url(self) -> str:
        """Return the address of the time-stamp service."""
        return f"{self.url}/tsa"

    def make_list(self) -> bytes:
        """Return the revocation list as it is now, DER."""
        now = datetime.datetime.now(datetime.UTC)
        builder = (
            x509.CertificateRevocationListBuilder()
            .issuer_name(self.authority.intermediate.subject)
            .last_update(now - _HALF_LIFE)
            .next_update(now + self.lists_end)
            .add_extension(x509.CRLNumber(1), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self.authority.intermediate_key.public_key()),
                critical=False,
            )
        )
        for serial, at in self.revoked.items():
            builder = builder.add_revoked_certificate(
                x509.RevokedCertificateBuilder()
                .serial_number(serial)
                .revocation_date(at)
                .add_extension(x509.CRLReason(x509.ReasonFlags.key_compromise), critical=False)
                .build()
            )
        signed = builder.sign(self.authority.intermediate_key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.DER)

    def answer(self, question: bytes) -> bytes:
        """Answer an OCSP request, DER to DER; the intermediate answers itself."""
        asked = ocsp.load_der_ocsp_request(question)
        now = datetime.datetime.now(datetime.UTC)
        at = self.revoked.get(asked.serial_number)
        builder = (
            ocsp.OCSPResponseBuilder()
            .add_response_by_hash(
                issuer_name_hash=asked.issuer_name_hash,
                issuer_key_hash=asked.issuer_key_hash,
                serial_number=asked.serial_number,
                algorithm=hashes.SHA1(),
                cert_status=ocsp.OCSPCertStatus.GOOD if at is None else ocsp.OCSPCertStatus.REVOKED,
                this_update=now - datetime.timedelta(minutes=1),
                next_update=now + self.lists_end,
                revocation_time=at,
                revocation_reason=None if at is None else x509.ReasonFlags.key_compromise,
            )
            .responder_id(ocsp.OCSPResponderEncoding.HASH, self.authority.intermediate)
        )
        signed = builder.sign(self.authority.intermediate_key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.DER)

    def stamp(self, question: bytes) -> bytes:
        """Answer a time-stamp request, DER to DER (RFC 3161)."""
        identity = self.stamps or make_timestamp_identity(self.authority, crl_url=self.crl_url)
        self.stamps = identity
        stamper = DummyTimeStamper(
            _to_asn1(identity.certificate),
            keys.PrivateKeyInfo.load(
                identity.key.private_bytes(
                    serialization.Encoding.DER, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
                )
            ),
            [_to_asn1(issuer) for issuer in identity.issuers],
        )
        response: bytes = stamper.request_tsa_response(tsp.TimeStampReq.load(question)).dump()
        return response if self.doctor is None else bytes(self.doctor(response))


def _to_asn1(certificate: x509.Certificate) -> asn1_x509.Certificate:
    return asn1_x509.Certificate.load(certificate.public_bytes(serialization.Encoding.DER))


class _Handler(http.server.BaseHTTPRequestHandler):
    def __init__(self, kit: AuthorityServer, *given: Any) -> None:
        self._kit = kit
        super().__init__(*given)

    def do_GET(self) -> None:
        self._respond(b"")

    def do_POST(self) -> None:
        self._respond(self.rfile.read(int(self.headers.get("Content-Length", "0"))))

    def log_message(self, *given: Any) -> None:
        """Stay silent: `requests` of the kit has what came."""

    def _respond(self, body: bytes) -> None:
        kit = self._kit
        kit.requests.append(self.path)
        acts: dict[str, Callable[[], bytes]] = {
            "/list.crl": kit.make_list,
            "/ocsp": lambda: kit.answer(body),
            "/tsa": lambda: kit.stamp(body),
        }
        act = acts.get(self.path)
        if act is None or self.path in kit.broken:
            self.send_error(404 if act is None else 503)
            return
        content = act()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Content-Type", "application/timestamp-reply" if self.path == "/tsa" else "application/binary")
        self.end_headers()
        self.wfile.write(content)


@contextmanager
def running_authority(authority: Authority) -> Iterator[AuthorityServer]:
    """Run the server of an authority on a free loopback port until the block ends."""
    kit = AuthorityServer(authority)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Handler, kit))
    kit.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield kit
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
