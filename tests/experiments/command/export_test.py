"""Exports a run to every format whose package is there and reads it back with that package.

    export_test.py LONGHAUL SPEC PYTHON

What the record says must come back: losses by step, held-out losses, the spec. Formats whose package
PYTHON lacks must be refused in one line that names it.
"""

import json
import os
import sqlite3
import subprocess
import sys
import tempfile

LONGHAUL, SPEC, PYTHON = sys.argv[1:]
MODULES = {"parquet": "pyarrow", "tensorboard": "tensorboard", "wandb": "wandb", "mlflow": "mlflow"}

READERS = {
    "parquet": """
import pyarrow.parquet as p
steps = p.read_table(out + "/steps.parquet").to_pylist()
assert p.read_table(out + "/runs.parquet").to_pylist()[0]["arm"] == "one"
got = {r["step"]: r["loss_nat"] for r in steps if r["loss_nat"] is not None}
""",
    # Each record of an event file: length, its masked CRC-32C, data, its masked CRC-32C. Worked out
    # bit by bit, by the definition (polynomial 0x1EDC6F41, reflected).
    "tensorboard": """
import glob, os, struct
def masked(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
assert masked(b"123456789") == ((0xE3069283 >> 15 | 0xE3069283 << 17) + 0xA282EAD8) & 0xFFFFFFFF
for name in glob.glob(out + "/**/events.*", recursive=True):
    data, at, records = open(name, "rb").read(), 0, 0
    while at < len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        assert struct.unpack_from("<I", data, at + 8) == (masked(data[at:at + 8]),), (name, at)
        assert struct.unpack_from("<I", data, at + 12 + length) == (masked(data[at + 12:at + 12 + length]),), (name, at)
        at, records = at + 16 + length, records + 1
    assert at == len(data) and records > 6, (name, records)
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
(folder,) = {os.path.dirname(f) for f in glob.glob(out + "/**/events.*", recursive=True)}
events = EventAccumulator(folder, size_guidance={"scalars": 0}); events.Reload()
got = {e.step: e.value for e in events.Scalars("train/loss_nat")}
assert len(events.Scalars("eval/loss_nat/codec_off")) == 1
assert b"spec.train.steps = 6" in events.Tensors("run")[0].tensor_proto.string_val[0]
""",
    # Its own reader of offline files is no longer in the package: text of the protocol buffers, out of the
    # records of a LevelDB log, which are cut at blocks of 32 KiB (a header of 7 bytes each, as the file has).
    "wandb": r"""
import glob, re
(file,) = glob.glob(out + "/wandb/offline-run-*/*.wandb")
written, data, at = open(file, "rb").read(), b"", 7
while at < len(written):
    if 32768 - at % 32768 < 7:
        at += 32768 - at % 32768
        continue
    length = int.from_bytes(written[at + 4:at + 6], "little")
    data += written[at + 7:at + 7 + length]
    at += 7 + length
found = re.findall(rb"train/loss_nat[^0-9]{1,4}([0-9]+\.[0-9]+)", data)
found = list(dict.fromkeys(found))  # history and summary have each
got = {step + 1: float(loss) for step, loss in enumerate(found[:6])}
""",
    "mlflow": """
import os
os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"
from mlflow import MlflowClient
client = MlflowClient("file://" + out)
(run,) = [r for e in client.search_experiments() for r in client.search_runs([e.experiment_id])]
assert run.data.params["spec.train.steps"] == "6", run.data.params
got = {m.step: m.value for m in client.get_metric_history(run.info.run_id, "train/loss_nat")}
""",
}


def export(results, to, out):
    return subprocess.run([LONGHAUL, "export", results, "--to", to, "--out", out, "--python", PYTHON],
                          capture_output=True, text=True)


def has(module):
    return subprocess.run([PYTHON, "-c", f"import {module}"], capture_output=True).returncode == 0


def main():
    with tempfile.TemporaryDirectory() as scratch:
        results = os.path.join(scratch, "results")
        subprocess.run([LONGHAUL, "run", SPEC, "--results", results, "--arm", "one"], check=True,
                       capture_output=True)
        record = sqlite3.connect(os.path.join(results, "longhaul.sqlite"))
        want = {str(s): v for s, v in record.execute(
            "SELECT step, AVG(loss_nat) FROM steps WHERE loss_nat IS NOT NULL GROUP BY step")}
        assert len(want) == 6, want
        missing = []
        for to, reader in READERS.items():
            out = os.path.join(scratch, to)
            done = export(results, to, out)
            if not has(MODULES[to]):
                assert done.returncode == 1 and MODULES[to] in done.stderr and "pip install" in done.stderr, done
                assert done.stderr.count("\n") == 1 and not os.path.exists(out), done
                missing.append(MODULES[to])
                continue
            assert done.returncode == 0, done
            code = f"import json; out = {out!r}\n{reader}\nprint('GOT', json.dumps(got))"
            read = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
            assert read.returncode == 0, read.stderr
            got = json.loads(next(x[4:] for x in read.stdout.splitlines() if x.startswith("GOT ")))
            assert got.keys() == want.keys(), (to, got, want)
            for step, loss in want.items():
                assert abs(got[step] - loss) < 1e-6, (to, step, got[step], loss)
            again = export(results, to, out)
            assert again.returncode == 1 and "not an empty folder" in again.stderr, again
            print(f"{to}: read back")
        nothing = export(scratch, "parquet", os.path.join(scratch, "nothing"))
        assert nothing.returncode == 1 and nothing.stderr.count("\n") == 1, nothing
        if len(missing) == len(READERS):
            print(f"skipped: {PYTHON} has none of {', '.join(missing)}; that they are refused was tested")
            return 77
        for module in missing:
            print(f"{PYTHON} has no {module}: only its refusal was tested")
    return 0


sys.exit(main())
