"""Where a SQLite database may lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from bulksigner.contract.errors import StartRefused
from bulksigner.records.sqlite import open_sqlite


@pytest.mark.parametrize("kind", ["nfs4", "cifs", "fuse.sshfs"])
def test_a_network_file_system_is_refused(tmp_path: Path, kind: str) -> None:
    """BEY-41, CFG-61: the refusal names file, kind and the way out; nothing is created."""
    path = tmp_path / "db" / "bulksigner.db"
    with pytest.raises(StartRefused, match=f"{kind}.*PostgreSql") as caught:
        open_sqlite(path, network=lambda _: kind)
    assert str(path) in caught.value.message
    assert caught.value.exit_code == 73
    assert not path.parent.exists()
