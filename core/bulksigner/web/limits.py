"""Sizes and times a client is held to (SEC-64); the server in front of the app is set up from the same numbers."""

from __future__ import annotations

__all__ = [
    "MAX_ANONYMOUS_BODY_BYTES",
    "MAX_BODY_BYTES",
    "MAX_FIELD_BYTES",
    "MAX_HEADER_BYTES",
    "MAX_PART_COUNT",
    "READ_TIMEOUT_SECONDS",
]

MAX_HEADER_BYTES = 32 * 1024
MAX_BODY_BYTES = 1024 * 1024
"""Largest body of every route but the upload."""
MAX_ANONYMOUS_BODY_BYTES = 64 * 1024
"""Largest body of whoever shows no credentials in the head, whatever the route."""
READ_TIMEOUT_SECONDS = 60
MAX_PART_COUNT = 10
MAX_FIELD_BYTES = 16 * 1024
"""Largest text field of an upload form."""
