"""XAdES signatures that prove themselves: what is made at each level, read again by means that the product lacks."""

from __future__ import annotations

import base64
import datetime
import hashlib
import io
import re
import subprocess
from xml.dom import minidom

import attrs
import pytest
from asn1crypto import crl, ocsp
from asn1crypto import x509 as asn1_x509
from cryptography.hazmat.primitives.serialization import Encoding
from lxml import etree

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.signing import Format, Measured, ValidationData
from bulksigner.formats import xml_long_term
from bulksigner.formats.dispatch import check, signer_for
from bulksigner.formats.model import CheckFailed, Expectation
from bulksigner.formats.policies import read_key, shipped_policies
from bulksigner.formats.spec import BASELINE_LT, BASELINE_LTA
from bulksigner.testing.certificates import KeyKind, make_authority
from bulksigner.testing.fakes import MemoryKey
from bulksigner.testing.verify import xmlsec1_command

DS, ETSI, ETSI_141 = (
    "http://www.w3.org/2000/09/xmldsig#",
    "http://uri.etsi.org/01903/v1.3.2#",
    "http://uri.etsi.org/01903/v1.4.1#",
)
STAMP, REFS = "SignatureTimeStamp", ["CompleteCertificateRefs", "CompleteRevocationRefs"]
VALUES = ["CertificateValues", "RevocationValues"]
LEVELS = {
    "AD-RV": [STAMP, *REFS, "SigAndRefsTimeStamp"],
    "AD-RC": [STAMP, *REFS, "SigAndRefsTimeStamp", *VALUES],
    "AD-RA": [*REFS, *VALUES, "ArchiveTimeStamp"],
    "B-LT": [STAMP, *VALUES],
    "B-LTA": [STAMP, *VALUES, "ArchiveTimeStamp"],
}
NAMESPACES = (
    '<x:a xmlns:x="urn:x" xmlns="urn:d" xml:lang="pt" xml:space="preserve" xmlns:ds="urn:not-dsig" '
    'xmlns:xades="urn:not-xades" ds:b="1" a="&#9;&lt;&amp;&quot;&#10;"><b xmlns=""><x:c/>é &gt; &amp; '
    "<![CDATA[<x>]]></b><!-- gone --></x:a>"
)
SIGNED_BEFORE = (
    f'<lote><parte Id="p">1</parte><s:Signature xmlns:s="{DS}" Id="s1"><s:SignedInfo><s:CanonicalizationMethod '
    'Algorithm="http://www.w3.org/2001/10/xml-exc-c14n#"/><s:SignatureMethod Algorithm="http://www.w3.org/2001/04/'
    'xmldsig-more#rsa-sha256"/><s:Reference URI="#p"><s:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#'
    'sha256"/><s:DigestValue>AAAA</s:DigestValue></s:Reference></s:SignedInfo><s:SignatureValue>AAAA'
    f'</s:SignatureValue><s:Object><e:QualifyingProperties xmlns:e="{ETSI}" Target="#s1"><e:UnsignedProperties>'
    "<e:UnsignedSignatureProperties><e:CertificateValues/><e:ArchiveTimeStamp/></e:UnsignedSignatureProperties>"
    "</e:UnsignedProperties></e:QualifyingProperties></s:Object></s:Signature></lote>"
)
DOCUMENTS = {
    "plain": b"<nota><a>1</a></nota>",
    "crlf": b'<?xml version="1.0"?>\r\n<a>\r\n  <b  c = "1"/>\r\n\t</a>\r\n',
    "utf-16": ("\ufeff" + '<?xml version="1.0" encoding="UTF-16"?><a>ção</a>').encode("utf-16-le"),
    "latin-1": '<?xml version="1.0" encoding="ISO-8859-1"?><a b="ã">ção</a>'.encode("latin-1"),
    "namespaces": NAMESPACES.encode(),
    "signed before": SIGNED_BEFORE.encode(),
}


def spec_of(level: str, key, version: str | None = None):
    if level.startswith("B-"):
        return {"B-LT": BASELINE_LT, "B-LTA": BASELINE_LTA}[level]
    return shipped_policies().usable(Format.XADES, level, version, read_key(key))[0].spec(etsi_filter=False)


def sign(content: bytes, key, spec, stamping) -> bytes:
    target = io.BytesIO()
    expected = Measured(len(content), hashlib.sha256(content).digest())
    signer = signer_for(Format.XADES, key, spec, stamps=stamping.stamps, proofs=stamping.proofs)
    signer.sign(io.BytesIO(content), target, expected=expected, signed_at=datetime.datetime.now(datetime.UTC))
    return target.getvalue()


def look(content: bytes, artifact: bytes, key, spec, stamping, **given) -> None:
    measured = Measured(len(content), hashlib.sha256(content).digest())
    judges = {"judge_stamp": stamping.judge, "proof_judge": stamping.proof_judge, **given}
    check(io.BytesIO(artifact), Expectation(Format.XADES, key.certificate, measured, spec, **judges))


def in_scope(element) -> dict[str, str]:
    """Return the namespaces in scope, by prefix."""
    found: dict[str, str] = {}
    while element.nodeType == element.ELEMENT_NODE:
        for name, value in element.attributes.items():
            if name == "xmlns" or name.startswith("xmlns:"):
                found.setdefault(name[6:], value)
        element = element.parentNode
    return {prefix: uri for prefix, uri in found.items() if uri}


def escape(text: str, *pairs: tuple[str, str]) -> str:
    for character, escaped in (("&", "&amp;"), ("<", "&lt;"), *pairs, ("\r", "&#xD;")):
        text = text.replace(character, escaped)
    return text


def canonical(element, rendered: dict[str, str] | None = None) -> str:
    """Inclusive Canonical XML 1.0 without comments of an element in its document, over the DOM that expat builds."""
    scope, inherited = in_scope(element), rendered or {}
    shown = {prefix: uri for prefix, uri in scope.items() if inherited.get(prefix) != uri}
    if "" in inherited and "" not in scope:
        shown[""] = ""
    held = {one.name: one for one in element.attributes.values() if not re.match("xmlns(:|$)", one.name)}
    ancestor = element.parentNode if rendered is None else None
    while ancestor is not None and ancestor.nodeType == ancestor.ELEMENT_NODE:
        for one in ancestor.attributes.values():
            if one.name.startswith("xml:"):
                held.setdefault(one.name, one)
        ancestor = ancestor.parentNode
    quoted = (('"', "&quot;"), ("\t", "&#x9;"), ("\n", "&#xA;"))
    tag = element.tagName
    for prefix, uri in sorted(shown.items()):
        tag += f' xmlns{":" if prefix else ""}{prefix}="{escape(uri, *quoted)}"'
    for one in sorted(held.values(), key=lambda one: (one.namespaceURI or "", one.localName)):
        tag += f' {one.name}="{escape(one.value, *quoted)}"'
    inner = ""
    for child in element.childNodes:
        if child.nodeType == child.ELEMENT_NODE:
            inner += canonical(child, scope)
        elif child.nodeType in (child.TEXT_NODE, child.CDATA_SECTION_NODE):
            inner += escape(child.data, (">", "&gt;"))
    return f"<{tag}>{inner}</{element.tagName}>"


def one(parent, name: str, namespace: str = ETSI):
    (found,) = parent.getElementsByTagNameNS(namespace, name)
    return found


def text_of(element) -> str:
    return "".join(child.data for child in element.childNodes)


def decoded(element) -> bytes:
    return base64.b64decode(text_of(element), validate=True)


@attrs.frozen
class Read:
    """The last signature of a document and its unsigned properties, in their order."""

    root: minidom.Element
    signature: minidom.Element
    properties: tuple[minidom.Element, ...]

    @classmethod
    def of(cls, artifact: bytes) -> Read:
        root = minidom.parseString(artifact).documentElement
        signature = root.lastChild
        return cls(root, signature, tuple(one(signature, "UnsignedSignatureProperties").childNodes))

    def named(self, name: str) -> minidom.Element | None:
        return next((found for found in self.properties if found.localName == name), None)

    def covered(self, element: minidom.Element | None = None) -> dict[str, bytes]:
        """Return what each time stamp must cover (TS 101 903, 7.3, 7.5.1, 7.7; EN 319 132-1, 5.5.2).

        `element` is what the signature is of, where it is not the document.
        """
        info, value, key_info = (
            canonical(one(self.signature, name, DS)) for name in ("SignedInfo", "SignatureValue", "KeyInfo")
        )
        signed = canonical(one(self.signature, "SignedProperties"))
        properties = [canonical(found) for found in self.properties]
        self.root.removeChild(self.signature)
        document = canonical(element or self.root)
        self.root.appendChild(self.signature)
        covered = {}
        for place, found in enumerate(self.properties):
            before = "".join(properties[:place])
            if found.localName == STAMP:
                covered[STAMP] = value
            elif found.localName == "SigAndRefsTimeStamp":
                covered[found.localName] = value + before
            elif found.localName == "ArchiveTimeStamp":
                covered[found.localName] = document + signed + info + value + key_info + before
        return {name: content.encode() for name, content in covered.items()}

    def values(self, name: str) -> list[bytes]:
        return [decoded(found) for found in self.signature.getElementsByTagNameNS(ETSI, name)]


@pytest.mark.parametrize(
    ("level", "document"),
    [*((level, "namespaces") for level in LEVELS), *(("B-LTA", one) for one in DOCUMENTS if one != "namespaces")],
)
def test_each_level_over_awkward_documents(stamping, trust_bench, tmp_path, require_tool, level, document) -> None:
    """ICP-32, BEY-01, BEY-12, PERF-04: the properties of the level in their order; OpenSSL accepts each time stamp over
    what it must cover, xmlsec1 the signature, our check all of it; no byte of the document changed."""
    for tool, package in (("openssl", "openssl"), ("xmlsec1", "xmlsec1")):
        require_tool(tool, package)
    content, issued = DOCUMENTS[document], trust_bench.issue()
    key = MemoryKey(issued)
    spec = spec_of(level, key)
    artifact = sign(content, key, spec, stamping)
    look(content, artifact, key, spec, stamping)
    codec = "utf-16-le" if document == "utf-16" else "ascii"
    start, end = (text.encode(codec) for text in ('<ds:Signature xmlns:ds="', "</ds:Signature>"))
    assert artifact[: artifact.rindex(start)] + artifact[artifact.rindex(end) + len(end) :] == content
    file = tmp_path / "signed.xml"
    file.write_bytes(artifact)
    *command, last = xmlsec1_command(file, [trust_bench.roots / "root.pem"])
    command += ["--node-xpath", "(//*[local-name()='Signature'])[last()]", last]
    verdict = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False)
    assert verdict.returncode == 0, verdict.stderr
    found = Read.of(artifact)
    # libxml2 is right about whole documents, so the canonical forms of these tests are held against it.
    whole = etree.tostring(etree.fromstring(artifact), method="c14n", with_comments=False)
    assert whole == canonical(found.root).encode()
    assert [one.localName for one in found.properties] == LEVELS[level]
    assert not spec.required_unsigned or set(spec.required_unsigned) == set(LEVELS[level])
    for name, covered in found.covered().items():
        stamp = found.named(name)
        archive = ETSI_141 if level == "B-LTA" and name == "ArchiveTimeStamp" else ETSI
        assert stamp.namespaceURI == archive
        assert one(stamp, "CanonicalizationMethod", DS).getAttribute("Algorithm").endswith("REC-xml-c14n-20010315")
        verify_stamp(trust_bench, covered, decoded(one(stamp, "EncapsulatedTimeStamp")), tmp_path)


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_of_one_element(stamping, trust_bench, tmp_path, require_tool, level) -> None:
    """ICP-32, BEY-12: where one element is signed by its Id, archive stamps cover it and not the document."""
    require_tool("openssl", "openssl")
    content = NAMESPACES.replace('<b xmlns="">', '<b xmlns="" Id="b1">').encode()
    key = MemoryKey(trust_bench.issue())
    spec = attrs.evolve(spec_of(level, key), xml_element="b")
    artifact = sign(content, key, spec, stamping)
    look(content, artifact, key, spec, stamping)
    found = Read.of(artifact)
    (element,) = found.root.getElementsByTagName("b")
    for name, covered in found.covered(element).items():
        verify_stamp(trust_bench, covered, decoded(one(found.named(name), "EncapsulatedTimeStamp")), tmp_path)


def verify_stamp(trust_bench, covered: bytes, token: bytes, folder) -> None:
    (folder / "covered").write_bytes(covered)
    (folder / "token").write_bytes(token)
    (folder / "between.pem").write_bytes(trust_bench.kit.authority.intermediate.public_bytes(Encoding.PEM))
    command = ["openssl", "ts", "-verify", "-token_in", "-in", "token", "-data", "covered"]
    command += ["-CAfile", str(trust_bench.roots / "root.pem"), "-untrusted", "between.pem"]
    run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.parametrize("ocsp_only", [False, True], ids=["list", "answer"])
@pytest.mark.parametrize("kind", [KeyKind.RSA_2048, KeyKind.ECDSA_P256], ids=lambda one: one.name)
def test_references_name_the_values(stamping, trust_bench, ocsp_only, kind) -> None:
    """ICP-32: each reference by its digest, and issuer and serial number, or the identifiers of list and answer."""
    issued = trust_bench.issue(crl=not ocsp_only, ocsp=ocsp_only, kind=kind)
    key = MemoryKey(issued)
    spec = spec_of("AD-RC", key)
    content = DOCUMENTS["plain"]
    artifact = sign(content, key, spec, stamping)
    look(content, artifact, key, spec, stamping)
    found = Read.of(artifact)
    held = found.values("EncapsulatedX509Certificate")
    service = trust_bench.kit.stamps.certificate.public_bytes(Encoding.DER)
    assert held == [issued.certificate_der, *issued.chain_der, service]
    certificates = found.named("CompleteCertificateRefs").getElementsByTagNameNS(ETSI, "Cert")
    assert [decoded(one(each, "DigestValue", DS)) for each in certificates] == [
        hashlib.sha256(each).digest() for each in issued.chain_der
    ]
    for reference, der in zip(certificates, issued.chain_der, strict=True):
        parsed = asn1_x509.Certificate.load(der)
        assert text_of(one(reference, "X509SerialNumber", DS)) == str(parsed.serial_number)
        assert parsed.issuer.native["common_name"] in text_of(one(reference, "X509IssuerName", DS))
    refs = found.named("CompleteRevocationRefs")
    lists, answers = found.values("EncapsulatedCRLValue"), found.values("EncapsulatedOCSPValue")
    # A list beside the answer is that of the service.
    (der,) = answers if ocsp_only else lists
    assert decoded(one(refs, "DigestValue", DS)) == hashlib.sha256(der).digest()
    if ocsp_only:
        data = ocsp.OCSPResponse.load(der).response_data
        assert text_of(one(refs, "ProducedAt")) == f"{data['produced_at'].native:%Y-%m-%dT%H:%M:%SZ}"
        responder = data["responder_id"]
        if responder.name == "by_key":
            assert decoded(one(refs, "ByKey")) == responder.chosen.native
        else:
            assert responder.chosen.native["common_name"] in text_of(one(refs, "ByName"))
    else:
        parsed = crl.CertificateList.load(der)
        assert parsed.issuer.native["common_name"] in text_of(one(refs, "Issuer"))
        updated = parsed["tbs_cert_list"]["this_update"].native
        assert text_of(one(refs, "IssueTime")) == f"{updated:%Y-%m-%dT%H:%M:%SZ}"
        assert text_of(one(refs, "Number")) == str(parsed.crl_number_value.native)


def test_the_earlier_versions_in_force_are_made(stamping, trust_bench) -> None:
    """ICP-03: each version of the table may be signed with; the oldest has the most that differs."""
    key = MemoryKey(trust_bench.issue())
    for level in ("AD-RV", "AD-RC", "AD-RA"):
        rows = shipped_policies().usable(Format.XADES, level, None, read_key(key))
        assert [row.version for row in rows] == ["2.5", "2.4", "2.3"]
        spec = rows[-1].spec(etsi_filter=False)
        artifact = sign(DOCUMENTS["plain"], key, spec, stamping)
        look(DOCUMENTS["plain"], artifact, key, spec, stamping)


def _leaves(element):
    children = [child for child in element.childNodes if child.nodeType == child.ELEMENT_NODE]
    return [leaf for child in children for leaf in _leaves(child)] or ([element] if text_of(element) else [])


@pytest.mark.parametrize("ocsp_only", [False, True], ids=["list", "answer"])
@pytest.mark.parametrize("level", LEVELS)
def test_one_changed_character_anywhere_unsigned(stamping, trust_bench, level, ocsp_only) -> None:
    """BEY-01, ICP-34: in the head, the middle and the end of each text, and in each algorithm that is named."""
    key = MemoryKey(trust_bench.issue(crl=not ocsp_only, ocsp=ocsp_only))
    spec, content = spec_of(level, key), DOCUMENTS["plain"]
    artifact = sign(content, key, spec, stamping)
    found = Read.of(artifact)
    tried = 0
    begin = artifact.index(b"<xades:UnsignedProperties>")
    for leaf in (leaf for element in found.properties for leaf in _leaves(element)):
        text = text_of(leaf).encode()
        start = artifact.index(b">" + text + b"<", begin) + 1
        for offset in {0, len(text) // 2, len(text.rstrip(b"=")) - 1}:
            place = start + offset
            other = b"B" if artifact[place : place + 1] == b"A" else b"A"
            with pytest.raises(CheckFailed):
                look(content, artifact[:place] + other + artifact[place + 1 :], key, spec, stamping)
            tried += 1
    for match in re.finditer(rb'Algorithm="', artifact[begin:]):
        place = begin + match.end()
        with pytest.raises(CheckFailed):
            look(content, artifact[:place] + b"H" + artifact[place + 1 :], key, spec, stamping)
        tried += 1
    assert tried >= 15


def _drop(name: str):
    return lambda text: re.sub(f"<(xades(?:141)?):{name}[ >].*?</\\1:{name}>", "", text)


EDITS = {
    "another property": lambda text: text.replace(
        "</xades:UnsignedSignatureProperties>", "<xades:RefsOnlyTimeStamp/></xades:UnsignedSignatureProperties>"
    ),
    "an attribute": lambda text: text.replace("<xades:CertificateValues>", '<xades:CertificateValues Id="x">'),
    "an attribute of a value": lambda text: text.replace(
        "<xades:EncapsulatedX509Certificate>", '<xades:EncapsulatedX509Certificate Encoding="x">'
    ),
    "a comment": lambda text: text.replace("<xades:CertificateValues>", "<xades:CertificateValues><!-- x -->"),
    "text in a method": lambda text: re.sub(
        r"(<xades:SignatureTimeStamp><ds:CanonicalizationMethod[^>]*>)", r"\1x", text
    ),
    "unsigned data objects": lambda text: text.replace(
        "</xades:UnsignedProperties>", "<xades:UnsignedDataObjectProperties/></xades:UnsignedProperties>"
    ),
    "a value twice": lambda text: re.sub(r"(<xades:EncapsulatedX509Certificate>.*?</[^>]*>)", r"\1\1", text, count=1),
    "no certificates": _drop("CertificateValues"),
    "no revocation data": _drop("RevocationValues"),
    "no stamp": _drop("SignatureTimeStamp"),
    "no archive stamp": _drop("ArchiveTimeStamp"),
    "an archive stamp of the older version": lambda text: text.replace("01903/v1.4.1#", "01903/v1.3.2#"),
    "a root less": lambda text: re.sub(
        r"(<xades:CertificateValues>(?:<[^>]*>[^<]*</[^>]*>){2})<[^>]*>[^<]*</[^>]*>", r"\1", text
    ),
}


@pytest.mark.parametrize("edit", EDITS)
def test_nothing_else_and_nothing_less_is_unsigned(stamping, trust_bench, edit) -> None:
    """BEY-01: what no stamp covers, the form of the level excludes."""
    key = MemoryKey(trust_bench.issue())
    content = DOCUMENTS["plain"]
    level = BASELINE_LTA if "archive" in edit else BASELINE_LT
    artifact = sign(content, key, level, stamping)
    look(content, artifact, key, level, stamping)
    edited = EDITS[edit](artifact.decode()).encode()
    assert edited != artifact
    with pytest.raises(CheckFailed):
        look(content, edited, key, level, stamping)


def test_a_stamp_of_something_else(stamping, trust_bench) -> None:
    """BEY-01: each stamp of another file of the same level, and a signature that proves another signer."""
    content, key = DOCUMENTS["plain"], MemoryKey(trust_bench.issue())
    for level, names in LEVELS.items():
        spec = spec_of(level, key)
        first, second = (sign(content, key, spec, stamping).decode() for _ in range(2))
        for name in (name for name in names if name.endswith("TimeStamp")):
            pattern = f"<(xades(?:141)?):{name}[ >].*?</\\1:{name}>"
            taken = re.search(pattern, second)
            mixed = re.sub(pattern, taken[0], first)
            assert mixed != first
            with pytest.raises(CheckFailed, match="time stamp"):
                look(content, mixed.encode(), key, spec, stamping)


def test_a_proof_of_somebody_else(stamping, trust_bench) -> None:
    """BEY-01: a proof that is whole, but of another authority, does not count; nor does any without a judge."""
    content, key = DOCUMENTS["plain"], MemoryKey(trust_bench.issue())
    artifact = sign(content, key, BASELINE_LT, stamping)
    other = make_authority("Outra").issue()
    values = "".join(
        f"<xades:EncapsulatedX509Certificate>{base64.b64encode(der).decode()}</xades:EncapsulatedX509Certificate>"
        for der in (other.certificate_der, *other.chain_der)
    )
    text = re.sub(r"(<xades:CertificateValues>).*?(</xades:CertificateValues>)", rf"\g<1>{values}\2", artifact.decode())
    with pytest.raises(CheckFailed):
        look(content, text.encode(), key, BASELINE_LT, stamping)
    with pytest.raises(CheckFailed, match="whom to trust"):
        look(content, artifact, key, BASELINE_LT, stamping, proof_judge=None)


def test_what_cannot_be_made_is_said(stamping, trust_bench, monkeypatch) -> None:
    """PIPE-86: without collected proof, for a signer without an issuer, and for a list too long for XML."""
    key, content = MemoryKey(trust_bench.issue()), DOCUMENTS["plain"]
    with pytest.raises(PermanentFailure, match="nothing here collects it"):
        signer_for(Format.XADES, key, BASELINE_LT, stamps=stamping.stamps)
    unknown = attrs.evolve(spec_of("AD-RC", key), required_unsigned=("RefsOnlyTimeStamp",))
    with pytest.raises(PermanentFailure, match="not made here"):
        sign(content, key, unknown, stamping)
    monkeypatch.setattr(xml_long_term, "MAX_TEXT_BYTES", 100)
    xml_long_term._value.cache_clear()
    with pytest.raises(PermanentFailure, match="no XML file holds more"):
        sign(content, key, BASELINE_LT, stamping)
    monkeypatch.setattr(stamping.proofs, "collect", lambda *_: ValidationData((key.certificate,)))
    with pytest.raises(PermanentFailure, match="has no issuer"):
        sign(content, key, BASELINE_LT, stamping)


def test_a_chain_is_proven_once_for_many_files(stamping, trust_bench) -> None:
    """PERF-06: revocation data is fetched for the first file; later ones cost their time stamps."""
    key = MemoryKey(trust_bench.issue())
    for _ in range(3):
        sign(DOCUMENTS["plain"], key, BASELINE_LTA, stamping)
    assert trust_bench.kit.requests.count("/list.crl") == 1
    assert trust_bench.kit.requests.count("/tsa") == 6
