"""Damaged files: whatever a byte or a key of theirs becomes, an import succeeds or says one line.

    damage_test.py LONGHAUL PYTHON

A seeded sample of what can happen to each kind of file: bytes changed, taken away, doubled; keys of config.json, of a
safetensors header and of an index with values of every other type.
"""

import json
import os
import random
import shutil
import struct
import sys

import numpy

from common import Command, listing, random_weights, write_hf
from gguf_bytes import keys_of, tensors_of, write_gguf
from ids_test import write_mapped, write_old

TIMES = 150  # of each file
ODD = [None, True, -1, 0, 1.5, 1e300, 10**30, "x", "", [], [[]], {}, {"a": 1}, [1, "2"], float("nan")]


def damaged(raw, chooser, within):
    """One to three changes, most of them within the first bytes: that is where headers are."""
    raw = bytearray(raw)
    for _ in range(chooser.randrange(1, 4)):
        if len(raw) < 2:
            break
        at = chooser.randrange(min(len(raw), within) if chooser.random() < 0.8 else len(raw))
        kind = chooser.randrange(5)
        if kind == 0:
            raw[at] ^= 1 << chooser.randrange(8)
        elif kind == 1:
            raw[at:at + 8] = struct.pack("<Q", chooser.choice([0, 1, 2**31, 2**32, 2**63, 2**64 - 1]))
        elif kind == 2:
            del raw[at:at + chooser.randrange(1, 40)]
        elif kind == 3:
            raw[at:at] = raw[at:at + chooser.randrange(1, 40)]
        else:
            del raw[at:]
    return bytes(raw)


class Trials:
    def __init__(self, command):
        self.command, self.imported, self.refused = command, 0, 0

    def one(self, what, *words):
        out = self.command.path("out")
        before = listing(self.command.folder)
        got = self.command.run(*words, "--out", os.path.join(out, "x") if words[0] == "ids" else out)
        if got.returncode == 0:
            self.imported += 1
            shutil.rmtree(out)
        else:
            self.refused += 1
            assert got.returncode == 1 and got.stderr.startswith("longhaul: ") and got.stderr.count("\n") == 1, (what, got)
        assert listing(self.command.folder) == before, what

    def bytes_of(self, path, within, *words):
        with open(path, "rb") as file:
            raw = file.read()
        for seed in range(TIMES):
            with open(path, "wb") as file:
                file.write(damaged(raw, random.Random(f"{os.path.basename(path)} {seed}"), within))
            self.one((path, seed), *words)
        with open(path, "wb") as file:
            file.write(raw)

    def keys_of(self, path, table, write, *words):
        """Each key of a table, and of tables in it, with each odd value, and gone."""
        def places(value, at=()):
            for key in value if isinstance(value, dict) else ():
                yield at + (key,)
                yield from places(value[key], at + (key,))
        for place in list(places(table)):
            for value in [*ODD, "gone"]:
                changed = json.loads(json.dumps(table))
                inner = changed
                for key in place[:-1]:
                    inner = inner[key]
                if value == "gone":
                    del inner[place[-1]]
                else:
                    inner[place[-1]] = value
                write(path, changed)
                self.one((path, place, value), *words)
        for value in ODD:
            write(path, value)
            self.one((path, value), *words)
        write(path, table)


def write_json(path, table):
    with open(path, "w", encoding="utf-8") as file:
        json.dump(table, file)


def main():
    command = Command(*sys.argv[1:], here=True)
    command.longhaul_ran = True
    trials = Trials(command)

    gguf = write_gguf(command.path("tiny.gguf"), keys_of(tokenizer__ggml__tokens=["a", "b"]), tensors_of(True))
    trials.bytes_of(gguf, 1800, "model", gguf)

    weights = random_weights(True)
    folder = write_hf(command.path("hf"), weights, True, rope_scaling={"rope_type": "default"}, layer_types=["x"],
                      head_dim=8, attention_bias=False, sliding_window=None, quantization_config=None)
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    table["layer_types"] = ["full_attention"]
    trials.keys_of(path, table, write_json, "model", folder)

    whole = os.path.join(folder, "model.safetensors")
    trials.bytes_of(whole, 1800, "model", folder)
    with open(whole, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + length])

    def write_header(path, table):
        text = json.dumps(table).encode()
        with open(path, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + raw[8 + length:])

    some = {name: header[name] for name in list(header)[:2]}
    trials.keys_of(whole, some, lambda path, t: write_header(path, {**header, **t} if isinstance(t, dict) else t), "model",
                   folder)

    folder = write_hf(command.path("parts"), weights, True, parts=2)
    path = os.path.join(folder, "model.safetensors.index.json")
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    table["weight_map"] = dict(list(table["weight_map"].items())[:3])
    trials.keys_of(path, table, write_json, "model", folder)

    for index in (write_mapped(command.path("mapped")), write_old(command.path("old"))):
        trials.bytes_of(index, 80, "ids", index, "--vocab", 301)
    array = command.path("a.npy")
    numpy.save(array, numpy.arange(200).reshape(2, 100))
    trials.bytes_of(array, 130, "ids", array, "--vocab", 301)

    print(f"{trials.imported} were imported, {trials.refused} refused")
    assert trials.refused > 500 and trials.imported > 50
    command.remove()


main()
