"""The folder of a demonstration: certificates, settings, watched folders and originals, made anew on every run."""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path

import attrs

from bulksigner.contract.errors import BulkSignerError, StartRefused
from bulksigner.contract.signing import Format
from bulksigner.files.lock import hold_folder_lock
from bulksigner.testing.certificates import AURORA, make_authority
from bulksigner.testing.examples import write_examples

__all__ = ["DELIVERIES", "PASSWORD", "Delivery", "Ground", "lay_ground"]

PASSWORD = "senha-da-demonstracao"
_MARKER = ".bulksigner-demo"
_MARKER_TEXT = "Made by `make demo`, which replaces this folder on every run.\n"
_LABELS = {Format.PADES: "PAdES", Format.XADES: "XAdES", Format.CADES: "CAdES"}


@attrs.frozen
class Delivery:
    """One example file, its format, and whether it goes in over REST instead of the watched folder of the format."""

    file_name: str
    format: Format
    is_upload: bool = False

    @property
    def format_label(self) -> str:
        """Return the format as its standard writes it."""
        return _LABELS[self.format]


DELIVERIES = (
    Delivery("contrato.pdf", Format.PADES),
    Delivery("nota-fiscal.xml", Format.XADES),
    Delivery("pagamentos.rem", Format.CADES),
    Delivery("declaracao.txt", Format.CADES, is_upload=True),
)


@attrs.frozen
class Ground:
    """Where everything of one demonstration is."""

    folder: Path
    api_key: str
    root_der: bytes

    @property
    def settings(self) -> Path:
        """Return the settings file."""
        return self.folder / "settings.toml"

    @property
    def pfx(self) -> Path:
        """Return the PKCS#12 file, which opens with `PASSWORD`."""
        return self.folder / "certificates" / "empresa.pfx"

    @property
    def root_pem(self) -> Path:
        """Return the certificate of the test root."""
        return self.folder / "certificates" / "root.pem"

    @property
    def originals(self) -> Path:
        """Return the folder of the files as they were before signing."""
        return self.folder / "originals"

    @property
    def output(self) -> Path:
        """Return the folder of the signed files."""
        return self.folder / "data" / "output"

    @property
    def log(self) -> Path:
        """Return the file that has what the service printed."""
        return self.folder / "service.log"

    @property
    def trust(self) -> Path:
        """Return the folder of the roots that the service trusts."""
        return self.folder / "trust"

    def inbox(self, format: Format) -> Path:
        """Return the watched folder of a format."""
        return self.folder / "inbox" / profile_name(format)

    def original(self, delivery: Delivery) -> Path:
        """Return the file of a delivery as it was before signing."""
        return self.originals / delivery.file_name


def profile_name(format: Format) -> str:
    """Return the name of the profile, and of the watched folder, of a format."""
    return format.value.lower()


def lay_ground(folder: Path) -> Ground:
    """Replace the folder by a fresh one with all that a start needs.

    Raises `BulkSignerError` when the folder is somebody else's, or a service still runs on it.
    """
    _clear(folder)
    folder.mkdir(parents=True, mode=0o750)
    (folder / _MARKER).write_text(_MARKER_TEXT, encoding="utf-8")
    issued = make_authority("Demonstracao").issue(AURORA)
    ground = Ground(folder, secrets.token_urlsafe(24), issued.chain_der[-1])
    ground.pfx.parent.mkdir()
    issued.write_pfx(ground.pfx, PASSWORD)
    issued.write_root_pem(ground.root_pem)
    ground.trust.mkdir()
    issued.write_root_pem(ground.trust / ground.root_pem.name)
    write_examples(ground.originals)
    for kind in Format:
        ground.inbox(kind).mkdir(parents=True)
    ground.settings.write_text(_settings_text(ground), encoding="utf-8")
    return ground


def _clear(folder: Path) -> None:
    if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
        raise BulkSignerError(f"{folder} is not a folder of the demo; it was left alone. Name another one.")
    if not folder.exists():
        return
    if not (folder / _MARKER).is_file():
        if any(folder.iterdir()):
            raise BulkSignerError(
                f"{folder} holds files that the demo did not make; nothing was touched. Move it away, or name another "
                "folder: python -m bulksigner.testing.demo FOLDER"
            )
    elif (lock := folder / "data" / "db" / ".lock").exists():
        try:
            hold_folder_lock(lock).release()
        except StartRefused as error:
            raise BulkSignerError(
                f"The service of an earlier demo still runs ({lock.read_text(encoding='utf-8').strip()}); nothing was "
                "touched. Stop it first: kill and that process id."
            ) from error
    shutil.rmtree(folder)


def _settings_text(ground: Ground) -> str:
    lines = [
        "[Auth]",
        f"ApiKey = {_quoted(ground.api_key)}",
        "",
        "[Storage]",
        f"Root = {_quoted(ground.folder / 'data')}",
        "",
        "[ConnectionStrings]",
        f"Default = {_quoted(ground.folder / 'data' / 'db' / 'bulksigner.db')}",
        "",
        "[Signing.Trust]",
        f"RootsPath = {_quoted(ground.trust)}",
        "",
        "[Signing]",
        f"ProfileSecretsKey = {_quoted(secrets.token_urlsafe(48))}",
    ]
    for kind in Format:
        name = _quoted(profile_name(kind))
        lines += ["", "[[Storage.Inputs]]", f"Name = {name}", f"Path = {_quoted(ground.inbox(kind))}"]
        lines += [f"Profile = {name}", "", "[[Signing.Profiles]]", f"Name = {name}"]
        # pdfsig, which the demonstration asks, cannot judge PDF signatures with the entries of the national policy.
        lines += ['PadesFilter = "Etsi"'] if kind is Format.PADES else []
        lines += [f"Format = {_quoted(kind.value)}", "", "[Signing.Profiles.Certificate]", 'Source = "Pfx"']
        lines += ["", "[Signing.Profiles.Certificate.Pfx]", f"Path = {_quoted(ground.pfx)}"]
        lines += [f"Password = {_quoted(PASSWORD)}"]
    return "\n".join(lines) + "\n"


def _quoted(value: object) -> str:
    # The escapes of JSON are among those of a TOML basic string.
    return json.dumps(str(value), ensure_ascii=False)
