"""Puts what proves a signature later into it: issuers, revocation lists and answers (CAdES and PAdES B-LT).

Bytes in, bytes out, and nothing that was signed changes. Which certificates and lists are enough is decided elsewhere.
"""

from __future__ import annotations

import io

from asn1crypto import crl, ocsp, x509
from pyhanko.pdf_utils.misc import PdfError

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.signing import ValidationData
from bulksigner.formats import der
from bulksigner.formats.unsigned import add_cms_unsigned, open_cms

__all__ = ["add_cms_validation_data", "add_cms_values", "add_pdf_validation_data"]

CERTIFICATE_VALUES = "1.2.840.113549.1.9.16.2.23"
REVOCATION_VALUES = "1.2.840.113549.1.9.16.2.24"
_OCSP_RESPONSE = der.object_identifier("1.3.6.1.5.5.7.16.2")
_CERTIFICATES, _LISTS = 0xA0, 0xA1
_VERSION_WITH_OTHERS = der.integer(5)


def add_cms_validation_data(cms: bytes, data: ValidationData) -> bytes:
    """Return a CMS with the data among its certificates and revocation infos (CAdES B-LT, EN 319 122-1 6.3).

    A CMS with answers of OCSP has version 5 (RFC 5652 5.1).
    """
    outer, signed, _ = open_cms(cms)
    try:
        version, digests, content, *rest, signers = signed
        held = {part[0]: der.members(part) for part in rest}
    except (ValueError, IndexError) as error:
        raise PermanentFailure("The CMS is damaged, so nothing can be added to it.") from error
    certificates = dict.fromkeys((*held.get(_CERTIFICATES, ()), *data.certificates))
    others = [der.element(0xA1, _OCSP_RESPONSE + answer) for answer in data.answers]
    infos = dict.fromkeys((*held.get(_LISTS, ()), *data.lists, *others))
    parts = [
        _VERSION_WITH_OTHERS if others else version,
        digests,
        content,
        der.set_of(certificates, _CERTIFICATES),
        *([der.set_of(infos, _LISTS)] if infos else []),
        signers,
    ]
    return der.sequence(outer[0], der.explicit(0, der.sequence(*parts)))


def add_cms_values(cms: bytes, data: ValidationData) -> bytes:
    """Return a CMS with the data as the unsigned attributes certificateValues and revocationValues (RFC 5126 6.3)."""
    answers = [_basic(answer) for answer in data.answers]
    values = [
        *([der.explicit(0, der.sequence(*data.lists))] if data.lists else []),
        *([der.explicit(1, der.sequence(*answers))] if answers else []),
    ]
    stamped = add_cms_unsigned(cms, CERTIFICATE_VALUES, der.sequence(*data.certificates))
    return add_cms_unsigned(stamped, REVOCATION_VALUES, der.sequence(*values))


def add_pdf_validation_data(pdf: bytes, cms: bytes, data: ValidationData) -> bytes:
    """Return a signed PDF with the data in its security store, appended as one more revision (PAdES B-LT).

    `cms` is the content of the signature's `/Contents` as it stands, filled up with zeros, which names the entry of the
    store. Raises `PermanentFailure` for a PDF that pyHanko cannot read.
    """
    from pyhanko.sign.validation.dss import DocumentSecurityStore  # here: it brings all of pyHanko's validation along

    target = io.BytesIO(pdf)
    try:
        DocumentSecurityStore.add_dss(
            target,
            cms,
            certs=[x509.Certificate.load(one) for one in data.certificates],
            crls=[crl.CertificateList.load(one) for one in data.lists],
            ocsps=[ocsp.OCSPResponse.load(one) for one in data.answers],
            force_write=True,
        )
    except (PdfError, ValueError, TypeError, KeyError) as error:
        raise PermanentFailure("The data that proves the signature could not be added to the PDF.") from error
    return target.getvalue()


def _basic(answer: bytes) -> bytes:
    """Return the BasicOCSPResponse inside an OCSPResponse."""
    try:
        basic: bytes = ocsp.OCSPResponse.load(answer, strict=True).basic_ocsp_response.dump()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise PermanentFailure("An answer about revocation is no OCSP response.") from error
    return basic
