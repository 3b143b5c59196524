"""Providers by role and name, and what happens when one of them is missing or breaks."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from bulksigner.contract.errors import PermanentFailure, StepFailed, TemporaryFailure
from bulksigner.contract.observe import BannerRow
from bulksigner.contract.settings import option
from bulksigner.plugin_system import roles
from bulksigner.plugin_system.report import PluginState
from bulksigner.settings.schema import CollectedSchema


class Source:
    """A certificate source that opens nothing."""

    concurrent = True
    portable = True

    def __init__(self, name: str = "Card") -> None:
        self.name = name

    def locator(self, block: object) -> str:
        return "slot 1"

    def open(self, block: object) -> Any:
        raise PermanentFailure("no card")


class Validator:
    """A validator that applies to nothing."""

    name = "card"

    def applies(self, extras: Mapping[type, object], format: object) -> bool:
        return False

    def check(self, file: object) -> Any:
        return None


@attrs.frozen
class Keys:
    """Profile keys of a plugin."""

    check_card: bool = option(False)
    check_depth: int | None = option(None)


@attrs.frozen
class OnKeys:
    """Profile keys of a check that has to be switched off."""

    check_card: bool = option(True)


def giving(hook: str, answer: object) -> Any:
    """Make a collecting hook that gives `answer`, or raises it."""

    def implementation(settings: Any) -> Any:
        if isinstance(answer, BaseException):
            raise answer
        return answer

    implementation.__name__ = hook
    return implementation


def declaring(cls: type[Any]) -> Any:
    """Make the hook that declares profile keys."""

    def bulksigner_add_settings(schema: Any) -> None:
        schema.profile_keys(cls)

    return bulksigner_add_settings


SOURCES, VALIDATORS, BANNER = "bulksigner_certificate_sources", "bulksigner_file_validators", "bulksigner_banner_rows"


def test_providers_are_found_by_name_in_any_case(load: Any, plugin: Any) -> None:
    """CFG-04: `pkcs11` chooses `Pkcs11`."""
    source = Source("Pkcs11")
    registry = load(plugin("pkcs11", giving(SOURCES, [source]))).providers({})
    assert registry.certificate_source("pkcs11") is source
    assert registry.names(roles.CERTIFICATE_SOURCE) == ("Pkcs11",)
    assert registry.signing_plugins == {"pkcs11"}
    assert registry.rows[0].provides == ("certificate source Pkcs11",)


def test_an_absent_provider_is_answered_with_advice(load: Any, plugin: Any) -> None:
    """CFG-16: the text names the distribution to install, and the plugins that do not work."""
    registry = load(plugin("broken", giving(SOURCES, ValueError("bad day")))).providers({})
    with pytest.raises(PermanentFailure, match=r"bulksigner-pkcs11.*broken is failed: ValueError: bad day"):
        registry.certificate_source("Pkcs11")
    with pytest.raises(PermanentFailure, match="signing method Remote"):
        registry.signing_method("Remote")
    with pytest.raises(PermanentFailure, match="bulksigner-azure-files"):
        registry.storage_provider("AzureFiles")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Source(), "not a list"),
        ("Card", "not a list"),
        ((one for one in [Source()]), "not a list"),
        ([Source], "the class Source"),
        ([object()], "no certificate source"),
        ([Validator()], "no certificate source"),
        ([Source("")], "no name"),
        ([Source("Card"), Source("card")], "already provided"),
        (RuntimeError("no"), "RuntimeError: no"),
        (SystemExit("bye"), "SystemExit: bye"),
    ],
    ids=["object", "text", "generator", "class", "anything", "other-role", "nameless", "twice", "raises", "exits"],
)
def test_a_wrong_answer_fails_the_plugin_as_a_whole(answer: object, reason: str, load: Any, plugin: Any) -> None:
    """CFG-16: a plugin joins with all of its providers or none; the rest is unaffected."""
    found = load(
        plugin("bad", giving(SOURCES, answer), giving("bulksigner_readiness_checks", [])),
        plugin("good", giving(SOURCES, (Source("Pfx"),))),
    )
    registry = found.providers({})
    assert [row.state for row in registry.rows] == [PluginState.FAILED, PluginState.LOADED]
    assert reason in registry.rows[0].reason
    assert registry.names(roles.CERTIFICATE_SOURCE) == ("Pfx",)


def test_a_provider_whose_methods_take_other_arguments_is_refused(load: Any, plugin: Any) -> None:
    """CFG-16: the mistake shows at the start and not in a job."""

    class Wrong(Source):
        def open(self) -> Any:  # type: ignore[override]
            return None

    class Value(Source):
        open = 5  # type: ignore[assignment]

    for source, reason in ((Wrong(), "open does not take (block)"), (Value(), "open is not a method")):
        registry = load(plugin("bad", giving(SOURCES, [source]))).providers({})
        assert registry.rows[0].state is PluginState.FAILED
        assert reason in registry.rows[0].reason


def test_a_duplicate_name_fails_the_later_plugin(load: Any, plugin: Any) -> None:
    """CFG-16: none of its other providers stays, and the first keeps the name."""
    first = Source("Card")
    later = plugin("b", giving(SOURCES, [Source("card"), Source("Other")]), giving(VALIDATORS, [Validator()]))
    registry = load(plugin("a", giving(SOURCES, [first])), later).providers({})
    assert [row.state for row in registry.rows] == [PluginState.LOADED, PluginState.FAILED]
    assert registry.names(roles.CERTIFICATE_SOURCE) == ("Card",)
    assert registry.certificate_source("Card") is first
    assert registry.validators == ()


def test_a_failed_plugin_hears_nothing_more(load: Any, plugin: Any) -> None:
    """CFG-16: a plugin that is out is out of everything."""
    heard: list[object] = []

    def bulksigner_job_changed(change: Any) -> None:
        heard.append(change)

    found = load(plugin("half", bulksigner_job_changed, giving(SOURCES, ValueError("no"))))
    found.notify("bulksigner_job_changed", 1)
    found.providers({})
    found.notify("bulksigner_job_changed", 2)
    assert heard == [1]


def test_a_worker_asks_for_the_signing_roles_only(load: Any, plugin: Any) -> None:
    """PERF-06: the other hooks are not called in a signing worker process."""
    others = [giving(hook, RuntimeError("never asked")) for hook in (VALIDATORS, BANNER)]
    found = load(plugin("card", giving(SOURCES, [Source()]), *others))
    registry = found.signing_providers({})
    assert registry.rows[0].state is PluginState.LOADED
    assert registry.names(roles.CERTIFICATE_SOURCE) == ("Card",)


def test_banner_rows_are_collected_and_checked(load: Any, plugin: Any) -> None:
    """OPS-31: rows of plugins join the ready panel."""
    row = BannerRow("card reader", "slot 1")
    registry = load(plugin("a", giving(BANNER, [row])), plugin("b", giving(BANNER, ["row"]))).providers({})
    assert registry.banner_rows == (row,)
    assert registry.rows[1].state is PluginState.FAILED


def test_a_provider_that_keeps_notes_is_given_those_of_its_plugin(load: Any, plugin: Any) -> None:
    """BEY-31: `KeepsNotes` beside any role; the others are not asked, and one that breaks is named."""

    class Keeping(Source):
        def take_notes(self, notes: Any) -> None:
            if notes == "notes of broken":
                raise ValueError("no paper")
            self.taken = notes

    keeping = Keeping("Token")
    registry = load(plugin("card", giving(SOURCES, [keeping, Source("Card")]))).providers({})
    registry.hand_notes(lambda name: f"notes of {name}")
    assert keeping.taken == "notes of card"
    registry = load(plugin("broken", giving(SOURCES, [Keeping()]))).providers({})
    with pytest.raises(PermanentFailure, match="plugin broken broke: ValueError: no paper"):
        registry.hand_notes(lambda name: f"notes of {name}")


def test_the_other_roles_come_in_the_order_of_their_plugins(load: Any, plugin: Any) -> None:
    """Providers that are asked one after the other have a stable order."""
    one, two = Validator(), Validator()
    two.name = "second"
    registry = load(plugin("b", giving(VALIDATORS, [two])), plugin("a", giving(VALIDATORS, [one]))).providers({})
    assert registry.validators == (one, two)
    assert (registry.approval_rules, registry.intake_sources, registry.readiness_checks) == ((), (), ())


def test_a_key_of_a_plugin_that_never_loaded_is_unmet(load: Any, plugin: Any) -> None:
    """CFG-16: a stored profile that asks for an absent check does not sign unchecked."""
    registry = load(plugin("other", giving(SOURCES, []))).providers({})
    assert registry.unmet({}) is None
    assert registry.unmet({"CheckCNAB240": False, "Depth": None}) is None
    assert "CheckCNAB240" in (registry.unmet({"CheckCNAB240": True}) or "")


def test_a_key_of_a_plugin_that_failed_later_is_unmet(load: Any, plugin: Any) -> None:
    """CFG-16: declared, and then no validator came; only profiles that ask are concerned."""
    found = load(plugin("card", declaring(Keys), giving(VALIDATORS, RuntimeError("no reader"))))
    found.add_settings(CollectedSchema())
    registry = found.providers({})
    assert "no reader" in (registry.unmet({"checkcard": True}) or "")
    assert registry.unmet({}) is None
    assert registry.profile_keys[0].names == ("CheckCard", "CheckDepth")


def test_a_key_of_a_loaded_plugin_is_met(load: Any, plugin: Any) -> None:
    """CFG-16: nested keys count by their first segment."""
    found = load(plugin("card", declaring(Keys), giving(VALIDATORS, [Validator()])))
    found.add_settings(CollectedSchema())
    assert found.providers({}).unmet({"CheckCard": True, "CheckDepth:Inner": 3}) is None


@pytest.mark.parametrize("hook", [VALIDATORS, "bulksigner_approval_rules"])
def test_a_lost_check_without_keys_stops_every_profile(hook: str, load: Any, plugin: Any) -> None:
    """CFG-16: where it cannot be told who relies on a check, nobody signs without it."""
    registry = load(plugin("gate", giving(hook, RuntimeError("broken gate")))).providers({})
    reason = registry.unmet({}) or ""
    assert "broken gate" in reason
    assert "BULK_SIGNER_DISABLED_PLUGINS" in reason


@pytest.mark.parametrize(
    "importing",
    [
        pytest.param(lambda: importlib.import_module("a_package_nobody_has"), id="package-missing"),
        pytest.param(lambda: compile("def (:", "plugin.py", "exec"), id="syntax"),
        pytest.param(lambda: sys.exit(3), id="exit"),
        pytest.param(lambda: types.ModuleType("unmarked"), id="no-hook"),
    ],
)
def test_a_plugin_lost_before_its_hooks_are_known_stops_every_profile(importing: Any, load: Any, plugin: Any) -> None:
    """CFG-16: it may have been a check, so nobody signs until it is mended or switched off."""
    offered = plugin("gate", importing=importing)
    registry = load(offered).providers({})
    assert registry.rows[0].stops_signing
    assert registry.rows[0].reason in (registry.unmet({}) or "")
    assert "uninstall it, or list it in BULK_SIGNER_DISABLED_PLUGINS" in (registry.unmet({}) or "")
    assert load(offered, disabled=["gate"]).providers({}).unmet({}) is None


def test_a_plugin_with_a_misspelt_hook_stops_every_profile(load: Any, plugin: Any) -> None:
    """CFG-16: the hook may have been meant for a check."""
    registry = load(plugin("typo", giving("bulksigner_file_validator", []))).providers({})
    assert "bulksigner_file_validator" in (registry.unmet({}) or "")


def test_a_lost_plugin_that_is_known_to_check_nothing_stops_no_profile(load: Any, plugin: Any) -> None:
    """CFG-16: a broken key source concerns those who use it."""
    registry = load(plugin("card", giving(SOURCES, RuntimeError("no reader")))).providers({})
    assert registry.unmet({}) is None
    assert not registry.rows[0].stops_signing


@pytest.mark.parametrize("cls", [Keys, OnKeys])
def test_a_lost_check_that_is_on_by_default_stops_every_profile(cls: type[Any], load: Any, plugin: Any) -> None:
    """CFG-16: a profile that sets none of the keys relies on a check that they leave on."""
    found = load(plugin("card", declaring(cls), giving(VALIDATORS, RuntimeError("no reader"))))
    found.add_settings(CollectedSchema())
    assert (found.providers({}).unmet({}) is None) == (cls is Keys)


def test_a_plugin_that_is_switched_off_is_named_where_it_is_missed(load: Any, plugin: Any) -> None:
    """CFG-185: nobody is told to install what is installed."""
    registry = load(plugin("card", giving(SOURCES, [Source()])), disabled=["card"]).providers({})
    with pytest.raises(PermanentFailure, match="card is disabled: listed in BULK_SIGNER_DISABLED_PLUGINS"):
        registry.certificate_source("Card")


def test_a_guard_names_plugin_and_provider(load: Any, plugin: Any) -> None:
    """PIPE-86: what a provider raises becomes one kind of error with a text for an operator."""
    source = Source("Card")
    registry = load(plugin("card", giving(SOURCES, [source]))).providers({})
    broken = "certificate source Card of the plugin card broke: ZeroDivisionError"
    with pytest.raises(PermanentFailure, match=broken), registry.guard(source):
        _ = 1 / 0
    with pytest.raises(PermanentFailure, match="SystemExit"), registry.guard(source):
        raise SystemExit
    with pytest.raises(PermanentFailure, match="plugin unknown"), registry.guard(object()):
        raise ValueError("x" * 1000)


@pytest.mark.parametrize(
    "error", [TemporaryFailure("later"), StepFailed("no", code="sign.failed"), KeyboardInterrupt()]
)
def test_a_guard_lets_errors_of_the_contract_pass(error: BaseException, load: Any, plugin: Any) -> None:
    """PIPE-86: what was said on purpose keeps its class and code."""
    source = Source()
    registry = load(plugin("card", giving(SOURCES, [source]))).providers({})
    with pytest.raises(type(error)) as caught, registry.guard(source):
        raise error
    assert caught.value is error


def test_a_guard_lets_promised_errors_pass(load: Any, plugin: Any) -> None:
    """PIPE-82: a role may promise an error of Python, such as a name that is taken."""
    source = Source()
    registry = load(plugin("card", giving(SOURCES, [source]))).providers({})
    with pytest.raises(FileExistsError), registry.guard(source, passing=(FileExistsError,)):
        raise FileExistsError("taken")
