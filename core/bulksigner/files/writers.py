"""Whether a program still writes a file, as the kernel knows it (Linux leases, fcntl(2))."""

from __future__ import annotations

import errno
import os
import signal
import sys
from pathlib import Path

if sys.platform == "linux":
    import fcntl

__all__ = ["is_open_for_writing"]


def is_open_for_writing(path: Path) -> bool:
    """Tell whether any program has the file open for writing.

    False when nobody can tell: another system, a file system without leases, a file of another account. Not for
    network file systems, which refuse leases with the same error that means a writer.
    """
    if sys.platform != "linux":
        return False
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # A program that opens the file during the lease has the kernel signal this process; SIGIO would end it.
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    finally:
        os.close(descriptor)
    return False
