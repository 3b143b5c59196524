"""The trust folder: what it may hold, and how it is told of."""

from __future__ import annotations

import datetime

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs7

from bulksigner.contract.errors import ConfigurationRefused
from bulksigner.settings.trust import TrustSettings
from bulksigner.testing.certificates import make_authority
from bulksigner.trust.roots import TrustSet, load_trust

DER, PEM = serialization.Encoding.DER, serialization.Encoding.PEM


@pytest.fixture(scope="module")
def pki():
    return make_authority("Pasta")


@pytest.mark.parametrize("spelling", ["pem", "der", "p7b-der", "p7b-pem", "one-pem"])
def test_roots_and_intermediates_are_told_apart_however_they_are_written(tmp_path, pki, spelling) -> None:
    """CFG-68: PEM, DER and PKCS #7; self-signed ones are roots."""
    both = [pki.root, pki.intermediate]
    if spelling.startswith("p7b"):
        encoded = pkcs7.serialize_certificates(both, PEM if spelling.endswith("pem") else DER)
        (tmp_path / "chain.P7B").write_bytes(encoded)
    elif spelling == "one-pem":
        (tmp_path / "all.pem").write_bytes(b"".join(one.public_bytes(PEM) for one in both))
    else:
        for number, one in enumerate(both):
            (tmp_path / f"{number}.crt").write_bytes(one.public_bytes(PEM if spelling == "pem" else DER))
    (tmp_path / "README.txt").write_text("read by nobody")
    trust = load_trust(TrustSettings(roots_path=tmp_path))
    assert [one.parsed for one in trust.roots] == [pki.root]
    assert [one.parsed for one in trust.intermediates] == [pki.intermediate]
    assert trust.describe() == "1 root"


def test_everything_that_does_not_belong_is_refused_at_once(tmp_path, pki) -> None:
    """CFG-68, CFG-12: each file by its name."""
    (tmp_path / "broken.pem").write_bytes(b"-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n")
    (tmp_path / "empty.cer").write_bytes(b"")
    pki.issue().write_certificate_pem(tmp_path / "leaf.pem")
    with pytest.raises(ConfigurationRefused) as refused:
        load_trust(TrustSettings(roots_path=tmp_path))
    told = {failure.problem.split(" ")[1].rstrip(",") for failure in refused.value.failures}
    assert told == {"broken.pem", "empty.cer", "leaf.pem"}
    assert {failure.key for failure in refused.value.failures} == {"Signing:Trust:RootsPath"}


def test_test_roots_count_only_where_they_are_allowed(tmp_path, pki) -> None:
    """CFG-67: their folder is not read otherwise; the banner names them."""
    tests, roots = tmp_path / "tests", tmp_path / "roots"
    tests.mkdir()
    roots.mkdir()
    (tests / "test.crt").write_bytes(pki.root.public_bytes(DER))
    assert not load_trust(TrustSettings(roots_path=roots, test_roots_path=tests))
    allowed = load_trust(TrustSettings(roots_path=roots, test_roots_path=tests, allow_test_roots=True))
    assert allowed.describe() == "1 root + TEST ROOT"


def test_the_banner_names_the_national_roots_and_an_empty_set() -> None:
    """OPS-31: `ICP-Brasil, n roots`."""
    assert "names no root" in TrustSet().describe()


def test_roots_of_the_national_organization_are_called_so(tmp_path, pki) -> None:
    """OPS-31: by the organization that all of them name."""
    name = x509.Name(
        [
            x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, "ICP-Brasil"),
            x509.NameAttribute(x509.NameOID.COMMON_NAME, "Raiz ficticia"),
        ]
    )
    from cryptography.hazmat.primitives import hashes

    now = datetime.datetime.now(datetime.UTC)
    root = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(pki.intermediate_key.public_key())
        .serial_number(7)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=9))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(pki.intermediate_key, hashes.SHA256())
    )
    (tmp_path / "root.der").write_bytes(root.public_bytes(DER))
    assert load_trust(TrustSettings(roots_path=tmp_path)).describe() == "ICP-Brasil, 1 root"
