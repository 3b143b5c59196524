"""The built-in providers keep the contracts of their roles."""

from __future__ import annotations

import datetime
import hashlib

import pytest

from bulksigner.builtin.local_folder import LocalFileSystem, LocalFolder
from bulksigner.builtin.local_signing import LocalSigning
from bulksigner.contract.signing import Format, Measured, SigningRequest
from bulksigner.testing.contracts import FolderContract, SigningMethodContract, StorageProviderContract
from bulksigner.testing.fakes import MemoryKey


class TestLocalFolder(FolderContract):
    @pytest.fixture
    def folder(self, tmp_path):
        (tmp_path / "inbox").mkdir()
        return LocalFolder(tmp_path / "inbox", sleep=lambda _: None)

    def put(self, folder, name, content):
        with open(folder.path_of(name), "wb") as file:
            file.write(content)


class TestLocalFileSystem(StorageProviderContract):
    @pytest.fixture
    def provider(self):
        return LocalFileSystem()

    @pytest.fixture
    def place(self, tmp_path):
        return str(tmp_path)


class _Files:
    @pytest.fixture
    def method(self):
        return LocalSigning()

    @pytest.fixture
    def signing_request(self, tmp_path, leaf, staged_content):
        kind, content = staged_content
        staged = tmp_path / "staged"
        staged.write_bytes(content)
        return SigningRequest(
            job_id="a job",
            file_name="staged",
            format=kind,
            staged=staged,
            staged_measured=Measured(len(content), hashlib.sha256(content).digest()),
            target=tmp_path / "target",
            key=MemoryKey(leaf),
            signed_at=datetime.datetime(2026, 3, 2, tzinfo=datetime.UTC),
        )


class TestLocalSigningOfText(_Files, SigningMethodContract):
    @pytest.fixture
    def staged_content(self):
        return Format.CADES, b"a text"


class TestLocalSigningOfPdf(_Files, SigningMethodContract):
    @pytest.fixture
    def staged_content(self, pdf_file):
        return Format.PADES, pdf_file()


class TestLocalSigningOfXml(_Files, SigningMethodContract):
    @pytest.fixture
    def staged_content(self, xml_file):
        return Format.XADES, xml_file()
