"""A certificate in words for a terminal."""

from __future__ import annotations

import datetime

from bulksigner.console.certificate import describe_certificate
from bulksigner.testing.certificates import ANA, Issued


def test_the_facts_of_a_certificate_without_the_holders_number(leaf: Issued) -> None:
    """OPS-207, SEC-59, SEC-82: names, dates and thumbprint; a CPF is reduced to its check digits."""
    certificate = leaf.certificate
    now = certificate.not_valid_after_utc - datetime.timedelta(days=30, hours=1)
    told = dict(describe_certificate(leaf.certificate_der, (), now))
    assert ANA.name in told["subject"]
    assert ANA.number not in "".join(told.values())
    assert f"***.***.***-{ANA.number[-2:]}" in told["subject"]
    assert told["valid"].endswith(f"{certificate.not_valid_after_utc:%Y-%m-%d}, 30 day(s) left")
    assert int(told["serial"], 16) == certificate.serial_number
    assert len(told["thumbprint"]) == 40


def test_how_far_the_chain_goes(leaf: Issued) -> None:
    """OPS-207: up to the root, or the issuer that is missing; nothing is said of trust that was not looked at."""
    now = datetime.datetime.now(datetime.UTC)
    whole = dict(describe_certificate(leaf.certificate_der, leaf.chain_der, now))["chain"]
    assert whole.startswith(f"{len(leaf.chain_der)} issuer(s) with the key, up to its root")
    broken = dict(describe_certificate(leaf.certificate_der, (), now))["chain"]
    assert broken.startswith("0 issuer(s) with the key, the issuer ")
    assert broken.endswith("is missing")
