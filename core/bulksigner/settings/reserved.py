"""Keys that other builds have and this one has not.

Setting one is refused, never ignored: a file that asks for an approval would otherwise be signed unapproved.
A value that asks for exactly what this
build does anyway is accepted.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from bulksigner.settings.findings import Findings
from bulksigner.settings.schema import ANY_INDEX, CollectedSchema
from bulksigner.settings.tree import Branch, Leaf, is_index, prune, show_path

__all__ = ["RESERVED", "Reserved", "first_segments", "refuse_reserved"]


@attrs.frozen
class Reserved:
    """A reserved key or section.

    The pattern covers the key and all below it. `off` is the one value that is accepted; `only` limits the row to one
    value of a key that exists here. Both are case-folded.
    """

    pattern: str
    feature: str
    off: str | None = None
    only: str | None = None
    remedy: str = "Remove it."
    problem: str | None = None
    segments: tuple[str, ...] = attrs.field(init=False)

    @segments.default
    def _split_pattern(self) -> tuple[str, ...]:
        return tuple(self.pattern.replace(ANY_INDEX, f":{ANY_INDEX}").split(":"))

    def matches(self, path: Sequence[str]) -> bool:
        """Tell whether a concrete path falls under the pattern."""
        wanted = self.segments
        return len(wanted) <= len(path) and all(
            is_index(have) if want == ANY_INDEX else want.casefold() == have.casefold()
            for want, have in zip(wanted, path, strict=False)
        )

    def explain(self) -> str:
        """Say why the key is refused."""
        return self.problem or f"belongs to {self.feature}, which this build does not have."


_INPUT = "Storage:Inputs[]"
_PROFILE = "Signing:Profiles[]"
_CERTIFICATES = ("Signing:Certificate", f"{_PROFILE}:Certificate")
_APPROVALS = "approvals"
_CNAB240, _REMOTE, _AZURE = "CNAB240 checks", "the Lacuna Signer plugin", "Azure Files storage"
_OBJECT_STORES = "backups to object stores"


def _certificate_rows() -> list[Reserved]:
    rows = []
    for block in _CERTIFICATES:
        rows += [
            Reserved(
                f"{block}:Pkcs11:Pin",
                "nothing: settings never hold a PIN",
                problem="is a token PIN, which settings may not hold (the value is not shown).",
                remedy=f"Remove it, and put the PIN into the variable that {block}:Pkcs11:PinEnvVar names.",
            ),
            Reserved(f"{block}:Pfx:Blob", "certificates in blob storage"),
        ]
    return rows


# The first row that matches decides, so the single key stands before its section.
RESERVED: tuple[Reserved, ...] = (
    Reserved(
        "Database:Provider",
        "SQL Server",
        only="sqlserver",
        problem="is SqlServer, for which the database library has no dialect and which our tests cannot run.",
        remedy="Use PostgreSql for a server, or Sqlite.",
    ),
    *_certificate_rows(),
    Reserved(
        f"{_PROFILE}:Approval",
        _APPROVALS,
        problem="asks for approvals, which this build does not have: files would be signed unapproved.",
        remedy="Remove the whole Approval block only if no approval is needed.",
    ),
    Reserved(f"{_PROFILE}:CheckCNAB240", _CNAB240, off="false"),
    Reserved(f"{_PROFILE}:CheckCnab240PaymentDates", _CNAB240, off="false"),
    Reserved(f"{_PROFILE}:Signer", _REMOTE),
    Reserved(f"{_PROFILE}:SignerFolder", _REMOTE),
    Reserved("Hosting:Tls", "in-process HTTPS"),
    Reserved("Auth:EntraId", "sign-in through Entra ID"),
    Reserved("Storage:SharedRoot", "shared storage roots", off="false"),
    Reserved("Storage:AzureFiles", _AZURE),
    Reserved(f"{_INPUT}:AzureFiles:Directory", _AZURE, problem="is not a key: a folder's directory is its Path."),
    Reserved(f"{_INPUT}:AzureFiles", _AZURE),
    Reserved("Signer", _REMOTE),
    Reserved("RateLimiting:Approval", _APPROVALS),
    Reserved("Logging:AzureTable:Enabled", "logging to Azure tables", off="false"),
    Reserved("Logging:AzureTable", "logging to Azure tables"),
    Reserved("LogViewer:Enabled", "the log page", off="false"),
    Reserved("LogViewer", "the log page"),
    Reserved("Dashboard:PollIntervalSeconds", "the dashboard"),
    Reserved("Console:Dashboard:Enabled", "the terminal panel", off="false"),
    Reserved("ApproverPortal:Enabled", "the approver portal", off="false"),
    Reserved("ApproverPortal", "the approver portal"),
    Reserved("ApproverSecondFactor:Enabled", "the approvers' second factor", off="false"),
    Reserved("ApproverSecondFactor", "the approvers' second factor"),
    Reserved("Cluster:Enabled", "clusters", off="false"),
    Reserved("Cluster", "clusters"),
    Reserved("Retention:ApprovalEvidence", _APPROVALS),
    Reserved("Backup:S3", _OBJECT_STORES),
    Reserved("Backup:AzureBlob", _OBJECT_STORES),
    Reserved("Cnab240:StrictBatchTotals", _CNAB240, off="false"),
    Reserved("Cnab240", _CNAB240),
    Reserved("Consignado", "the Dataprev payroll loan plugin"),
    Reserved("Pkcs11", "the PKCS #11 plugin", remedy="Install bulksigner-pkcs11, or remove it."),
    Reserved("Telemetry:Enabled", "telemetry", off="false"),
    Reserved("Telemetry", "telemetry"),
    Reserved("WebPki", "signatures in the browser"),
    Reserved("CloudHub", "cloud certificates"),
    Reserved("Branding", "branding"),
)


def first_segments() -> frozenset[str]:
    """Return the case-folded names of the sections that must be looked for in the environment too."""
    return frozenset(row.segments[0].casefold() for row in RESERVED)


def refuse_reserved(tree: Branch, schema: CollectedSchema, findings: Findings) -> Branch:
    """Refuse every reserved key that is set; return the tree without them.

    What an installed plugin declares is no longer reserved.
    """

    def is_reserved(path: tuple[str, ...], leaf: Leaf) -> bool:
        value = str(leaf.value).casefold()
        row = next((row for row in RESERVED if row.matches(path) and row.only in (None, value)), None)
        if row is None or (row.only is None and schema.find(path) is not None):
            return False
        if leaf.value is not None and value != row.off:
            findings.refuse(_spell(path, row), row.explain(), row.remedy, leaf.origin)
        return True

    return prune(tree, is_reserved)


def _spell(path: Sequence[str], row: Reserved) -> str:
    """Render a path in the spelling of the table as far as that goes, and as written below."""
    known = [have if want == ANY_INDEX else want for want, have in zip(row.segments, path, strict=False)]
    return show_path([*known, *path[len(known) :]])
