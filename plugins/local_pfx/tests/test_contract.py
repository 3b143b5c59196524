"""The plugin and its source keep the contracts every plugin keeps."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from bulksigner.contract.settings import Secret
from bulksigner.testing.contracts import CertificateSourceContract
from bulksigner.testing.plugin_contract import PluginContract
from bulksigner_local_pfx.settings import PfxBlock
from bulksigner_local_pfx.source import PfxSource


class TestPfxSource(CertificateSourceContract):
    @pytest.fixture
    def source(self) -> PfxSource:
        return PfxSource()

    @pytest.fixture
    def block(self, pfx: tuple[Path, str]) -> PfxBlock:
        path, password = pfx
        return PfxBlock(str(path), Secret(password))

    @pytest.fixture
    def bad_block(self, block: PfxBlock) -> PfxBlock:
        return attrs.evolve(block, password=Secret("not this one"))


class TestPlugin(PluginContract):
    entry_point = "local_pfx"

    @pytest.fixture
    def readme(self) -> Path:
        return Path(__file__).parents[1] / "README.md"
