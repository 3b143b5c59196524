"""The providers in memory keep the contracts of their roles."""

from __future__ import annotations

import datetime

import pytest

from bulksigner.testing.contracts import CertificateSourceContract, FolderContract, StorageProviderContract
from bulksigner.testing.fakes import Clock, MemoryFolder, MemoryKey, MemorySource, MemoryStorage


class TestMemoryFolder(FolderContract):
    @pytest.fixture
    def folder(self):
        return MemoryFolder()

    def put(self, folder, name, content):
        folder.put(name, content)


class TestMemoryStorage(StorageProviderContract):
    @pytest.fixture
    def provider(self):
        return MemoryStorage()

    @pytest.fixture
    def place(self):
        return "anywhere"


class TestMemorySource(CertificateSourceContract):
    @pytest.fixture
    def source(self):
        return MemorySource()

    @pytest.fixture
    def block(self, leaf):
        return leaf

    @pytest.fixture
    def bad_block(self):
        return "not issued"


def test_a_key_counts_its_uses(leaf):
    """BEY-51: what tests of "never signed twice" rest on."""
    from bulksigner.contract.certificate import Digest

    key = MemoryKey(leaf)
    key.sign(b"a", Digest.SHA256)
    key.sign_digest(bytes(64), Digest.SHA512)
    assert key.uses == 2


def test_a_clock_moves_only_when_told():
    """PIPE-05: aware times, under the test's control."""
    clock = Clock()
    before = clock()
    assert clock() == before
    clock.advance(minutes=5)
    assert clock() - before == datetime.timedelta(minutes=5)
