"""What is refused before a signature is made, and where the signature goes."""

from __future__ import annotations

import io
import time

import pytest

from bulksigner.contract.signing import Measured
from bulksigner.formats.model import FormatRefused
from bulksigner.formats.xml_splice import (
    MAX_ATTRIBUTES,
    MAX_DEPTH,
    MAX_DOCUMENT_BYTES,
    MAX_NAMESPACE_SEARCHES,
    MAX_NAMESPACES,
    MAX_NODES,
    Place,
    find_place,
    read_staged,
    splice,
)

LAUGHS = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))

REFUSED = {
    "no bytes": (b"", r"^Not well-formed XML at 1:1: no element found\.$"),
    "no XML": (b"%PDF-1.7", r"^Not well-formed XML at 1:1:"),
    "truncated": (b"<a>\n <b>x</b>\n", r"at 3:1: no element found"),
    "truncated tag": (b"<a><b", r"at 1:4: unclosed token"),
    "wrong end tag": (b"<a>\n<b></c></a>", r"at 2:6: mismatched tag"),
    "two roots": (b"<a></a><b></b>", r"at 1:8: junk after document element"),
    "empty root": (b"<a/>", r"^The root element is empty"),
    "empty root with tail": (b"<a k='1' />\n<!-- </a> -->", r"^The root element is empty"),
    "doctype": (b'<?xml version="1.0"?>\n<!DOCTYPE a>\n<a></a>', r"at 2:12: a DOCTYPE"),
    "external entity": (b'<!DOCTYPE a [<!ENTITY x SYSTEM "file:/etc/passwd">]><a>&x;</a>', "a DOCTYPE"),
    "external subset": (b'<!DOCTYPE a SYSTEM "http://localhost:9/a.dtd"><a></a>', "a DOCTYPE"),
    "billion laughs": (f'<!DOCTYPE a [<!ENTITY l0 "ha">{LAUGHS}]><a>&l9;</a>'.encode(), "a DOCTYPE"),
    "undeclared entity": (b"<a>&nbsp;</a>", r"at 1:4: undefined entity"),
    "version": (b'<?xml version="1.1"?><a></a>', r"at 1:1: XML version '1.1'"),
    "unbound prefix": (b"<a>\n<p:b/></a>", r"at 2:1: unbound prefix"),
    "duplicate attribute": (b"<a k='1' k='2'></a>", r"at 1:10: duplicate attribute"),
    "relative namespace": (b"<a xmlns='relative'></a>", "is no absolute URI"),
    "unportable namespace": (b"<a>\n<b xmlns:p='urn:x&amp;y'/></a>", r"at 2:1: namespace name 'urn:x&y'"),
    "long namespace": (b"<a xmlns='urn:&amp;" + b"x" * 100_000 + b"'></a>", "do not verify everywhere"),
    "other encoding": (
        b'<?xml version="1.0" encoding="Shift_JIS"?><a></a>',
        r"encoding 'Shift_JIS'; supported are UTF-8",
    ),
    "unknown encoding": (b'<?xml version="1.0" encoding="nonsense"?><a></a>', "encoding 'nonsense'"),
    "one byte declared as two": (b'<?xml version="1.0" encoding="UTF-16"?><a></a>', "'UTF-16' contradicts the bytes"),
    "mark contradicts": (b'\xef\xbb\xbf<?xml version="1.0" encoding="ISO-8859-1"?><a></a>', "contradicts the bytes"),
    "two bytes declared as one": (
        b"\xff\xfe" + '<?xml version="1.0" encoding="UTF-8"?><a></a>'.encode("utf-16-le"),
        "contradicts the bytes",
    ),
    "UTF-16 without mark": ("<a></a>".encode("utf-16-le"), "without a byte order mark"),
    "UTF-16 BE without mark": ("<a></a>".encode("utf-16-be"), "without a byte order mark"),
    "UTF-32": ("\ufeff<a></a>".encode("utf-32-le"), "Not well-formed"),
    "latin-1 without declaration": ("<a>\né</a>".encode("latin-1"), r"at 2:1: not well-formed"),
    "beyond ASCII": ('<?xml version="1.0" encoding="US-ASCII"?>\n<a>é</a>'.encode(), r"at 2:4: not well-formed"),
    "hole of windows-1252": (b'<?xml version="1.0" encoding="windows-1252"?>\n<a>\x81</a>', r"at 2:4: not well-formed"),
    "overlong UTF-8": (b"<a>\xc0\xaf</a>", "at 1:4: not well-formed"),
    "surrogate in UTF-8": (b"<a>\xed\xa0\x80</a>", "at 1:4: not well-formed"),
    "half a pair as a name": (b"\xff\xfe" + b"<\x00\x00\xd8>\x00", "Not well-formed"),
    "noncharacter": (b"<a>\xef\xbf\xbe</a>", "Not well-formed"),
    "control character": (b"<a>\x01</a>", r"at 1:4: not well-formed"),
    "too deep": (b"<a>" * 5000 + b"</a>" * 5000, rf"at 1:{3 * MAX_DEPTH + 1}: elements nested deeper than"),
    "one level too deep, the last of one tag": (
        b"<a>" * MAX_DEPTH + b"<a/>" + b"</a>" * MAX_DEPTH,
        rf"at 1:{3 * MAX_DEPTH + 1}: elements nested deeper than",
    ),
    "too many attributes": (
        b"<a>\n<b " + b" ".join(b"k%d=''" % n for n in range(MAX_ATTRIBUTES + 1)) + b"/></a>",
        r"at 2:1: an element with more than",
    ),
    "too many namespaces": (
        b"<a>" + b"".join(b"<b xmlns:p%d='urn:x'>" % n for n in range(MAX_NAMESPACES + 1)) + b"</a>",
        "namespaces in scope",
    ),
    "too many elements and attributes": (
        b"<a>" + b"<b k=''/>" * (MAX_NODES // 2) + b"</a>",
        r"at 1:\d+: more than \d+ elem",
    ),
    "too many comments": (b"<a></a>" + b"<!---->" * MAX_NODES, "elements, attributes and other nodes"),
    "too many searches": (
        b"<a"
        + b"".join(b" xmlns:p%d='urn:x'" % n for n in range(MAX_NAMESPACES))
        + b">\n"
        + b"<b/>" * (MAX_NAMESPACE_SEARCHES // MAX_NAMESPACES**2)
        + b"</a>",
        r"at 2:\d+: too many elements with 128 namespaces in scope",
    ),
    "long text": (b"<a>" + b"x" * 10_000_001 + b"</a>", r"^Refused at 1:\d+: a text, .* longer than 10000000 bytes"),
    "long value": (b"<a b='" + b"x" * 10_000_001 + b"'></a>", r"^Refused at 1:\d+: .* longer than 10000000 bytes"),
    "long comment": (b"<a><!--" + b"x" * 10_000_001 + b"--></a>", r"^Refused at 1:\d+: .* longer than 10000000 bytes"),
    "long name": (b"<a><" + b"x" * 50_001 + b"/></a>", r"^Refused at 1:\d+: .* or a name longer than 50000\. Divide"),
}


@pytest.mark.parametrize("defect", REFUSED)
def test_xml_defect_is_named_with_its_place(defect, sign, rsa_key):
    """BEY-12, SEC-70: the refusal names the defect and where it is, and the key is not used."""
    data, text = REFUSED[defect]
    uses, started = rsa_key.uses, time.monotonic()
    with pytest.raises(FormatRefused, match=text) as caught:
        sign(data, rsa_key)
    assert caught.value.code == "sign.failed"
    assert len(str(caught.value)) < 300
    assert rsa_key.uses == uses
    assert time.monotonic() - started < 60


@pytest.mark.parametrize(
    ("depth", "attributes", "namespaces"), [(MAX_DEPTH, 1, 1), (2, MAX_ATTRIBUTES, 1), (2, 1, MAX_NAMESPACES)]
)
def test_xml_at_the_limits_is_signed(depth, attributes, namespaces, sign, rsa_key, xmlsec1):
    """SEC-70: the limits themselves are inside; declarations count only while they are in scope."""
    start = " ".join(f"k{n}='{n}'" for n in range(attributes))
    start += "".join(f" xmlns:p{n}='urn:{n}'" for n in range(namespaces))
    repeated = "<b xmlns='urn:b'/>" * (MAX_NAMESPACES + 1) if namespaces == 1 else ""
    data = f"<a {start}>{repeated}{'<b>' * (depth - 1)}{'</b>' * (depth - 1)}</a>".encode()
    assert xmlsec1(sign(data, rsa_key), rsa_key)


def test_xml_beyond_the_size_is_not_read():
    """SEC-70: a file that is too large is refused by its staged length, before a byte of it is read."""
    with pytest.raises(FormatRefused, match=f"up to {MAX_DOCUMENT_BYTES} bytes"):
        read_staged(io.BytesIO(), Measured(MAX_DOCUMENT_BYTES + 1, bytes(32)))


@pytest.mark.parametrize("codec", ["utf-8", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize(
    "text", ["\ufeff<a>{}</a>", "\ufeff<a><a>é</a>{}</a\n>", "\ufeff<?p?><a><!--</a>-->{}</a><!--</a>-->\r\n"]
)
def test_xml_place_is_before_the_end_tag(text, codec):
    """BEY-12: the offset counts bytes of the file, whatever its encoding."""
    data = text.format("").encode(codec)
    place = find_place(data)
    assert place == Place(len(text.split("{}")[0].encode(codec)), codec)
    target = io.BytesIO()
    measured = splice(target, data, place, "<s>ã</s>")
    assert target.getvalue().decode(codec) == text.format("<s>&#227;</s>")
    assert measured.length == len(target.getvalue())
