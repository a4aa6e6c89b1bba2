"""The shape of a Llama, its tensors by name, and what longhaul and transformers are told of it."""

import dataclasses
import json
import re

from .refusal import Refused

NORM_EPS = 1e-5  # the one that longhaul computes with
MOST_CONTEXT = 1024  # of what model.toml says where nobody says more

ENDS = {"token": "model.embed_tokens.weight", "norm": "model.norm.weight", "head": "lm_head.weight"}
IN_BLOCK = {  # GGUF's name in a block: that of transformers, which is ours
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


@dataclasses.dataclass(frozen=True)
class Llama:
    """Counts; `positions` is the longest context that the model was made for."""

    blocks: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocab: int
    positions: int
    tied: bool
    rope_theta: float

    def tensors(self):
        """{name: shape} of what a file must hold, in the order in which it is written."""
        wide, narrow = self.width, self.width // self.heads * self.kv_heads
        shapes = {"input_layernorm": (wide,), "post_attention_layernorm": (wide,),
                  "self_attn.q_proj": (wide, wide), "self_attn.k_proj": (narrow, wide),
                  "self_attn.v_proj": (narrow, wide), "self_attn.o_proj": (wide, wide),
                  "mlp.gate_proj": (self.hidden, wide), "mlp.up_proj": (self.hidden, wide),
                  "mlp.down_proj": (wide, self.hidden)}
        out = {ENDS["token"]: (self.vocab, wide)}
        for block in range(self.blocks):
            for name in IN_BLOCK.values():
                out[f"model.layers.{block}.{name}.weight"] = shapes[name]
        out[ENDS["norm"]] = (wide,)
        if not self.tied:
            out[ENDS["head"]] = (self.vocab, wide)
        return out

    def parameters(self):
        total = 0
        for shape in self.tensors().values():
            count = 1
            for size in shape:
                count *= size
            total += count
        return total


# The most that a spec may say.
MOST = {"blocks": 1024, "width": 65536, "heads": 1024, "kv_heads": 1024, "hidden": 1 << 20, "vocab": 1 << 22,
        "positions": 1 << 31}
ROPE_THETA = (1.001, 1e12)


def check_counts(model, source, key_of):
    """Refuses counts that no Llama of longhaul has; `key_of` names the source's key of a field."""
    for field, most in MOST.items():
        value = getattr(model, field)
        if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
            raise Refused(f"{source}: {key_of[field]} = {value!r}: want a whole number from 1 to {most}")
    for field, of in (("heads", "width"), ("kv_heads", "heads")):
        if getattr(model, of) % getattr(model, field):
            raise Refused(f"{source}: {key_of[field]} = {getattr(model, field)} does not divide "
                          f"{key_of[of]} = {getattr(model, of)}")
    if model.width // model.heads % 2:
        raise Refused(f"{source}: {key_of['width']} / {key_of['heads']} = {model.width // model.heads} is odd: "
                      "rotary positions turn pairs")


def check_norm_eps(eps, source, key):
    # A float32 of 1e-5 is within 1e-7 of it, relative.
    if not isinstance(eps, (int, float)) or abs(eps - NORM_EPS) > 1e-6 * NORM_EPS:
        raise Refused(f"{source}: {key} = {eps}: longhaul's RMSNorm has {NORM_EPS:g}, and the model would compute "
                      "something else")


def check_rope_theta(theta, source, key):
    if not isinstance(theta, (int, float)) or isinstance(theta, bool) or not ROPE_THETA[0] <= theta <= ROPE_THETA[1]:
        raise Refused(f"{source}: {key} = {theta!r}: want {ROPE_THETA[0]} to {ROPE_THETA[1]:g}")
    return float(theta)


BIAS = re.compile(r"(model\.layers|blk)\.\d+\.[\w.]+\.bias")


def zero_biases(names, values_of, source):
    """The biases among `names`. They are zero: longhaul has none, and one of another value is refused by its name."""
    biases = {name for name in names if BIAS.fullmatch(name)}
    for name in sorted(biases):
        if values_of(name).any():
            raise Refused(f"{source}: has '{name}', which is not zero, and longhaul's matrices have no biases")
    return biases


def check_tensors(model, found, source, ignored=()):
    """`found`: {name: shape}. Refuses what is missing, too many or of another shape."""
    wanted = model.tensors()
    for name, shape in wanted.items():
        if name not in found:
            raise Refused(f"{source}: no tensor '{name}' (wanted {list(shape)})")
        if tuple(found[name]) != shape:
            raise Refused(f"{source}: '{name}' is {list(found[name])}, and the model's counts make it {list(shape)}")
    for name in found:
        if name not in wanted and name not in ignored:
            raise Refused(f"{source}: has '{name}', which a Llama without biases has not: longhaul would leave it out")


def model_toml(model, context, comment):
    """The table [model] of a spec. A comment may hold names from the source: each stays one line."""
    lines = ["# " + "".join(c if c.isprintable() else " " for c in line) for line in comment]
    lines += ["[model]", 'kind = "llama"', f"blocks = {model.blocks}", f"width = {model.width}",
              f"heads = {model.heads}", f"kv_heads = {model.kv_heads}", f"hidden = {model.hidden}",
              f"context = {context}", f"vocab = {model.vocab}", f"tied_head = {str(model.tied).lower()}",
              f"rope_theta = {float(model.rope_theta)!r}"]
    return "\n".join(lines) + "\n"


def config_json(model, dtype):
    """What `transformers` reads the folder with."""
    return json.dumps({
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": model.width,
        "intermediate_size": model.hidden, "num_hidden_layers": model.blocks, "num_attention_heads": model.heads,
        "num_key_value_heads": model.kv_heads, "head_dim": model.width // model.heads,
        "max_position_embeddings": model.positions, "vocab_size": model.vocab, "rms_norm_eps": NORM_EPS,
        "rope_theta": model.rope_theta, "hidden_act": "silu", "tie_word_embeddings": model.tied,
        "attention_bias": False, "mlp_bias": False, "torch_dtype": dtype}, indent=2) + "\n"
