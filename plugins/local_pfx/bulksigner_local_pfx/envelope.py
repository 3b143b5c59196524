"""Opens a PKCS#12 file: checks its MAC, decrypts its bags (RFC 7292).

The file is read here and not by OpenSSL for two reasons: old ciphers must open on hosts without the legacy provider
(CFG-72), and an operator must be told which of several things is wrong (OPS-112).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator

import attrs
from asn1crypto import pkcs12

from bulksigner_local_pfx.algorithms import decrypt, mac_of
from bulksigner_local_pfx.passwords import Reading, readings_of
from bulksigner_local_pfx.refusals import Damaged, EnvelopeRefused, NotPkcs12, WrongPassword

__all__ = ["Contents", "open_envelope"]

_SEQUENCE = 0x30
_DEEPEST_NESTING = 8
_WRONG = "wrong password; set Certificate:Pfx:Password to the password of this file."


@attrs.frozen(repr=False)
class Contents:
    """What a file holds: private keys as PKCS#8 and certificates, DER, in the order of the file."""

    keys: tuple[bytes, ...]
    certificates: tuple[bytes, ...]


def _damaged(what: str) -> Damaged:
    return Damaged(f"the file is damaged: {what}; copy it again from where it was issued.")


def _declared_length(data: bytes) -> int | None:
    """Return the length that the outermost element claims; None when the file does not begin as DER or BER does."""
    if len(data) < 2 or data[0] != _SEQUENCE:
        return None
    first = data[1]
    if first < 0x80:
        return 2 + first
    size = first & 0x7F
    if size == 0:
        return 2
    if size > 4 or len(data) < 2 + size:
        return None
    return 2 + size + int.from_bytes(data[2 : 2 + size], "big")


def _check_kind(data: bytes) -> None:
    """Refuse what is no PKCS#12 at all, and what ends too early."""
    declared = _declared_length(data)
    version = data.find(b"\x02\x01\x03", 2, 9)
    if declared is None or version < 0:
        hint = " (it is a PEM text)" if data.lstrip()[:11] == b"-----BEGIN " else ""
        raise NotPkcs12(
            f"not a PKCS#12 file{hint}; export the certificate together with its private key as .pfx or .p12."
        )
    if len(data) < declared:
        raise _damaged(f"it should have {declared} bytes and has {len(data)}")


def _is_whole(plain: bytes) -> bool:
    """Tell whether the bytes are one element, DER or, as some browsers wrote it, BER of indefinite length."""
    return _declared_length(plain) == len(plain) or (plain[:2] == b"\x30\x80" and plain[-2:] == b"\x00\x00")


def _bags(contents: pkcs12.SafeContents, depth: int = 0) -> Iterator[pkcs12.SafeBag]:
    for bag in contents:
        if bag["bag_id"].native != "safe_contents":
            yield bag
        elif depth < _DEEPEST_NESTING:
            yield from _bags(bag["bag_value"], depth + 1)
        else:
            raise _damaged("its bags are nested too deeply")


def _decrypt_whole(algorithm: bytes, ciphertext: bytes, reading: Reading) -> bytes:
    plain = decrypt(algorithm, ciphertext, reading)
    if not _is_whole(plain):
        raise ValueError("what was decrypted is not one element")
    return plain


def _read_safes(authenticated: bytes, reading: Reading) -> Contents:
    """Decrypt everything; `ValueError` tells that this reading of the password does not fit."""
    keys: list[bytes] = []
    certificates: list[bytes] = []
    for safe in pkcs12.AuthenticatedSafe.load(authenticated):
        kind = safe["content_type"].native
        if kind == "encrypted_data":
            sealed = safe["content"]["encrypted_content_info"]
            algorithm = sealed["content_encryption_algorithm"].dump()
            plain = _decrypt_whole(algorithm, sealed["encrypted_content"].native, reading)
        elif kind == "data":
            plain = bytes(safe["content"])
        else:
            raise EnvelopeRefused(
                f"protected for a certificate instead of a password ({kind}); export it again with a password."
            )
        for bag in _bags(pkcs12.SafeContents.load(plain)):
            name = bag["bag_id"].native
            if name == "key_bag":
                keys.append(bag["bag_value"].untag().dump())
            elif name == "pkcs8_shrouded_key_bag":
                sealed = bag["bag_value"]
                algorithm = sealed["encryption_algorithm"].dump()
                keys.append(_decrypt_whole(algorithm, sealed["encrypted_data"].native, reading))
            elif name == "cert_bag" and bag["bag_value"]["cert_id"].native == "x509":
                certificates.append(bag["bag_value"]["cert_value"].parsed.dump())
    return Contents(tuple(keys), tuple(certificates))


def _opens(authenticated: bytes, readings: tuple[Reading, ...]) -> bool:
    """Tell whether any encrypted part opens, which a wrong password does not do by chance."""
    for safe in pkcs12.AuthenticatedSafe.load(authenticated):
        if safe["content_type"].native != "encrypted_data":
            continue
        sealed = safe["content"]["encrypted_content_info"]
        algorithm = sealed["content_encryption_algorithm"].dump()
        for reading in readings:
            try:
                _decrypt_whole(algorithm, sealed["encrypted_content"].native, reading)
            except (ValueError, EnvelopeRefused):
                continue
            return True
    return False


def _matching(pfx: pkcs12.Pfx, authenticated: bytes, readings: tuple[Reading, ...]) -> tuple[Reading, ...]:
    """Put the readings whose MAC is right first (RFC 7292 section 5.1).

    The others follow, because some writers read one password in two ways within one file. Without a MAC the order
    stays as it is.
    """
    mac = pfx["mac_data"]
    if not isinstance(mac, pkcs12.MacData):
        return readings
    algorithm, stored = mac["mac"]["digest_algorithm"].dump(), mac["mac"]["digest"].native
    salt, count = mac["mac_salt"].native, mac["iterations"].native
    kept = tuple(
        reading
        for reading in readings
        if hmac.compare_digest(mac_of(algorithm, salt, count, authenticated, reading), stored)
    )
    if not kept and _opens(authenticated, readings):
        raise _damaged("the password is right and the content does not fit its MAC")
    if not kept:
        raise WrongPassword(_WRONG)
    return (*kept, *(reading for reading in readings if reading not in kept))


def _open_parsed(data: bytes, password: str) -> Contents:
    pfx = pkcs12.Pfx.load(data)
    if pfx["auth_safe"]["content_type"].native != "data":
        raise EnvelopeRefused("signed by a certificate instead of protected by a password; export it with a password.")
    authenticated = bytes(pfx["auth_safe"]["content"])
    readings = _matching(pfx, authenticated, readings_of(password))
    has_mac = isinstance(pfx["mac_data"], pkcs12.MacData)
    for reading in readings:
        try:
            return _read_safes(authenticated, reading)
        except (ValueError, TypeError, KeyError):
            continue
    raise (
        _damaged("its MAC is right and its bags do not open")
        if has_mac
        else WrongPassword(f"{_WRONG} The file has no MAC, so damage looks the same.")
    )


def open_envelope(data: bytes, password: str) -> Contents:
    """Open a PKCS#12 file; raises the refusal that names what is wrong with it."""
    _check_kind(data)
    try:
        return _open_parsed(data, password)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        # asn1crypto has no error class of its own: these six are what it raises on damaged input.
        raise _damaged(f"it cannot be read as PKCS#12 ({type(error).__name__})") from error
