"""What mkdocs.yml needs beyond MkDocs: GitHub's anchors, and links that leave docs/ as plain paths."""

import pathlib
import posixpath
import re

ROOT = pathlib.Path(__file__).resolve().parents[1]


def github_anchor(heading, separator):
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def on_page_markdown(markdown, page, config, files):
    """A file of the tree is not on the site: its link becomes its path in code. tests/architecture/links.py checks that it is there."""
    folder = posixpath.dirname(page.file.src_uri)

    def plain(match):
        text, target = match.groups()
        path = posixpath.normpath(posixpath.join("docs", folder, target.partition("#")[0]))
        if re.match(r"\w+:|#", target) or (path.startswith("docs/") and files.get_file_from_path(path.removeprefix("docs/"))):
            return match[0]
        return text if path in text else f"{text} (`{path}`)"

    parts = re.split(r"(^ *```.*?^ *```)", markdown, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if k % 2 else re.sub(r"(?<!!)\[([^]]*)\]\(([^)\s]+)\)", plain, part) for k, part in enumerate(parts))
