"""Write the reference pages that are made from the code: `python -m tools.reference`."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import bulksigner
from bulksigner.contract import (
    approval,
    certificate,
    errors,
    hookspecs,
    intake,
    notes,
    observe,
    settings,
    signing,
    storage,
    validation,
)
from bulksigner.contract.codes import CODES
from bulksigner.observability.instruments import metrics_page
from bulksigner.settings.reference import render_reference
from bulksigner.settings.schema import CollectedSchema
from bulksigner.web.openapi import describe
from bulksigner.web.reference import codes_page, routes_page
from bulksigner.web.routes import ROUTES

__all__ = ["PAGES", "contract_source", "hook_functions", "hook_signature"]

ROOT = Path(__file__).resolve().parent.parent
_CONTRACT = (settings, certificate, signing, storage, validation, approval, intake, observe, notes, errors)
_NOTE = "<!-- Written by `make docs` from the code; change it there. -->"


def hook_functions() -> list[Callable[..., object]]:
    """List the hooks in the order of their source."""
    return [value for name, value in vars(hookspecs).items() if name.startswith(f"{hookspecs.PROJECT}_")]


def hook_signature(hook: Callable[..., object]) -> str:
    """Render a hook as its heading shows it: names, annotations and result as written in the source."""
    return f"{hook.__name__}{inspect.signature(hook)}".replace("'", "")


def _hook_mode(hook: Callable[..., object]) -> str:
    options = vars(hook).get(f"{hookspecs.PROJECT}_spec") or {}
    if options.get("firstresult"):
        return "First result: plugins are asked in turn until one answers with something other than `None`."
    if inspect.signature(hook).return_annotation == "None":
        return "Notification: every plugin is called, nothing is expected back."
    return "Collect: every plugin is asked, all answers count; `None` means nothing to hand out."


def contract_source(member: object) -> str:
    """Return a class as its source has it, or the signature and the docstring of a function."""
    if inspect.isclass(member):
        return inspect.getsource(member).rstrip()
    if not inspect.isfunction(member):
        raise TypeError(f"{member!r} is neither a class nor a function")
    head = f"def {member.__name__}{inspect.signature(member)}:".replace("'", "")
    return f'{head}\n    """{inspect.getdoc(member)}"""'


def _contract_sections(module: ModuleType) -> list[str]:
    """Render what plugins may import of a module of the contract, in the order of its source."""
    offered = [
        value
        for name, value in vars(module).items()
        if name in bulksigner.__all__ and callable(value) and value.__module__ == module.__name__
    ]
    parts = [f"## {module.__name__}", inspect.getdoc(module) or ""]
    for member in offered:
        parts += [f"### {member.__name__}", f"```python\n{contract_source(member)}\n```"]
    return parts


def hooks_page() -> str:
    """Render docs/reference/hooks.md from contract.hookspecs and the classes that its hooks speak of."""
    parts = [
        "# Hooks",
        _NOTE,
        "A plugin is a module named by an entry point of the group `bulksigner`. Its hooks are functions marked with "
        "`bulksigner.contract.hookspecs.hookimpl`; it implements those it needs, and may leave out arguments it does "
        "not use. [Your first plugin](../tutorial/first-plugin.md) makes one from an empty folder.",
        "A plugin that fails is left out with all it provides, and the rest of the service goes on; but no file is "
        "signed without a check that was wanted. When a plugin with file validators or approval rules fails, or one "
        "that failed before its hooks were known, every profile is degraded and readiness is red until the plugin is "
        "mended, uninstalled, or listed in `BULK_SIGNER_DISABLED_PLUGINS`. Where such a plugin has declared profile "
        "keys that are all off by default, only the profiles that set one are degraded.",
        "The classes that the hooks speak of follow them below. All can be imported from `bulksigner`.",
    ]
    for hook in hook_functions():
        parts += [f"## {hook.__name__}", f"```python\n{hook_signature(hook)}\n```", inspect.getdoc(hook) or ""]
        parts.append(_hook_mode(hook))
    for module in _CONTRACT:
        parts += _contract_sections(module)
    return "\n\n".join(parts) + "\n"


def settings_page() -> str:
    """Render docs/reference/settings.md: the keys of the core."""
    return render_reference(CollectedSchema())


def openapi_document() -> str:
    """Render docs/reference/openapi.json: the interface of the core, for whoever generates a client (API-93)."""
    return json.dumps(describe(ROUTES, CODES), indent=1, ensure_ascii=False) + "\n"


PAGES: Mapping[str, Callable[[], str]] = {
    "docs/reference/error-codes.md": lambda: codes_page(_NOTE),
    "docs/reference/hooks.md": hooks_page,
    "docs/reference/metrics.md": lambda: metrics_page(_NOTE),
    "docs/reference/openapi.json": openapi_document,
    "docs/reference/rest-api.md": lambda: routes_page(_NOTE),
    "docs/reference/settings.md": settings_page,
}


def main() -> None:
    """Write every page and name those that changed."""
    for name, render in PAGES.items():
        path, text = ROOT / name, render()
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
            print(f"written: {name}")


if __name__ == "__main__":
    main()
