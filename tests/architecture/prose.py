#!/usr/bin/env python3
"""Checks pages and help texts against the rules of docs/contributing/writing.md that a program can check.

    prose.py REPO            fails at the first broken rule of a page; prints how many messages of the code break one
    prose.py REPO --messages lists those messages

The README.md of a folder of docs/results has the parts of a result page, in their order. A cell of a table has at most 20 words,
except in the pages of LONG_CELLS.

The words are in prose_words.tsv. A sentence must not begin with a relative clause, and a heading must not be one. Code in
a page is not checked; the command line's reference is all help text, so it is.
"""

import ast
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(sys.argv[1])
HELP = "docs/reference/command-line.md"
# Generated pages, byte layouts and fields of JSON documents.
LONG_CELLS = (HELP, "docs/reference/spec-keys.md", "docs/wire-format.md", "docs/plugin.md", "docs/records.md")
RESULT_PARTS = ["Setup", "Result", "Limits", "Reproduce", "Data"]
MOST_WORDS_OF_A_CELL, MOST_LINES_OF_A_SETUP = 20, 5
LEADING = re.compile(r"(?:Who|Whose|Whom|Whoever|What|Whatever|Which|Of) (?!course\b)")
HEADING = re.compile(r"(?:Who|Whose|Whom|Which|Where|When|Of|What (?!we\b|you\b|to\b)) ?")


def words():
    for line in (pathlib.Path(__file__).parent / "prose_words.tsv").read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            pattern, instead = line.split("\t")
            yield re.compile(pattern, re.IGNORECASE), instead


WORDS = list(words())


def found(text):
    """(offset, what is wrong) of the words of a text."""
    for pattern, instead in WORDS:
        for match in pattern.finditer(text):
            yield match.start(), f"'{match[0]}': write {instead}"


def sentences(text):
    """(offset, sentence) of running text: list items, cells of tables and paragraphs are apart."""
    for block in re.finditer(r"(?:[^\n|]+\n?)+?(?=\n\s*(?:[-*|#]|\d+\. |$)|\n\n|\||\Z)", text):
        start = block.start()
        for part in re.finditer(r".+?(?:[.!?](?=[\s)*_]|$)|\Z)", block[0], re.DOTALL):
            yield start + part.start(), part[0]


def long_cells(text):
    """(offset, what is wrong) of the tables of a page without its code blocks."""
    for row in re.finditer(r"^ *\|.*$", text, re.MULTILINE):
        for cell in re.split(r"(?<!\\)\|", row[0].strip().strip("|")):
            count = len(re.findall(r"\S*[^\W\d]\S*", re.sub(r"\]\([^)]*\)", "]", cell)))  # numbers are not counted
            if count > MOST_WORDS_OF_A_CELL:
                yield row.start(), f"a cell of {count} words; at most {MOST_WORDS_OF_A_CELL}: '{' '.join(cell.split()[:6])} ...'"


def result_page(text):
    """(offset, what is wrong) of the parts of a result page without its code blocks."""
    if not re.match(r"# [^\n]*\?\n\n\*\*", text):
        yield 0, "a result page begins with its question as title and its answer in bold"
    parts = dict(re.findall(r"^## ([^\n]*)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    if list(parts) != RESULT_PARTS:
        yield 0, f"a result page has the parts {', '.join(RESULT_PARTS)}; this one has {', '.join(parts)}"
    items = len(re.findall(r"^- ", parts.get("Setup", ""), re.MULTILINE))
    if not 1 <= items <= MOST_LINES_OF_A_SETUP:
        yield 0, f"a setup has 1 to {MOST_LINES_OF_A_SETUP} list items; this one has {items}"
    tables = len(re.findall(r"^\|[-| ]+\|$", text, re.MULTILINE))
    figures = len(re.findall(r"^!\[", text, re.MULTILINE))
    if tables != 1 or figures > 1:
        yield 0, f"a result page has one table and at most one figure; this one has {tables} and {figures}"


def problems(page):
    """(line, what is wrong) of a page."""
    text = page.read_text(encoding="utf-8")
    name = page.relative_to(ROOT).as_posix()
    blank = lambda match: re.sub(r"[^\n]", " ", match[0])
    if name != HELP:
        text = re.sub(r"^ *```.*?^ *```", blank, text, flags=re.MULTILINE | re.DOTALL)
        text = re.sub(r"`[^`\n]*`|<!--.*?-->|\]\([^)]*\)|^::: [^\n]*", lambda match: "x" * len(match[0]), text,
                      flags=re.DOTALL | re.MULTILINE)
    if name not in LONG_CELLS:
        yield from long_cells(text)
    if re.fullmatch(r"docs/results/[^/]+/README\.md", name):
        yield from result_page(text)
    for heading in re.finditer(r"^#+ (.*)$", text, re.MULTILINE):
        if HEADING.match(heading[1]) and not heading[1].endswith("?"):
            yield heading.start(), f"heading '{heading[1]}': write a task or a noun that people search for"
    for start, sentence in sentences(re.sub(r"^#+ .*$", blank, text, flags=re.MULTILINE)):
        first = re.sub(r"^[\s>*_(|-]*(?:\d+\. )?[*_]*", "", sentence)
        if LEADING.match(first) and not sentence.rstrip(" *_)").endswith("?"):
            at = start + len(sentence) - len(first)
            yield at, f"'{' '.join(first.split()[:6])} ...' begins with a relative clause: name the subject first"
    yield from found(text)


def pages():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.md"], capture_output=True, text=True, check=True).stdout
    # A registered forecast stays as it was committed.
    return [ROOT / name for name in listed.split() if (ROOT / name).exists() and not name.endswith("/forecast.md")]


def messages():
    """(file, text) of string literals that a user may read."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.cc", "*.h", "python/*.py"], capture_output=True, text=True,
                            check=True).stdout
    for name in listed.split():
        if name.startswith(("tests/", "bench/")):
            continue
        text = (ROOT / name).read_text(encoding="utf-8")
        if name.endswith(".py"):
            docs = {id(node.body[0].value) for node in ast.walk(ast.parse(text))
                    if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node)}
            parts = [node.value for node in ast.walk(ast.parse(text))
                     if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs]
        else:
            parts = re.findall(r'"((?:[^"\\\n]|\\.)*)"', re.sub(r"//.*", "", text))
        for part in parts:
            if " " in part:
                yield name, part


def main():
    wrong = []
    for page in pages():
        text = page.read_text(encoding="utf-8")
        wrong += [f"{page.relative_to(ROOT)}:{text.count(chr(10), 0, at) + 1}: {what}" for at, what in sorted(problems(page))]
    in_code = [f"{name}: {what} in '{text}'" for name, text in messages() for _, what in found(text)]
    if "--messages" in sys.argv:
        print("\n".join(in_code))
    print(f"{len(pages())} pages, {len(wrong)} broken rules; {len(in_code)} in messages of the code (--messages lists them)")
    sys.exit("\n".join(wrong) or 0)


main()
