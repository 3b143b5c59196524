from __future__ import annotations

import json

import pytest

from bulksigner.jobs.metadata import MetadataInvalid, parse_metadata, read_metadata, write_metadata

KEYS_AT_THE_LIMIT = {f"k{number:02}": "x" for number in range(32)}
# 16 keys of 3 characters: with their values exactly 8 KiB, in characters of two bytes.
BYTES_AT_THE_LIMIT = {f"k{number:02}": "é" * 254 + "x" for number in range(16)}


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"a": ""},
        KEYS_AT_THE_LIMIT,
        {"A.b_c-9": "x", "a.B_c-9": "y"},
        {"k" * 64: "x"},
        {"k": "\U0001f600" * 512},
        BYTES_AT_THE_LIMIT,
    ],
    ids=["none", "empty value", "32 keys", "letters", "64 characters", "512 code points", "8 KiB"],
)
def test_what_is_at_a_limit_is_accepted(given: dict[str, str]) -> None:
    """PIPE-115: each limit at its edge, in both spellings of JSON, with and without a byte order mark."""
    for text in (json.dumps(given), json.dumps(given, ensure_ascii=False).encode("utf-8-sig")):
        assert parse_metadata(text) == given
    assert read_metadata(write_metadata(given)) == given


def test_the_limit_in_bytes_is_what_it_says() -> None:
    """PIPE-115: the map above is at the limit, neither below nor over it."""
    assert sum(len(key) + len(value.encode()) for key, value in BYTES_AT_THE_LIMIT.items()) == 8192


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "not JSON"),
        ("{", "not JSON"),
        ("[" * 10_000, "not JSON"),
        ("9" * 5000, "not JSON"),
        ("[]", "not one JSON object"),
        ('"secret"', "not one JSON object"),
        ("{} {}", "not JSON"),
        ('{"secret": "a", "secret": "a"}', "a key twice"),
        ('{"a": {"secret": "b", "secret": "c"}}', "a key twice"),
        ('{"a": {"secret": "b"}}', "not text"),
        ('{"secret": 1}', "not text"),
        ('{"secret": null}', "not text"),
        ('{"secret": ["a"]}', "not text"),
        (json.dumps({**KEYS_AT_THE_LIMIT, "secret": "x"}), "more than 32 keys"),
        ('{"": "secret"}', "64 letters"),
        (json.dumps({"k" * 65: "secret"}), "64 letters"),
        ('{"secret key": "a"}', "64 letters"),
        ('{"secret\\n": "a"}', "64 letters"),
        ('{"chavé": "secret"}', "64 letters"),
        (json.dumps({"k": "s" * 513}), "longer than 512"),
        (json.dumps({**BYTES_AT_THE_LIMIT, "k00": BYTES_AT_THE_LIMIT["k00"] + "x"}), "longer than 8192 bytes"),
        ('{"k": "secret\\ud800"}', "not Unicode text"),
        (b'{"k": "secret\xff"}', "not UTF-8"),
        ('{"k": "secret"}'.encode("utf-16"), "not UTF-8"),
    ],
)
def test_what_is_over_a_limit_is_refused_by_its_rule(text: str | bytes, rule: str) -> None:
    """PIPE-115, PIPE-119: the first rule broken is named, no key and no value."""
    with pytest.raises(MetadataInvalid, match=rule) as refused:
        parse_metadata(text)
    assert "secret" not in str(refused.value)
    assert refused.value.__cause__ is None
