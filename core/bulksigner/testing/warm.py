"""Pays what the first signature of a process costs, by being imported; the fork server of `testing.lives` does."""

from __future__ import annotations

import bulksigner.builtin.plugin
import bulksigner.testing.lives  # noqa: F401 - what each life begins with
from bulksigner.contract.signing import Format
from bulksigner.formats.self_test import find_fault

__all__ = ["fault"]

fault = find_fault(tuple(Format))
