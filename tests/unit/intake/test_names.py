from __future__ import annotations

import uuid

import pytest

from bulksigner.contract.errors import Refusal
from bulksigner.intake.names import IgnoreRules, clean_client_name, is_landing_name, mint_landing_name

RULES = IgnoreRules((".tmp", ".PART"), (".", "~$"))


@pytest.mark.parametrize(
    ("name", "is_ignored"),
    [
        ("a.pdf", False),
        ("a.tmp", True),
        ("a.TMP", True),
        ("a.part", True),
        (".a", True),
        ("~$a.doc", True),
        ("tmp", False),
    ],
)
def test_ignore_lists_know_no_case(name: str, is_ignored: bool) -> None:
    """PIPE-42: extensions and prefixes, in any case of letters."""
    assert RULES.match(name) is is_ignored
    assert not IgnoreRules().match(name)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("nota.xml", "nota.xml"),
        ("C:\\docs\\nota.xml", "nota.xml"),
        ("../../etc/nota.xml", "nota.xml"),
        ("cafe\u0301.pdf", "caf\u00e9.pdf"),
        ("a\x00b\x1f\x7fc.pdf", "abc.pdf"),
        ("fdp\u202exml.pdf", "fdpxml.pdf"),
        ('a<b>c:d"e|f?g*.pdf', "a_b_c_d_e_f_g_.pdf"),
        ("  nota.pdf. . ", "nota.pdf"),
        ("console.pdf", "console.pdf"),
    ],
)
def test_client_names_are_cleaned(given: str, expected: str) -> None:
    """SEC-65: last part, NFC, no control or bidi characters, safe on Windows, trimmed."""
    assert clean_client_name(given, RULES) == expected


@pytest.mark.parametrize(
    "given",
    ["", "/", ".", "..", " . ", "\u202e", "\ud800.pdf", "x" * 256, "\u00e7" * 128, "a.tmp", ".hidden", "~$a.pdf"],
)
def test_unusable_client_names_are_refused(given: str) -> None:
    """SEC-65: empty, dots, device names, too long, ignored, or no text at all."""
    with pytest.raises(Refusal) as refused:
        clean_client_name(given, RULES)
    assert refused.value.code == "upload.invalid-name"


@pytest.mark.parametrize("given", ["CON", "con.pdf", "Lpt9.x", "nul .txt", "COM\u00b9.pdf", "a/aux.tar.gz"])
def test_windows_device_names_are_refused(given: str) -> None:
    """SEC-65, WIN-27: in any case, with any extension."""
    with pytest.raises(Refusal, match="device"):
        clean_client_name(given, RULES)


def test_a_landing_name_is_a_guid_that_says_so() -> None:
    """SEC-66, PIPE-54: unique, recognised, with the extension when that is at most 16 characters."""
    names = {mint_landing_name("nota.xml") for _ in range(1000)}
    assert len(names) == 1000
    for name in names:
        assert is_landing_name(name)
        guid, _, extension = name.partition(".")
        assert str(uuid.UUID(guid)) == guid
        assert extension == "xml"
    assert "." not in mint_landing_name("nota." + "x" * 16)
    assert is_landing_name(mint_landing_name("nota"))
    assert mint_landing_name("a." + "x" * 15).endswith("." + "x" * 15)


def test_names_of_producers_are_no_landing_names() -> None:
    """PIPE-54: a producer that names its files by GUIDs is not kept out."""
    assert not any(is_landing_name(f"{uuid.uuid4()}.xml") for _ in range(1000))
    assert not is_landing_name("nota.xml")
