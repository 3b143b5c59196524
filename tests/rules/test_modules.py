import ast
import re
from collections.abc import Iterable, Iterator, Set
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


def is_protocol(node: ast.ClassDef) -> bool:
    return any(ast.unparse(base).split("[")[0] in ("Protocol", "typing.Protocol") for base in node.bases)


def documented_in_roles(trees: Iterable[ast.Module]) -> set[str]:
    """Name the methods that a role (a Protocol) documents, so that those who fulfil it need not repeat it."""
    return {
        member.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and is_protocol(node)
        for member in node.body
        if isinstance(member, ast.FunctionDef) and ast.get_docstring(member)
    }


def public_without_docstring(tree: ast.Module, documented: Set[str] = frozenset()) -> list[str]:
    """Name the public classes, functions and methods of a module that have no docstring.

    Left out are methods of a role documented elsewhere, properties by which a Protocol declares an attribute, and the
    `Meta` of a database model.
    """
    bare = [] if ast.get_docstring(tree) else ["the module"]
    scopes: list[tuple[str, ast.Module | ast.ClassDef]] = [("", tree)]
    while scopes:
        prefix, scope = scopes.pop()
        in_protocol = isinstance(scope, ast.ClassDef) and is_protocol(scope)
        for node in scope.body:
            if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
                continue
            is_attribute = in_protocol and any(ast.unparse(mark) == "property" for mark in node.decorator_list)
            exempt = is_attribute or node.name == "Meta" or (prefix and node.name in documented)
            if not ast.get_docstring(node) and not exempt:
                bare.append(f"{prefix}{node.name} (line {node.lineno})")
            if isinstance(node, ast.ClassDef):
                scopes.append((f"{prefix}{node.name}.", node))
    return bare


def test_public_names_have_a_docstring(product_modules: list[Path], root: Path):
    """Design, section 8: docstrings of public names, in core and plugins."""
    sources = {path: path.read_text(encoding="utf-8") for path in product_modules}
    trees = {path: ast.parse(source) for path, source in sources.items() if source.strip()}
    documented = documented_in_roles(trees.values())
    bare = {}
    for path, tree in trees.items():
        if found := public_without_docstring(tree, documented):
            bare[str(path.relative_to(root))] = found
    assert not bare


def test_the_docstring_rule_sees_what_is_missing():
    """The rule above can fail: class, method and function are all named, what a role documents is not."""
    tree = ast.parse('"""M."""\nclass A:\n    def b(self): ...\n    def _c(self): ...\ndef d(): ...\n')
    assert public_without_docstring(tree) == ["A (line 2)", "d (line 5)", "A.b (line 3)"]
    assert public_without_docstring(tree, {"b", "d"}) == ["A (line 2)", "d (line 5)"]
    role = ast.parse('class R(Protocol):\n    def b(self):\n        """Do b."""\n    def e(self): ...\n')
    assert documented_in_roles([role]) == {"b"}


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
