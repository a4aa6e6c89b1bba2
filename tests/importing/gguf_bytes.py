"""GGUF written byte by byte, with blocks whose values are worked out by hand as they are made."""

import random
import struct

import torch

from common import SHAPE, tensor_shapes

UINT32, FLOAT32, STRING, ARRAY, INT32 = 4, 6, 8, 9, 5
NUMBERS = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q6_K": 14, "IQ2_XXS": 16,
           "BF16": 30}
THEIRS = {"input_layernorm": "attn_norm", "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k",
          "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output", "post_attention_layernorm": "ffn_norm",
          "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
# Every type that is dequantised without help.
TYPE_OF = {"attn_q": "Q4_1", "attn_k": "Q8_0", "attn_v": "Q4_0", "attn_output": "Q5_0", "ffn_gate": "Q5_1",
           "ffn_up": "F16", "ffn_down": "BF16", "token_embd": "Q8_0", "output": "F16"}


def their_name(ours):
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
           "lm_head.weight": "output.weight"}
    if ours in top:
        return top[ours]
    _, _, block, *middle, _ = ours.split(".")
    return f"blk.{block}.{THEIRS['.'.join(middle)]}.weight"


def half(value):
    """The float16 nearest to `value`, and its bytes."""
    raw = struct.pack("<e", value)
    return struct.unpack("<e", raw)[0], raw


def block_of(kind, chooser):
    """(32 values, bytes) of one block, as the format's description has it: element i < 16 in the low half of
    byte i, element i + 16 in the high half; fifth bits in a u32."""
    d, d_raw = half(chooser.uniform(0.02, 0.06))
    if kind == "Q8_0":
        q = [chooser.randrange(-16, 16) for _ in range(32)]
        return [d * x for x in q], d_raw + struct.pack("<32b", *q)
    bits = 5 if kind.startswith("Q5") else 4
    q = [chooser.randrange(1 << bits) for _ in range(32)]
    low = bytes((q[i] & 15) | (q[i + 16] & 15) << 4 for i in range(16))
    fifth = struct.pack("<I", sum((x >> 4) << i for i, x in enumerate(q))) if bits == 5 else b""
    if kind.endswith("_1"):
        m, m_raw = half(-d * (1 << bits) / 2)
        return [d * x + m for x in q], d_raw + m_raw + fifth + low
    return [d * (x - (1 << bits - 1)) for x in q], d_raw + fifth + low


def tensor_of(kind, shape, chooser):
    """(float32 values, bytes)."""
    count = 1
    for size in shape:
        count *= size
    if kind.startswith("Q"):
        blocks = [block_of(kind, chooser) for _ in range(count // 32)]
        values = [value for block, _ in blocks for value in block]
        raw = b"".join(raw for _, raw in blocks)
    elif kind == "F32":
        values = [1 + chooser.gauss(0, 0.1) for _ in range(count)]
        raw = struct.pack(f"<{count}f", *values)
    elif kind == "F16":
        pairs = [half(chooser.gauss(0, 0.4)) for _ in range(count)]
        values, raw = [value for value, _ in pairs], b"".join(raw for _, raw in pairs)
    else:  # BF16: the upper half of a float32
        singles = [struct.pack("<f", chooser.gauss(0, 0.4))[2:] for _ in range(count)]
        values = [struct.unpack("<f", b"\0\0" + upper)[0] for upper in singles]
        raw = b"".join(singles)
    return torch.tensor(values, dtype=torch.float64).float().reshape(shape), raw


def string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def value_of(value):
    if isinstance(value, str):
        return STRING, string(value)
    if isinstance(value, int):
        return UINT32, struct.pack("<I", value)
    if isinstance(value, float):
        return FLOAT32, struct.pack("<f", value)
    kind = STRING if isinstance(value[0], str) else INT32
    parts = [string(item) if kind == STRING else struct.pack("<i", item) for item in value]
    return ARRAY, struct.pack("<IQ", kind, len(value)) + b"".join(parts)


def keys_of(**changes):
    s = SHAPE
    keys = {"general.architecture": "llama", "general.name": 'tiny\n[train] "x"', "llama.block_count": s["blocks"],
            "llama.embedding_length": s["width"], "llama.feed_forward_length": s["hidden"],
            "llama.attention.head_count": s["heads"], "llama.attention.head_count_kv": s["kv_heads"],
            "llama.context_length": 24, "llama.rope.freq_base": s["theta"],
            "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.dimension_count": s["width"] // s["heads"]}
    keys.update({key.replace("__", "."): value for key, value in changes.items()})
    return {key: value for key, value in keys.items() if value is not None}


def tensors_of(tied, seed=3):
    """{GGUF's name: (type, shape, values, bytes)}; rows of q and k as GGUF has them: pairs beside each other."""
    chooser, out = random.Random(seed), {}
    for ours, shape in tensor_shapes(tied).items():
        theirs = their_name(ours)
        kind = "F32" if len(shape) == 1 else TYPE_OF[theirs.split(".")[-2]]
        out[theirs] = (kind, shape, *tensor_of(kind, shape, chooser))
    return out


def write_gguf(path, keys, tensors, version=3):
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(keys))
    for key, value in keys.items():
        kind, raw = value_of(value)
        head += string(key) + struct.pack("<I", kind) + raw
    data = b""
    for name, (kind, shape, _, raw) in tensors.items():
        head += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), NUMBERS[kind], len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    with open(path, "wb") as file:
        file.write(head + b"\0" * (-len(head) % 32) + data)
    return path
