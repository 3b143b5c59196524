"""The options of `bulksigner decrypt` and `decrypt-bsenc` (ENC-30); imports nothing that is slow to load."""

from __future__ import annotations

import argparse

__all__ = ["SUMMARY", "add_arguments"]

SUMMARY = "open encrypted outputs (BSENC v1): a file, a folder or standard input"
_DEFAULT_ITERATIONS = 600_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument(
        "--in", metavar="PATH", dest="source", required=True, help="an envelope, a folder of *.enc files, or - (stdin)"
    )
    parser.add_argument(
        "--out",
        metavar="PATH",
        dest="target",
        help="the file to write, or the folder when --in is one, or - (stdout); without it the name without .enc",
    )
    password = parser.add_mutually_exclusive_group()
    password.add_argument("--password", metavar="TEXT", help="the password; other users of the machine may see it")
    password.add_argument("--password-env", metavar="VAR", help="variable that holds the password")
    password.add_argument(
        "--password-file", metavar="FILE", help="file that holds it, in UTF-8; one line end at its end does not count"
    )
    parser.add_argument("--salt-b64", metavar="TEXT", required=True, help="the salt, in base64")
    parser.add_argument(
        "--iterations",
        metavar="N",
        type=int,
        default=_DEFAULT_ITERATIONS,
        help=f"rounds of the key derivation; {_DEFAULT_ITERATIONS} unless the sender says otherwise",
    )
    parser.add_argument("--force", action="store_true", help="replace files that exist already")
