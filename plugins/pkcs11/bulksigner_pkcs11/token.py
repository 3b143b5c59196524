"""From a thumbprint to a key that is proved to be that of the certificate."""

from __future__ import annotations

import hashlib
import logging
import secrets
from collections.abc import Sequence
from pathlib import Path

import attrs
from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from bulksigner.contract.certificate import Digest
from bulksigner.contract.chain import order_chain, read_folder
from bulksigner.contract.errors import PermanentFailure
from bulksigner_pkcs11.channel import Driver, TokenTrouble
from bulksigner_pkcs11.login import log_in
from bulksigner_pkcs11.mechanisms import Ask, Padding, PublicKey, choose, finish, verifies
from bulksigner_pkcs11.messages import Drop, HeldCertificate, KeyFacts, Look, OpenKey, Sight, Sign, TokenId
from bulksigner_pkcs11.pins import PinMemory
from bulksigner_pkcs11.settings import CHAIN_KEY, Pkcs11Block

__all__ = ["Content", "Found", "find_key", "find_key_again", "sign_on_token"]

_LOG = logging.getLogger("bulksigner.pkcs11")
_PROOF_BYTES = 32
_MECHANISM_REFUSED = frozenset({"MechanismInvalid", "MechanismParamInvalid"})


@attrs.frozen
class Found:
    """A key on a token, open in one life of its driver."""

    token: TokenId
    certificate: bytes
    chain: tuple[bytes, ...]
    public: PublicKey
    facts: KeyFacts
    life: int
    login: int


def find_key(driver: Driver, block: Pkcs11Block, memory: PinMemory) -> Found:
    """Find the certificate among the tokens, log in, open its key and prove it; raises `PermanentFailure`.

    The identity is chosen by thumbprint alone (CFG-74). A PIN is only given to the token that shows the certificate,
    or to the only token there is.
    """
    with driver.turn():
        life = driver.life
        sights = _look(driver)
        if life and driver.life == life and not _holders(sights, block) and driver.renew():
            # The process is from before, and this token may have come later.
            sights = _look(driver)
        if not sights:
            raise PermanentFailure("no token is there; plug it in, and look at the reader and its service.")
        holding = _holders(sights, block)
        if len(sights) > 1:
            names = ", ".join(str(sight.token) for sight in sights)
            _LOG.warning("The PKCS #11 library %s shows %d tokens: %s", driver.module_path, len(sights), names)
        if len(holding) > 1:
            names = ", ".join(str(sight.token) for sight in holding)
            raise PermanentFailure(f"{len(holding)} tokens hold the certificate: {names}. Leave one of them in.")
        if not holding and len(sights) > 1:
            raise PermanentFailure(
                f"none of the {len(sights)} tokens shows the certificate {block.thumbprint.lower()} before a login, "
                "and the PIN is not given to tokens at a guess. Check the thumbprint, or leave in the one meant."
            )
        return _open(driver, (holding or sights)[0], block, memory)


def find_key_again(driver: Driver, block: Pkcs11Block, memory: PinMemory, known: Found) -> Found:
    """Find a key once more after its session, its token or its driver was lost (BEY-30).

    The token is known by label and serial, and the certificate must be the one that was there before.
    """
    with driver.turn():
        # Another key of the token may have found it before; its session is a new one and sound.
        if driver.login_of(known.token) == known.login:
            _drop(driver, known.token)
        sight = _see(driver, known.token)
        if sight is None and driver.renew(known.token):
            sight = _see(driver, known.token)
        if sight is None:
            raise PermanentFailure(f"the token {known.token} is not there; plug it in, and look at the reader.")
        found = _open(driver, sight, block, memory)
        if found.certificate != known.certificate:
            raise PermanentFailure(
                f"the token {known.token} holds another certificate under the same thumbprint than before; reopen the "
                "profile to use it."
            )
        return found


@attrs.frozen
class Content:
    """What is signed: its digest, and the data itself unless it is not at hand."""

    data: bytes | None
    value: bytes
    digest: Digest

    @classmethod
    def of(cls, data: bytes, digest: Digest) -> Content:
        """Hash the data."""
        return cls(data, hashlib.new(digest.value, data).digest(), digest)


def sign_on_token(driver: Driver, found: Found, content: Content, padding: Padding) -> bytes:
    """Have a token sign; raises `TokenTrouble`, `DriverLost`, and `PermanentFailure` for what it cannot do."""
    offered = found.facts.mechanisms
    ask = choose(found.public, offered, padding, content.data, content.value, content.digest)
    try:
        return _ask(driver, found, ask)
    except TokenTrouble as trouble:
        # It is on the token's list and yet not to be had: the digest may be.
        if trouble.name not in _MECHANISM_REFUSED or content.data is None or ask.data is not content.data:
            raise
    return _ask(driver, found, choose(found.public, offered, padding, None, content.value, content.digest))


def _ask(driver: Driver, found: Found, ask: Ask) -> bytes:
    answer: bytes = driver.call(Sign(found.facts.handle, ask.mechanism, ask.data, ask.pss_digest), life=found.life)
    return finish(found.public, answer)


def _holders(sights: Sequence[Sight], block: Pkcs11Block) -> list[Sight]:
    """Return the tokens that show the certificate; one that is there in two slots is one token."""
    return list({sight.token: sight for sight in sights if _pick(sight, block.thumbprint)}.values())


def _look(driver: Driver) -> list[Sight]:
    try:
        sights: list[Sight] = driver.call(Look())
    except TokenTrouble as trouble:
        raise PermanentFailure(f"it cannot be loaded or asked for its tokens ({trouble.told}).") from trouble
    return sights


def _see(driver: Driver, token: TokenId) -> Sight | None:
    try:
        return next((sight for sight in _look(driver) if sight.token == token), None)
    except PermanentFailure:
        # A library that lost its token may answer nothing any more; a fresh process is the next thing to try.
        if driver.renew(token):
            return next((sight for sight in _look(driver) if sight.token == token), None)
        raise


def _drop(driver: Driver, token: TokenId) -> None:
    driver.call(Drop(token))
    driver.logged_out(token)


def _pick(sight: Sight, thumbprint: str) -> HeldCertificate | None:
    wanted = bytes.fromhex(thumbprint)
    # The thumbprint is a name and no proof, so SHA-1 is enough.
    return next((one for one in sight.certificates if hashlib.sha1(one.certificate).digest() == wanted), None)  # noqa: S324


def _open(driver: Driver, sight: Sight, block: Pkcs11Block, memory: PinMemory) -> Found:
    log_in(driver, sight, block.pin_env_var, memory)
    held = _pick(sight, block.thumbprint)
    if held is None:
        # Some tokens show their certificates after the login only.
        again = next((one for one in _look(driver) if one.token == sight.token), None)
        sight, held = (again, _pick(again, block.thumbprint)) if again is not None else (sight, None)
    if held is None:
        raise PermanentFailure(
            f"no certificate on the token {sight.token} has the thumbprint {block.thumbprint.lower()}; it holds "
            f"{len(sight.certificates)}. Check Certificate:Pkcs11:Thumbprint."
        )
    public = _read_public_key(held.certificate)
    modulus = None
    if isinstance(public, RSAPublicKey):
        modulus = public.public_numbers().n.to_bytes(public.key_size // 8)
    try:
        facts: KeyFacts = driver.call(OpenKey(sight.token, held.key_id, isinstance(public, RSAPublicKey), modulus))
        found = Found(
            sight.token,
            held.certificate,
            _order(held.certificate, [one.certificate for one in sight.certificates], block),
            public,
            facts,
            driver.life,
            driver.login_of(sight.token),
        )
        _prove(driver, found)
    except TokenTrouble as trouble:
        raise PermanentFailure(
            f"the private key of the certificate on the token {sight.token} does not open ({trouble.told})."
        ) from trouble
    return found


def _prove(driver: Driver, found: Found) -> None:
    """See that the key is that of the certificate, by a signature over what means nothing."""
    data = b"bulksigner key proof\0" + secrets.token_bytes(_PROOF_BYTES)
    signature = sign_on_token(driver, found, Content.of(data, Digest.SHA256), Padding.PKCS1)
    if not verifies(found.public, Padding.PKCS1, signature, data, Digest.SHA256):
        raise PermanentFailure(f"the private key on the token {found.token} is not that of the certificate.")


def _read_public_key(certificate: bytes) -> PublicKey:
    try:
        key = x509.load_der_x509_certificate(certificate).public_key()
    except (ValueError, x509.InvalidVersion, UnsupportedAlgorithm) as error:
        raise PermanentFailure("the certificate on the token cannot be read.") from error
    if not isinstance(key, RSAPublicKey | EllipticCurvePublicKey):
        raise PermanentFailure("the certificate on the token has a key of another kind than RSA and ECDSA.")
    return key


def _order(leaf: bytes, others: Sequence[bytes], block: Pkcs11Block) -> tuple[bytes, ...]:
    found = read_folder(Path(block.chain_path), CHAIN_KEY) if block.chain_path else []
    for encoded in others:
        try:
            found.append(x509.load_der_x509_certificate(encoded))
        except (ValueError, x509.InvalidVersion):
            # An odd certificate beside that of the signer does not stop it.
            continue
    return order_chain(x509.load_der_x509_certificate(leaf), found)
