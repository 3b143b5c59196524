"""The arguments of `bulksigner profiles` and `bulksigner secrets`; no secret is ever one of them (SEC-44)."""

from __future__ import annotations

import argparse
from typing import Any

__all__ = ["add_profile_verbs"]


def add_profile_verbs(commands: Any) -> None:
    """Declare both commands with the verbs below them."""
    verbs = _verbs(commands, "profiles", "show and change signing profiles, also while the service runs", ["profile"])
    _as_json(verbs.add_parser("list", help="list every stored profile"), "print the profiles as JSON")
    show = verbs.add_parser("show", help="show one profile, without its secrets")
    _name(show)
    _as_json(show, "print the profile as JSON")
    change = verbs.add_parser("set", help="change keys of a profile, its certificate included")
    _name(change)
    _keys(change)
    change.add_argument("--reset", metavar="KEY", action="append", default=[], help="take a key back to its default")
    change.add_argument(
        "--remove-secret", metavar="KEY", action="append", default=[], help="remove a stored secret, such as a password"
    )
    change.add_argument(
        "--reopen", action="store_true", help="open the certificate again, after its file was replaced in its place"
    )
    change.add_argument(
        "--expect", metavar="VERSION", type=int, help="save only if the row is still at the version `show` printed"
    )
    create = verbs.add_parser("create", help="make a profile")
    _name(create, "name of the new profile")
    _keys(create)
    create.add_argument("--folder", metavar="FOLDER", help="input folder of the profile")
    bind = verbs.add_parser("bind", help="give an input folder to a profile")
    _name(bind)
    bind.add_argument("folder", help="name of a configured input folder")
    _name(verbs.add_parser("unbind", help="take the input folder away from a profile; its files wait"))
    _name(verbs.add_parser("enable", help="let a profile take new work"))
    disable = verbs.add_parser("disable", help="let a profile take no new work; jobs already queued run")
    _name(disable)
    disable.add_argument("--unbind", action="store_true", help="take its input folder away in the same save")
    _name(verbs.add_parser("test", help="open the certificate of a profile and show it; nothing is signed"))

    secrets = _verbs(commands, "secrets", "look after the secrets of stored profiles", [])
    secrets.add_parser("check", help="tell which stored secrets open with Signing:ProfileSecretsKey")


def _verbs(commands: Any, name: str, told: str, aliases: list[str]) -> Any:
    parser = commands.add_parser(name, help=told, aliases=aliases)
    return parser.add_subparsers(dest="verb", metavar="VERB", required=True)


def _name(parser: argparse.ArgumentParser, told: str = "name of the profile") -> None:
    parser.add_argument("name", help=told)


def _as_json(parser: argparse.ArgumentParser, told: str) -> None:
    parser.add_argument("--json", action="store_true", help=told)


def _keys(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "keys", metavar="KEY=VALUE", nargs="*", help="keys as in `Signing:Profiles[]`, such as `Verify=false`"
    )
    parser.add_argument("--secret", metavar="KEY", action="append", default=[], help="ask for a secret in the terminal")
    parser.add_argument(
        "--secret-env", metavar="KEY=VARIABLE", action="append", default=[], help="take a secret from a variable"
    )
    parser.add_argument(
        "--secret-file", metavar="KEY=FILE", action="append", default=[], help="take a secret from a file"
    )
