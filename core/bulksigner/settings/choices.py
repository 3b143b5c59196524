"""Values that select a plugin, and whether that plugin is here (CFG-16)."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from bulksigner.settings.model import LOCAL_PROVIDER
from bulksigner.settings.signing import LOCAL_METHOD

__all__ = ["SOURCES", "Installed", "canonical", "explain_absent", "list_out_of_use"]

# Name in the settings -> distribution that brings it; None: the core itself.
SOURCES = {"Pfx": "bulksigner-local-pfx", "Pkcs11": "bulksigner-pkcs11", "WindowsStore": None, "AzureKeyVault": None}
_BROUGHT_BY = {
    LOCAL_METHOD: None,
    "LacunaSigner": "bulksigner-lacuna-signer",
    "SignerFolder": "bulksigner-lacuna-signer",
    LOCAL_PROVIDER: None,
    "AzureFiles": "bulksigner-azure-files",
    **SOURCES,
}


@attrs.frozen
class Installed:
    """What the plugins of this process handed over, by name; `out_of_use` says why others did not."""

    sources: frozenset[str]
    storage_providers: frozenset[str]
    signing_methods: frozenset[str]
    out_of_use: tuple[str, ...] = ()


def canonical(value: str, declared: Iterable[str] = ()) -> str:
    """Return the known spelling of a name that selects a plugin (CFG-04), or the name as it is."""
    for name in (*declared, *_BROUGHT_BY):
        if name.casefold() == value.casefold():
            return name
    return value


def explain_absent(value: str, installed: Iterable[str], out_of_use: Iterable[str] = ()) -> str:
    """Say what to do about a selected name that nothing installed answers to (OPS-56)."""
    names = sorted(installed)
    valid = f"Valid here: {', '.join(names)}." if names else "Nothing of the kind is loaded here."
    distribution = _BROUGHT_BY.get(canonical(value))
    advice = f"Install {distribution}, or choose another. {valid}" if distribution is not None else valid
    return advice + list_out_of_use(out_of_use)


def list_out_of_use(out_of_use: Iterable[str]) -> str:
    """Write what is installed and not loaded as a sentence to append; empty where there is nothing to say."""
    told = "; ".join(out_of_use)
    return f" Of the installed plugins, {told}." if told else ""
