"""What this build does not have is refused, one by one, never ignored."""

from __future__ import annotations

import attrs
import pytest

from bulksigner.contract.settings import option
from bulksigner.settings.reserved import RESERVED, Reserved


def concrete(row: Reserved) -> str:
    """Return a variable name under the row's pattern: one below it where the row stands for a whole section."""
    whole = row.off is None and (
        ":" not in row.pattern or any(r.pattern.startswith(f"{row.pattern}:") for r in RESERVED)
    )
    return row.pattern.replace("[]", ":0").replace(":", "__") + ("__Anything" if whole else "")


@pytest.mark.parametrize("row", RESERVED, ids=lambda row: f"{row.pattern}={row.only or 'x'}")
def test_each_reserved_key_is_refused(host, row) -> None:
    """CFG-16: the key, its variable and what to do are named; the value of a PIN or secret is not."""
    value = row.only or "a-canary-value"
    refused = host.refuse({concrete(row).upper(): value})
    key = row.pattern.replace("[]", "[0]")
    failure = next(failure for path, failure in refused.items() if path.startswith(key))
    assert failure.problem == row.explain()
    assert failure.remedy
    assert "a-canary-value" not in "".join(failure.line() for failure in refused.values())


@pytest.mark.parametrize("row", [row for row in RESERVED if row.off], ids=lambda row: row.pattern)
def test_the_value_that_changes_nothing_is_accepted(pfx_host, row) -> None:
    """CFG-16: off is what this build does."""
    variables = {concrete(row): row.off.title()}
    if "Profiles" in row.pattern:
        variables |= {
            "Signing__Profiles__0__Name": "p",
            "Signing__Profiles__0__Format": "Cades",
            "Signing__Profiles__0__Certificate__Pfx__Path": "/p.pfx",
        }
    if "Inputs" in row.pattern:
        variables |= {"Storage__Inputs__0__Name": "p", "Storage__Inputs__0__Path": "p"}
    assert pfx_host.load(variables).warnings == ()


@pytest.mark.parametrize("syntax", ["toml", "json", "yaml"])
def test_files_cannot_ask_for_what_is_not_there(pfx_host, syntax) -> None:
    """CFG-95, CFG-101: each sentence says what would have gone wrong."""
    text = {
        "toml": "[[signing.profiles]]\nNAME='p'\nformat='cades'\ncheckCnab240=true\n"
        "approval.approvers=[{name='x'}]\ncertificate.pfx.path='/p'\n",
        "json": '{"Signing:Profiles": [{"Name": "p", "Format": "Cades", "CheckCNAB240": true,'
        '"Approval:Approvers": [{"Name": "x"}], "Certificate:Pfx:Path": "/p"}]}',
        "yaml": "Signing: {Profiles: [{Name: p, Format: Cades, CheckCNAB240: true, "
        "Approval: {Approvers: [{Name: x}]}, Certificate: {Pfx: {Path: /p}}}]}",
    }[syntax]
    pfx_host.write(f"settings.{syntax}", text)
    refused = pfx_host.refuse()
    assert "CNAB240 checks" in refused["Signing:Profiles[0]:CheckCNAB240"].problem
    (approval,) = [failure for key, failure in refused.items() if ":Approval" in key]
    assert "unapproved" in approval.problem
    assert len(refused) == 2


def test_a_section_in_the_wrong_shape_is_refused_too(host) -> None:
    """CFG-16: `Cluster = "on"` asks for a cluster as well."""
    host.write("settings.toml", 'Cluster = "on"\n[[Signing.Profiles]]\nCheckCNAB240 = {Enabled = true}\n')
    assert {"Cluster", "Signing:Profiles[0]:CheckCNAB240:Enabled"} <= set(host.refuse())


def test_nulls_ask_for_nothing(host) -> None:
    """CFG-11: a section without a value is absent."""
    host.write("settings.json", '{"Telemetry": {"Enabled": null}, "Cluster": {}, "Retention": null}')
    assert host.load().warnings == ()


@pytest.mark.parametrize("block", ["Signing__Certificate", "Signing__Profiles__0__Certificate"])
def test_a_pin_is_refused_and_never_shown(host, block) -> None:
    """CFG-76: forbidden in every source, whatever the source of the certificate."""
    refused = host.refuse({f"{block}__PKCS11__Pin": "24681357", f"{block}__Source": "Pfx"})
    (failure,) = [failure for key, failure in refused.items() if key.endswith("Pkcs11:Pin")]
    assert "PinEnvVar" in failure.remedy
    assert "24681357" not in "".join(failure.line() for failure in refused.values())


def test_sql_server_has_its_own_sentence(host) -> None:
    """CFG-60: SqlServer names PostgreSql and why."""
    refused = host.refuse({"Database__Provider": "SQLSERVER"})
    assert "dialect" in refused["Database:Provider"].problem
    assert "PostgreSql" in refused["Database:Provider"].remedy


@attrs.frozen
class Timings:
    """What the token plugin declares."""

    call_timeout_seconds: int = option(30, help="Limit of a call.")


@attrs.frozen
class OrderCheck:
    """A profile key that a plugin brings."""

    wanted: bool = option(False, help="Check orders.", key="CheckCNAB240")


def test_what_a_plugin_declares_is_no_longer_reserved(pfx_host) -> None:
    """CFG-16: the same aggregator binds it."""
    pfx_host.schema.section("Pkcs11", Timings)
    pfx_host.schema.profile_keys(OrderCheck)
    profile = "Signing__Profiles__0__"
    loaded = pfx_host.load(
        {
            "PKCS11__CALLTIMEOUTSECONDS": "9",
            f"{profile}Name": "p",
            f"{profile}Format": "Cades",
            f"{profile}CheckCnab240": "true",
            f"{profile}Certificate__Pfx__Path": "/p.pfx",
        }
    )
    assert loaded.plugins[Timings].call_timeout_seconds == 9
    assert loaded.core.signing.profiles[0].extras[OrderCheck].wanted is True
    assert loaded.warnings == ()
