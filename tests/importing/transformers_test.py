"""Models that `transformers` makes and computes, imported: equal losses; and a folder that came of a GGUF, read by it.

    transformers_test.py LONGHAUL PYTHON

Skipped where PYTHON has no transformers.
"""

import json
import os
import subprocess
import sys

from common import CONTEXT, SHAPE, Command, random_ids
from gguf_bytes import keys_of, tensors_of, write_gguf

NEAR = 2e-5  # nat

MAKE = """
import json, sys, torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM
from transformers import MistralConfig, MistralForCausalLM, Qwen2Config, Qwen2ForCausalLM
folder, s, context, ids = json.loads(sys.argv[1])
torch.manual_seed(7)
same = dict(vocab_size=s["vocab"], hidden_size=s["width"], intermediate_size=s["hidden"],
            num_hidden_layers=s["blocks"], num_attention_heads=s["heads"], num_key_value_heads=s["kv_heads"],
            max_position_embeddings=context, rms_norm_eps=1e-5, initializer_range=0.4,
            rope_parameters={"rope_type": "default", "rope_theta": s["theta"]})
rope = lambda **more: {**same, "rope_parameters": {"rope_theta": s["theta"], **more}}
biased = Qwen2ForCausalLM(Qwen2Config(**same))
torch.nn.init.normal_(biased.model.layers[0].self_attn.q_proj.bias)
# A file whose config says that the head is the embedding, with another head in it.
other = LlamaForCausalLM(LlamaConfig(**same, tie_word_embeddings=True))
other.save_pretrained(folder + "/other")
tensors = load_file(folder + "/other/model.safetensors")
save_file({**tensors, "lm_head.weight": tensors["model.embed_tokens.weight"].flip(0).contiguous()},
          folder + "/other/model.safetensors", {"format": "pt"})
rows = torch.tensor([ids[i:i + context + 1] for i in range(0, len(ids) - context, context)])
for name, model in {"llama": LlamaForCausalLM(LlamaConfig(**same, tie_word_embeddings=True)),
                    "mistral": MistralForCausalLM(MistralConfig(**same, sliding_window=None)),
                    "window": MistralForCausalLM(MistralConfig(**same, sliding_window=8)),
                    "far": MistralForCausalLM(MistralConfig(**same, sliding_window=context)),
                    "yarn": LlamaForCausalLM(LlamaConfig(**rope(rope_type="yarn", factor=1.0))),
                    "dynamic": LlamaForCausalLM(LlamaConfig(**rope(rope_type="dynamic", factor=4.0))),
                    "linear": LlamaForCausalLM(LlamaConfig(**rope(rope_type="linear", factor=1.0))),
                    "llama3": LlamaForCausalLM(LlamaConfig(**rope(rope_type="llama3", factor=1.0, low_freq_factor=1.0,
                        high_freq_factor=4.0, original_max_position_embeddings=8))),
                    "qwen2": Qwen2ForCausalLM(Qwen2Config(**same)), "biased": biased,
                    "other": LlamaForCausalLM.from_pretrained(folder + "/other", dtype=torch.float32),
                    "gguf": AutoModelForCausalLM.from_pretrained(folder + "/gguf-in", dtype=torch.float32)}.items():
    if name not in ("gguf", "other"):
        model.save_pretrained(folder + "/" + name, max_shard_size="30KB" if name == "llama" else "5GB")
    with torch.no_grad():
        logits = model.eval()(rows[:, :-1]).logits.flatten(0, 1)
    print(name, torch.nn.functional.cross_entropy(logits, rows[:, 1:].flatten()).item())
"""


def program(command, text, *given):
    got = subprocess.run([command.python, "-c", text, json.dumps(given)], text=True, capture_output=True)
    assert got.returncode == 0, got.stderr[-3000:]
    return dict((name, float(value)) for name, value in (line.split() for line in got.stdout.splitlines()))


def main():
    command = Command(*sys.argv[1:])
    if not command.has("transformers"):
        print(f"skipped: {command.python} has no transformers")
        sys.exit(77)
    ids = random_ids()
    # The folder that comes of a GGUF is one of Hugging Face too.
    command.done("model", write_gguf(command.path("tiny.gguf"), keys_of(), tensors_of(False)), "--out",
                 command.path("gguf-in"))
    theirs = program(command, MAKE, command.folder, SHAPE, CONTEXT, ids)
    assert os.path.exists(command.path("llama", "model.safetensors.index.json"))
    for name in ("llama", "mistral", "far", "yarn", "dynamic", "linear", "llama3", "qwen2", "other", "gguf"):
        out = command.path(name + "-in")
        if name != "gguf":
            command.done("model", command.path(name), "--out", out)
        ours = command.held_out_loss(out, ids)
        print(f"{name}: {ours:.6f}, transformers {theirs[name]:.6f}")
        assert abs(ours - theirs[name]) < NEAR
    command.refused("sliding_window", "model", command.path("window"), "--out", command.path("x"))
    command.refused("biases", "model", command.path("biased"), "--out", command.path("x"))
    command.remove()


main()
