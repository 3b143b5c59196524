"""What a stored profile takes over from the settings, and gives back for an edit."""

import attrs

from bulksigner.profiles.mirror import read_columns, write_keys
from bulksigner.profiles.model import StoredProfile
from bulksigner.settings.bind import Binder
from bulksigner.settings.findings import Findings
from bulksigner.settings.signing import ProfileSeed
from bulksigner.settings.tree import Branch, Leaf, grow

ALL_CHANGED = {
    "Name": "all",
    "Enabled": False,
    "Format": "Xades",
    "Method": "Other",
    "Verify": False,
    "ValidateCertificate": False,
    "RequireNonRepudiation": False,
    "PreserveFileExtension": True,
    "SaveAsPem": True,
    "Encrypt": True,
    "PadesFilter": "Etsi",
    "Policy": "B-B",
    "CrossCheck": ["pdfsig"],
    "Appearance:Reason": "Contrato",
    "Xml:Flavor": "Nfe",
    "Xml:Sha1Until": "2027-01-31",
    "Xml:Placement": "ById",
    "Xml:SignElement": "infNFe",
    "Cades:Existing": "Parallel",
    "Cades:Content": "Detached",
}
"""Every key at a value that is not its default; together they need not make sense."""
APART = {
    "id",
    "name",
    "certificate_source",
    "certificate_block",
    "sealed",
    "extras",
    "input_folder",
    "row_version",
    "certificate_version",
    "damage",
    "pdf_passwords",
}


def bind(keys: dict[str, object]) -> ProfileSeed:
    tree = Branch()
    for path, value in keys.items():
        node = grow(value, "a test")
        if not (isinstance(node, Leaf) and value is None):
            tree.insert(path.split(":"), node)
    findings = Findings()
    seed = Binder(findings, {}, ()).bind_profile(tree, ())
    assert (findings.failures, findings.unknown) == ([], [])
    return seed


def store(seed: ProfileSeed) -> StoredProfile:
    return StoredProfile(
        id="1",
        name=seed.name,
        certificate_source=None,
        certificate_block={},
        sealed={},
        extras={},
        input_folder=None,
        **read_columns(seed),
    )


def test_every_column_of_a_profile_is_taken_over_from_the_settings():
    """CFG-81: a column that was forgotten would keep its default, whatever the settings say."""
    columns = read_columns(bind(ALL_CHANGED))
    assert set(columns) == {field.name for field in attrs.fields(StoredProfile)} - APART
    plain = read_columns(bind({"Name": "plain"}))
    assert [name for name in columns if columns[name] == plain[name]] == []


def test_an_edit_begins_with_the_keys_that_made_the_profile():
    """CFG-81: what an edit does not name stays as it was, key by key."""
    profile = store(bind(ALL_CHANGED))
    assert store(bind(write_keys(profile))) == profile
