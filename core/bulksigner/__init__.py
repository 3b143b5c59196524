"""Bulk signing server: the names that plugin authors use, from `bulksigner.contract`."""

from bulksigner.contract.approval import ApprovalRequest, ApprovalRule, Decision, FrozenRule, Verdict
from bulksigner.contract.certificate import CertificateSource, Digest, KeyAlgorithm, KnowsFault, OpenedKey
from bulksigner.contract.errors import (
    BulkSignerError,
    HeldElsewhere,
    PermanentFailure,
    ProviderError,
    StepFailed,
    TemporaryFailure,
)
from bulksigner.contract.hookspecs import hookimpl
from bulksigner.contract.intake import Candidate, IntakeSource
from bulksigner.contract.notes import KeepsNotes, Notes
from bulksigner.contract.observe import BannerRow, JobChange, ReadinessCheck, ReadinessRow
from bulksigner.contract.policy import CertificateElement, Joining, KeyRule, PolicyIdentifier, SignatureSpec
from bulksigner.contract.settings import Check, Schema, Secret, Settings, at_least, between, matches_length, option
from bulksigner.contract.signing import (
    Dispatched,
    Format,
    Measured,
    Overtaken,
    Refused,
    Signed,
    SigningMethod,
    SigningRequest,
    Unknown,
    Waiting,
)
from bulksigner.contract.storage import (
    Entry,
    Fingerprint,
    Folder,
    Hold,
    Removal,
    RemovalOutcome,
    StorageProvider,
)
from bulksigner.contract.validation import CheckReport, FileValidator, Finding, Severity, StagedFile

__all__ = [
    "ApprovalRequest",
    "ApprovalRule",
    "BannerRow",
    "BulkSignerError",
    "Candidate",
    "CertificateElement",
    "CertificateSource",
    "Check",
    "CheckReport",
    "Decision",
    "Digest",
    "Dispatched",
    "Entry",
    "FileValidator",
    "Finding",
    "Fingerprint",
    "Folder",
    "Format",
    "FrozenRule",
    "HeldElsewhere",
    "Hold",
    "IntakeSource",
    "JobChange",
    "Joining",
    "KeepsNotes",
    "KeyAlgorithm",
    "KeyRule",
    "KnowsFault",
    "Measured",
    "Notes",
    "OpenedKey",
    "Overtaken",
    "PermanentFailure",
    "PolicyIdentifier",
    "ProviderError",
    "ReadinessCheck",
    "ReadinessRow",
    "Refused",
    "Removal",
    "RemovalOutcome",
    "Schema",
    "Secret",
    "Settings",
    "Severity",
    "SignatureSpec",
    "Signed",
    "SigningMethod",
    "SigningRequest",
    "StagedFile",
    "StepFailed",
    "StorageProvider",
    "TemporaryFailure",
    "Unknown",
    "Verdict",
    "Waiting",
    "at_least",
    "between",
    "hookimpl",
    "matches_length",
    "option",
]
