"""`longhaul import ids`: ids of other trainers' files come out as they were, or not at all.

    ids_test.py LONGHAUL PYTHON

PYTHON has numpy; Arrow and Parquet are tested where it has pyarrow.
"""

import os
import resource
import struct
import subprocess
import sys

import numpy

from common import Command

DOCUMENTS = [[5, 6, 7], [8], [], [9, 10, 11, 12], [300]]  # the last two sequences are one document
CODES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}


def write_mapped(stem, dtype="<u2", code=8, sequences=None, ends=(0, 1, 2, 3, 5), version=1, pad=b""):
    sequences = DOCUMENTS if sequences is None else sequences
    size, at, places = numpy.dtype(dtype).itemsize, 0, []
    for sequence in sequences:
        places.append(at)
        at += size * len(sequence)
    with open(stem + ".idx", "wb") as file:
        file.write(b"MMIDIDX\0\0" + struct.pack("<QBQQ", version, code, len(sequences), len(ends))
                   + struct.pack(f"<{len(sequences)}i", *map(len, sequences)) + struct.pack(f"<{len(places)}q", *places)
                   + struct.pack(f"<{len(ends)}q", *ends) + pad)
    numpy.array(sum(sequences, []), dtype).tofile(stem + ".bin")
    return stem + ".idx"


def write_old(stem):
    lengths = list(map(len, DOCUMENTS))
    offsets = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    ends = [0, 1, 2, 3, 5]
    with open(stem + ".idx", "wb") as file:
        file.write(b"TNTIDX\0\0" + struct.pack("<6Q", 1, 4, 4, 5, 5, len(ends)))
        for part in (range(6), offsets, lengths, ends):
            file.write(struct.pack(f"<{len(part)}q", *part))
    numpy.array(sum(DOCUMENTS, []), "<i4").tofile(stem + ".bin")
    return stem + ".idx"


def tokens_of(path, wide=False):
    with open(path, "rb") as file:
        raw = file.read()
    magic, version, count = struct.unpack_from("<3i", raw)
    assert (magic, version) == ((20240801, 7) if wide else (20240520, 1)) and not any(raw[12:1024])
    ids = struct.unpack_from(f"<{count}{'I' if wide else 'H'}", raw, 1024)
    assert len(raw) == 1024 + count * (4 if wide else 2)
    return list(ids)


def check_megatron(command):
    out, flat = command.path("out.bin"), sum(DOCUMENTS, [])
    for code, dtype in CODES.items():
        sequences = DOCUMENTS if numpy.dtype(dtype).itemsize > 1 else DOCUMENTS[:-1] + [[100]]
        index = write_mapped(command.path(f"m{code}"), dtype, code, sequences, pad=b"\0" * 5 if code == 8 else b"")
        said = command.done("ids", index, "--out", out, "--vocab", 301, "--replace")
        assert tokens_of(out) == sum(sequences, []), code
        assert "of 3 documents" in said, said  # the empty one has no id
    command.done("ids", write_old(command.path("old"))[:-4] + ".bin", "--out", out, "--vocab", 301, "--replace")
    assert tokens_of(out) == flat
    index = write_mapped(command.path("m"))
    command.done("ids", index, "--out", out, "--vocab", 301, "--separator", 0, "--replace")
    assert tokens_of(out) == [0, 5, 6, 7, 0, 8, 0, 9, 10, 11, 12, 300], tokens_of(out)
    said = command.done("ids", index, "--out", command.path("wide.bin"), "--vocab", 65537)
    assert tokens_of(command.path("wide.bin"), wide=True) == flat and "tokens32:" in said


def check_bad_megatron(command):
    out, stem = command.path("x.bin"), command.path("bad")

    def refused(because, index=None, **how):
        index = index or write_mapped(stem, **how)
        command.refused(because, "ids", index, "--out", out, "--vocab", 301)

    refused("dtype code 7 is floats", code=7)
    refused("dtype code 99 is unknown", code=99)
    refused("index of version 2", version=2)
    refused("documents are not 0 to 5 in order", ends=(0, 3, 2, 5))
    refused("documents are not 0 to 5 in order", ends=(0, 4))
    refused("id -3 at token 1 is negative", dtype="<i4", code=4, sequences=[[1, -3], [4]], ends=(0, 2))
    index = write_mapped(stem)
    with open(index, "rb") as file:
        raw = file.read()
    for cut in (12, 20, 40, len(raw) - 1):
        with open(index, "wb") as file:
            file.write(raw[:cut])
        refused("truncated", index=index)
    with open(index, "wb") as file:
        file.write(b"whatever that is")
    refused("no index of a Megatron data set", index=index)
    with open(index, "wb") as file:  # the first length, negative
        file.write(raw[:34] + struct.pack("<i", -1) + raw[38:])
    refused("negative length", index=index)
    index = write_mapped(stem)
    with open(stem + ".bin", "r+b") as file:
        file.truncate(10)
    refused("truncated, or another's", index=index)
    os.remove(stem + ".bin")
    refused("beside it", index=index)


def check_numpy(command):
    out, array = command.path("n.bin"), command.path("a.npy")
    for kind in ("<i8", ">i4", "<u2", "|u1"):
        numpy.save(array, numpy.array([[1, 2, 3], [4, 5, 200]]).astype(kind))
        command.done("ids", array, "--out", out, "--vocab", 201, "--separator", 0, "--replace")
        assert tokens_of(out) == [0, 1, 2, 3, 0, 4, 5, 200], kind

    def refused(because, values, *more):
        numpy.save(array, values)
        command.refused(because, "ids", array, "--out", command.path("x.bin"), "--vocab", 201, *more)

    refused("float64", numpy.ones(4))
    refused("[1, 2, 2]", numpy.ones((1, 2, 2), numpy.int32))
    refused("id 201 at token 2 is not below the vocabulary's 201", numpy.array([3, 4, 201]))
    refused("id 900 at token 0", numpy.array([3, 4, 5]), "--separator", 900)
    refused("1 tokens are too few", numpy.array([3]))
    refused("no NumPy array", numpy.array([{}], dtype=object))
    with open(array, "r+b") as file:
        file.truncate(90)
    command.refused("no NumPy array", "ids", array, "--out", command.path("x.bin"), "--vocab", 201)


TABLES = """
import sys, json, os, pyarrow as a, pyarrow.parquet as p
folder = sys.argv[1]
def stream(path, table):
    with a.OSFile(path, "wb") as file, a.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table, max_chunksize=1)
def lists(rows, kind): return a.table({"text": ["x"] * len(rows), "input_ids": a.array(rows, kind)})
one = lists([[1, 2, 3], [4, 5]], a.list_(a.int32()))
p.write_table(one, folder + "/one.parquet")
p.write_table(a.table({"mine": a.array([1, 2, 3, 4, 5])}), folder + "/plain.parquet")
stream(folder + "/one.arrow", one)
with a.OSFile(folder + "/large.arrow", "wb") as file, a.ipc.new_file(file, one.schema) as writer:
    writer.write_table(one)
os.mkdir(folder + "/saved")
stream(folder + "/saved/data-00000-of-00002.arrow", lists([[1, 2, 3]], a.list_(a.int64())))
stream(folder + "/saved/data-00001-of-00002.arrow", lists([[4, 5]], a.list_(a.int64())))
state = {"_data_files": [{"filename": f"data-0000{i}-of-00002.arrow"} for i in range(2)], "_indices_files": None}
json.dump(state, open(folder + "/saved/state.json", "w"))
os.mkdir(folder + "/selected")
json.dump({**state, "_indices_files": [{"filename": "x"}]}, open(folder + "/selected/state.json", "w"))
os.mkdir(folder + "/parts"); os.mkdir(folder + "/parts/train")
open(folder + "/parts/dataset_dict.json", "w").write("{}")
p.write_table(a.table({"input_ids": a.array([[1.5]])}), folder + "/floats.parquet")
p.write_table(a.table({"input_ids": a.array([[1], None])}), folder + "/null.parquet")
p.write_table(a.table({"words": ["x"]}), folder + "/words.parquet")
p.write_table(a.table({"input_ids": a.array([[1, -2]])}), folder + "/negative.parquet")
open(folder + "/cut.parquet", "wb").write(open(folder + "/one.parquet", "rb").read()[:-30])
open(folder + "/cut.arrow", "wb").write(open(folder + "/one.arrow", "rb").read()[:-300])
"""


def check_tables(command):
    out, command.here = command.path("t.bin"), False
    if not command.has("pyarrow"):
        with open(command.path("some.parquet"), "wb") as file:
            file.write(b"PAR1")
        command.refused("-m pip install pyarrow", "ids", command.path("some.parquet"), "--out", out, "--vocab", 9)
        return False
    subprocess.run([command.python, "-c", TABLES, command.folder], check=True)
    for name in ("one.parquet", "one.arrow", "large.arrow", "saved"):
        command.done("ids", command.path(name), "--out", out, "--vocab", 9, "--separator", 0, "--replace")
        assert tokens_of(out) == [0, 1, 2, 3, 0, 4, 5], (name, tokens_of(out))
    command.done("ids", command.path("plain.parquet"), "--out", out, "--vocab", 9, "--column", "mine", "--replace")
    assert tokens_of(out) == [1, 2, 3, 4, 5]
    for name, because in {"selected": "flatten_indices", "parts": "has the splits train: choose one with --split",
                          "floats.parquet": "want integers",
                          "null.parquet": "without a value", "words.parquet": "no column input_ids or tokens or ids",
                          "negative.parquet": "id -2 at token 1 is negative", "cut.parquet": "truncated",
                          "cut.arrow": "truncated"}.items():
        command.refused(because, "ids", command.path(name), "--out", command.path("x.bin"), "--vocab", 9)
    return True


def check_command(command):
    array, out = command.path("large.npy"), command.path("x", "y.bin")
    numpy.save(array, numpy.arange(400_000) % 50_000)
    command.refused("want FILE.idx", "ids", __file__, "--out", out, "--vocab", 9)
    command.refused("no such file", "ids", command.path("nothing.npy"), "--out", out, "--vocab", 9)
    command.refused("by one of --vocab N and --model", "ids", array, "--out", out)
    command.refused("--vocab 1: want 2", "ids", array, "--out", out, "--vocab", 1)
    command.refused("model.toml", "ids", array, "--out", out, "--model", command.folder)
    command.refused("y.bin: File too large", "ids", array, "--out", out, "--vocab", 50_000,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)))
    command.done("ids", array, "--out", out, "--vocab", 50_000)
    command.refused("is there already", "ids", array, "--out", out, "--vocab", 50_000)
    assert tokens_of(out)[399_999] == 49_999 and os.listdir(command.path("x")) == ["y.bin"]


def main():
    command = Command(*sys.argv[1:], here=True)
    for check in (check_megatron, check_bad_megatron, check_numpy, check_command):
        check(command)
        print(f"{check.__name__}: passed", flush=True)
    tables = check_tables(command)
    command.remove()
    if not tables:
        print(f"skipped: {command.python} has no pyarrow: Arrow and Parquet were not read; the rest passed")
        sys.exit(77)


if __name__ == "__main__":
    main()
