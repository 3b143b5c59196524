"""The certificate of a finished signature, held against the roots of this host and of the policy (BEY-01, ICP-33).

It shares nothing with the check before signing but the trust set and the rules of paths.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from cryptography import x509
from cryptography.x509.oid import NameOID

from bulksigner.contract.errors import StepFailed
from bulksigner.formats.chain import ChainRefused, build_chain
from bulksigner.observability.redaction import mask_cpf
from bulksigner.trust.roots import TrustSet

__all__ = ["SignerChains"]

_COUNTS = datetime.timedelta(minutes=10)
_NATIONAL = "ICP-Brasil"


class SignerChains:
    """Builds paths, which takes milliseconds, and remembers for a while those that were good."""

    def __init__(self, trust: TrustSet) -> None:
        self._trust = trust
        self._good: dict[tuple[bytes, tuple[str, ...]], datetime.datetime] = {}

    def is_known(self, certificate: bytes, listed: tuple[str, ...], moment: datetime.datetime) -> bool:
        """Tell whether a certificate was found good so short a time before `moment` that it need not be looked at."""
        until = self._good.get((certificate, listed))
        return until is not None and until - _COUNTS <= moment < until

    def require(
        self, certificate: bytes, chain: Iterable[bytes], listed: tuple[str, ...], moment: datetime.datetime
    ) -> None:
        """Require a path to a trusted root at `moment`, and that the policy lists it where it is one of ICP-Brasil.

        `listed` are common names of roots, empty where no policy lists any. Raises `StepFailed`.
        """
        given = tuple(chain)
        roots = [root.encoded for root in self._trust.roots]
        try:
            path = build_chain(
                certificate, (*given, *self._trust.list_above((certificate, *given))), roots, moment=moment
            )
        except ChainRefused as error:
            raise StepFailed(
                f"The certificate of the signature leads to no root of this host: {mask_cpf(error.message)}"
            ) from error
        name = x509.load_der_x509_certificate(path[-1].issuer if path else certificate).subject
        common = [str(one.value) for one in name.get_attributes_for_oid(NameOID.COMMON_NAME)]
        organizations = [str(one.value) for one in name.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        if listed and _NATIONAL in organizations and not set(common) & set(listed):
            raise StepFailed(f"The policy of the signature does not list the root of its certificate, {common[0]}.")
        self._good[certificate, listed] = moment + _COUNTS
