"""The page of the command line, held against the argument parser and the exit codes in the source."""

import argparse
import ast
import re

import pytest

from bulksigner import cli


@pytest.fixture(scope="module")
def page(root):
    return (root / "docs/reference/cli.md").read_text(encoding="utf-8")


def commands(parser=None, above=""):
    """Yield each command, and each verb below one, with its help and its own parser."""
    choices = next(
        (one for one in (parser or cli._parser())._actions if isinstance(one, argparse._SubParsersAction)), None
    )
    for entry in choices._choices_actions if choices else ():
        # The entry of a command with aliases has them behind its name.
        name = entry.dest.partition(" ")[0]
        yield above + name, entry.help, choices.choices[name]
        yield from commands(choices.choices[name], f"{above}{name} ")


def test_every_command_is_on_the_page_with_its_help(page):
    """OPS-202 to OPS-207: the table of commands is the parser's and nothing else."""
    listed = dict(re.findall(r"^\| `bulksigner ([\w -]+)` \| (.+) \|$", page, re.MULTILINE))
    assert listed == {name: told for name, told, _ in commands()}


def test_every_option_is_on_the_page_with_its_help(page):
    """OPS-203: the table of options is the parser's."""
    section = page.partition("| Option | Meaning |")[2].partition("\n\n")[0]
    listed = dict(re.findall(r"^\| `([^`]*)` \| (.+) \|$", section, re.MULTILINE))
    wanted = {"--version": "same as `version`"}
    for name, _, parser in commands():
        for action in parser._actions:
            if not isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
                spelled = action.option_strings[-1:] + ([action.metavar] if action.metavar else [])
                wanted[" ".join([name, *(spelled or [action.dest.upper()])])] = action.help
    assert listed == wanted


def test_every_exit_code_in_the_source_is_on_the_page(page, product_modules):
    """OPS-24 to OPS-30: a code that a start can end with is explained."""
    listed = {int(code) for code in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}
    used = set()
    for path in product_modules:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "exit_code" and isinstance(node.value, ast.Constant):
                used.add(node.value.value)
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant):
                names = [target.id for target in node.targets if isinstance(target, ast.Name)]
                if any(name.startswith("EXIT_") for name in names) and "testing" not in path.parts:
                    used.add(node.value.value)
    assert {65, 71, 78} <= used
    assert used <= listed
