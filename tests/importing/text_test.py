"""`longhaul import text`: each text once, its ids those of the tokenizer, in an order that content fixes.

    text_test.py LONGHAUL PYTHON

The tokenizer has the 256 bytes, " t" and "he" as merges, and an end of text. PYTHON has numpy and tokenizers.
"""

import gzip
import hashlib
import json
import os
import struct
import sys

from common import Command, random_weights, write_hf
from gguf_bytes import keys_of, tensors_of, write_gguf

END = 258


def alphabet():
    """Of byte-level BPE: printable Latin-1 bytes are themselves, the others the characters from 256 on."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


def vocabulary():
    letters = alphabet()
    return letters + [letters[32] + "t", "he", "<|endoftext|>"], [f"{letters[32]} t", "h e"]


def ids_of(text):
    """By hand: merges are greedy here, because no two overlap; only within words of the splitting pattern."""
    out, raw, at = [], text.encode(), 0
    while at < len(raw):
        pair = {b" t": 256, b"he": 257}.get(raw[at:at + 2])
        out.append(raw[at] if pair is None else pair)
        at += 1 if pair is None else 2
    return out


def write_tokenizer(folder, vocab=259):
    tokens, merges = vocabulary()
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump({"version": "1.0", "added_tokens": [{"id": END, "content": tokens[END], "single_word": False,
                                                       "lstrip": False, "rstrip": False, "normalized": False,
                                                       "special": True}],
                   "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                                     "use_regex": True},
                   "model": {"type": "BPE", "vocab": {token: at for at, token in enumerate(tokens)},
                             "merges": merges}}, file)
    with open(os.path.join(folder, "model.toml"), "w", encoding="utf-8") as file:
        file.write(f"[model]\nvocab = {vocab}\n")
    return folder


def tokens_of(path):
    with open(path, "rb") as file:
        raw = file.read()
    magic, version, count = struct.unpack_from("<3i", raw)
    assert (magic, version, len(raw)) == (20240520, 1, 1024 + 2 * count)
    return list(struct.unpack_from(f"<{count}H", raw, 1024))


def write(command, name, content):
    path = command.path(name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())
    return path


def check_kinds(command, tokenizer):
    texts = {"notes/a.txt": "There the weather is théir trouble; " * 3,
             "notes/deep/b.txt": "<|endoftext|> is text here\n" * 4,
             "notes/c.txt": "wholly another the the the the, 123 of them, \t tabs\n" * 2}
    for name, text in texts.items():
        write(command, name, text)
    write(command, "notes/same.txt", texts["notes/a.txt"])
    write(command, "notes/packed.txt", gzip.compress(texts["notes/c.txt"].encode(), mtime=0))
    write(command, "notes/short.txt", "short")
    write(command, "notes/latin.txt", ("caf\xe9 " * 30).encode("latin-1"))
    write(command, "notes/zero.txt", "zero\0 " * 30)
    os.symlink(command.path("notes/a.txt"), command.path("notes/link.txt"))
    out = command.path("out")
    said = command.done("text", f"notes={command.path('notes')}/**/*.txt", f"other={command.path('notes/c.txt')}",
                        "--tokenizer", tokenizer, "--out", out)
    in_order = sorted(texts.values(), key=lambda text: hashlib.sha256(text.encode()).hexdigest())
    want = sum(([END] + ids_of(text) for text in in_order), [])
    assert tokens_of(os.path.join(out, "notes.bin")) == want
    assert tokens_of(os.path.join(out, "other.bin")) == [END] + ids_of(texts["notes/c.txt"])
    sources = hashlib.sha256(b"".join(hashlib.sha256(text.encode()).digest() for text in in_order)).hexdigest()
    assert f"notes: {len(want)} tokens of 3 texts (3 found; left out: 1 below 64 bytes, 2 no UTF-8 text, " \
           f"1 the same file by another name, 2 the same text); sources {sources}; tokens:{out}/notes.bin" in said, said
    with open(os.path.join(out, "notes.sources.tsv"), encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file if not line.startswith("#")]
    at = 0
    for (first, count, digest, path), text in zip(rows, in_order, strict=True):
        assert (int(first), int(count)) == (at, 1 + len(ids_of(text)))
        assert digest == hashlib.sha256(text.encode()).hexdigest() and path.startswith(command.path("notes"))
        at += int(count)


def check_bounds(command, tokenizer):
    for i in range(40):
        write(command, f"many/{i}.txt", f"{i} " * 200)
    words = ("text", f"many={command.path('many')}/*", "--tokenizer", tokenizer, "--out")
    command.done(*words, command.path("most"), "--most-tokens", 320)
    # No text is more than a 32nd part, so that all of it is not of one.
    got = tokens_of(command.path("most", "many.bin"))
    assert len(got) == 320 and [at for at, token in enumerate(got) if token == END] == list(range(0, 320, 10)), got
    command.done(*words, command.path("bare"), "--separator", "none")
    assert END not in tokens_of(command.path("bare", "many.bin"))
    command.done(*words, command.path("he"), "--separator", "he")
    assert tokens_of(command.path("he", "many.bin"))[0] == 257
    command.refused("is there already", *words, command.path("he"))
    command.refused("no token <s>", *words, command.path("x"), "--separator", "<s>")
    command.refused("want 2 or more", *words, command.path("x"), "--most-tokens", 1)


def check_gguf_tokenizer(command):
    """As a GGUF carries it, with digits one by one."""
    tokens, _ = vocabulary()
    keys = keys_of(tokenizer__ggml__model="gpt2", tokenizer__ggml__pre="smollm",
                   tokenizer__ggml__tokens=tokens[:95] + ["12"], tokenizer__ggml__merges=["1 2"],
                   tokenizer__ggml__token_type=[1] * 96,
                   tokenizer__ggml__bos_token_id=1)
    out = command.path("gguf")
    said = command.done("model", write_gguf(command.path("t.gguf"), keys, tensors_of(True)), "--out", out)
    assert "no tokenizer.json" not in said
    text = write(command, "digits.txt", "1212" * 20)
    command.done("text", f"digits={text}", "--tokenizer", out, "--out", out, "--separator", "none")
    assert tokens_of(os.path.join(out, "digits.bin")) == [49, 50] * 40  # "12" is a token, but no two digits are merged


def check_built_in(command, tokenizer):
    command.done("text", "python", "--tokenizer", tokenizer, "--out", command.path("built"), "--most-tokens", 6400)
    with open(command.path("built", "python.sources.tsv"), encoding="utf-8") as file:
        paths = [line.rstrip("\n").split("\t")[3] for line in file if not line.startswith("#")]
    assert len(paths) >= 32 and all(path.endswith(".py") and "-packages" not in path for path in paths), paths


def check_refused(command, tokenizer):
    some, out = write(command, "some.txt", "words " * 40), command.path("x")
    tail = ("--tokenizer", tokenizer, "--out", out)
    command.refused("no kind that every machine has", "text", "poems", *tail)
    command.refused("want NAME=PATTERN", "text", "a/b=" + some, *tail)
    command.refused("want NAME=PATTERN", "text", "a=", *tail)
    command.refused("named twice", "text", "python", "python", *tail)
    command.refused("no such file", "text", "a=" + command.path("none.txt"), *tail)
    command.refused("no file matches", "text", "a=" + command.path("none*.txt"), *tail)
    command.refused("nothing left of 1 files: 1 below 64 bytes", "text", "a=" + write(command, "few.txt", "few"), *tail)
    command.refused("no tokenizer.json there", "text", "a=" + some, "--tokenizer", command.folder, "--out", out)
    write(command, "broken/tokenizer.json", "{}")
    command.refused("no tokenizer: ", "text", "a=" + some, "--tokenizer", command.path("broken"), "--out", out)
    small = write_tokenizer(command.path("small"), vocab=200)
    command.refused("below the vocabulary's 200: say --separator", "text", "a=" + some, "--tokenizer",
                    small, "--out", out)
    # A model's folder takes its texts too; what one of several kinds lacks leaves the others.
    folder = write_hf(command.path("hf"), random_weights(True), True)
    command.done("model", folder, "--out", command.path("model"))
    command.refused("no tokenizer.json there", "text", "a=" + some, "--tokenizer", command.path("model"), "--out", out)


def main():
    command = Command(*sys.argv[1:], served=True)
    tokenizer = write_tokenizer(command.path("tokenizer"))
    if not command.has("tokenizers"):
        command.refused("-m pip install tokenizers", "text", f"x={__file__}", "--tokenizer", tokenizer, "--out",
                        command.path("x"))
        print(f"skipped: {command.python} has no tokenizers; that it is named was tested")
        sys.exit(77)
    check_kinds(command, tokenizer)
    check_bounds(command, tokenizer)
    check_gguf_tokenizer(command)
    check_built_in(command, tokenizer)
    check_refused(command, tokenizer)
    command.remove()


if __name__ == "__main__":
    main()
