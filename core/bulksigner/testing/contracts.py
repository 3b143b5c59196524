"""What every provider of a role must do, as test classes to inherit from; behaviour only.

A plugin's test derives a class, overrides the fixtures that hand out its provider, and inherits every test:

    class TestMyFolder(FolderContract):
        @pytest.fixture
        def folder(self, tmp_path): ...
"""

from __future__ import annotations

import hashlib
import pickle
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import Prehashed

from bulksigner.contract.certificate import CertificateSource, Digest, KeyAlgorithm, OpenedKey
from bulksigner.contract.errors import BulkSignerError, HeldElsewhere, ProviderError, StepFailed
from bulksigner.contract.observe import ReadinessCheck, ReadinessRow
from bulksigner.contract.signing import Dispatched, Measured, Overtaken, Signed, SigningMethod, SigningRequest
from bulksigner.contract.storage import Fingerprint, Folder, NearFolder, RemovalOutcome, StorageProvider
from bulksigner.contract.validation import CheckReport, FileValidator, StagedFile

__all__ = [
    "CertificateSourceContract",
    "FileValidatorContract",
    "FolderContract",
    "ReadinessCheckContract",
    "SigningMethodContract",
    "StorageProviderContract",
]

_CONTENT = b"content of a file, \x00 and \xff included\n"
_OTHER = b"what a producer wrote meanwhile\n"
_HASHES: dict[Digest, hashes.HashAlgorithm] = {Digest.SHA256: hashes.SHA256(), Digest.SHA512: hashes.SHA512()}


class CertificateSourceContract:
    """A certificate source: override `source`, `block` (opens) and `bad_block` (does not)."""

    @pytest.fixture
    def source(self) -> CertificateSource:
        """Return the source under test."""
        raise NotImplementedError

    @pytest.fixture
    def block(self) -> object:
        """Return settings with which a key opens."""
        raise NotImplementedError

    @pytest.fixture
    def bad_block(self) -> object:
        """Return settings of the same class with which none does."""
        raise NotImplementedError

    def test_it_is_a_certificate_source(self, source: CertificateSource) -> None:
        """The members of the role are there, with values of their types."""
        assert isinstance(source, CertificateSource)
        assert source.name
        assert isinstance(source.concurrent, bool)
        assert isinstance(source.portable, bool)

    @pytest.mark.parametrize("digest", [Digest.SHA256, Digest.SHA512])
    def test_its_key_signs_for_its_certificate(self, source: CertificateSource, block: object, digest: Digest) -> None:
        """A signature, over data or over a digest value, verifies with the public key of the certificate."""
        key = source.open(block)
        try:
            assert isinstance(key, OpenedKey)
            value = hashlib.new(digest.value, _CONTENT).digest()
            for signature in (key.sign(_CONTENT, digest), key.sign_digest(value, digest)):
                _verify(key, signature, digest)
        finally:
            key.close()

    def test_its_chain_leads_away_from_the_leaf(self, source: CertificateSource, block: object) -> None:
        """Issuers come nearest first, each the issuer of the one before, the leaf not among them."""
        key = source.open(block)
        child = x509.load_der_x509_certificate(key.certificate)
        for encoded in key.chain:
            issuer = x509.load_der_x509_certificate(encoded)
            assert child.issuer == issuer.subject
            assert encoded != key.certificate
            child = issuer
        key.close()

    def test_closing_twice_is_harmless(self, source: CertificateSource, block: object) -> None:
        """A stop may close a key that a failed job closed before."""
        key = source.open(block)
        key.close()
        key.close()

    def test_what_does_not_open_says_why(self, source: CertificateSource, bad_block: object) -> None:
        """The reason is a `ProviderError` in a sentence, which becomes that of the degraded profile."""
        with pytest.raises(ProviderError) as refused:
            source.open(bad_block)
        assert len(refused.value.message) > 10

    def test_settings_of_another_kind_are_refused(self, source: CertificateSource) -> None:
        """A block of another class is a `ProviderError`, never an accident of attributes."""
        with pytest.raises(ProviderError):
            source.open(object())

    def test_the_locator_is_one_line(self, source: CertificateSource, block: object) -> None:
        """The banner shows it."""
        assert source.locator(block)
        assert "\n" not in source.locator(block)


class SigningMethodContract:
    """A signing method: override `method` and `signing_request`."""

    @pytest.fixture
    def method(self) -> SigningMethod:
        """Return the method under test."""
        raise NotImplementedError

    @pytest.fixture
    def signing_request(self) -> SigningRequest:
        """Return a request that succeeds; its target does not exist yet."""
        raise NotImplementedError

    def test_it_is_a_signing_method(self, method: SigningMethod) -> None:
        """The members of the role are there."""
        assert isinstance(method, SigningMethod)
        assert method.name
        assert isinstance(method.needs_certificate, bool)

    def test_it_signs_or_hands_over(self, method: SigningMethod, signing_request: SigningRequest) -> None:
        """What is signed here is complete at the target when the call returns, and measured right."""
        outcome = method.sign(signing_request)
        assert isinstance(outcome, Signed | Dispatched | Overtaken)
        if isinstance(outcome, Signed):
            written = signing_request.target.read_bytes()
            assert outcome.measured == Measured(len(written), hashlib.sha256(written).digest())

    def test_changed_bytes_are_refused_before_the_key(
        self, method: SigningMethod, signing_request: SigningRequest
    ) -> None:
        """PIPE-77: bytes that are not those that were measured are never signed, and no target is left."""
        staged = signing_request.staged.read_bytes()
        signing_request.staged.write_bytes(bytes([staged[0] ^ 1]) + staged[1:])
        with pytest.raises((StepFailed, ProviderError)):
            method.sign(signing_request)
        assert not signing_request.target.exists()

    def test_an_existing_target_is_not_overwritten(
        self, method: SigningMethod, signing_request: SigningRequest
    ) -> None:
        """A second run into the same place fails and leaves what is there."""
        signing_request.target.write_bytes(_OTHER)
        with pytest.raises(BulkSignerError):
            method.sign(signing_request)
        assert signing_request.target.read_bytes() == _OTHER


class FolderContract:
    """A folder: override `folder`, empty, and `put`, which places a file as a producer would."""

    @pytest.fixture
    def folder(self) -> Folder:
        """Return an empty folder."""
        raise NotImplementedError

    def put(self, folder: Folder, name: str, content: bytes) -> None:
        """Place a file, or replace it, as a producer would."""
        raise NotImplementedError

    def fetch(self, folder: Folder, name: str, tmp_path: Path) -> bytes:
        """Return what the folder has under a name."""
        target = tmp_path / f"fetched-{len(list(tmp_path.iterdir()))}"
        folder.copy_to(name, target)
        return target.read_bytes()

    def test_it_is_a_folder(self, folder: Folder) -> None:
        """The members of the role are there."""
        assert isinstance(folder, Folder)
        assert folder.location
        assert folder.path_of("a.txt").endswith("a.txt")

    def test_a_listing_shows_each_file_and_a_look_the_same(self, folder: Folder) -> None:
        """PIPE-40: entries carry name and length; a look equals the listing while nothing changed."""
        assert list(folder.entries()) == []
        for name, content in (("a.txt", b""), ("ã b.pdf", _CONTENT)):
            self.put(folder, name, content)
        found = {entry.name: entry for entry in folder.entries()}
        assert {name: entry.length for name, entry in found.items()} == {"a.txt": 0, "ã b.pdf": len(_CONTENT)}
        assert all(folder.look(name) == entry for name, entry in found.items())
        assert folder.look("absent") is None

    def test_a_copy_is_measured(self, folder: Folder, tmp_path: Path) -> None:
        """PIPE-74: the fingerprint is that of the bytes at the target."""
        self.put(folder, "a.txt", _CONTENT)
        seen = folder.copy_to("a.txt", tmp_path / "copy")
        assert (tmp_path / "copy").read_bytes() == _CONTENT
        assert (seen.length, seen.sha256) == (len(_CONTENT), hashlib.sha256(_CONTENT).digest())

    def test_a_copy_of_what_is_gone_says_so(self, folder: Folder, tmp_path: Path) -> None:
        """A vanished input is `FileNotFoundError`, and leaves no target."""
        with pytest.raises(FileNotFoundError):
            folder.copy_to("absent", tmp_path / "copy")
        assert not (tmp_path / "copy").exists()

    def test_only_what_was_copied_is_removed(self, folder: Folder, tmp_path: Path) -> None:
        """PIPE-92, PIPE-93: the same file goes; a rewritten one of the same length stays; a missing one is no fault."""
        self.put(folder, "a.txt", _CONTENT)
        seen = folder.copy_to("a.txt", tmp_path / "copy")
        self.put(folder, "a.txt", _CONTENT[::-1])
        assert folder.remove_if("a.txt", seen).outcome is RemovalOutcome.DIVERGED
        assert self.fetch(folder, "a.txt", tmp_path) == _CONTENT[::-1]
        again = folder.copy_to("a.txt", tmp_path / "again")
        assert folder.remove_if("a.txt", again).outcome is RemovalOutcome.REMOVED
        assert folder.look("a.txt") is None
        assert folder.remove_if("a.txt", again).outcome is RemovalOutcome.ABSENT

    def test_a_near_folder_travels(self, folder: Folder, tmp_path: Path) -> None:
        """PERF-06: what says that it is near copies and removes in another process as it does in this one."""
        if not (isinstance(folder, NearFolder) and folder.is_near):
            return
        far_end = pickle.loads(pickle.dumps(folder))
        self.put(folder, "a.txt", _CONTENT)
        seen = far_end.copy_to("a.txt", tmp_path / "copy")
        self.put(folder, "a.txt", _CONTENT[::-1])
        assert far_end.remove_now("a.txt", seen).outcome is RemovalOutcome.DIVERGED
        again = folder.copy_to("a.txt", tmp_path / "again")
        assert far_end.remove_now("a.txt", again).outcome is RemovalOutcome.REMOVED
        assert folder.look("a.txt") is None
        assert far_end.remove_now("a.txt", again).outcome is RemovalOutcome.ABSENT

    def test_a_hold_is_exclusive_until_released(self, folder: Folder) -> None:
        """PIPE-91: a second hold is `HeldElsewhere`; releasing twice is harmless and takes nothing from the next."""
        self.put(folder, "a.txt", _CONTENT)
        hold = folder.hold("a.txt")
        with pytest.raises(HeldElsewhere):
            folder.hold("a.txt")
        hold.release()
        second = folder.hold("a.txt")
        hold.release()
        with pytest.raises(HeldElsewhere):
            folder.hold("a.txt")
        second.release()

    def test_a_received_file_never_replaces_another(self, folder: Folder, tmp_path: Path) -> None:
        """A taken name is `FileExistsError`; the file that has it and the source stay."""
        for name, content in (("one", _CONTENT), ("two", _OTHER)):
            (tmp_path / name).write_bytes(content)
        folder.receive("a.txt", tmp_path / "one")
        assert not (tmp_path / "one").exists()
        with pytest.raises(FileExistsError):
            folder.receive("a.txt", tmp_path / "two")
        assert self.fetch(folder, "a.txt", tmp_path) == _CONTENT
        assert (tmp_path / "two").read_bytes() == _OTHER

    def test_removing_twice_is_harmless(self, folder: Folder, tmp_path: Path) -> None:
        """What is gone is not removed again, and that is no fault."""
        (tmp_path / "one").write_bytes(_CONTENT)
        folder.receive("a.txt", tmp_path / "one")
        folder.remove("a.txt")
        folder.remove("a.txt")
        assert list(folder.entries()) == []

    @pytest.mark.parametrize("name", ["", ".", "..", "../a.txt", "b/a.txt", "a\0b"])
    def test_no_name_leads_out(self, folder: Folder, name: str) -> None:
        """SEC-67: a name that is not that of a file directly inside is refused."""
        with pytest.raises(BulkSignerError):
            folder.remove_if(name, Fingerprint(0, hashlib.sha256().digest()))
        with pytest.raises(BulkSignerError):
            folder.path_of(name)


class StorageProviderContract:
    """A storage provider: override `provider` and `place`, the path of a folder it can open."""

    @pytest.fixture
    def provider(self) -> StorageProvider:
        """Return the provider under test."""
        raise NotImplementedError

    @pytest.fixture
    def place(self) -> str:
        """Return the path of a folder."""
        raise NotImplementedError

    def test_it_opens_folders(self, provider: StorageProvider, place: str) -> None:
        """Opening is cheap and may happen twice; both are the same folder."""
        assert isinstance(provider, StorageProvider)
        assert provider.name
        assert isinstance(provider.notifies, bool)
        first, second = provider.open(place, {}), provider.open(place, {})
        assert isinstance(first, Folder)
        assert first.path_of("a.txt") == second.path_of("a.txt")


class FileValidatorContract:
    """A file validator: override `validator`, `good` and `bad`, staged files that pass and that do not."""

    @pytest.fixture
    def validator(self) -> FileValidator:
        """Return the validator under test."""
        raise NotImplementedError

    @pytest.fixture
    def good(self) -> StagedFile:
        """Return a file without errors."""
        raise NotImplementedError

    @pytest.fixture
    def bad(self) -> StagedFile:
        """Return a file with an error."""
        raise NotImplementedError

    def test_a_good_file_passes(self, validator: FileValidator, good: StagedFile) -> None:
        """PIPE-75: no finding of weight error; the file is read and not touched."""
        assert isinstance(validator, FileValidator)
        before = good.path.read_bytes()
        assert validator.check(good).passed
        assert good.path.read_bytes() == before

    def test_a_bad_file_is_explained(self, validator: FileValidator, bad: StagedFile) -> None:
        """BEY-10: each finding says where, what and what to do, under a code; the same file, the same report."""
        report = validator.check(bad)
        assert isinstance(report, CheckReport)
        assert not report.passed
        for finding in report.findings:
            assert all((finding.code, finding.place, finding.text, finding.remedy))
        assert validator.check(bad) == report


class ReadinessCheckContract:
    """A readiness check: override `check`."""

    @pytest.fixture
    def check(self) -> ReadinessCheck:
        """Return the check under test."""
        raise NotImplementedError

    def test_it_answers_in_its_own_name(self, check: ReadinessCheck) -> None:
        """API-77: the row has the check's name and weight, and a detail in one line; asking twice is harmless."""
        assert isinstance(check, ReadinessCheck)
        for _ in range(2):
            row = check.run()
            assert isinstance(row, ReadinessRow)
            assert (row.name, row.gating) == (check.name, check.gating)
            assert "\n" not in row.detail


def _verify(key: OpenedKey, signature: bytes, digest: Digest) -> None:
    public = x509.load_der_x509_certificate(key.certificate).public_key()
    value, algorithm = hashlib.new(digest.value, _CONTENT).digest(), Prehashed(_HASHES[digest])
    if key.algorithm is KeyAlgorithm.RSA:
        assert isinstance(public, rsa.RSAPublicKey)
        public.verify(signature, value, padding.PKCS1v15(), algorithm)
    else:
        assert isinstance(public, ec.EllipticCurvePublicKey)
        public.verify(signature, value, ec.ECDSA(algorithm))
