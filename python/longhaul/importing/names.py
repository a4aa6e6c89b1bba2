"""A Llama's tensors under the names of transformers, whatever the program that saved them put before or into those."""

import re

from .refusal import Refused

# Components that wrappers of PyTorch put into a name, anywhere in it.
WRAPPERS = {"_orig_mod", "module", "_forward_module", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"}
# A prefix, then the name. What LlamaModel saves has no "model." in front.
LLAMA = re.compile(r"((?:.*?\.)??)((?:model\.)?(?:embed_tokens\.weight|layers\.\d+\..+|norm\.weight"
                   r"|rotary_emb\.inv_freq)|lm_head\.weight)")


def our_names(source, theirs, equal):
    """Finds the names of transformers behind wrappers and prefixes.

    Args:
        source: The file or folder, for messages.
        theirs: The names in it.
        equal: equal(a, b) says whether two tensors have the same values.

    Returns:
        {our name: name in the file}, and a line about what was changed in names ("" if nothing was).

    Raises:
        Refused: Tensors lie under several prefixes, or two different tensors would have one name.
    """
    adapter = next((name for name in theirs if ".lora_" in name or ".base_layer." in name), None)
    if adapter:
        raise Refused(f"{source}: has '{adapter}' of a LoRA adapter that is not merged: save the model after "
                      "merge_and_unload()")
    ours, changes, prefixes = {}, {}, {}
    for name in theirs:
        parts = name.split(".")
        removed = [part + "." for part in parts if part in WRAPPERS]
        plain = ".".join(part for part in parts if part not in WRAPPERS)
        if found := LLAMA.fullmatch(plain):
            prefix, plain = found.groups()
            prefixes.setdefault(prefix, name)
            removed += [prefix] if prefix else []
            if not plain.startswith(("model.", "lm_head.")):
                plain = "model." + plain
                changes["'model.' put before"] = changes.get("'model.' put before", 0) + 1
        for word in removed:
            changes[f"'{word}' removed from"] = changes.get(f"'{word}' removed from", 0) + 1
        if not equal(ours.setdefault(plain, name), name):
            raise Refused(f"{source}: has both '{ours[plain]}' and '{name}' with different values, and one alone can be "
                          f"the model's '{plain}': remove the other")
    if len(prefixes) > 1:
        raise Refused(f"{source}: tensors lie under several prefixes ("
                      + ", ".join(f"'{name}'" for name in prefixes.values()) + "): save one model alone")
    return ours, ", ".join(f"{change} {count} names" for change, count in sorted(changes.items()))
