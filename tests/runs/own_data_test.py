"""docs/own-data.md as written: its files with their names, its commands in their order.

    own_data_test.py LONGHAUL ROOT

LONGHAUL is the command, ROOT the source tree. Fails where a command fails, or does not leave what the page says.
"""

import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

LONGHAUL, ROOT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def run(line, folder):
    done = subprocess.run(["/bin/sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        sys.exit(f"{line}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def main():
    page = (ROOT / "docs/own-data.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(sh|toml)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sh", "toml", "sh", "toml", "sh", "sh"], [kind for kind, _ in blocks]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "docs").symlink_to(ROOT / "docs")
        (folder / "build").mkdir()
        (folder / "build/longhaul").symlink_to(LONGHAUL)
        said = {}
        for kind, text in blocks:
            if kind == "toml":
                name = re.match(r"# (\S+)\n", text).group(1)
                (folder / name).write_text(text, encoding="utf-8")
                continue
            for line in text.splitlines():
                said[line] = run(line, folder)
        text = (folder / "my-text.txt").stat().st_size
        assert text == sum(path.stat().st_size for path in (ROOT / "docs").glob("*.md")), text

        first = sqlite3.connect(folder / "results/first/longhaul.sqlite")
        assert first.execute("SELECT status, train_tokens FROM runs").fetchall() == [("ok", 60 * 16 * 64)]
        facts = dict(first.execute("SELECT key, value FROM run_facts"))
        assert facts["data_source"] == "text:my-text.txt", facts
        assert int(facts["train_tokens_available"]) == text - text // 64, facts
        assert facts["held_out_windows_in_training"] == "0 of 32", facts

        own = sqlite3.connect(folder / "results/own/longhaul.sqlite")
        runs = own.execute("SELECT arm, COUNT(*), SUM(status = 'ok') FROM runs GROUP BY arm").fetchall()
        assert runs == [(arm, 3, 3) for arm in ("reference@0.5", "reference@0.7", "reference@1", "s2", "s4")], runs
        table = said["build/longhaul measure own.toml --accept-unresolved"]
        assert re.search(r"^s2 ", table, re.MULTILINE) and re.search(r"^s4 ", table, re.MULTILINE), table
        html = (folder / "results/own/report/index.html").read_text(encoding="utf-8")
        assert "What does 4-bit cost on my text?" in html and ">s4<" in html
        assert "own" in said["build/longhaul list results"] and "first" in said["build/longhaul list results"]


main()
