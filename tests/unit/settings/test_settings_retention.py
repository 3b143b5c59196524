"""The keys of `Retention`, their minimum days, and the fingerprint that any change of them changes."""

from __future__ import annotations

import datetime

import pytest

from bulksigner.retention.policy import Policy, RetentionClass


def on(**others: str) -> dict[str, str]:
    return {"Retention__Enabled": "true", **others}


def test_nothing_is_configured_by_default(host) -> None:
    """STA-104, CFG-169: no section, no policy."""
    assert Policy.of(host.load().core.retention) is None


def test_defaults_of_a_policy_remove_nothing(host) -> None:
    """STA-105 to STA-108: previews only, on request, no class; a class comes with its days."""
    bare = Policy.of(host.load(on()).core.retention)
    assert bare is not None
    assert (bare.enforces, bare.interval, bare.max_items, dict(bare.rules)) == (False, None, 10_000, {})
    policy = Policy.of(host.load(on(Retention__Output__KeepDays="90", Retention__IntervalHours="24")).core.retention)
    assert policy is not None
    assert set(policy.rules) == {RetentionClass.OUTPUT}
    assert policy.interval == datetime.timedelta(hours=24)
    assert policy.describe() == "Output>90d"


@pytest.mark.parametrize(
    ("kind", "least"), [("Jobs", 90), ("Output", 7), ("Error", 30), ("Orphans", 30), ("Events", 365)]
)
def test_each_class_has_a_minimum(host, kind, least) -> None:
    """STA-59 to STA-64, STA-108: a day less is refused."""
    key = f"Retention__{kind}__KeepDays"
    host.load(on(**{key: str(least)}))
    assert set(host.refuse(on(**{key: str(least - 1)}))) == {f"Retention:{kind}:KeepDays"}


@pytest.mark.parametrize(("key", "bad"), [("IntervalHours", "721"), ("MaxItemsPerRun", "0"), ("Mode", "Now")])
def test_values_are_limited(host, key, bad) -> None:
    """STA-105 to STA-107."""
    assert set(host.refuse(on(**{f"Retention__{key}": bad}))) == {f"Retention:{key}"}


def test_what_is_moved_needs_a_place_of_its_own(host) -> None:
    """STA-109, STA-110, OPS-54: required with Move, and not where files are worked on."""
    move = on(Retention__Output__Action="Move")
    assert set(host.refuse(move)) == {"Retention:Output:MoveTo"}
    for bad in ("data/output/old", "data/db", "azurefiles://a/b"):
        assert set(host.refuse(move | {"Retention__Output__MoveTo": bad})) == {"Retention:Output:MoveTo"}
    given = host.load(move | {"Retention__Output__MoveTo": "archive"}).core.retention
    assert given.output.move_to == host.root / "archive"


@pytest.mark.parametrize("key", ["ApprovalEvidence__KeepDays"])
def test_classes_that_are_not_there_are_refused(host, key) -> None:
    """CFG-16: a wish to remove that nothing would fulfil is not ignored."""
    assert set(host.refuse(on(**{f"Retention__{key}": "9999"}))) == {f"Retention:{key.replace('__', ':')}"}


def test_any_change_of_a_key_is_another_policy(host) -> None:
    """STA-70: the fingerprint covers every key, and nothing else."""
    base = on(Retention__Output__KeepDays="90")
    changes = [
        {"Retention__Output__KeepDays": "91"},
        {"Retention__Mode": "Enforce"},
        {"Retention__IntervalHours": "24"},
        {"Retention__MaxItemsPerRun": "5"},
        {"Retention__Error__KeepDays": "90"},
        {"Retention__Events__KeepDays": "400"},
        {"Retention__Jobs__KeepDays": "400"},
        {"Retention__Jobs__ReleaseNames": "true"},
        {"Retention__Output__Action": "Move", "Retention__Output__MoveTo": "archive"},
    ]
    found = [Policy.of(host.load(base | change).core.retention) for change in ({}, *changes)]
    assert len({policy.fingerprint for policy in found if policy is not None}) == len(changes) + 1
    again = Policy.of(host.load(base | {"Pipeline__MaxConcurrency": "2"}).core.retention)
    assert again == found[0]
