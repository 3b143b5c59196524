"""The example files that the demonstration signs: `python -m bulksigner.testing.examples FOLDER` writes them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from bulksigner.testing.files import cnab240_file, pdf_file, text_file, xml_file

__all__ = ["example_files", "write_examples"]


def example_files() -> Mapping[str, bytes]:
    """Build the examples, by file name: contract, invoice, payment file, and a text for the upload."""
    return {
        "contrato.pdf": pdf_file(pages=5, title="Contrato de prestação de serviços", seed=2026),
        "nota-fiscal.xml": xml_file(items=12, seed=2026),
        "pagamentos.rem": cnab240_file(payments=40, total_centavos=18_734_250, seed=2026),
        "declaracao.txt": text_file(size_bytes=3_000, seed=2026),
    }


def write_examples(folder: Path) -> list[Path]:
    """Write the examples into `folder`, which is made when needed; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for name, content in example_files().items():
        path = folder / name
        path.write_bytes(content)
        paths.append(path)
    return paths


def main(arguments: list[str]) -> int:
    """Write the examples into the folder named by the only argument and print their paths."""
    if len(arguments) != 1:
        print("usage: python -m bulksigner.testing.examples FOLDER", file=sys.stderr)
        return 2
    for path in write_examples(Path(arguments[0])):
        print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
