"""Every command with --json: its document's "schema" has a row in the table of docs/records.md, and every row of the
table is written by some command here. Files that commands write go where their names lead.

    json_schemas_test.py LONGHAUL ROOT
"""

import json
import os
import pathlib
import re
import stat
import subprocess
import sys
import tempfile
import threading

LONGHAUL, ROOT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])


def run(*words, cwd=None):
    return subprocess.run([LONGHAUL, *map(str, words)], cwd=cwd, capture_output=True, text=True, timeout=250)


def commands_with_json(words=()):
    """("run",), ("net", "list"), ...: by the help of each command."""
    text = run(*words, "--help").stdout
    found = {words} if re.search(r"^ +--json\b", text, re.MULTILINE) else set()
    for title, rows in re.findall(r"^(\S.*):\n((?:  .*\n)+)", text, re.MULTILINE):
        if not re.match("Arguments|Options|Examples?|Usage", title):
            for name in re.findall(r"^  (\S+)", rows, re.MULTILINE):
                found |= commands_with_json((*words, name))
    return found


def documents(folder):
    """(command, its words): every command once at least; some fail, and have their document too."""
    specs, plans = ROOT / "experiments/specs", ROOT / "examples/plan"
    tiny = folder / "tiny.toml"
    tiny.write_text((ROOT / "tests/experiments/command/tiny.toml").read_text())
    losses = ROOT / "docs/results/activation-small/losses.csv"
    yield ("run",), (tiny, "--results", folder / "r")
    yield ("measure",), (specs / "activation-small.toml", "--list")
    yield ("measure",), (specs / "activation-small.toml", "--from-losses", losses, "--results", folder / "m")
    yield ("list",), (folder,)
    yield ("plan",), (plans / "plan.toml",)
    yield ("simulate",), (ROOT / "planning/scenarios/latest.toml",)
    yield ("scale",), (specs / "scale.toml", "--seeds", "2")
    yield ("spec",), ()
    yield ("codecs",), ("none",)
    yield ("schedule", "best"), (specs / "shaped.toml", "--links", "continental-us", "--forward-ms", "20", "--backward-ms", "40")
    yield ("price",), ("--weights", folder / "none", "--tokens", folder / "none", "--codec", "int8-b64")
    yield ("launch",), ("-n", "2", "--profile", "no-such-links", "--", "true")
    yield ("ingest",), (folder / "none", "--results", folder / "i")
    yield ("weights", "fetch"), (folder / "none", "--into", folder / "w", "--peer", "10.0.0.2:1", "--listen", "127.0.0.1:0")
    yield ("net", "list"), ()
    if run("net", "up", "regional", "--name", "schemas", "--nodes", "2").returncode == 0:
        yield ("net", "list"), ("schemas",)
        yield ("net", "probe"), ("schemas", "--quick")
        yield ("net", "stats"), ("schemas",)
        run("net", "down", "schemas")


def check_schemas(folder):
    page = (ROOT / "docs/records.md").read_text(encoding="utf-8")
    table = set(re.findall(r"^\| `(longhaul\.[a-z-]+/[0-9]+)`", page, re.MULTILINE))
    seen, tried = set(), set()
    for command, words in documents(folder):
        done = run(*command, "--json", *words)
        if not done.stdout:  # only what is refused before the command begins has no document
            sys.exit(f"{command} {words}: no document; {done.stderr}")
        schema = json.loads(done.stdout)["schema"]
        if schema not in table:
            sys.exit(f"{command}: schema {schema} is not in the table of docs/records.md")
        seen.add(schema)
        tried.add(command)
    report = run("report", folder / "m", "--python", sys.executable)
    for file in folder.glob("m/report/*/calibration.json"):
        seen.add(json.loads(file.read_text())["schema"])
    lab = {"longhaul.net-lab/1", "longhaul.net-probe/1", "longhaul.net-stats/1"}
    labs = bool(seen & lab)
    unseen = table - seen - (set() if labs else lab)
    if unseen or report.returncode != 0:
        sys.exit(f"in the table of docs/records.md, and no command wrote it: {sorted(unseen)}; {report.stderr}")
    tried.add(("weights", "share"))  # it ends with a signal; its schema is fetch's
    untried = commands_with_json() - tried - (set() if labs else {("net", "probe"), ("net", "stats")})
    if untried:
        sys.exit(f"commands with --json that this test does not know: {sorted(untried)}")


def writers(folder):
    """Commands that write a file which the user names, without its name."""
    yield ("plan", ROOT / "examples/plan/plan.toml", "--csv")
    yield ("simulate", ROOT / "planning/scenarios/latest.toml", "--csv")
    yield ("scale", ROOT / "experiments/specs/scale.toml", "--seeds", "2", "--csv")
    yield ("schedule", "show", "1f1b", "--stages", "2", "--microbatches", "4", "--svg")
    yield ("run", folder / "tiny.toml", "--results", folder / "t", "--trace")


def check_files(folder):
    for words in writers(folder):
        name = " ".join(map(str, words[:2]))
        full = run(*words, "/dev/full")
        assert full.returncode != 0 and "No space left on device" in full.stderr, (name, full.returncode, full.stderr)
        assert full.stderr.count("\n") == 1, (name, full.stderr)
        assert run(*words, "/dev/null").returncode == 0, name
        for device in ("/dev/full", "/dev/null"):
            assert stat.S_ISCHR(os.stat(device).st_mode), (name, device)
        link, target, fifo = folder / "link", folder / "target", folder / "fifo"
        target.write_text("old")
        link.symlink_to("target")
        done = run(*words, link)
        assert done.returncode == 0, (name, done.stderr)
        assert link.is_symlink() and target.read_text() != "old", name
        os.mkfifo(fifo)
        got = []
        reader = threading.Thread(target=lambda: got.append(fifo.read_bytes()), daemon=True)
        reader.start()
        done = run(*words, fifo)
        reader.join(60)
        assert done.returncode == 0 and got and got[0], (name, done.stderr)
        assert stat.S_ISFIFO(os.stat(fifo).st_mode), name
        for file in (link, target, fifo):
            file.unlink()


def main():
    with tempfile.TemporaryDirectory() as scratch:
        check_schemas(pathlib.Path(scratch))
        check_files(pathlib.Path(scratch))


main()
