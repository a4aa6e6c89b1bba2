"""`longhaul import model`: what comes in is what transformers 5.24 makes of the same folder, or one line says why not.

    weights_test.py LONGHAUL PYTHON

Tables of folders and files: names that wrappers changed, heads that are tied, shards, values that are not finite,
windows and scaled positions. transformers_test.py has the same ties and scalings computed by transformers.
"""

import json
import os
import shutil
import struct
import sys

import torch

from common import CONTEXT, Command, random_weights, read_safetensors, write_hf
from gguf_bytes import keys_of, tensors_of, write_gguf

TOKEN, HEAD, UP = "model.embed_tokens.weight", "lm_head.weight", "model.layers.1.mlp.up_proj.weight"
WEIGHTS = random_weights(False)


def without(*names):
    return {name: value for name, value in WEIGHTS.items() if name not in names}


def renamed(change):
    return {change(name): value for name, value in WEIGHTS.items()}


def within(name):
    """As torch.compile of each block, or FSDP, puts itself in."""
    return name.replace("layers.0.", "layers.0._orig_mod.").replace("layers.1.", "layers.1._fsdp_wrapped_module.")


def changed(name, values, dtype=torch.float32):
    """All weights in `dtype`, with `values` at the end of one tensor."""
    out = {other: value.to(dtype, copy=True) for other, value in WEIGHTS.items()}
    out[name].view(-1)[-len(values):] = torch.tensor(values, dtype=dtype)
    return out


BIASES = {f"model.layers.{block}.self_attn.{part}_proj.bias": torch.zeros(rows)
          for block in (0, 1) for part, rows in (("q", 32), ("k", 16), ("v", 16), ("o", 32))}
SAME_HEAD = {**WEIGHTS, HEAD: WEIGHTS[TOKEN]}
# What a folder holds: (tensors, changes of config.json, words of the output, whether tied).
TAKEN = {
    "tied, no head": (without(HEAD), dict(tie_word_embeddings=True), "", True),
    "tied, head alone": ({**without(TOKEN, HEAD), HEAD: WEIGHTS[TOKEN]}, dict(tie_word_embeddings=True), "", True),
    "tied, both": (SAME_HEAD, dict(tie_word_embeddings=True), "", True),
    "tied, in another dtype": ({**SAME_HEAD, TOKEN: WEIGHTS[TOKEN].bfloat16(), HEAD: WEIGHTS[TOKEN].bfloat16().float()},
                               dict(tie_word_embeddings=True), "", True),
    "tied, another head": (WEIGHTS, dict(tie_word_embeddings=True), "note: not tied: config.json has tie_word", False),
    "untied, both equal": (SAME_HEAD, {}, "", False),
    "compiled": (renamed(lambda name: "_orig_mod." + name), {}, "'_orig_mod.' removed from 21 names", False),
    "DDP": (renamed(lambda name: "module." + name), {}, "'module.' removed from 21 names", False),
    "DDP of compiled": (renamed(lambda name: "module._orig_mod." + name), {}, "'_orig_mod.' removed from 21 names, "
                                                                              "'module.' removed from 21 names", False),
    "blocks compiled": (renamed(within), {}, "'_fsdp_wrapped_module.' removed from 9 names, '_orig_mod.' removed", False),
    "half of DDP": (renamed(lambda name: name.replace("model.layers.0", "module.model.layers.0")), {},
                    "'module.' removed from 9 names", False),
    "PEFT, merged": (renamed(lambda name: "base_model.model." + name), {}, "'base_model.model.' removed from 21", False),
    "Lightning": (renamed(lambda name: "model." + name), {}, "'model.' removed from 21 names", False),
    "LlamaModel": ({name.removeprefix("model."): value for name, value in without(HEAD).items()},
                   dict(tie_word_embeddings=True, architectures=["LlamaModel"]), "'model.' put before 20 names", True),
    "a name twice, equal": ({**WEIGHTS, "module." + UP: WEIGHTS[UP]}, {}, "'module.' removed from 1 names", False),
    "zero biases": ({**WEIGHTS, **BIASES}, dict(attention_bias=True), "", False),
    "zero biases of Qwen2": ({**WEIGHTS, **BIASES}, dict(architectures=["Qwen2ForCausalLM"]), "", False),
    "a window of all positions": (WEIGHTS, dict(sliding_window=CONTEXT), "", False),
    "layers of such a window": (WEIGHTS, dict(sliding_window=CONTEXT, layer_types=["sliding_attention"] * 2), "", False),
    "Mistral's own window": (WEIGHTS, dict(architectures=["MistralForCausalLM"]), "", False),
    "Qwen2, no window": (WEIGHTS, dict(architectures=["Qwen2ForCausalLM"], attention_bias=False, sliding_window=2), "",
                         False),
    "linear by 1": (WEIGHTS, dict(rope_scaling={"type": "linear", "factor": 1.0}), "", False),
    "linear by 1, of today": (WEIGHTS, dict(rope_parameters={"rope_type": "linear", "factor": 1, "rope_theta": 5e2}), "",
                              False),
    "yarn by 1": (WEIGHTS, dict(rope_scaling={"rope_type": "yarn", "factor": 1.0}), "", False),
    "llama3 by 1": (WEIGHTS, dict(rope_scaling={"rope_type": "llama3", "factor": 1.0, "low_freq_factor": 1.0,
                                                "high_freq_factor": 4.0, "original_max_position_embeddings": 8}), "", False),
    "dynamic, which begins later": (WEIGHTS, dict(rope_scaling={"type": "dynamic", "factor": 4.0}), "", False),
    "no architectures": (WEIGHTS, dict(architectures=None), "", False),
    "two architectures": (WEIGHTS, dict(architectures=["LlamaForCausalLM", "LlamaForSequenceClassification"]), "", False)}
REFUSED = {
    "no head": (without(HEAD), {}, "no tensor 'lm_head.weight', and "),
    "no embedding": (without(TOKEN), {}, "no tensor 'model.embed_tokens.weight'"),
    "a name twice": ({**WEIGHTS, "module." + UP: WEIGHTS[UP] + 1}, {}, f"has both '{UP}' and 'module.{UP}' with different"),
    "two models": ({**renamed(lambda name: "student." + name), **renamed(lambda name: "teacher." + name)}, {},
                   "under several prefixes ('student.model.embed"),
    "halves of two": (renamed(lambda name: ("a." if "layers.0" in name else "b.") + name), {}, "under several prefixes"),
    "PEFT, not merged": ({**WEIGHTS, "model.layers.0.self_attn.q_proj.lora_A.weight": torch.ones(2, 32)}, {}, "LoRA adapter"),
    "a bias": ({**WEIGHTS, **BIASES, "model.layers.1.self_attn.v_proj.bias": torch.ones(16)}, dict(attention_bias=True),
               "'model.layers.1.self_attn.v_proj.bias', which is not zero"),
    "no biases where they are said": (WEIGHTS, dict(attention_bias=True), "attention_bias = true: such a model has biases"),
    "NaN": (changed(UP, [float("nan")]), {}, f"'{UP}' has 1 values that are NaN or infinite, the first at [63, 31]"),
    "infinite float16": (changed(UP, [float("-inf")] * 3, torch.float16), {}, f"'{UP}' has 3 values"),
    "NaN of bfloat16": (changed(TOKEN, [float("nan")], torch.bfloat16), {}, f"'{TOKEN}' has 1 values"),
    "a window": (WEIGHTS, dict(sliding_window=CONTEXT - 1), "sliding_window = 23"),
    "Mistral's own window, more positions": (WEIGHTS, dict(architectures=["MistralForCausalLM"],
                                                           max_position_embeddings=4097), "sliding_window = 4096"),
    "layers of no window": (WEIGHTS, dict(layer_types=["full_attention", "sliding_attention"]), "layer_types"),
    "linear by 2": (WEIGHTS, dict(rope_scaling={"type": "linear", "factor": 2.0}), "rope_scaling"),
    "a factor of no type": (WEIGHTS, dict(rope_scaling={"factor": 2.0}), "rope_scaling"),
    "no factor": (WEIGHTS, dict(rope_scaling={"type": "linear"}), "rope_scaling"),
    "yarn by 1, louder": (WEIGHTS, dict(rope_scaling={"type": "yarn", "factor": 1.0, "attention_factor": 2.0}), "rope_scaling"),
    "tables of layers": (WEIGHTS, dict(rope_parameters={"full_attention": {"rope_type": "linear", "factor": 2.0}}),
                         "rope_parameters"),
    "no heads of keys": (WEIGHTS, dict(num_key_value_heads=0), "num_key_value_heads = 0: want"),
    "a window of nothing": (WEIGHTS, dict(sliding_window=0), "sliding_window = 0"),
    "another head alone": (WEIGHTS, dict(architectures=["LlamaForSequenceClassification"]), "architectures")}


def check_taken(command):
    out = command.path("out")
    for what, (tensors, changes, words, tied) in TAKEN.items():
        said = command.done("model", write_hf(command.path("in"), tensors, False, **changes), "--out", out, "--replace")
        assert words in said and (words or "note" not in said), (what, said)
        got = read_safetensors(os.path.join(out, "model.safetensors"))
        assert (HEAD not in got) == tied, what
        head = SAME_HEAD[HEAD] if SAME_HEAD[HEAD] is tensors.get(HEAD) else WEIGHTS[HEAD]
        for name, value in got.items():
            assert torch.equal(value.float(), (head if name == HEAD else WEIGHTS[name]).to(value.dtype).float()), (what, name)
        with open(os.path.join(out, "config.json"), encoding="utf-8") as file:
            assert json.load(file)["tie_word_embeddings"] == tied, what
        with open(os.path.join(out, "model.toml"), encoding="utf-8") as file:
            text = file.read()
        assert f"tied_head = {str(tied).lower()}" in text and (not words or "# Note: " in text), (what, text)
    shutil.rmtree(out)


def check_refused(command):
    for what, (tensors, changes, because) in REFUSED.items():
        print(what, flush=True)
        command.refused(because, "model", write_hf(command.path("in"), tensors, False, **changes), "--out", command.path("x"))


def check_not_finite(command):
    """What the flag lets in is as it was, and model.toml says it."""
    nan = changed(UP, [float("nan"), float("inf")])
    out = command.path("nan")
    said = command.done("model", write_hf(command.path("in"), nan, False), "--out", out, "--allow-non-finite")
    with open(os.path.join(out, "model.toml"), encoding="utf-8") as file:
        assert f"# Note: '{UP}' has 2 values that are NaN or infinite" in file.read()
    assert f"note: '{UP}' has 2 values" in said
    assert torch.equal(read_safetensors(os.path.join(out, "model.safetensors"))[UP].isfinite(), nan[UP].isfinite())
    # A scale of a block is not finite: all of its values are not.
    for name, at in (("token_embd.weight", 0), ("blk.0.attn_q.weight", 0), ("blk.0.attn_q.weight", 2)):
        for bits in (0x7e00, 0x7c00):
            tensors = tensors_of(True)
            kind, shape, values, raw = tensors[name]
            tensors[name] = (kind, shape, values, raw[:at] + struct.pack("<H", bits) + raw[at + 2:])
            path = write_gguf(command.path("bad.gguf"), keys_of(), tensors)
            command.refused(f"'{name}' has 32 values that are NaN or infinite, the first at [0, 0]", "model", path, "--out",
                            command.path("x"))


def check_gguf(command):
    """Windows and scalings that compute the same; a bias of zeros."""
    for changes in (dict(llama__attention__sliding_window=CONTEXT), dict(llama__rope__scaling__type="linear"),
                    dict(llama__rope__scaling__type="linear", llama__rope__scaling__factor=1.0),
                    dict(llama__rope__scaling__type="yarn", llama__rope__scaling__factor=1.0)):
        path = write_gguf(command.path("good.gguf"), keys_of(**changes), tensors_of(True))
        command.done("model", path, "--out", command.path("gguf"), "--replace")
    tensors = {**tensors_of(True), "blk.1.attn_q.bias": ("F32", (32,), None, bytes(128))}
    command.done("model", write_gguf(path, keys_of(), tensors), "--out", command.path("gguf"), "--replace")
    for changes in (dict(llama__attention__sliding_window=CONTEXT - 1), dict(llama__rope__scaling__factor=2.0),
                    dict(llama__rope__scaling__type="longrope", llama__rope__scaling__factor=1.0),
                    dict(llama__rope__scaling__attn_factor=2.0)):
        path = write_gguf(command.path("bad.gguf"), keys_of(**changes), tensors_of(True))
        command.refused([*changes][0].replace("__", "."), "model", path, "--out", command.path("x"))


def check_files(command):
    """Shards, and files in the place of others."""
    folder, out = command.path("parts"), command.path("x")
    names = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"]

    def refused(because):
        command.refused(because, "model", folder, "--out", out)

    def with_index(change):
        write_hf(folder, WEIGHTS, False, parts=2)
        path = os.path.join(folder, "model.safetensors.index.json")
        with open(path, encoding="utf-8") as file:
            index = json.load(file)
        change(index["weight_map"])
        with open(path, "w", encoding="utf-8") as file:
            json.dump(index, file)

    with_index(lambda places: places.update({TOKEN: names[1]}))
    refused(f"says that '{TOKEN}' is in ")
    with_index(lambda places: places.update({"model.layers.7.x.weight": names[0]}))
    refused("says that 'model.layers.7.x.weight' is in ")
    with_index(lambda places: places.update({TOKEN: "model-00003-of-00003.safetensors"}))
    refused("names 'model-00003-of-00003.safetensors', which is no file beside it")
    with_index(lambda places: places.update({TOKEN: "../parts/" + names[0]}))
    refused("which is no file beside it")
    shutil.copy(os.path.join(folder, names[0]), os.path.join(folder, names[1]))
    with_index(lambda places: None)
    shutil.copy(os.path.join(folder, names[0]), os.path.join(folder, names[1]))
    refused("is in ")

    write_hf(folder, WEIGHTS, False)
    whole = os.path.join(folder, "model.safetensors")
    with open(whole, "rb") as file:
        raw = file.read()
    (length,) = struct.unpack_from("<Q", raw)
    header = raw[8:8 + length]
    entry = json.dumps(json.loads(header)[TOKEN])
    for because, text in (("no table of tensors", header[:-1] + f', "{TOKEN}": {entry}}}'.encode()),
                          ("begins at byte", header[:-1] + f', "again": {entry}}}'.encode())):
        with open(whole, "wb") as file:
            file.write(struct.pack("<Q", len(text)) + text + raw[8 + length:])
        refused(because)
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"
    for name in ("model.safetensors", "config.json"):
        write_hf(folder, WEIGHTS, False)
        with open(os.path.join(folder, name), "wb") as file:
            file.write(pointer)
        refused("git lfs pull")
    shutil.rmtree(folder)
    os.mkdir(folder)
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        open(os.path.join(folder, name), "wb").close()
    refused("a LoRA adapter without its model")
    for name, because in (("model.safetensors", "name the folder that has both"), ("pytorch_model.bin", "a pickle of torch")):
        open(os.path.join(folder, name), "wb").close()
        command.refused(because, "model", os.path.join(folder, name), "--out", out)


def check_context(command):
    folder = write_hf(command.path("in"), WEIGHTS, False)
    for context in ("0", "-1", str(CONTEXT + 1)):
        command.refused(f"--context {context}: the model was made for 1 to {CONTEXT} positions", "model", folder, "--out",
                        command.path("x"), "--context", context)


def main():
    command = Command(*sys.argv[1:], here=True)
    for check in (check_taken, check_refused, check_not_finite, check_gguf, check_files, check_context):
        check(command)
        print(f"{check.__name__}: passed", flush=True)
    command.remove()


main()
