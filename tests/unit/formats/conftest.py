"""Throw-away keys and PDF files for the tests of the signature formats, all made in memory."""

from __future__ import annotations

import datetime
import hashlib
import io
import random
import shutil
import subprocess
import zlib
from collections.abc import Callable

import attrs
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.contract.signing import Measured
from bulksigner.formats.model import FileSigner

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey
_HASHES: dict[Digest, hashes.HashAlgorithm] = {
    Digest.SHA1: hashes.SHA1(),
    Digest.SHA256: hashes.SHA256(),
    Digest.SHA512: hashes.SHA512(),
}


@attrs.define
class HeldKey:
    """An opened key in memory that counts its uses."""

    certificate: bytes
    chain: tuple[bytes, ...]
    algorithm: KeyAlgorithm
    private: PrivateKey
    calls: int = 0

    def sign(self, data: bytes, digest: Digest) -> bytes:
        self.calls += 1
        if isinstance(self.private, rsa.RSAPrivateKey):
            return self.private.sign(data, padding.PKCS1v15(), _HASHES[digest])
        return self.private.sign(data, ec.ECDSA(_HASHES[digest]))

    def sign_digest(self, value: bytes, digest: Digest) -> bytes:
        raise NotImplementedError

    def close(self) -> None:
        pass


def _name(common_name: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.COUNTRY_NAME, "BR"), x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    )


def _issue(subject: str, public: PrivateKey, issuer: str, private: PrivateKey, *, authority: bool) -> bytes:
    usage = x509.KeyUsage(
        digital_signature=not authority,
        content_commitment=not authority,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=authority,
        crl_sign=authority,
        encipher_only=False,
        decipher_only=False,
    )
    builder = (
        x509.CertificateBuilder(_name(issuer), _name(subject), public.public_key(), x509.random_serial_number())
        .not_valid_before(datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC))
        .not_valid_after(datetime.datetime(2040, 1, 1, tzinfo=datetime.UTC))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(private.public_key()), critical=False)
    )
    return builder.sign(private, hashes.SHA256()).public_bytes(Encoding.DER)


def issue_key(make: Callable[[], PrivateKey]) -> HeldKey:
    """Issue a chain of three: root, intermediate and a signer with a name beyond ASCII."""
    root, intermediate, signer = make(), make(), make()
    root_certificate = _issue("Test Root", root, "Test Root", root, authority=True)
    intermediate_certificate = _issue("Test Issuer", intermediate, "Test Root", root, authority=True)
    certificate = _issue("João Signer:52998224725", signer, "Test Issuer", intermediate, authority=False)
    algorithm = KeyAlgorithm.RSA if isinstance(signer, rsa.RSAPrivateKey) else KeyAlgorithm.ECDSA
    return HeldKey(certificate, (intermediate_certificate, root_certificate), algorithm, signer)


@pytest.fixture(scope="session")
def rsa_held() -> HeldKey:
    """An RSA-2048 key; shared, so its count of uses is not looked at."""
    return issue_key(lambda: rsa.generate_private_key(65537, 2048))


@pytest.fixture(scope="session")
def ecdsa_held() -> HeldKey:
    """An ECDSA P-256 key; shared, so its count of uses is not looked at."""
    return issue_key(lambda: ec.generate_private_key(ec.SECP256R1()))


@pytest.fixture
def rsa_key(rsa_held: HeldKey) -> HeldKey:
    """An RSA-2048 key that was not used yet."""
    return attrs.evolve(rsa_held, calls=0)


@pytest.fixture
def ecdsa_key(ecdsa_held: HeldKey) -> HeldKey:
    """An ECDSA P-256 key that was not used yet."""
    return attrs.evolve(ecdsa_held, calls=0)


@pytest.fixture(params=["rsa", "ecdsa"])
def any_key(request: pytest.FixtureRequest) -> HeldKey:
    """Each kind of key in turn."""
    held: HeldKey = request.getfixturevalue(f"{request.param}_key")
    return held


def measure(content: bytes) -> Measured:
    """Measure bytes as staging does."""
    return Measured(len(content), hashlib.sha256(content).digest())


SIGNED_AT = datetime.datetime(2026, 3, 4, 5, 6, 7, tzinfo=datetime.UTC)


def sign(signer: FileSigner, content: bytes) -> bytes:
    """Sign bytes, holding what the signer measured against what it wrote."""
    target = io.BytesIO()
    measured = signer.sign(io.BytesIO(content), target, expected=measure(content), signed_at=SIGNED_AT)
    assert measured == measure(target.getvalue())
    return target.getvalue()


@pytest.fixture(name="sign")
def sign_fixture() -> Callable[[FileSigner, bytes], bytes]:
    """`sign`, for test modules."""
    return sign


@pytest.fixture
def signed_at() -> datetime.datetime:
    """The time at which `sign` signs."""
    return SIGNED_AT


@pytest.fixture(scope="session")
def pem_of() -> Callable[[bytes], bytes]:
    """Turn a DER certificate into PEM."""
    return lambda certificate: x509.load_der_x509_certificate(certificate).public_bytes(Encoding.PEM)


@pytest.fixture
def run() -> Callable[..., str]:
    """Run an outside tool and return what it printed; skip where it is not installed."""

    def call(*arguments: object) -> str:
        if shutil.which(str(arguments[0])) is None:
            pytest.skip(f"{arguments[0]} is not installed")
        done = subprocess.run([str(part) for part in arguments], capture_output=True, timeout=60, check=False)
        output = (done.stdout + done.stderr).decode(errors="replace")
        assert done.returncode == 0, output
        return output

    return call


def mutate(data: bytes, chance: random.Random, start: int = 0) -> bytes:
    """Change, remove or repeat bytes at a few places from `start` on; a file that got shorter is filled up."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5))):
        position = chance.randrange(start, len(changed))
        length = chance.choice((1, 1, 2, 8, 64))
        kind = chance.randrange(4)
        if kind == 0:
            changed[position : position + length] = chance.randbytes(len(changed[position : position + length]))
        elif kind == 1:
            del changed[position : position + length]
        elif kind == 2:
            changed[position:position] = changed[position : position + length]
        else:
            changed[position : position + length] = chance.choice((b"<<", b">>", b"[", b"]", b"9", b" R", b"/A ", b"("))
        changed += b"\n" * (len(data) - len(changed))
    return bytes(changed)


@pytest.fixture(name="mutate")
def mutate_fixture() -> Callable[..., bytes]:
    """`mutate`, for test modules."""
    return mutate


@pytest.fixture(name="measure")
def measure_fixture() -> Callable[[bytes], Measured]:
    """`measure`, for test modules."""
    return measure


@attrs.frozen
class PdfSample:
    """A PDF to be built: its objects, and how they and the cross-reference are laid out.

    `layout` is `classic` (table), `streams` (object and cross-reference streams) or `hybrid` (ISO 32000-1 7.5.8.4).
    """

    layout: str = "classic"
    pages: int = 1
    filler_bytes: int = 0
    extra_objects: int = 0
    form: str = "none"
    catalog: bytes = b""
    trailer: bytes = b""
    version: str = "1.7"
    end: bytes = b"%%EOF\n"
    objects: dict[int, bytes] = attrs.field(factory=dict)

    def build(self) -> bytes:
        """Write the file."""
        streams, objects, extras = self._compose()
        # In a hybrid file the object stream holds what an old reader can do without.
        packable = {"classic": {}, "streams": objects | extras, "hybrid": extras}[self.layout]
        plain = {number: body for number, body in (streams | objects | extras).items() if number not in packable}
        out = bytearray(f"%PDF-{self.version}\n%\xe2\xe3\xcf\xd3\n".encode("latin-1"))
        places: dict[int, tuple[int, int, int]] = {}
        for number, body in sorted(plain.items()):
            places[number] = (1, len(out), 0)
            out += b"%d 0 obj\n%b\nendobj\n" % (number, body)
        if packable:
            self._pack(out, places, packable)
        if self.layout == "classic":
            start = len(out)
            out += _table(places) + b"trailer\n<</Size %d %b>>\n" % (max(places) + 1, self._trailer_entries())
        else:
            start = self._write_stream(out, places)
        if self.layout == "hybrid":
            start, stream = len(out), start
            out += _table(places) + b"trailer\n<</Size %d /XRefStm %d %b>>\n" % (
                max(places) + 1,
                stream,
                self._trailer_entries(),
            )
        return bytes(out) + b"startxref\n%d\n" % start + self.end

    def _trailer_entries(self) -> bytes:
        return b"/Root 1 0 R /ID [<%b> <%b>] %b" % (b"11" * 16, b"22" * 16, self.trailer)

    def _compose(self) -> tuple[dict[int, bytes], dict[int, bytes], dict[int, bytes]]:
        """Compose streams, objects that a viewer needs, and others."""
        first = 10
        kids = b" ".join(b"%d 0 R" % (first + 2 * page) for page in range(self.pages))
        form = {"none": b"", "indirect": b"/AcroForm 4 0 R", "direct": b"/AcroForm <</Fields [] /DA (/F 0 Tf)>>"}
        objects = {
            1: b"<</Type /Catalog /Pages 2 0 R %b %b>>" % (form[self.form], self.catalog),
            2: b"<</Type /Pages /Count %d /Kids [%b]>>" % (self.pages, kids),
        }
        if self.form == "indirect":
            objects[4] = b"<</Fields 5 0 R /NeedAppearances true /DR <<>>>>"
            objects[5] = b"[6 0 R]"
            objects[6] = b"<</FT /Tx /T (amount) /V (\\(10\\) \\101\\\n) /Kids []>>"
        streams = {}
        extras = {3: b"<</Type /Font /Subtype /Type1 /BaseFont /Helvetica>>"}
        for page in range(self.pages):
            number = first + 2 * page
            objects[number] = (
                b"<</Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents %d 0 R"
                b" /Resources <</Font <</F 3 0 R>>>>>>" % (number + 1)
            )
            streams[number + 1] = _stream(b"BT /F 12 Tf 72 720 Td (Page %d) Tj ET" % (page + 1))
        number = first + 2 * self.pages
        if self.filler_bytes:
            streams[number] = _stream(random.Random(1).randbytes(self.filler_bytes))
            number += 1
        for extra in range(self.extra_objects):
            extras[number + extra] = b"<</Number %d /Text (object %d)>>" % (extra, extra)
        objects.update(self.objects)
        return streams, objects, extras

    def _pack(self, out: bytearray, places: dict[int, tuple[int, int, int]], packable: dict[int, bytes]) -> None:
        container = max([*places, *packable]) + 1
        numbers = sorted(packable)
        for start in range(0, len(numbers), 100):
            batch = numbers[start : start + 100]
            offsets, bodies = [], b""
            for index, number in enumerate(batch):
                places[number] = (2, container, index)
                offsets.append(b"%d %d" % (number, len(bodies)))
                bodies += packable[number] + b" "
            index_part = b" ".join(offsets) + b" "
            places[container] = (1, len(out), 0)
            entries = b"/Type /ObjStm /N %d /First %d" % (len(batch), len(index_part))
            out += b"%d 0 obj\n%b\nendobj\n" % (container, _stream(index_part + bodies, entries, pack=True))
            container += 1

    def _write_stream(self, out: bytearray, places: dict[int, tuple[int, int, int]]) -> int:
        """Write a cross-reference stream with the PNG predictor that common writers use."""
        number, start = max(places) + 1, len(out)
        places[number] = (1, start, 0)
        rows = [places.get(entry, (0, 0, 0)) for entry in range(number + 1)]
        if self.layout == "hybrid":
            rows = [row if row[0] == 2 else (0, 0, 0) for row in rows]
        plain = [bytes([kind]) + first.to_bytes(4, "big") + second.to_bytes(2, "big") for kind, first, second in rows]
        before, predicted = bytes(7), b""
        for row in plain:
            predicted += b"\x02" + bytes((new - old) & 0xFF for new, old in zip(row, before, strict=True))
            before = row
        entries = b"/Type /XRef /Size %d /W [1 4 2] /DecodeParms <</Predictor 12 /Columns 7>> %b" % (
            number + 1,
            self._trailer_entries(),
        )
        out += b"%d 0 obj\n%b\nendobj\n" % (number, _stream(predicted, entries, pack=True))
        return start


def _stream(content: bytes, entries: bytes = b"", *, pack: bool = False) -> bytes:
    if pack:
        content, entries = zlib.compress(content), entries + b" /Filter /FlateDecode"
    return b"<<%b /Length %d>>\nstream\n%b\nendstream" % (entries, len(content), content)


def _table(places: dict[int, tuple[int, int, int]]) -> bytes:
    rows = [b"xref\n0 1\n0000000000 65535 f \n"]
    numbers = sorted(places)
    start = 0
    while start < len(numbers):
        end = start
        while end + 1 < len(numbers) and numbers[end + 1] == numbers[end] + 1:
            end += 1
        rows.append(b"%d %d\n" % (numbers[start], end - start + 1))
        for number in numbers[start : end + 1]:
            kind, offset, _ = places[number]
            rows.append(b"%010d 00000 n \n" % offset if kind == 1 else b"0000000000 65535 f \n")
        start = end + 1
    return b"".join(rows)


@pytest.fixture(scope="session")
def pdf_sample() -> type[PdfSample]:
    """The builder, for test modules."""
    return PdfSample


@pytest.fixture(scope="session")
def issue() -> Callable[[Callable[[], PrivateKey]], HeldKey]:
    """`issue_key`, for test modules."""
    return issue_key
