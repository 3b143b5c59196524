"""What the database may answer instead of what was asked.

UniqueViolation     a unique rule refused the row; the caller decides what that means
StoreFailed         the database could not do it; nothing of the act was recorded
├── FileLost        the database file is not the one that was opened any more
└── CommitUnknown   the connection broke while the commit was under way; it may or may not have happened
ActMisused          a programming error: a write inside a write, or a statement outside of both
"""

from __future__ import annotations

from bulksigner.contract.errors import BulkSignerError

__all__ = ["ActMisused", "CommitUnknown", "FileLost", "StoreFailed", "UniqueViolation", "one_line"]


class UniqueViolation(BulkSignerError):
    """Report that a unique rule of the database refused a row."""


class StoreFailed(BulkSignerError):
    """Report that the database failed and that nothing of the act was recorded."""

    default_code = "internal"


class FileLost(StoreFailed):
    """Report a database file that was removed or replaced while it was open; what is recorded now is lost with it."""


class CommitUnknown(StoreFailed):
    """Report a commit whose answer was lost; only a look at the rows tells whether it happened (DEP-29)."""


class ActMisused(RuntimeError):
    """Report a write inside a write, or a statement outside of `write`, `read` and `reading`."""


def one_line(error: BaseException) -> str:
    """Return a driver's message, which may go over several lines, as one."""
    return " ".join(str(error).split())
