"""The table of codes and the source name the same codes."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from bulksigner.contract.codes import CODES

# Asked for where a job is retried; it is recorded once there are approvals.
AWAITED = {"approval.rejected"}
FAMILIES = sorted({code.partition(".")[0] for code in CODES if "." in code})
SHAPE = re.compile(rf"({'|'.join(FAMILIES)})\.[a-z0-9]+(-[a-z0-9]+)*")


def named_codes(source: str) -> set[str]:
    """Return the texts of a module that have the shape of a code of ours; those without a point are told elsewhere."""
    constants = (node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str) and (SHAPE.fullmatch(value) or value in CODES)}


def test_every_code_in_the_source_is_in_the_table_and_is_used(product_modules: list[Path]) -> None:
    """API-76: none is emitted that the table lacks, and no row is left that nothing emits."""
    modules = [path for path in product_modules if path.name != "codes.py" and "testing" not in path.parts]
    named = set().union(*(named_codes(path.read_text(encoding="utf-8")) for path in modules))
    assert named - AWAITED == set(CODES) - AWAITED


def test_the_rule_sees_a_code_that_is_not_in_the_table() -> None:
    """The rule above can fail, for a code in any place, and takes no name of a file or a logger for one."""
    source = 'raise Refusal("x", code="job.never-heard-of")\nCODE = "auth.new"\nopen("job.Txt")\nlog("bulksigner.web")'
    assert named_codes(source) == {"job.never-heard-of", "auth.new"}
