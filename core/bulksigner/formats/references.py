"""References to the certificates and the revocation data of a chain, and their values, as CAdES encodes them.

RFC 5126 6.2 and 6.3; its module has explicit tags. Each hash is SHA-256.
"""

from __future__ import annotations

import hashlib

from asn1crypto import crl, ocsp, x509

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.signing import ValidationData
from bulksigner.formats import der

__all__ = ["certificate_references", "certificate_values", "revocation_references", "revocation_values"]

_SHA256 = der.sequence(der.object_identifier("2.16.840.1.101.3.4.2.1"))


def certificate_references(data: ValidationData) -> bytes:
    """Encode CompleteCertificateRefs: the issuers of the first certificate, up to the root (6.2.1)."""
    return der.sequence(*(_certificate_reference(one) for one in data.certificates[1:]))


def revocation_references(data: ValidationData) -> bytes:
    """Encode CompleteRevocationRefs: one entry for each certificate, in their order, the signer's first (6.2.2)."""
    try:
        lists = [crl.CertificateList.load(one, strict=True) for one in data.lists]
        answers = [_basic(one) for one in data.answers]
        certificates = [x509.Certificate.load(one, strict=True) for one in data.certificates]
        return der.sequence(*(_revocation_reference(one, lists, answers) for one in certificates))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PermanentFailure("What proves the chain cannot be read, so nothing can refer to it.") from error


def certificate_values(data: ValidationData) -> bytes:
    """Encode CertificateValues (6.3.3)."""
    return der.sequence(*data.certificates)


def revocation_values(data: ValidationData) -> bytes:
    """Encode RevocationValues (6.3.4); raises `PermanentFailure` for an answer that is none."""
    try:
        answers = [_basic(answer).dump() for answer in data.answers]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PermanentFailure("An answer about revocation is no OCSP response.") from error
    return der.sequence(
        *([der.explicit(0, der.sequence(*data.lists))] if data.lists else []),
        *([der.explicit(1, der.sequence(*answers))] if answers else []),
    )


def _basic(answer: bytes) -> ocsp.BasicOCSPResponse:
    """Return the BasicOCSPResponse inside an OCSPResponse."""
    return ocsp.OCSPResponse.load(answer, strict=True).basic_ocsp_response


def _certificate_reference(certificate: bytes) -> bytes:
    fields = der.members(der.members(certificate)[0])
    fields = fields[1:] if fields[0][0] == 0xA0 else fields
    names = der.sequence(der.explicit(4, fields[2]))
    return der.sequence(_hash(certificate), der.sequence(names, fields[0]))


def _revocation_reference(
    certificate: x509.Certificate, lists: list[crl.CertificateList], answers: list[ocsp.BasicOCSPResponse]
) -> bytes:
    issuer = certificate.issuer.dump()
    # A root's own list says nothing of the root.
    is_root = certificate.subject.dump() == issuer
    named = [] if is_root else [_list_reference(one) for one in lists if one.issuer.dump() == issuer]
    answered = [_answer_reference(one) for one in answers if certificate.serial_number in _serials(one)]
    return der.sequence(
        *([der.explicit(0, der.sequence(der.sequence(*named)))] if named else []),
        *([der.explicit(1, der.sequence(der.sequence(*answered)))] if answered else []),
    )


def _serials(answer: ocsp.BasicOCSPResponse) -> set[int]:
    return {one["cert_id"]["serial_number"].native for one in answer["tbs_response_data"]["responses"]}


def _list_reference(revoked: crl.CertificateList) -> bytes:
    tbs = revoked["tbs_cert_list"]
    issued = der.time(tbs["this_update"].native)
    number = revoked.crl_number_value
    identifier = der.sequence(revoked.issuer.dump(), issued, *([] if number is None else [number.dump()]))
    return der.sequence(_hash(revoked.dump()), identifier)


def _answer_reference(answer: ocsp.BasicOCSPResponse) -> bytes:
    data = answer["tbs_response_data"]
    identifier = der.sequence(data["responder_id"].dump(), data["produced_at"].dump())
    return der.sequence(identifier, _hash(answer.dump()))


def _hash(encoded: bytes) -> bytes:
    return der.sequence(_SHA256, der.octet_string(hashlib.sha256(encoded).digest()))
