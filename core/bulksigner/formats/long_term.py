"""Puts what proves a signature later into it: issuers, revocation lists and answers (CAdES and PAdES B-LT).

Bytes in, bytes out, and nothing that was signed changes. Which certificates and lists are enough is decided elsewhere.
"""

from __future__ import annotations

import io

from asn1crypto import crl, ocsp, x509
from pyhanko.pdf_utils.misc import PdfError

from bulksigner.contract.errors import PermanentFailure
from bulksigner.contract.signing import ValidationData

__all__ = ["add_pdf_validation_data"]


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
