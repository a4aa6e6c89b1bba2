"""Every `longhaul` command of the documentation is one that the command line takes; those of `simulate` are run.

    docs_commands_test.py LONGHAUL ROOT

LONGHAUL is the command, ROOT the source tree. A line of a code block must parse whole. Inline code that only names a
command or an option (`longhaul weights fetch --sha256`) may leave out what the command requires.
"""

import concurrent.futures
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

LONGHAUL, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
PAGES = [*sorted((ROOT / "docs").glob("**/*.md")), ROOT / "README.md", *sorted(ROOT.glob("*/README.md"))]


def words_of(line):
    """The words of each `longhaul` command in a line of shell, without the name. N or ID stands for a number, A|B for either,
    [..] for what may be left out, NAME for a campaign, COMMAND for a command of `net`."""
    line = re.sub(r"\bNAME\b", "activation-small", re.sub(r"\bCOMMAND\b", "up", line))
    line = re.sub(r"(?<=\w)\|(?=\w)[\w|]*", "", line)
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        tokens = list(lexer)
    except ValueError:
        return []
    commands, start = [], True
    for token in tokens:
        if re.fullmatch(r"[|&;()<>]+", token):
            start = "<" not in token and ">" not in token
            commands.append(None)
        elif start and token in ("longhaul", "build/longhaul"):
            commands.append([])
            start = False
        elif commands and commands[-1] is not None:
            if "=" not in token:
                token = token.strip("[]")
            if token not in ("..", "..."):
                commands[-1].append("3" if re.fullmatch("[A-Z]|ID", token) else token)
        else:
            start = token in ("$", "--no-python") or "=" in token and not token.startswith("-")
    return [words for words in commands if words is not None]


def commands():
    """(page, as printed, words, whole)"""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        block = r"^ *```(\w*)\n(.*?)^ *```"
        for kind, lines in re.findall(block, text, re.MULTILINE | re.DOTALL):
            if kind not in ("", "sh", "bash", "console"):
                continue
            for line in re.sub(r"\\\n\s*", " ", lines).splitlines():
                if kind == "" and re.search(r"\S {3,}[^#\s]", line.strip()):
                    continue  # a picture or a table
                for words in words_of(line):
                    yield page, line.strip(), words, True
        for code in re.findall(r"`([^`]+)`", re.sub(block, "", text, flags=re.MULTILINE | re.DOTALL)):
            for words in words_of(" ".join(code.split())):
                if words:
                    yield page, code, words, "experiments/specs/" in code or "planning/scenarios/" in code


def wrong(words):
    done = subprocess.run([LONGHAUL, *words], capture_output=True, text=True, timeout=60, check=False,
                          cwd=ROOT, stdin=subprocess.DEVNULL, env={**os.environ, "LONGHAUL_PARSE_ONLY": "1"})
    return "" if done.returncode == 0 else done.stderr.strip() or f"status {done.returncode}"


def simulated(page, words):
    """The run of a `simulate` command, and whether every table that the page prints as its output is what it prints."""
    with tempfile.TemporaryDirectory() as scratch:
        for link in ("docs", "planning"):
            (pathlib.Path(scratch) / link).symlink_to(ROOT / link)
        done = subprocess.run([LONGHAUL, *words], capture_output=True, text=True, timeout=300, check=False, cwd=scratch)
    if done.returncode != 0:
        return f"status {done.returncode}: {done.stderr.strip()}", ""
    return "", done.stdout


def printed(page):
    """Lines that a page says a `simulate` command prints: <!-- simulate --> before a code block."""
    text = page.read_text(encoding="utf-8")
    return [line.rstrip() for block in re.findall(r"<!-- simulate -->\n```\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
            for line in block.splitlines() if line.strip() not in ("", "...")]


def main():
    every = list(commands())
    assert len(every) > 150, len(every)  # an expression that finds nothing would pass
    failed = []
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        once = list(dict.fromkeys(tuple(words) for _, _, words, _ in every))
        answers = dict(zip(once, pool.map(lambda words: wrong(list(words)), once)))
        for page, text, words, whole in every:
            said = answers[tuple(words)]
            if said and (whole or not re.search("required|requires", said)):
                failed.append(f"{page.relative_to(ROOT)}: {text}: {said}")
    run = 0
    for page in PAGES:
        outputs = ""
        for of, text, words, _ in every:
            if of != page or words[:1] != ["simulate"] or not re.search(r"\.toml", text) or "RESULTS" in text or "FILE" in text:
                continue
            run += 1
            said, output = simulated(page, words)
            outputs += output
            if said:
                failed.append(f"{page.relative_to(ROOT)}: {text}: {said}")
        lines = {line.rstrip() for line in outputs.splitlines()}
        failed += [f"{page.relative_to(ROOT)}: no command of the page prints the line '{line}'"
                   for line in printed(page) if line not in lines]
    assert run >= 5, run
    print(f"{len(every)} commands parsed, {run} of simulate run")
    if failed:
        sys.exit("\n".join(failed))


main()
