"""The plugin and its source keep the contracts every plugin keeps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest

from bulksigner.testing.contracts import CertificateSourceContract
from bulksigner.testing.plugin_contract import PluginContract
from bulksigner_pkcs11.settings import Pkcs11Block
from bulksigner_pkcs11.source import Pkcs11Source


class TestPkcs11Source(CertificateSourceContract):
    @pytest.fixture
    def source(self, make_source: Any) -> Pkcs11Source:
        return make_source()  # type: ignore[no-any-return]

    @pytest.fixture
    def block(self, token: Any) -> Pkcs11Block:
        return token.block()  # type: ignore[no-any-return]

    @pytest.fixture
    def bad_block(self, block: Pkcs11Block) -> Pkcs11Block:
        return attrs.evolve(block, thumbprint="0" * 40)


class TestPlugin(PluginContract):
    entry_point = "pkcs11"

    @pytest.fixture
    def readme(self) -> Path:
        return Path(__file__).parents[1] / "README.md"
