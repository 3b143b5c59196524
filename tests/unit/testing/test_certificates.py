import datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key, pkcs12
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bulksigner.testing.certificates import ANA, AURORA, KeyKind, cnpj, cpf, main, make_authority, make_key


@pytest.fixture(scope="module")
def authority():
    return make_authority()


def other_names(certificate: x509.Certificate) -> dict[str, str]:
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return {
        name.type_id.dotted_string: name.value[2:].decode("latin-1")
        for name in names.get_values_for_type(x509.OtherName)
    }


def test_check_digits_of_known_numbers():
    """CNAB-38: the published examples complete to themselves, letters included."""
    assert cpf("529982247") == "52998224725"
    assert cnpj("112223330001") == "11222333000181"
    assert cnpj("12ABC34501DE") == "12ABC34501DE35"


def test_a_leaf_chains_to_its_root(authority):
    """ICP-25: leaf, intermediate and root verify one another."""
    leaf = authority.issue()
    intermediate, root = leaf.issuers
    leaf.certificate.verify_directly_issued_by(intermediate)
    intermediate.verify_directly_issued_by(root)
    root.verify_directly_issued_by(root)
    assert leaf.chain_der[-1] == authority.root_der


def test_an_e_cpf_holds_the_number_of_its_person(authority):
    """ICP-20: the CPF stands in columns 9 to 19 of otherName 2.16.76.1.3.1."""
    names = other_names(authority.issue(ANA).certificate)
    assert names["2.16.76.1.3.1"][8:19] == ANA.number
    assert names["2.16.76.1.3.1"].startswith("17051980")
    assert {"2.16.76.1.3.5", "2.16.76.1.3.6"} <= set(names)
    assert "2.16.76.1.3.3" not in names


def test_an_e_cnpj_holds_company_and_responsible_person(authority):
    """ICP-20: CNPJ in 2.16.76.1.3.3, CPF of the responsible person in columns 9 to 19 of 2.16.76.1.3.4."""
    certificate = authority.issue(AURORA).certificate
    names = other_names(certificate)
    assert names["2.16.76.1.3.3"] == AURORA.number
    assert names["2.16.76.1.3.4"][8:19] == AURORA.responsible.number
    assert names["2.16.76.1.3.2"] == AURORA.responsible.name
    common_name = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value
    assert common_name == f"{AURORA.name}:{AURORA.number}"


def test_usages_are_those_of_a_signing_certificate(authority):
    """ICP-24: digitalSignature and nonRepudiation, clientAuth and emailProtection."""
    extensions = authority.issue().certificate.extensions
    usage = extensions.get_extension_for_class(x509.KeyUsage).value
    assert usage.digital_signature
    assert usage.content_commitment
    extended = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    assert extended == {ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.EMAIL_PROTECTION}


def test_a_leaf_that_may_not_sign_lacks_both_usages(authority):
    """ICP-24: the certificate for refusal tests is really unfit."""
    usage = authority.issue(for_signing=False).certificate.extensions.get_extension_for_class(x509.KeyUsage).value
    assert not usage.digital_signature
    assert not usage.content_commitment


@pytest.mark.parametrize(
    ("kind", "key_class", "bits"),
    [
        (KeyKind.RSA_2048, rsa.RSAPublicKey, 2048),
        (KeyKind.RSA_4096, rsa.RSAPublicKey, 4096),
        (KeyKind.ECDSA_P256, ec.EllipticCurvePublicKey, 256),
    ],
)
def test_kinds_of_key(authority, kind, key_class, bits):
    """ICP-11: the kinds that the policies allow can be issued."""
    public = authority.issue(kind=kind).certificate.public_key()
    assert isinstance(public, key_class)
    assert public.key_size == bits


def test_a_key_is_made_once_per_process():
    """The second request for a kind returns the same object; another label is another key."""
    assert make_key(KeyKind.ECDSA_P256) is make_key(KeyKind.ECDSA_P256)
    assert make_key(KeyKind.ECDSA_P256, "other") is not make_key(KeyKind.ECDSA_P256)


def test_validity_is_what_was_asked_for(authority):
    """An expired certificate can be issued."""
    begins = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    ends = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
    certificate = authority.issue(not_before=begins, not_after=ends).certificate
    assert (certificate.not_valid_before_utc, certificate.not_valid_after_utc) == (begins, ends)


@pytest.mark.parametrize("legacy", [False, True])
def test_a_pfx_opens_with_its_password_only(authority, tmp_path: Path, legacy):
    """Both envelopes hold key, leaf and chain; a wrong password opens neither."""
    leaf = authority.issue()
    path = leaf.write_pfx(tmp_path / "leaf.pfx", "segredo", legacy=legacy)
    key, certificate, issuers = pkcs12.load_key_and_certificates(path.read_bytes(), b"segredo")
    assert certificate == leaf.certificate
    assert set(issuers) == set(leaf.issuers)
    assert key.private_numbers() == leaf.key.private_numbers()
    with pytest.raises(ValueError, match="password"):
        pkcs12.load_key_and_certificates(path.read_bytes(), b"errado")


def test_the_legacy_envelope_is_another_one(authority, tmp_path: Path):
    """`legacy` writes pbeWithSHAAnd3-KeyTripleDES-CBC (RFC 7292, appendix C), the default does not."""
    triple_des = bytes.fromhex("060a2a864886f70d010c0103")
    leaf = authority.issue()
    assert triple_des in leaf.write_pfx(tmp_path / "old.pfx", "x", legacy=True).read_bytes()
    assert triple_des not in leaf.write_pfx(tmp_path / "new.pfx", "x").read_bytes()


def test_pem_writers(authority, tmp_path: Path):
    """Leaf, chain, root and key come back from their PEM files."""
    leaf = authority.issue()
    chain = x509.load_pem_x509_certificates(leaf.write_chain_pem(tmp_path / "chain.pem").read_bytes())
    assert chain == [leaf.certificate, *leaf.issuers]
    written = leaf.write_certificate_pem(tmp_path / "leaf.pem").read_bytes()
    assert x509.load_pem_x509_certificates(written) == [leaf.certificate]
    written = leaf.write_root_pem(tmp_path / "root.pem").read_bytes()
    assert x509.load_pem_x509_certificates(written) == [leaf.root]
    key = load_pem_private_key(leaf.write_key_pem(tmp_path / "key.pem").read_bytes(), None)
    assert key.public_key() == leaf.certificate.public_key()


def test_the_command_writes_a_certificate_and_its_root(tmp_path: Path, capsys):
    """The tutorial's certificate opens with the password given and leads to the root beside it."""
    path = tmp_path / "mine.pfx"
    assert main([str(path), "senha"]) == 0
    _, certificate, issuers = pkcs12.load_key_and_certificates(path.read_bytes(), b"senha")
    root = x509.load_pem_x509_certificate((tmp_path / "mine.root.pem").read_bytes())
    assert root in issuers
    assert certificate.issuer != root.subject
    assert capsys.readouterr().out.split() == [str(path), str(tmp_path / "mine.root.pem")]
    assert main([]) == 2
    assert "usage:" in capsys.readouterr().err
