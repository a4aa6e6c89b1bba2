#!/usr/bin/env python3
"""Rehearses scripts/gpu_price.sh on the CPU: every phase ends, and what it must find is so. Usage: gpu_price_test.py REPO PYTHON

PYTHON has torch and tokenizers; 77 where it has not."""

import json
import os
import pathlib
import sqlite3
import subprocess
import sys
import tarfile
import tempfile

repo, python = map(pathlib.Path, sys.argv[1:])
if not python.exists() or subprocess.run([python, "-c", "import tokenizers, torch"], capture_output=True).returncode:
    print(f"skipped: no torch and tokenizers in {python}")
    sys.exit(77)
with tempfile.TemporaryDirectory() as folder:
    out = pathlib.Path(folder) / "out"
    place = {**os.environ, "DEVICE": "cpu", "TORCH_PYTHON": str(python), "OMP_NUM_THREADS": "1"}
    place.pop("LONGHAUL_BUILT", None)
    # Too short for the campaign: the first call says so, the second goes on.
    for seconds, ends in (("1", False), ("500", True)):
        done = subprocess.run([repo / "scripts/gpu_price.sh", out, seconds], env=place, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        assert (done.returncode == 0) == ends, done.stdout
    right = json.loads((out / "right.json").read_text())
    assert right["diloco_twice_equal"] and right["resumed_equal"], right
    speed = json.loads((out / "speed.json").read_text())
    assert len(speed) == 4 and all(row["tokens_per_s"] > 0 for row in speed.values()), speed
    with sqlite3.connect(out / "record/longhaul.sqlite") as record:
        runs = record.execute("SELECT arm, seed, status FROM runs ORDER BY 1, 2").fetchall()
    arms = {arm for arm, _, _ in runs}
    assert {"s8", "s4", "g2-h30", "g4-h30", "reference@1.1", "reference@0.5", "control@0.85"} <= arms, arms
    assert all(status == "ok" for _, _, status in runs), runs
    with tarfile.open(out / "gpu_price.tar.gz") as packed:
        names = packed.getnames()
    assert "./record/longhaul.sqlite" in names and not [n for n in names if "work" in n], names
