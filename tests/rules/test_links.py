import re
from pathlib import Path
from urllib.parse import unquote

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings as code hosts derive them; none when there is no page."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    plain = (re.sub(r"[`*]", "", heading).lower() for heading in HEADING.findall(FENCE.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", heading).replace(" ", "-") for heading in plain}


def dead_links(page: Path, text: str) -> list[str]:
    """List the relative links of a page that lead to no file, no folder or no heading."""
    dead = []
    for target in LINK.findall(FENCE.sub("", text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = unquote(target).partition("#")
        found = page.parent / name if name else page
        has_anchor = not anchor or found.suffix != ".md" or anchor in anchors(found)
        if not found.exists() or not has_anchor:
            dead.append(target)
    return dead


def test_links_between_pages_lead_somewhere(tracked: list[Path], root: Path):
    """No page sends its reader to a file or heading that is not there."""
    dead = {}
    for page in tracked:
        if page.suffix == ".md" and (found := dead_links(page, page.read_text(encoding="utf-8"))):
            dead[str(page.relative_to(root))] = found
    assert not dead


def test_every_page_of_the_documentation_can_be_reached(root: Path):
    """A page that nothing links to is read by nobody."""
    start = root / "README.md"
    reached, waiting = set(), [start]
    while waiting:
        page = waiting.pop()
        if page in reached:
            continue
        reached.add(page)
        for target in LINK.findall(FENCE.sub("", page.read_text(encoding="utf-8"))):
            found = (page.parent / unquote(target).partition("#")[0]).resolve()
            if found.suffix == ".md" and found.is_file():
                waiting.append(found)
    assert sorted(str(page.relative_to(root)) for page in set(root.glob("docs/**/*.md")) - reached) == []


def test_the_link_rule_sees_dead_links(tmp_path: Path):
    """The rules above can fail; code blocks and addresses on the web are left alone."""
    page = tmp_path / "page.md"
    text = (
        "# A heading: `here`\n[gone](gone.md) [self](#a-heading-here) [no](#nowhere) [web](https://x.test/y)\n"
        "```\n[code](not-a-link.md)\n```\n"
    )
    page.write_text(text, encoding="utf-8")
    assert dead_links(page, text) == ["gone.md", "#nowhere"]
