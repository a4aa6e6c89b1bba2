"""docs/tutorial.md as written: its files with their names, its commands in their order.

    tutorial_test.py LONGHAUL ROOT

LONGHAUL is the command, ROOT the source tree. Fails where a command fails, or does not leave what the page says.
"""

import pathlib
import re
import sqlite3
import subprocess
import sys
import tempfile

LONGHAUL, ROOT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
LABS = subprocess.run([LONGHAUL, "net", "run", "continental-us", "--", "true"], capture_output=True).returncode == 0


def run(line, folder):
    done = subprocess.run(["/bin/sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=280)
    if done.returncode != 0:
        sys.exit(f"{line}: status {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def main():
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(sh|toml)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["toml", "sh", "sh", "sh", "toml", "sh", "sh"], [kind for kind, _ in blocks]
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
                if "net.profile=" in line and not LABS:
                    print("not run, for no lab can be made here:", line)
                else:
                    said[line] = run(line, folder)
        text = (folder / "my-text.txt").stat().st_size
        assert text == sum(path.stat().st_size for path in (ROOT / "docs").glob("*.md")), text

        first = sqlite3.connect(folder / "results/first/longhaul.sqlite")
        runs = first.execute("SELECT arm, status, train_tokens FROM runs").fetchall()
        of = 60 * 16 * 64
        assert runs == [("first", "ok", of), ("three-bits", "ok", of), ("none", "ok", of)] + [
            ("links", "ok", of)] * LABS, runs
        assert "three-bits" in said["build/longhaul list results"], said
        one = said["build/longhaul run first.toml"]
        assert re.search(r"^forward +int4-b64-h64 +240 +4\.562 ", one, re.MULTILINE), one
        if LABS:
            losses = [first.execute("SELECT step, loss_nat FROM steps WHERE run_id = ? AND stage = 1 ORDER BY step", (run,)).fetchall()
                      for run in (1, 4)]
            assert losses[0] == losses[1] and len(losses[0]) == 60, losses

        own = sqlite3.connect(folder / "results/own/longhaul.sqlite")
        facts = dict(own.execute("SELECT key, value FROM run_facts"))
        assert facts["data_source"] == "text:my-text.txt", facts
        runs = own.execute("SELECT arm, COUNT(*), SUM(status = 'ok') FROM runs GROUP BY arm").fetchall()
        assert runs == [(arm, 3, 3) for arm in ("reference@0.6", "reference@0.8", "reference@1", "s2", "s4")], runs
        table = said["build/longhaul measure own.toml --accept-unresolved"]
        assert re.search(r"^s2 ", table, re.MULTILINE) and re.search(r"^s4 ", table, re.MULTILINE), table
        assert "the held-out loss by" in table, table
        # Models that learnt nothing say nothing of codecs.
        assert not re.search(r"arm '(s2|s4)' learnt no more than byte frequencies", table), table
        html = (folder / "results/own/report/index.html").read_text(encoding="utf-8")
        assert "What does 4-bit cost on my text?" in html and ">s4<" in html


main()
