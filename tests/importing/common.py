"""What tests of `longhaul import` share: files as their formats are specified, and a Llama in forty lines.

Nothing here is longhaul's own code: the formats are written byte by byte, the model is plain torch in double
precision.
"""

import contextlib
import io
import json
import math
import os
import random
import shutil
import sqlite3
import struct
import subprocess
import sys
import tempfile

import torch

# Wide enough that a head has more than one pair, small enough to take no time.
SHAPE = dict(blocks=2, width=32, heads=4, kv_heads=2, hidden=64, vocab=96, theta=500.0)
CONTEXT, ROWS = 24, 6
PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../python")
sys.path.append(PACKAGE)
os.environ["LONGHAUL_READS"] = "1"  # the package without torch
from longhaul.commands import main  # noqa: E402


# Runs one import for each line of words, without a start of the interpreter each time.
SERVE = """
import contextlib, io, json, sys
from longhaul.commands import main
for line in sys.stdin:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            status = main(["import", *json.loads(line)])
        except BaseException as error:
            status = repr(error)
    print(json.dumps([status, out.getvalue(), err.getvalue()]), flush=True)
"""


class Command:
    """`longhaul import` with one interpreter, in a folder of its own."""

    def __init__(self, longhaul, python, here=False, served=False):
        """`here`: what needs no package that this interpreter lacks is run in it. `served`: one process of PYTHON runs
        all."""
        self.longhaul, self.python, self.here = longhaul, python, here
        self.server = served and subprocess.Popen([python, "-B", "-c", SERVE], text=True, stdin=subprocess.PIPE,
                                                  stdout=subprocess.PIPE, env={**os.environ, "LONGHAUL_READS": "1", "PYTHONPATH": PACKAGE})
        self.folder = tempfile.mkdtemp()
        self.longhaul_ran = False

    def path(self, *parts):
        return os.path.join(self.folder, *parts)

    def run(self, *words, **more):
        """The same files as the command has, without a start of it each time."""
        if self.here and not more:
            out, err = io.StringIO(), io.StringIO()
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                status = main(["import", *map(str, words)])
            return subprocess.CompletedProcess(words, status, out.getvalue(), err.getvalue())
        if self.server and not more:
            self.server.stdin.write(json.dumps([*map(str, words)]) + "\n")
            self.server.stdin.flush()
            return subprocess.CompletedProcess(words, *json.loads(self.server.stdout.readline()))
        return subprocess.run([self.longhaul, "import", "--python", self.python, *map(str, words)], text=True,
                              capture_output=True, **more)

    def done(self, *words):
        if self.longhaul_ran:
            got = self.run(*words)
        else:
            got = subprocess.run([self.longhaul, "import", "--python", self.python, *map(str, words)], text=True,
                                 capture_output=True)
            self.longhaul_ran = True
        assert got.returncode == 0, (words, got.stdout, got.stderr)
        return got.stdout

    def refused(self, because, *words, **more):
        """In one line that has `because`, and nothing is left: no file is new, none gone, none other."""
        before = listing(self.folder)
        got = self.run(*words, **more)
        assert got.returncode == 1 and got.stderr.startswith("longhaul: "), (words, got.returncode, got.stderr)
        assert got.stderr.count("\n") == 1 and because in got.stderr, (because, got.stderr)
        assert listing(self.folder) == before, (words, before ^ listing(self.folder))

    def has(self, module):
        return subprocess.run([self.python, "-c", f"import {module}"], capture_output=True).returncode == 0

    def remove(self):
        if self.server:
            self.server.communicate()
        shutil.rmtree(self.folder)

    def held_out_loss(self, folder, ids):
        """Of a run that starts from FOLDER's weights, over all windows of `ids`: nat per token."""
        with open(self.path("ids.bin"), "wb") as file:
            file.write(struct.pack("<3i", 20240520, 1, len(ids)).ljust(1024, b"\0"))
            file.write(struct.pack(f"<{len(ids)}H", *ids))
        with open(os.path.join(folder, "model.toml"), encoding="utf-8") as file:
            model = file.read()
        source = "tokens:" + self.path("ids.bin")
        with open(self.path("spec.toml"), "w", encoding="utf-8") as file:
            file.write("seed = 1\n" + model + f'init = "{folder}/model.safetensors"\n' + f"""
[data]
source = "{source}"
eval = "{source}"
[train]
steps = 1
batch_rows = 1
microbatches = 1
lr = 1e-30
[schedule]
kind = "1f1b"
stages = 1
[boundary]
forward = "none"
backward = "none"
[outer]
groups = 1
inner_steps = 0
[net]
transport = "loopback"
[eval]
rows = {(len(ids) - 1) // CONTEXT}
""")
        results = tempfile.mkdtemp(dir=self.folder)
        got = subprocess.run([self.longhaul, "run", self.path("spec.toml"), "--results", results], text=True,
                             capture_output=True)
        assert got.returncode == 0, got.stdout + got.stderr
        record = sqlite3.connect(os.path.join(results, "longhaul.sqlite"))
        (loss,) = record.execute("SELECT loss_nat FROM evaluations WHERE codec = 'off'").fetchone()
        record.close()
        shutil.rmtree(results)
        return loss


def listing(folder):
    """Every file with its content's hash, and every folder."""
    found = set()
    for place, folders, files in os.walk(folder):
        found.update(os.path.join(place, name) for name in folders)
        for name in files:
            with open(os.path.join(place, name), "rb") as file:
                found.add((os.path.join(place, name), hash(file.read())))
    return found


# ---- A Llama -------------------------------------------------------------------------------------

def tensor_shapes(tied, s=SHAPE):
    kv = s["width"] // s["heads"] * s["kv_heads"]
    out = {"model.embed_tokens.weight": (s["vocab"], s["width"]), "model.norm.weight": (s["width"],)}
    for b in range(s["blocks"]):
        for name, shape in {"input_layernorm": (s["width"],), "post_attention_layernorm": (s["width"],),
                            "self_attn.q_proj": (s["width"], s["width"]), "self_attn.k_proj": (kv, s["width"]),
                            "self_attn.v_proj": (kv, s["width"]), "self_attn.o_proj": (s["width"], s["width"]),
                            "mlp.gate_proj": (s["hidden"], s["width"]), "mlp.up_proj": (s["hidden"], s["width"]),
                            "mlp.down_proj": (s["width"], s["hidden"])}.items():
            out[f"model.layers.{b}.{name}.weight"] = shape
    if not tied:
        out["lm_head.weight"] = (s["vocab"], s["width"])
    return out


def random_weights(tied, seed=1):
    """Of a scale at which attention is far from even and positions matter."""
    generator = torch.Generator().manual_seed(seed)
    draw = lambda shape: torch.randn(shape, generator=generator)
    return {name: 1 + 0.1 * draw(shape) if len(shape) == 1 else 0.4 * draw(shape)
            for name, shape in tensor_shapes(tied).items()}


def random_ids(seed=5):
    chooser = random.Random(seed)
    return [chooser.randrange(SHAPE["vocab"]) for _ in range(ROWS * CONTEXT + 1)]


def turned(x, theta, beside):
    """Rotary positions as complex numbers. x: [R, heads, T, head]. `beside`: a pair is 2i and 2i + 1 (GGUF's);
    else i and i + head / 2 (transformers')."""
    head, length = x.shape[-1], x.shape[-2]
    angles = torch.arange(length).double()[:, None] * theta ** (-torch.arange(0, head, 2).double() / head)
    turn = torch.polar(torch.ones_like(angles), angles)
    if beside:
        return torch.view_as_real(torch.view_as_complex(x.reshape(*x.shape[:-1], head // 2, 2)) * turn).flatten(-2)
    z = torch.complex(x[..., :head // 2], x[..., head // 2:]) * turn
    return torch.cat([z.real, z.imag], -1)


def reference_loss(weights, ids, beside=False, s=SHAPE):
    """Mean over all windows, nat per token, in double precision."""
    w = {name: value.double() for name, value in weights.items()}
    rows = torch.tensor([ids[i:i + CONTEXT + 1] for i in range(0, len(ids) - CONTEXT, CONTEXT)])
    norm = lambda x, g: x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-5) * g
    x = w["model.embed_tokens.weight"][rows[:, :-1]]
    head = s["width"] // s["heads"]
    mask = torch.full((CONTEXT, CONTEXT), -math.inf).triu(1).double()
    for b in range(s["blocks"]):
        p = lambda name: w[f"model.layers.{b}.{name}.weight"]
        h = norm(x, p("input_layernorm"))
        heads = lambda y: y.view(*y.shape[:2], -1, head).transpose(1, 2)
        q = turned(heads(h @ p("self_attn.q_proj").T), s["theta"], beside)
        k = turned(heads(h @ p("self_attn.k_proj").T), s["theta"], beside)
        v = heads(h @ p("self_attn.v_proj").T)
        k, v = (y.repeat_interleave(s["heads"] // s["kv_heads"], 1) for y in (k, v))
        y = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(head) + mask, -1) @ v
        x = x + y.transpose(1, 2).flatten(2) @ p("self_attn.o_proj").T
        h = norm(x, p("post_attention_layernorm"))
        x = x + (torch.nn.functional.silu(h @ p("mlp.gate_proj").T) * (h @ p("mlp.up_proj").T)) @ p("mlp.down_proj").T
    logits = norm(x, w["model.norm.weight"]) @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), rows[:, 1:].flatten()).item()


# ---- Safetensors and config.json -----------------------------------------------------------------

KINDS = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16", torch.int64: "I64"}


def write_safetensors(path, weights):
    header, data = {}, b""
    for name, value in weights.items():
        raw = value.contiguous().view(torch.uint8).numpy().tobytes()
        header[name] = {"dtype": KINDS[value.dtype], "shape": list(value.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack_from("<Q", raw)
    header = json.loads(raw[8:8 + length])
    header.pop("__metadata__", None)
    kinds = {name: kind for kind, name in KINDS.items()}
    out = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        values = torch.frombuffer(bytearray(raw[8 + length + begin:8 + length + end]), dtype=kinds[entry["dtype"]])
        out[name] = values.reshape(entry["shape"])
    return out


def config(tied, **changes):
    s = SHAPE
    table = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": s["width"],
             "intermediate_size": s["hidden"], "num_hidden_layers": s["blocks"], "num_attention_heads": s["heads"],
             "num_key_value_heads": s["kv_heads"], "max_position_embeddings": CONTEXT, "vocab_size": s["vocab"],
             "rms_norm_eps": 1e-5, "rope_theta": s["theta"], "hidden_act": "silu", "tie_word_embeddings": tied}
    table.update(changes)
    return table


def write_hf(folder, weights, tied, parts=1, **changes):
    """A folder of Hugging Face; over several files with an index."""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config(tied, **changes), file)
    if parts == 1:
        write_safetensors(os.path.join(folder, "model.safetensors"), weights)
        return folder
    names, index = list(weights), {}
    for part in range(parts):
        mine = {name: weights[name] for name in names[part::parts]}
        file_name = f"model-{part + 1:05}-of-{parts:05}.safetensors"
        write_safetensors(os.path.join(folder, file_name), mine)
        index.update(dict.fromkeys(mine, file_name))
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        json.dump({"metadata": {}, "weight_map": index}, file)
    return folder
