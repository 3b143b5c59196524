"""Hooks as a plugin author meets them, called through pluggy."""

import datetime

import pluggy
import pytest

from bulksigner.contract import hookspecs
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.observe import JobChange
from bulksigner.contract.signing import Format

COLLECTING = [
    "bulksigner_approval_rules",
    "bulksigner_banner_rows",
    "bulksigner_certificate_sources",
    "bulksigner_file_validators",
    "bulksigner_intake_sources",
    "bulksigner_readiness_checks",
    "bulksigner_signing_methods",
    "bulksigner_storage_providers",
]


@pytest.fixture
def plugins():
    made = pluggy.PluginManager(hookspecs.PROJECT)
    made.add_hookspecs(hookspecs)
    return made


@pytest.mark.parametrize("name", COLLECTING)
def test_collecting_hooks_gather_every_answer_but_none(plugins, name):
    """A plugin without a provider for these settings answers None and is left out."""
    for answer in (["first"], None, ["second", "third"]):
        plugin = type("Plugin", (), {name: staticmethod(hookimpl(lambda settings, answer=answer: answer))})
        plugins.register(plugin())
    assert sorted(getattr(plugins.hook, name)(settings={}), key=len) == [["first"], ["second", "third"]]


def test_the_first_choice_of_a_format_counts(plugins):
    """PIPE-38: built-ins register first and answer last."""

    class BuiltIn:
        @hookimpl
        def bulksigner_choose_format(self, name, head):
            return Format.CADES

    class Chooser:
        @hookimpl
        def bulksigner_choose_format(self, name, head):
            return Format.PADES if head.startswith(b"%PDF-") else None

    plugins.register(BuiltIn())
    plugins.register(Chooser())
    assert plugins.hook.bulksigner_choose_format(name="a.bin", head=b"%PDF-1.7") is Format.PADES
    assert plugins.hook.bulksigner_choose_format(name="a.bin", head=b"") is Format.CADES


def test_notifications_reach_a_plugin(plugins):
    """Settings are declared, changes heard and the stop announced, each with its argument."""
    heard = []

    class Listener:
        @hookimpl
        def bulksigner_add_settings(self, schema):
            heard.append(schema)

        @hookimpl
        def bulksigner_job_changed(self, change):
            heard.append(change)

        @hookimpl
        def bulksigner_stopping(self):
            heard.append("stopping")

    plugins.register(Listener())
    at = datetime.datetime(2026, 3, 2, 9, tzinfo=datetime.UTC)
    change = JobChange("1", "claim", "Queued", "Processing", "default", "Pades", at, "Processing started")
    plugins.hook.bulksigner_add_settings(schema="a schema")
    plugins.hook.bulksigner_job_changed(change=change)
    plugins.hook.bulksigner_stopping()
    assert heard == ["a schema", change, "stopping"]


def test_a_misspelt_hook_is_refused(plugins):
    """A hook that does not exist is a mistake, not a silent no-op."""

    class Misspelt:
        @hookimpl
        def bulksigner_job_change(self, change): ...

    plugins.register(Misspelt())
    with pytest.raises(pluggy.PluginValidationError, match="bulksigner_job_change"):
        plugins.check_pending()
