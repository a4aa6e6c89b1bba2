#!/usr/bin/env python3
"""Minutes of one GPU: what the hardware does, what is right there, how fast a step is, and the campaign gpu-30m.

Usage: gpu_price.py LONGHAUL OUT --seconds 570 [--device cuda|cpu] [--only PHASE,..]

Phases, each with a time limit and a file OUT/PHASE.json (or OUT/record/) that is written when it ends; one that
fails is named and the next one begins. A second call goes on with the campaign and does the phases that have no file.

  ceilings   GB/s of a copy on the device, between host and device (pinned, pageable); TFLOP/s of a bf16 product
  right      DiLoCo on the device twice: equal bits; stopped and resumed: the bits of a whole run; both kinds of attention
  speed      tokens/s and MFU: eager torch, torch.compile, longhaul in one process at S = 1 and 8; of a 125 M GPT and of the campaign's model
  tokens     a BPE of 8,192 words and the ids of this machine's Python sources
  campaign   experiments/specs/gpu-30m.toml

Rule for D0, registered: the largest of 3, 6, 12, 24, 48, 96 M tokens with which all runs of three seeds, at 0.8 of the mean of
the model's measured rates at S = 1 and S = 8, end within the seconds that are left, and whose longest run passes the text once
at most. With --device cpu everything is small: a rehearsal.
"""

import argparse
import array
import glob
import json
import os
import pathlib
import sqlite3
import struct
import subprocess
import sys
import time

from device_table import PEAK_FLOPS, flops_of_a_token

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent
D0_CHOICES = [3e6, 6e6, 12e6, 24e6, 48e6, 96e6]
D0_PER_SEED = 1.1 + 0.2 * (0.5 + 0.7 + 1.0 + 0.85) + 4  # trunk, decays, four arms
GPT_125M = {"blocks": 12, "width": 768, "heads": 12, "context": 1024, "vocab": 50304, "rows": 64}
SMALL = {"blocks": 2, "width": 64, "heads": 4, "context": 64, "vocab": 256, "rows": 8}


class Machine:
    def __init__(self, arguments):
        self.longhaul, self.out = arguments.longhaul, arguments.out
        self.device, self.cpu = arguments.device, arguments.device == "cpu"
        self.ends_at = time.monotonic() + arguments.seconds
        self.work = self.out / "work"
        self.work.mkdir(parents=True, exist_ok=True)

    def left(self):
        return self.ends_at - time.monotonic()

    def run(self, argv, seconds):
        """Standard output; an error with the end of both streams."""
        done = subprocess.run([str(a) for a in argv], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=max(1.0, min(seconds, self.left())), cwd=self.work, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(str(a) for a in argv)}: exit status {done.returncode}: {done.stdout[-1500:]}")
        return done.stdout

    def train(self, name, shape, sets, seconds, more=()):
        """The rows of one run's steps: wall seconds, loss and hash."""
        spec = self.work / f"{name}.toml"
        spec.write_text(spec_of(shape, "float32" if self.cpu else "bfloat16", self.device))
        words = [self.longhaul, "run", spec, "--quiet", "--results", self.work / name, *more]
        for entry in sets:
            words += ["--set", entry]
        self.run(words, seconds)
        with sqlite3.connect(self.work / name / "longhaul.sqlite") as record:
            return record.execute("SELECT step, max(wall_s), max(loss_nat), group_concat(parameter_hash) FROM steps "
                                  "WHERE run_id = (SELECT max(id) FROM runs) GROUP BY step ORDER BY step").fetchall()


def spec_of(shape, dtype, device):
    return f"""seed = 1
[model]
kind = "{shape.get('kind', 'gpt')}"
engine = "aten"
blocks = {shape['blocks']}
width = {shape['width']}
heads = {shape['heads']}
context = {shape['context']}
vocab = {shape['vocab']}
[data]
source = "headers"
[train]
steps = 8
batch_rows = {shape['rows']}
microbatches = 1
lr = 1e-3
device = "{device}"
dtype = "{dtype}"
{'attention = "fused"' if device != "cpu" else ""}
[schedule]
kind = "1f1b"
stages = 1
[boundary]
forward = "none"
backward = "none"
nmse_every = 0
[net]
transport = "loopback"
[eval]
rows = 1
"""


def ceilings(m):
    import torch
    size = (1 << 24) if m.cpu else (1 << 29)
    x = torch.zeros(size, dtype=torch.uint8, device=m.device)
    side = 512 if m.cpu else 8192
    a = torch.randn(side, side, device=m.device, dtype=torch.bfloat16)
    host, pinned = torch.empty(size, dtype=torch.uint8), None if m.cpu else torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def seconds(f, times=5):
        f()
        if not m.cpu:
            torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(times):
            f()
        if not m.cpu:
            torch.cuda.synchronize()
        return (time.perf_counter() - start) / times

    y = torch.empty_like(x)
    found = {"copy_gb_s": 2 * size / seconds(lambda: y.copy_(x)) / 1e9,
             "bf16_product_tflop_s": 2 * side**3 / seconds(lambda: a @ a) / 1e12,
             "to_pageable_gb_s": size / seconds(lambda: host.copy_(x), 2) / 1e9}
    if pinned is not None:
        found["to_pinned_gb_s"] = size / seconds(lambda: pinned.copy_(x, non_blocking=True)) / 1e9
    return found


def right(m):
    shape = SMALL
    diloco = ["schedule.stages=2", "outer.groups=2", "outer.inner_steps=4", "outer.codec=int4-b64+ef",
              "boundary.forward=int4-b64-h64", "boundary.backward=int8-b64"]
    first = m.train("diloco-a", shape, diloco, 60)
    second = m.train("diloco-b", shape, diloco, 60)
    kept = diloco + ["checkpoint.every_steps=4"]
    spec = m.work / "diloco-c.toml"
    spec.write_text(spec_of(shape, "float32" if m.cpu else "bfloat16", m.device))
    words = [m.longhaul, "run", spec, "--quiet", "--results", m.work / "diloco-c"] + [w for s in kept for w in ("--set", s)]
    begun = subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    folder = m.work / "diloco-c" / "checkpoints"
    while begun.poll() is None and time.monotonic() < deadline and not list(folder.glob("*/*.ckpt")):
        time.sleep(0.02)
    killed = begun.poll() is None
    begun.kill()
    begun.wait()
    resumed = m.train("diloco-c", shape, kept, 60, ["--resume"])
    bits = [row[2:] for row in first]
    found = {"diloco_twice_equal": bits == [row[2:] for row in second],
             "resumed_after_kill": killed,
             "resumed_equal": bits[-1] == resumed[-1][2:]}
    if not m.cpu:  # which has one kind of attention
        math = m.train("attention-math", shape, ["train.attention=math"], 60)
        fused = m.train("attention-fused", shape, [], 60)
        found["attention_loss_difference_nat"] = max(abs(a[2] - b[2]) for a, b in zip(math, fused))
    return found


def tokens_per_s(rows, shape):
    walls = sorted(row[1] for row in rows[3:])
    return shape["rows"] * shape["context"] / walls[len(walls) // 2]


def mfu(rate, shape):
    return rate * flops_of_a_token(shape) / PEAK_FLOPS["H200"]


def speed(m):
    found = {}
    models = {"small": SMALL} if m.cpu else {
        "gpt-125m": GPT_125M,
        "llama-30m": {"kind": "llama", "blocks": 8, "width": 512, "heads": 8, "context": 512, "vocab": 8192, "rows": 64}}
    int4 = ["schedule.stages=%d", "boundary.forward=int4-b64-h64", "boundary.backward=int8-b64"]
    for name, shape in models.items():
        stages = 2 if m.cpu else (6 if shape["blocks"] == 12 else 8)
        arms = {"S=1": [], f"S={stages}, none": [f"schedule.stages={stages}"],
                f"S={stages}, int4-b64-h64 / int8-b64": [int4[0] % stages, *int4[1:]]}
        for arm, sets in arms.items():
            rate = tokens_per_s(m.train(f"speed-{name}-{len(found)}", shape, sets, 60), shape)
            found[f"{name}, {arm}"] = {"tokens_per_s": rate, "mfu": None if m.cpu else mfu(rate, shape)}
        if "kind" not in shape:
            said = m.run([sys.executable, HERE / "eager_gpt.py", 3, "--wall", "--device", m.device, "--dtype",
                          "float32" if m.cpu else "bfloat16", "--shape", json.dumps(shape)], 60)
            found[f"{name}, eager torch"] = {"tokens_per_s": float(said), "mfu": None if m.cpu else mfu(float(said), shape)}
            if not m.cpu:  # which takes a minute to compile
                said = m.run([sys.executable, HERE / "eager_gpt.py", 3, "--wall", "--compile", "--device", m.device,
                              "--dtype", "bfloat16", "--shape", json.dumps(shape)], 90)
                found[f"{name}, torch.compile"] = {"tokens_per_s": float(said), "mfu": mfu(float(said), shape)}
    return found


def tokens(m):
    import tokenizers
    files = sorted(glob.glob(os.path.dirname(os.__file__) + "/**/*.py", recursive=True))
    for place in sys.path:
        files += sorted(glob.glob(f"{place}/**/*.py", recursive=True)) if place.endswith("-packages") else []
    files = list(dict.fromkeys(files))[:60 if m.cpu else None]
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = tokenizers.decoders.ByteLevel()
    bpe.train(files[:: max(1, len(files) // 2000)],
              tokenizers.trainers.BpeTrainer(vocab_size=8192, special_tokens=["<|endoftext|>"], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet()))
    folder = m.work / "bpe"
    folder.mkdir(exist_ok=True)
    bpe.save(str(folder / "tokenizer.json"))
    ids = folder / "text.bin"
    count = 0
    with open(ids, "wb") as out:
        out.write(b"\0" * 1024)
        for begin in range(0, len(files), 256):
            texts = [pathlib.Path(f).read_text(encoding="utf-8", errors="replace") for f in files[begin:begin + 256]]
            for coded in bpe.encode_batch([t for t in texts if t]):
                words = array.array("H", coded.ids + [0])
                words.tofile(out)
                count += len(words)
        header = [20240520, 1, count] + [0] * 253
        out.seek(0)
        out.write(struct.pack("<256i", *header))
    return {"tokens": count, "files": len(files), "path": str(ids)}


def campaign(m):
    text = json.loads((m.out / "tokens.json").read_text())
    rates = json.loads((m.out / "speed.json").read_text())
    of_model = [row["tokens_per_s"] for name, row in rates.items() if name.startswith(("llama-30m", "small")) and "none" not in name
                and "eager" not in name]
    rate = 0.8 * sum(of_model) / len(of_model)
    chosen = m.out / "d0.json"
    if not chosen.exists():
        choices = [20_000] if m.cpu else D0_CHOICES
        fits = [d for d in choices if 3 * D0_PER_SEED * d / rate <= m.left() - 20 and 1.1 * d <= text["tokens"] * 63 / 64]
        chosen.write_text(json.dumps({"d0_tokens": int(fits[-1] if fits else choices[0]), "rate": rate, "seconds_left": m.left()}))
    d0 = json.loads(chosen.read_text())["d0_tokens"]
    sets = [f"campaign.d0_tokens={d0}", f"data.source=tokens:{text['path']}", f"train.device={m.device}"]
    if m.cpu:
        sets += ["campaign.seeds=[1, 2]", "model.width=32", "model.heads=2", "model.context=64", "train.batch_rows=8", "eval.rows=4",
                 "train.dtype=float32", "train.attention=math", "train.warmup_steps=4"]
    words = [m.longhaul, "measure", TOP / "experiments/specs/gpu-30m.toml", "--results", m.out / "record", "--accept-unresolved"]
    words += [w for s in sets for w in ("--set", s)] + ([] if m.cpu else ["--jobs", "6"])
    run = subprocess.Popen([str(w) for w in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        said, _ = run.communicate(timeout=max(1.0, m.left() - 10))
    except subprocess.TimeoutExpired:
        run.send_signal(2)  # what has ended stays; the next call goes on from there
        said, _ = run.communicate(timeout=30)
        raise RuntimeError(f"the time is over: {said[-300:]}") from None
    if run.returncode != 0:
        raise RuntimeError(said[-1500:])
    return {"d0_tokens": d0, "said": said[-4000:]}


PHASES = [ceilings, right, speed, tokens, campaign]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("longhaul", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    arguments.longhaul, arguments.out = arguments.longhaul.resolve(), arguments.out.resolve()
    m = Machine(arguments)
    failed = []
    for phase in PHASES:
        name = phase.__name__
        done = m.out / f"{name}.json"
        if done.exists() or (arguments.only and name not in arguments.only.split(",")):
            continue
        start = time.monotonic()
        try:
            found = phase(m)
        except Exception as why:  # one phase is not to cost the others
            failed.append(name)
            print(f"{name}: failed after {time.monotonic() - start:.0f} s: {why}", flush=True)
            continue
        done.write_text(json.dumps(found, indent=1) + "\n")
        print(f"{name}: {time.monotonic() - start:.0f} s: {json.dumps(found)[:600]}", flush=True)
    sys.exit(f"failed: {', '.join(failed)}" if failed else 0)


main()
