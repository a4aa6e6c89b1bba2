"""Folders of data sets and files of documents: the split that is meant, each row once, the text without its syntax.

    datasets_test.py LONGHAUL PYTHON

PYTHON has numpy, tokenizers and pyarrow, or the test is skipped. Tokens are compared with the document's bytes and ids
as this file writes them.
"""

import bz2
import csv
import gzip
import io
import json
import os
import shutil
import subprocess
import sys

from common import Command
from ids_test import tokens_of as ids_in
from text_test import END, ids_of, tokens_of, write, write_tokenizer

# Writes tables: {path: [rows, column]}, rows of ids or of texts.
TABLES = """
import json, os, sys, pyarrow as a, pyarrow.parquet as p
for path, (rows, column) in json.loads(sys.stdin.read()).items():
    os.makedirs(os.path.dirname(path), exist_ok=True)
    table = a.table({column: rows})
    if path.endswith(".parquet"):
        p.write_table(table, path)
    else:
        with a.OSFile(path, "wb") as file, a.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table)
"""
TRAIN, VALID, TEST, OTHER = [[1, 2], [3]], [[20, 21]], [[30]], [[40, 41, 42]]
# What lies in a folder, a word of --split, and the rows that are imported or what is said.
FOLDERS = {
    "of datasets' cache": ({"c4-train.arrow": TRAIN, "cache-ed205e500a7dc44c.arrow": TRAIN}, None, TRAIN),
    "of several processes": ({"c4-train.arrow": TRAIN, "cache-1f_00000_of_00002.arrow": TRAIN}, None, TRAIN),
    "of derived tables alone": ({"cache-ed20.arrow": TRAIN}, None, "but 1 that `datasets` derived"),
    "of the hub": ({"data/train-00000-of-00002.parquet": TRAIN, "data/train-00001-of-00002.parquet": OTHER,
                    "data/validation-00000-of-00001.parquet": VALID, "data/test-00000-of-00001.parquet": TEST}, "train",
                   TRAIN + OTHER),
    "of the hub, no split": ({"data/train-00000-of-00001.parquet": TRAIN, "data/test-00000-of-00001.parquet": TEST}, None,
                             "files of several splits: test (1 file, test-00000-of-00001.parquet), train"),
    "with old names": ({"train-00000-of-00001-a09b74b3ef9c3b56.parquet": TRAIN, "val.parquet": VALID}, "validation", VALID),
    "of plain names": ({"train.parquet": TRAIN, "test.parquet": TEST}, None, "several splits"),
    "of plain names, dev": ({"train.parquet": TRAIN, "dev.parquet": VALID}, "dev", VALID),
    "of plain names, none such": ({"train.parquet": TRAIN, "dev.parquet": VALID}, "test", "--split test: "),
    "of parts": ({"train/0.parquet": TRAIN, "valid/0.parquet": VALID}, "valid", VALID),
    "of parts, no split": ({"train/0.parquet": TRAIN, "valid/0.parquet": VALID}, None, "several splits"),
    "of data of parts": ({"data/train/0.arrow": TRAIN, "data/test/0.arrow": TEST}, "test", TEST),
    "of parts of a part": ({"train_sft-00000-of-00001.parquet": TRAIN, "train_gen-00000-of-00001.parquet": VALID}, "train_sft",
                           TRAIN),
    "of parts of a part, train": ({"train_sft-00000-of-00001.parquet": TRAIN, "train_gen-00000-of-00001.parquet": VALID},
                                  "train", "--split train: "),
    "of two spellings": ({"valid.parquet": TRAIN, "dev.parquet": VALID}, "validation", "--split validation: "),
    "of shards": ({"x-0.parquet": TRAIN, "x-1.parquet": VALID, "latest-2.parquet": TEST}, None, None),
    "of a split and more": ({"train.parquet": TRAIN, "extra.parquet": OTHER}, None, "no split (1 file, extra.parquet), train"),
    "of languages": ({"en/0.parquet": TRAIN, "de/0.parquet": OTHER}, None, "tables of several data sets"),
    "of two forms": ({"a.parquet": TRAIN, "a.arrow": TRAIN}, None, "tables of several data sets or forms"),
    "of copies": ({"x-0.parquet": TRAIN, "x-0 (1).parquet": TRAIN}, None, TRAIN),
    "of hidden files": ({"x.parquet": TRAIN, ".git/x.parquet": VALID, ".x.parquet": VALID}, None, TRAIN)}
FOLDERS["of shards"] = (FOLDERS["of shards"][0], None, TEST + TRAIN + VALID)
SAVED = {"_data_files": [{"filename": "data-00000-of-00001.arrow"}], "_split": "train"}


def write_tables(command, tables, column="input_ids"):
    """`tables`: {path: rows}."""
    given = {path: (rows, column) for path, rows in tables.items()}
    subprocess.run([command.python, "-c", TABLES], input=json.dumps(given), text=True, check=True)


def check_folders(command):
    out = command.path("out.bin")
    write_tables(command, {command.path(what, name): rows for what, (tables, *_) in FOLDERS.items()
                           for name, rows in tables.items()})
    for what, (_, split, wanted) in FOLDERS.items():
        folder = command.path(what)
        words = ("ids", folder, "--vocab", 50, "--out", out, *(("--split", split) if split else ()))
        print(what, flush=True)
        if isinstance(wanted, str):
            command.refused(wanted, *words)
        else:
            command.done(*words, "--separator", 0)
            assert ids_in(out) == sum(([0] + row for row in wanted), []), (what, ids_in(out))
            os.remove(out)


def check_saved(command):
    """What `datasets` saves to disk, and a shard by another name."""
    out, folder = command.path("out.bin"), command.path("saved")
    shard = os.path.join(folder, "data-00000-of-00001.arrow")
    write_tables(command, {shard: TRAIN, os.path.join(folder, "cache-2d0a.arrow"): TRAIN})
    write(command, "saved/state.json", json.dumps(SAVED))
    words = ("ids", folder, "--vocab", 50, "--out", out, "--replace")
    for split in ((), ("--split", "train")):
        command.done(*words, *split)
        assert ids_in(out) == [1, 2, 3]
    os.remove(out)
    command.refused("is the split train", *words, "--split", "test")
    os.symlink(shard, os.path.join(folder, "data-1.arrow"))
    write(command, "saved/state.json", json.dumps({"_data_files": [*SAVED["_data_files"], {"filename": "data-1.arrow"}]}))
    command.refused("names the same file twice", *words)
    os.remove(os.path.join(folder, "state.json"))
    assert "left out: 1 that repeat another" in command.done(*words)
    assert ids_in(out) == [1, 2, 3]
    os.remove(out)
    command.refused("is one file", "ids", shard, "--vocab", 50, "--out", out, "--split", "train")
    write_tables(command, {command.path("words/x.parquet"): ["some words"]}, "text")
    command.refused("`longhaul import text`", "ids", command.path("words"), "--vocab", 50, "--out", out)
    write(command, "words/x.parquet", "version https://git-lfs.github.com/spec/v1\n")
    command.refused("git lfs pull", "ids", command.path("words"), "--vocab", 50, "--out", out)
    shutil.rmtree(command.path("both"), ignore_errors=True)
    write_tables(command, {command.path("both/train/d.arrow"): TRAIN, command.path("both/test/d.arrow"): TEST})
    write(command, "both/dataset_dict.json", "{}")
    command.refused("has the splits test, train: choose one with --split", "ids", command.path("both"), "--vocab", 50, "--out",
                    out)
    command.done("ids", command.path("both"), "--vocab", 50, "--out", out, "--split", "train")
    assert ids_in(out) == [1, 2, 3]


ONE, TWO = 'Document 1 says: "hello"\nand goes on. thé', "the second"
LINES = "".join(json.dumps({"text": text, "content": text[::-1], "n": 1}) + "\n" for text in (ONE, TWO))
SHEET = io.StringIO()
csv.writer(SHEET).writerows([("id", "text"), (1, ONE), (2, TWO)])
# A file's name, its content, the options, and the documents or what is said.
FILES = {
    "lines": ("a.jsonl", LINES, (), [ONE, TWO]),
    "lines, no newline at the end": ("a.jsonl", LINES[:-1], (), [ONE, TWO]),
    "lines in a gzip": ("a.jsonl.gz", gzip.compress(LINES.encode()), (), [ONE, TWO]),
    "lines by their content": ("corpus.txt", LINES, (), [ONE, TWO]),
    "lines behind a mark of UTF-8": ("a.ndjson", "\ufeff" + LINES, (), [ONE, TWO]),
    "one line": ("b.txt", json.dumps({"text": ONE}), (), [ONE]),
    "lines by another key": ("a.jsonl", LINES, ("--column", "content"), [ONE[::-1], TWO[::-1]]),
    "lines of strings": ("a.jsonl", json.dumps(ONE) + "\n" + json.dumps(TWO), (), [ONE, TWO]),
    "an array": ("a.json", json.dumps([{"text": ONE}, {"text": TWO}], indent=1), (), [ONE, TWO]),
    "an array in one line": ("a.json", json.dumps([ONE, TWO]), (), [ONE, TWO]),
    "an object": ("a.json", json.dumps({"text": ONE}, indent=1), (), [ONE]),
    "a row twice, one empty": ("a.jsonl", LINES + LINES + json.dumps({"text": ""}), (), [ONE, TWO]),
    "plain": ("a.jsonl", LINES, ("--plain",), [LINES]),
    "a sheet": ("a.csv", SHEET.getvalue(), (), [ONE, TWO]),
    "a sheet with tabs": ("a.tsv", f"text\tid\n{TWO}\t1\n", (), [TWO]),
    "a program in braces": ("a.c", "{ int the_whole = 1; }\n" * 5, (), ["{ int the_whole = 1; }\n" * 5]),
    "a mark of UTF-8": ("a.txt", "\ufeff" + "begins with a mark " * 9, (), ["begins with a mark " * 9]),
    "marks between documents": ("a.txt", f"{ONE}<|endoftext|>\n{TWO}", ("--documents-at", "<|endoftext|>"), [ONE, TWO]),
    "no such key": ("a.jsonl", json.dumps({"content": ONE}), (), "a.jsonl:1: no key 'text'; it has 'content': say --column"),
    "a line without the key": ("a.jsonl", LINES + '{"meta": 1}\n', (), "a.jsonl:3: no key 'text'"),
    "a line of null": ("a.jsonl", LINES + '{"text": null}\n', (), "a.jsonl:3: 'text': is null: want a string"),
    "a line of ids": ("a.jsonl", '{"text": [1, 2]}\n', (), "is [1, 2]: want a string"),
    "a broken line": ("a.jsonl", LINES + '{"text": \n', (), "a.jsonl:3: no JSON"),
    "a broken array": ("a.json", '[{"text": "x"},\n', (), "no JSON, neither as one value nor by lines"),
    "a sheet without text": ("a.csv", "a,b\n1,2\n", (), "no column 'text'; it has a, b: say --column NAME"),
    "a short row": ("a.csv", "id,text\n1,x\n2\n", (), "a.csv:3: no 'text' in this row"),
    "UTF-16": ("a.txt", ("of a Windows editor " * 9).encode("utf-16"), (), "1 UTF-16 (save it as UTF-8)"),
    "UTF-16 lines": ("a.jsonl", LINES.encode("utf-16"), (), "1 UTF-16 (save it as UTF-8)"),
    "bzip2": ("a.txt.bz2", bz2.compress(LINES.encode()), (), "1 bzip2 (unpack it first)"),
    "a Git LFS pointer": ("a.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 99999\n", (),
                          "1 a Git LFS pointer (git lfs pull)"),
    "a damaged gzip": ("a.jsonl.gz", gzip.compress(LINES.encode() * 99)[:-20], (), "a damaged gzip"),
    "a split of one text": ("a.txt", ONE * 9, ("--split", "train"), "has no files of JSON")}


def documents_in(path):
    """Sets of ids between ends of text."""
    got, out = tokens_of(path), []
    for token in got:
        if token == END:
            out.append([])
        else:
            out[-1].append(token)
    return sorted(out)


def check_files(command, tokenizer):
    out = command.path("texts")
    for what, (name, content, options, wanted) in FILES.items():
        print(what, flush=True)
        path = write(command, "files/" + name, content)
        words = ("text", "x=" + path, "--tokenizer", tokenizer, "--out", out, *options)
        if isinstance(wanted, str):
            command.refused(wanted, *words)
        else:
            command.done(*words)
            assert documents_in(os.path.join(out, "x.bin")) == sorted(map(ids_of, wanted)), what
            shutil.rmtree(out)
        os.remove(path)


def check_tables(command, tokenizer):
    """Rows of text, and files of several splits."""
    out, folder = command.path("texts"), command.path("rows")
    write_tables(command, {folder + "/train-0.parquet": [ONE, TWO], folder + "/train-1.arrow": [TWO + " again"],
                           folder + "/test-0.parquet": ["the test"]}, "text")
    words = ("text", f"x={folder}/*", "--tokenizer", tokenizer, "--out", out)
    command.refused("files of several splits: test (1 file, test-0.parquet), train (2 files", *words)
    assert "3 found in the split train" in command.done(*words, "--split", "train")
    assert documents_in(out + "/x.bin") == sorted(map(ids_of, (ONE, TWO, TWO + " again")))
    shutil.rmtree(out)
    command.refused("no column 'body'; it has text", *words, "--split", "train", "--column", "body")
    write_tables(command, {folder + "/train-2.parquet": [[1, 2]]}, "text")
    command.refused("ids are for `longhaul import ids`", *words, "--split", "train")
    for split, text in (("train", ONE), ("valid", TWO)):
        write(command, f"splits/{split}.jsonl", json.dumps({"text": text}))
    words = ("text", f"x={command.path('splits')}/*", "--tokenizer", tokenizer, "--out", out)
    command.refused("files of several splits", *words)
    command.done(*words, "--split", "validation")
    assert documents_in(out + "/x.bin") == [ids_of(TWO)]
    shutil.rmtree(out)
    command.refused("is a folder: say x=", "text", "x=" + command.path("splits"), "--tokenizer", tokenizer, "--out", out)


def check_long(command, tokenizer):
    """Above the piece that is read at a time, tokens are those of the whole; --most-tokens takes its part of one file."""
    out = command.path("texts")
    # "the" is two tokens, t and he or the space's and he, and the first MiB ends within one of them.
    lines = "." + "".join(f"{'the' * 9}\n" + "\n" * (i % 3) for i in range(80_000))
    words = ("the  the " * 240_000)[1:]
    assert min(len(lines), len(words)) > 2 << 20
    assert lines[(1 << 20) - 1:(1 << 20) + 1] == "he" and words[(1 << 20) - 1:(1 << 20) + 1] == " t"
    for content, text in ((lines, lines), (gzip.compress(words.encode()), words)):
        path = write(command, "long.txt", content)
        command.done("text", "x=" + path, "--tokenizer", tokenizer, "--out", out)
        assert tokens_of(out + "/x.bin") == [END] + ids_of(text)
        shutil.rmtree(out)
    command.done("text", "x=" + path, "--tokenizer", tokenizer, "--out", out, "--most-tokens", 5000)
    assert tokens_of(out + "/x.bin") == ([END] + ids_of(words))[:5000]
    shutil.rmtree(out)


def check_names(command, tokenizer):
    """One line for each text, whatever a file is called."""
    out, names = command.path("texts"), ["a\nb.txt", "a\tb.txt", "back\\slash.txt", "caf\udce9.txt", "é.txt"]
    for at, name in enumerate(names):
        write(command, "odd/" + name, f"text {at} " * 20)
    command.done("text", f"x={command.path('odd')}/*", "--tokenizer", tokenizer, "--out", out)
    with open(out + "/x.sources.tsv", encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file.read().splitlines() if not line.startswith("#")]
    assert all(len(row) == 4 for row in rows), rows
    assert sorted(os.path.basename(row[3]) for row in rows) == sorted(
        ["a\\nb.txt", "a\\tb.txt", "back\\\\slash.txt", "caf\\udce9.txt", "é.txt"]), rows
    shutil.rmtree(out)


def check_vocabulary(command):
    """A tokenizer may have more ids than the model, ids may have holes; a text that needs one that is not there is named."""
    some, out = write(command, "some.txt", "the words <more> of it " * 9), command.path("texts")
    folder = write_tokenizer(command.path("longer"), vocab=259)
    path = os.path.join(folder, "tokenizer.json")
    with open(path, encoding="utf-8") as file:
        table = json.load(file)
    table["model"]["vocab"]["<more>"] = 300
    for content, special in (("<more>", True), ("<more>", False)):
        table["added_tokens"] = table["added_tokens"][:1] + [{**table["added_tokens"][0], "id": 300, "content": content,
                                                              "special": special}]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(table, file)
        words = ("text", "x=" + some, "--tokenizer", folder, "--out", out)
        if special:
            command.done(*words)
            assert tokens_of(out + "/x.bin") == [END] + ids_of("the words <more> of it " * 9)
            shutil.rmtree(out)
            command.refused("its id is 300, and the model's vocabulary has 259", *words, "--separator", "<more>")
        else:
            command.refused(f"{some}: its text has the token '<more>' (id 300), and the model's vocabulary has 259 ids", *words)
    os.remove(os.path.join(folder, "model.toml"))
    command.done(*words)
    assert tokens_of(out + "/x.bin").count(300) == 9
    shutil.rmtree(out)


def main():
    command = Command(*sys.argv[1:], served=True)
    if not (command.has("tokenizers") and command.has("pyarrow")):
        print(f"skipped: {command.python} has not both tokenizers and pyarrow")
        sys.exit(77)
    tokenizer = write_tokenizer(command.path("tokenizer"))
    for check, given in ((check_folders, ()), (check_saved, ()), (check_files, (tokenizer,)), (check_tables, (tokenizer,)),
                         (check_long, (tokenizer,)), (check_names, (tokenizer,)), (check_vocabulary, ())):
        check(command, *given)
        print(f"{check.__name__}: passed", flush=True)
    command.remove()


main()
