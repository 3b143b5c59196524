"""The check after signing: what it accepts, and that each change of an artifact has its sentence."""

from __future__ import annotations

import base64
import concurrent.futures
import datetime
import hashlib
import io
import re

import attrs
import pytest

from bulksigner.contract.certificate import Digest, KeyAlgorithm
from bulksigner.formats.model import CheckFailed
from bulksigner.formats.spec import BASELINE_B
from bulksigner.formats.xades_check import MAX_SIGNATURE_BYTES, check_xml

ORIGINAL = (
    '<?xml version="1.0"?>\r\n<!-- one --><?p q?>\n<a k="v"> <b>texto &amp; ç</b><!-- two --></a>\r\n<!-- three -->\n'
)

# A library may warn of a damaged certificate before it refuses it, as of a serial number that became negative.
pytestmark = pytest.mark.filterwarnings("ignore")
INFO = re.compile(r"<ds:SignedInfo>(.*)</ds:SignedInfo>")
PROPERTIES = re.compile(r'<xades:SignedProperties( Id="[^"]*")>(.*)</xades:SignedProperties>')
NAMESPACES = 'xmlns:ds="http://www.w3.org/2000/09/xmldsig#"'
ETSI = 'xmlns:xades="http://uri.etsi.org/01903/v1.3.2#"'


def _seal(text, key):
    """Digest and sign again what was changed, as a forger with the key would (roots without namespaces only)."""
    found = PROPERTIES.search(text)
    canonical = f"<xades:SignedProperties {NAMESPACES} {ETSI}{found[1]}>{found[2]}</xades:SignedProperties>"
    digest = base64.b64encode(hashlib.sha256(canonical.encode()).digest()).decode()
    head, _, tail = text.rpartition("</ds:DigestValue></ds:Reference>")
    text = f"{head[:-44]}{digest}</ds:DigestValue></ds:Reference>{tail}"
    signed = f"<ds:SignedInfo {NAMESPACES}>{INFO.search(text)[1]}</ds:SignedInfo>"
    value = base64.b64encode(key.sign(signed.encode(), Digest.SHA256)).decode()
    return re.sub("(?<=<ds:SignatureValue>)[^<]*", lambda _: value, text)


@pytest.fixture(scope="module")
def artifact(sign, rsa_key):
    return sign(ORIGINAL.encode(), rsa_key).decode()


@pytest.fixture
def check(expectation, rsa_key):
    return lambda text: check_xml(io.BytesIO(text.encode()), expectation(ORIGINAL.encode(), rsa_key))


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA512])
@pytest.mark.parametrize("kind", ["rsa", "p256", "p521"])
def test_check_reports_what_it_saw(kind, digest, codec, sign, make_key, measure, expectation):
    """BEY-01: the measure is of the whole artifact, the facts are those of its signature."""
    key, data = make_key(kind), ("\ufeff" + ORIGINAL).encode(codec)
    artifact = sign(data, key, attrs.evolve(BASELINE_B, digest=digest))
    checked = check_xml(io.BytesIO(artifact), expectation(data, key))
    assert checked.measured == measure(artifact)
    assert checked.algorithm is (KeyAlgorithm.RSA if kind == "rsa" else KeyAlgorithm.ECDSA)
    assert checked.digest == digest.value
    assert checked.signing_time == datetime.datetime(2025, 9, 1, 15, 30, 15, tzinfo=datetime.UTC)


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("end", ["<!-- </a></b> -->", "<?p </a>?>", "\n" * 9000])
def test_check_finds_the_signature_before_any_end(end, codec, sign, rsa_key, expectation):
    """BEY-01: what follows the root may look like tags, and be of any length."""
    data = f"\ufeff<a><b>1</b></a>{end}".encode(codec)
    check_xml(io.BytesIO(sign(data, rsa_key)), expectation(data, rsa_key))


def test_check_sealing_again_is_sound(artifact, check, rsa_key):
    """The forger of the tests below makes valid signatures, so that only the change is refused."""
    assert _seal(artifact, rsa_key) == artifact
    check(_seal(artifact.replace("15:30:15Z", "12:30:15-03:00"), rsa_key))


OUTSIDE = {
    "declaration": ("?>\r\n<!--", "?>\n<!--"),
    "comment before the root": ("one", "ones"),
    "instruction": ("?p q", "?p r"),
    "attribute": ('k="v"', 'k="w"'),
    "spelling of an attribute": ('k="v"', "k='v'"),
    "text": ("texto", "Texto"),
    "spelling of text": ("&amp;", "&#38;"),
    "comment inside": ("two", "too"),
    "end": ("three -->\n", "three -->"),
    "blank after the signature": ("</ds:Signature>", "</ds:Signature> "),
    "comment after the signature": ("</ds:Signature>", "</ds:Signature><!-- c -->"),
    "element after the signature": ("</ds:Signature>", "</ds:Signature><b/>"),
    "signature moved up": ("<b>", "</b>"),
}


@pytest.mark.parametrize("where", OUTSIDE)
def test_check_pins_every_byte_outside(where, artifact, check):
    """BEY-01, BEY-12: the artifact without its signature must be the original, byte for byte."""
    old, new = OUTSIDE[where]
    assert old in artifact
    with pytest.raises(CheckFailed):
        check(artifact.replace(old, new))


INSIDE = {
    "comment": ("<ds:KeyInfo>", "<ds:KeyInfo><!-- c -->", "comment"),
    "instruction": ("<ds:KeyInfo>", "<ds:KeyInfo><?p?>", "processing instruction"),
    "text between elements": ("<ds:KeyInfo>", "<ds:KeyInfo> ", "text between"),
    "text after an element": ("</ds:KeyInfo>", "</ds:KeyInfo> ", "text between"),
    "attribute on KeyInfo": ("<ds:KeyInfo>", '<ds:KeyInfo Id="k">', "KeyInfo has other attributes"),
    "second Object": ("<ds:Object>", "<ds:Object></ds:Object><ds:Object>", "Signature has other content"),
    "unsigned properties": (
        "</xades:QualifyingProperties>",
        "<xades:UnsignedProperties></xades:UnsignedProperties></xades:QualifyingProperties>",
        "QualifyingProperties has other content",
    ),
    "target": ('Target="#signature-', 'Target="#Signature-', "belong to another signature"),
    "Id of the signature": ('Id="signature-', 'Id="zignature-', "belong to another signature"),
    "canonical form": ("REC-xml-c14n-20010315", "REC-xml-c14n-20010315#WithComments", "inclusive C14N"),
    "time": ("15:30:15Z", "15:30:16Z", "digest of the signed properties"),
    "weak algorithm": ("xmldsig-more#rsa-sha256", "xmldsig-more#rsa-sha1", "is not allowed"),
    "algorithm of another key": ("xmldsig-more#rsa", "xmldsig-more#ecdsa", "does not fit"),
    "blank in the value": ("<ds:SignatureValue>", "<ds:SignatureValue> ", "is not base64"),
    "element in the value": ("<ds:SignatureValue>", "<ds:SignatureValue><ds:X/>", "has other content|between|base64"),
    "key information": ("X509Certificate", "X509CRL", "certificates only"),
    "namespace that has no canonical form": ("<ds:SignedInfo>", '<ds:SignedInfo xmlns:p="x">', "no canonical form"),
}


@pytest.mark.parametrize("where", INSIDE)
def test_check_pins_the_signature(where, artifact, check):
    """ICP-32: each change inside the signature is refused, what nothing signs included."""
    old, new, text = INSIDE[where]
    assert old in artifact
    with pytest.raises(CheckFailed, match=text):
        check(artifact.replace(old, new))


def test_check_pins_every_value(artifact, check):
    """ICP-32: both digests, the signature value, every certificate and the certificate's digest count."""
    texts = list(re.finditer(r">([A-Za-z0-9+/]{30,}=*)<", artifact))
    assert len(texts) == 7
    for found in texts:
        value = bytearray(base64.b64decode(found[1]))
        value[len(value) // 2] ^= 1
        changed = base64.b64encode(value).decode()
        with pytest.raises(CheckFailed):
            check(artifact[: found.start(1)] + changed + artifact[found.end(1) :])


FORGED = {
    "document reference elsewhere": ('URI=""', 'URI="http://localhost:9/x"', "not to the whole document"),
    "document reference to a part": ('URI=""', 'URI="#b"', "not to the whole document"),
    "properties reference elsewhere": ('URI="#properties', 'URI="file:properties', "not to the signed properties"),
    "type": ("01903#SignedProperties", "01903#Other", "not to the signed properties"),
    "unknown transform": ("xmldsig#enveloped-signature", "xmldsig#base64", "other transforms"),
    "more transforms": (
        "<ds:Transforms>",
        '<ds:Transforms><ds:Transform Algorithm="http://www.w3.org/TR/1999/REC-xslt-19991116"></ds:Transform>',
        "other transforms",
    ),
    "third reference": (
        "<ds:Reference Type",
        '<ds:Reference URI=""></ds:Reference><ds:Reference Type',
        "SignedInfo has other content",
    ),
    "digest algorithm": ("xmlenc#sha256", "xmlenc#ripemd160", "'http://www.w3.org/2001/04/xmlenc#ripemd160' is not"),
    "certificate not named": ("xades:SigningCertificateV2", "xades:CompleteCertificateRefs", "do not name one"),
    "two certificates named": ("</xades:Cert>", "</xades:Cert><xades:Cert></xades:Cert>", "other content"),
    "property twice": (
        "<xades:SigningTime>",
        "<xades:SigningTime></xades:SigningTime><xades:SigningTime>",
        "SigningTime twice",
    ),
    "time without offset": ("15:30:15Z", "15:30:15", "is not a time with an offset"),
    "impossible time": ("2025-09-01T", "2025-13-01T", "is not a time with an offset"),
}


@pytest.mark.parametrize("how", FORGED)
def test_check_refuses_what_is_validly_signed_but_wrong(how, artifact, check, rsa_key):
    """ICP-32: a valid signature over something else than the profile asks for is none."""
    old, new, text = FORGED[how]
    assert old in artifact
    with pytest.raises(CheckFailed, match=text):
        check(_seal(artifact.replace(old, new), rsa_key))


def test_check_wrong_certificate(artifact, sign, expectation, make_key, rsa_key):
    """BEY-01: another signer's certificate, even of the same key, is not the expected one."""
    data = ORIGINAL.encode()
    other = make_key("rsa")
    with pytest.raises(CheckFailed, match="does not verify with the expected certificate"):
        check_xml(io.BytesIO(artifact.encode()), expectation(data, other))
    renewed = attrs.evolve(rsa_key, certificate=make_key("rsa", rsa_key.private).certificate)
    with pytest.raises(CheckFailed, match="first X509Certificate is not the expected"):
        check_xml(io.BytesIO(artifact.encode()), expectation(data, renewed))
    swapped = artifact.replace(
        base64.b64encode(rsa_key.certificate).decode(), base64.b64encode(renewed.certificate).decode()
    )
    with pytest.raises(CheckFailed, match="name another certificate"):
        check_xml(io.BytesIO(swapped.encode()), expectation(data, renewed))
    with pytest.raises(CheckFailed, match="did not issue"):
        check_xml(io.BytesIO(sign(data, attrs.evolve(rsa_key, chain=rsa_key.chain[::-1]))), expectation(data, rsa_key))


def test_check_signature_wrapping(sign, check, artifact, expectation, rsa_key, monkeypatch):
    """ICP-41: an element elsewhere with an Id of ours, however it is spelled, and a moved signature are refused."""
    monkeypatch.setattr("bulksigner.formats.xades.secrets.token_hex", lambda _: "0" * 16)
    for name in ("Id", "ID", "id", "xml:id"):
        data = f'<a><b {name}="properties-&#48;000000000000000"/></a>'.encode()
        with pytest.raises(CheckFailed, match="more than once"):
            check_xml(io.BytesIO(sign(data, rsa_key)), expectation(data, rsa_key))
    signature = re.search("<ds:Signature .*</ds:Signature>", artifact)[0]
    for moved in (
        artifact.replace(signature, "").replace("<b>", f"{signature}<b>"),
        artifact.replace(signature, f"<b>{signature}</b>"),
        artifact.replace(signature, signature * 2),
        artifact.replace(signature, ""),
        f"<evil>{artifact.partition('?>')[2]}</evil>",
    ):
        with pytest.raises(CheckFailed):
            check(moved)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0\0\0",
        b"<a/>",
        b"<a><b/></a>",
        b"<!DOCTYPE a [<!ENTITY x 'y'>]><a>&x;</a>",
        b'<?xml version="1.0" encoding="nonsense"?><a></a>',
        b'<?xml version="1.0" encoding="utf-7"?><a></a>',
        b"<a>" * 5000 + b"</a>" * 5000,
        b"<a><p:b></p:b></a>",
        b"\xff\xfe<\x00\x00\xd8>\x00",
    ],
)
def test_check_malformed_bytes(content, measure, rsa_key, expectation):
    """BEY-01: whatever the artifact is, the failure is a sentence; here the original even has the same bytes."""
    for original in (content, b"<a></a>"):
        with pytest.raises(CheckFailed):
            check_xml(io.BytesIO(content), expectation(original, rsa_key))


def test_check_reads_no_more_than_a_signature_can_add(expectation, rsa_key):
    """SEC-70: an artifact that grew beyond any signature is not parsed."""
    with pytest.raises(CheckFailed, match="bytes longer than the original"):
        check_xml(io.BytesIO(bytes(MAX_SIGNATURE_BYTES + 8)), expectation(b"<a></a>", rsa_key))


def test_check_and_signer_in_threads(sign, check, expectation, rsa_key):
    """PERF-06: nothing is shared between files that are signed and checked at the same time."""

    def run(number):
        data = f"<a n='{number}' xml:lang='pt'>{'<b/>' * number}</a>".encode()
        return check_xml(io.BytesIO(sign(data, rsa_key)), expectation(data, rsa_key)).measured.length

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(run, range(200)))) > 150
