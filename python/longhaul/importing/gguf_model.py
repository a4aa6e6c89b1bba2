"""A Llama in a GGUF file: its counts, its tensors under our names, its tokenizer."""

import json

from .gguf_file import TYPES, GgufFile
from .llama import (ENDS, IN_BLOCK, Llama, check_counts, check_norm_eps, check_rope_theta, check_tensors,
                    config_json, zero_biases)
from .refusal import Refused

KEYS = {"blocks": "llama.block_count", "width": "llama.embedding_length", "heads": "llama.attention.head_count",
        "kv_heads": "llama.attention.head_count_kv", "hidden": "llama.feed_forward_length",
        "positions": "llama.context_length", "vocab": "token_embd.weight", "tied": "output.weight",
        "rope_theta": "llama.rope.freq_base"}
# What a Llama of ours has not: refused by the key's name unless its value is the one that means no such thing.
REFUSED = {"llama.rope.scaling.factor": (1.0, 0.0), "llama.rope.scale_linear": (1.0, 0.0),
           "llama.rope.scaling.attn_factor": (1.0, 0.0), "llama.expert_count": (0,),
           "llama.attention.clamp_kqv": (0.0,), "llama.attention.max_alibi_bias": (0.0,), "llama.attention.scale": (),
           "llama.attention.causal": (True,), "llama.use_parallel_residual": (False,), "llama.logit_scale": (1.0,),
           "llama.residual_scale": (1.0,), "llama.embedding_scale": (1.0,),
           "llama.final_logit_softcapping": (0.0,), "llama.attn_logit_softcapping": (0.0,)}
TOP = {"token_embd": ENDS["token"], "output_norm": ENDS["norm"], "output": ENDS["head"]}


def our_name(theirs):
    """"blk.3.attn_q.weight" is "model.layers.3.self_attn.q_proj.weight"; None: a Llama has none of that name."""
    parts = theirs.split(".")
    if parts[-1] != "weight":
        return None
    if len(parts) == 2:
        return TOP.get(parts[0])
    if len(parts) == 4 and parts[0] == "blk" and parts[1].isdigit() and parts[2] in IN_BLOCK:
        return f"model.layers.{int(parts[1])}.{IN_BLOCK[parts[2]]}.weight"
    return None


class GgufModel:
    """`model`, dtype(name) and bytes(name) of what is to be written."""

    def __init__(self, path):
        self.file = GgufFile(path)
        keys = self.file.keys
        architecture = keys.get("general.architecture")
        if architecture != "llama":
            raise Refused(f"{path}: general.architecture = {architecture!r}: longhaul has 'llama' alone")
        for key, harmless in REFUSED.items():
            if key in keys and keys[key] not in harmless:
                raise Refused(f"{path}: {key} = {keys[key]!r}: longhaul's Llama has no such thing")
        self.said = ""
        biases = zero_biases(self.file.tensors, self.file.values, path)
        self.theirs = {}
        for theirs, (_, shape, _) in self.file.tensors.items():
            ours = our_name(theirs)
            if theirs in biases:
                continue
            if ours is None:
                raise Refused(f"{path}: has '{theirs}' of {list(shape)}, which a Llama without biases has not: "
                              "longhaul would leave it out")
            self.theirs[ours] = theirs
        self.model = self._model(path, keys)
        check_tensors(self.model, {ours: self.file.tensors[theirs][1] for ours, theirs in self.theirs.items()}, path)

    def _model(self, path, keys):
        if ENDS["token"] not in self.theirs:
            raise Refused(f"{path}: no tensor 'token_embd.weight'")
        heads = keys.get(KEYS["heads"])
        model = Llama(blocks=keys.get(KEYS["blocks"]), width=keys.get(KEYS["width"]), heads=heads,
                      kv_heads=keys.get(KEYS["kv_heads"], heads), hidden=keys.get(KEYS["hidden"]),
                      positions=keys.get(KEYS["positions"]), vocab=self.file.tensors["token_embd.weight"][1][0],
                      tied=ENDS["head"] not in self.theirs,
                      rope_theta=exact(check_rope_theta(keys.get(KEYS["rope_theta"], 10000.0), path,
                                                        KEYS["rope_theta"])))
        check_counts(model, path, KEYS)
        window = keys.get("llama.attention.sliding_window", 0)
        if window and not (isinstance(window, int) and window >= model.positions):
            raise Refused(f"{path}: llama.attention.sliding_window = {window!r}: longhaul's attention sees the whole "
                          "context")
        # By a factor of 1 none of these scales; llama.cpp takes a missing one for that where it is linear.
        kind, factor = keys.get("llama.rope.scaling.type", "none"), keys.get("llama.rope.scaling.factor")
        if kind not in ("none", "linear") and not (kind == "yarn" and factor == 1.0):
            raise Refused(f"{path}: llama.rope.scaling.type = {kind!r}: longhaul's rotary positions are not scaled")
        check_norm_eps(keys.get("llama.attention.layer_norm_rms_epsilon"), path,
                       "llama.attention.layer_norm_rms_epsilon")
        head = model.width // model.heads
        for key in ("llama.rope.dimension_count", "llama.attention.key_length", "llama.attention.value_length"):
            if keys.get(key, head) != head:
                raise Refused(f"{path}: {key} = {keys[key]}: longhaul's heads are {KEYS['width']} / {KEYS['heads']} "
                              f"= {head} wide, all of it turned")
        return model

    def name_in_file(self, name):
        return self.theirs[name]

    def dtype(self, name):
        return "F32"

    def bytes(self, name):
        values = self.file.values(self.theirs[name])
        # GGUF has the pairs that rotary positions turn beside each other, we have them half a head apart.
        heads = {"q_proj": self.model.heads, "k_proj": self.model.kv_heads}.get(name.split(".")[-2])
        if heads:
            rows, cols = values.shape
            values = values.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)
        return values.astype("<f4").tobytes()

    def summary(self):
        counts = {}
        for kind, _, _ in self.file.tensors.values():
            counts[TYPES[kind][0]] = counts.get(TYPES[kind][0], 0) + 1
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))
        return f"GGUF '{self.file.keys.get('general.name', 'without a name')}' ({kinds}), as float32"

    def extra(self):
        """{file name: text} of what lies beside the weights, and a line about what does not."""
        files, said = tokenizer_files(self.file.keys)
        return {"config.json": config_json(self.model, "float32"), **files}, said


def exact(value):
    """A float32 key as the number that was meant: 1e-05 for 9.999999747378752e-06."""
    return float(f"{value:.7g}")


DIGITS = {"type": "Digits", "individual_digits": True}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
PRE_TOKENIZERS = {"smollm": {"type": "Sequence", "pretokenizers": [DIGITS, BYTES]}, "gpt-2": BYTES}
CONTROL, USER_DEFINED = 3, 4


def tokenizer_files(keys):
    kind, pre = keys.get("tokenizer.ggml.model"), keys.get("tokenizer.ggml.pre")
    tokens, merges = keys.get("tokenizer.ggml.tokens"), keys.get("tokenizer.ggml.merges")
    if kind != "gpt2" or pre not in PRE_TOKENIZERS or not tokens or not merges:
        return {}, (f"no tokenizer.json: made from a GGUF for tokenizer.ggml.pre {' or '.join(PRE_TOKENIZERS)} alone, "
                    f"and this is model {kind!r}, pre {pre!r}; put the model's own there")
    types = keys.get("tokenizer.ggml.token_type", [1] * len(tokens))
    added = [{"id": at, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": types[at] == CONTROL}
             for at, token in enumerate(tokens) if types[at] in (CONTROL, USER_DEFINED)]
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None,
        "pre_tokenizer": PRE_TOKENIZERS[pre], "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                  "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: at for at, token in enumerate(tokens)},
                  "merges": [merge.split(" ", 1) for merge in merges]}}
    token_of = lambda key: tokens[keys[key]] if isinstance(keys.get(key), int) and keys[key] < len(tokens) else None
    config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False,
              "bos_token": token_of("tokenizer.ggml.bos_token_id"),
              "eos_token": token_of("tokenizer.ggml.eos_token_id")}
    return {"tokenizer.json": json.dumps(tokenizer, ensure_ascii=False),
            "tokenizer_config.json": json.dumps(config, indent=2) + "\n"}, ""
