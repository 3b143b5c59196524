"""RC2 in CBC mode, decryption only (RFC 2268).

Many issued certificates still come in 40-bit RC2 envelopes, and OpenSSL 3 has the cipher in its legacy provider only,
which a hardened host does not load.
"""

from __future__ import annotations

import struct

__all__ = ["BLOCK_BYTES", "decrypt_cbc"]

BLOCK_BYTES = 8
_PI = bytes.fromhex(
    "d978f9c419ddb5ed28e9fd794aa0d89dc67e37832b76538e624c6488448bfba2"
    "179a59f587b34f1361456d8d09817d32bd8f40eb86b77b0bf09521225c6b4e82"
    "54d66593ce60b21c7356c014a78cf1dc1275ca1f3bbee4d1423dd430a33cb626"
    "6fbf0eda4669075727f21d9bbc944303f811c7f690ef3ee706c3d52fc8661ed7"
    "08e8eade8052eef784aa72ac354d6a2a961ad2715a1549744b9fd05e0418a4ec"
    "c2e0416e0f51cbcc2491af50a1f47039997c3a8523b8b47afc02365b25559731"
    "2d5dfa98e38a92ae05df2910676cbac9d300e6cfe19ea82c6316013f58e289a9"
    "0d38341bab33ffb0bb480c5fb9b1cd2ec5f3db47e5a59c770aa62068fe7fc1ad"
)
_SHIFTS = (1, 2, 3, 5)


def _expand(key: bytes, effective_bits: int) -> tuple[int, ...]:
    """Expand a key to 64 words of 16 bits (RFC 2268 section 2)."""
    table = bytearray(key) + bytearray(128 - len(key))
    for at in range(len(key), 128):
        table[at] = _PI[(table[at - 1] + table[at - len(key)]) & 0xFF]
    effective_bytes = (effective_bits + 7) // 8
    first = 128 - effective_bytes
    table[first] = _PI[table[first] & (0xFF >> (8 * effective_bytes - effective_bits))]
    for at in reversed(range(first)):
        table[at] = _PI[table[at + 1] ^ table[at + effective_bytes]]
    return struct.unpack("<64H", table)


def _decrypt_block(words: tuple[int, ...], block: bytes) -> bytes:
    """Decrypt one block (RFC 2268 section 4): 5, 6 and 5 reversed mixing rounds around two reversed mashes."""
    state = list(struct.unpack("<4H", block))
    next_word = 63
    for rounds in (5, 6, 5):
        for _ in range(rounds):
            for at in (3, 2, 1, 0):
                before, second, third = state[at - 1], state[at - 2], state[at - 3]
                shift = _SHIFTS[at]
                turned = (state[at] >> shift | state[at] << (16 - shift)) & 0xFFFF
                state[at] = (turned - words[next_word] - (before & second) - (~before & third)) & 0xFFFF
                next_word -= 1
        if next_word >= 0:
            for at in (3, 2, 1, 0):
                state[at] = (state[at] - words[state[at - 1] & 63]) & 0xFFFF
    return struct.pack("<4H", *state)


def decrypt_cbc(key: bytes, effective_bits: int, vector: bytes, ciphertext: bytes) -> bytes:
    """Decrypt whole blocks; padding stays on.

    Raises `ValueError` when the ciphertext is not made of whole blocks.
    """
    if len(ciphertext) % BLOCK_BYTES or len(vector) != BLOCK_BYTES:
        raise ValueError("RC2 works on whole blocks of 8 bytes")
    words = _expand(key, effective_bits)
    plain = bytearray()
    for at in range(0, len(ciphertext), BLOCK_BYTES):
        block = ciphertext[at : at + BLOCK_BYTES]
        plain += bytes(left ^ right for left, right in zip(_decrypt_block(words, block), vector, strict=True))
        vector = block
    return bytes(plain)
