import ast
import re
from collections.abc import Iterator
from pathlib import Path

LONGEST_LINES = 400
VAGUE_NAMES = {"utils", "helpers", "common", "manager", "process", "handle", "data", "info"}
ALLOWED_VAGUE = {"core/bulksigner/plugin_system/manager.py"}
# The sheets of the specification, each with its highest id so far.
HIGHEST_ID = {
    "ACC": 35,
    "API": 103,
    "APR": 164,
    "AZF": 91,
    "BEY": 60,
    "CFG": 205,
    "CLU": 87,
    "CNAB": 53,
    "CSG": 815,
    "DEP": 68,
    "DSH": 179,
    "ENC": 40,
    "ICP": 44,
    "LSA": 66,
    "OPS": 251,
    "PERF": 37,
    "PIPE": 129,
    "SEC": 86,
    "STA": 110,
    "WIN": 58,
}
IDENTIFIER = re.compile(r"(?<![\w-])([A-Z]{3,4})-(\d+)\b")
# Names of standards and algorithms that have the shape of an id.
FOREIGN = {"AES", "CRC", "DES", "ISO", "PDF", "RFC", "RSA", "SHA", "UTF", "XML"}


def test_no_module_is_longer_than_400_lines(product_modules: list[Path], root: Path):
    """A module that nears the limit is two ideas; frozen migrations are left as they are."""
    lengths = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in product_modules}
    too_long = {
        str(path.relative_to(root)): lines
        for path, lines in lengths.items()
        if lines > LONGEST_LINES and "migrations" not in path.parts
    }
    assert not too_long


def test_module_names_say_what_is_inside(product_modules: list[Path], root: Path):
    """A name that fits anything is given to nothing, with one exception."""
    vague = {
        str(path.relative_to(root))
        for path in product_modules
        if VAGUE_NAMES & {path.stem, *path.relative_to(root).parts[2:-1]}
    }
    assert vague <= ALLOWED_VAGUE


def public_without_docstring(tree: ast.Module) -> list[str]:
    """Name the public classes, functions and methods of a module that have no docstring."""
    bare = [] if ast.get_docstring(tree) else ["the module"]
    scopes: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree)]
    while scopes:
        prefix, scope = scopes.pop()
        for node in scope.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            if not ast.get_docstring(node):
                bare.append(f"{prefix}{node.name} (line {node.lineno})")
            if isinstance(node, ast.ClassDef):
                scopes.append((f"{prefix}{node.name}.", node))
    return bare


def test_public_names_have_a_docstring(product_modules: list[Path], root: Path):
    """Design, section 8: docstrings of public names, in core and plugins."""
    bare = {}
    for path in product_modules:
        if path.name == "__init__.py" and not path.read_text(encoding="utf-8").strip():
            continue
        if found := public_without_docstring(ast.parse(path.read_text(encoding="utf-8"))):
            bare[str(path.relative_to(root))] = found
    assert not bare


def test_the_docstring_rule_sees_what_is_missing():
    """The rule above can fail: class, method and function without a docstring are all named."""
    tree = ast.parse('"""M."""\nclass A:\n    def b(self): ...\n    def _c(self): ...\ndef d(): ...\n')
    assert public_without_docstring(tree) == ["A (line 2)", "d (line 5)", "A.b (line 3)"]


def cited(path: Path) -> Iterator[str]:
    """Yield the texts of a file that cite ids: docstrings of tests, whole changelog fragments."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield text
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def unknown_ids(text: str) -> list[str]:
    """List what has the shape of an id and is none."""
    return [
        f"{prefix}-{number}"
        for prefix, number in IDENTIFIER.findall(text)
        if prefix not in FOREIGN and not (len(number) in (2, 3) and 0 < int(number) <= HIGHEST_ID.get(prefix, 0))
    ]


def test_cited_ids_exist(tracked: list[Path], root: Path):
    """An id in the docstring of a test or in a changelog fragment is one of the specification."""
    wrong = {}
    for path in tracked:
        is_test = path.suffix == ".py" and "tests" in path.relative_to(root).parts
        if not is_test and path.parent != root / "changelog.d":
            continue
        if found := [name for text in cited(path) for name in unknown_ids(text)]:
            wrong[str(path.relative_to(root))] = found
    assert not wrong


def test_the_id_rule_sees_mistyped_ids():
    """The rule above can fail: unknown sheet, number out of range, one digit."""
    text = "PIP" + "-44, PIPE" + "-44, PIPE" + "-999, CFG" + "-7, SHA" + "-256"
    assert unknown_ids(text) == ["PIP" + "-44", "PIPE" + "-999", "CFG" + "-7"]
