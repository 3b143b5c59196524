"""Damaged certificates, lists, answers and tokens: each is refused in our words, whatever the libraries raise."""

from __future__ import annotations

import contextlib
import datetime
import hashlib
import random
from collections.abc import Callable, Iterator

import attrs
import pytest

from bulksigner.contract.certificate import Digest
from bulksigner.contract.errors import BulkSignerError
from bulksigner.contract.signing import ValidationData
from bulksigner.formats.chain import build_chain, check_revocation, check_usage, next_update
from bulksigner.formats.evidence_check import check_evidence
from bulksigner.formats.icp_brasil import read_holder
from bulksigner.formats.references import certificate_references, revocation_references, revocation_values
from bulksigner.formats.timestamp import build_request, list_certificates, read_response, read_token
from bulksigner.formats.unsigned import add_cms_timestamp, list_cms_unsigned, stamped_in_cms
from bulksigner.testing.authority_server import AuthorityServer
from bulksigner.testing.certificates import Issued, make_authority

NONCE = 5
CONTENT = b"content"
DIGEST = hashlib.sha256(CONTENT).digest()
pytestmark = pytest.mark.filterwarnings("ignore::cryptography.utils.CryptographyDeprecationWarning")


@attrs.frozen
class Sound:
    """One of each, undamaged."""

    issued: Issued
    root: bytes
    revoked: bytes
    answer: bytes
    response: bytes
    token: bytes
    now: datetime.datetime


@pytest.fixture(scope="module")
def sound() -> Sound:
    from bulksigner.trust.evidence import _ask

    authority = make_authority("Danos")
    issued, kit = authority.issue(crl_url="http://x/l", ocsp_url="http://x/o"), AuthorityServer(authority)
    now = datetime.datetime.now(datetime.UTC)
    link = build_chain(issued.certificate_der, issued.chain_der, [authority.root_der], moment=now)[0]
    response = kit.stamp(build_request(DIGEST, Digest.SHA256, nonce=NONCE))
    token = read_response(response, DIGEST, Digest.SHA256, nonce=NONCE).token
    return Sound(issued, authority.root_der, kit.make_list(), kit.answer(_ask(link)), response, token, now)


def damage(sound: bytes, chance: random.Random) -> bytes:
    """Change, remove or add a few bytes."""
    damaged = bytearray(sound)
    for _ in range(chance.choice((1, 1, 2, 4))):
        place, kind = chance.randrange(len(damaged)), chance.random()
        if kind < 0.6:
            damaged[place] = chance.randrange(256)
        elif kind < 0.8:
            del damaged[place : place + chance.randrange(1, 8)]
        else:
            damaged[place:place] = chance.randbytes(chance.randrange(1, 5))
    return bytes(damaged)


def doors(sound: Sound, chance: random.Random) -> Iterator[Callable[[], object]]:
    """Yield a call of each function that reads what comes from outside, with something damaged."""
    leaf, issuers, roots, now = sound.issued.certificate_der, list(sound.issued.chain_der), [sound.root], sound.now
    certificate, between = damage(leaf, chance), damage(issuers[0], chance)
    revoked, answer = damage(sound.revoked, chance), damage(sound.answer, chance)
    token, data = damage(sound.token, chance), ValidationData((certificate,), (revoked,), (answer,))
    yield lambda: build_chain(certificate, issuers, roots, moment=now)
    yield lambda: build_chain(leaf, [between], roots, moment=now)
    yield lambda: check_usage(certificate, require_non_repudiation=True)
    yield lambda: read_holder(certificate)
    yield lambda: next_update(revoked, is_list=True)
    yield lambda: next_update(answer, is_list=False)
    yield lambda: check_revocation(leaf, issuers, roots, crls=[revoked], ocsps=[], moment=now)
    yield lambda: check_revocation(leaf, issuers, roots, crls=[], ocsps=[answer], moment=now)
    yield lambda: read_response(damage(sound.response, chance), DIGEST, Digest.SHA256, nonce=NONCE)
    yield lambda: read_token(token, CONTENT)
    yield lambda: stamped_in_cms(token)
    yield lambda: list_cms_unsigned(add_cms_timestamp(token, sound.token))
    yield lambda: list_certificates(token)
    yield lambda: (certificate_references(data), revocation_references(data), revocation_values(data))
    yield lambda: check_evidence((leaf,), data)


def knock(sound: Sound, seeds: range) -> None:
    for seed in seeds:
        for door in doors(sound, random.Random(seed)):
            with contextlib.suppress(BulkSignerError):
                door()


def test_nothing_else_than_our_refusals_comes_out(sound) -> None:
    """SEC-70: what an authority or a service sends is not trusted to be well made."""
    knock(sound, range(40))


@pytest.mark.soak
def test_nothing_else_comes_out_of_many(sound) -> None:
    """SEC-70: the same by the thousand."""
    knock(sound, range(40, 6000))
