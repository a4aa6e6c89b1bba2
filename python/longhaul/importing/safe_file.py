"""Safetensors: files as they lie, several behind an index, and one that is written piece by piece."""

import json
import mmap
import os

from .gguf_file import dequantise
from .refusal import Refused, check_fetched, need

BYTES = {"F32": 4, "BF16": 2, "F16": 2}  # what longhaul reads
EXPONENT = {"F32": 0x7f800000, "BF16": 0x7f80, "F16": 0x7c00}  # all of its bits: NaN or infinite
GGUF_TYPES = {"F32": 0, "F16": 1, "BF16": 30}
PIECE = 1 << 22  # elements looked at a time
MOST_HEADER = 100_000_000
INDEX = "model.safetensors.index.json"


class SafeFile:
    """One file: `shapes` and `dtypes` by tensor name; bytes(name) is a view of the file itself."""

    def __init__(self, path):
        self.path = path
        check_fetched(path)
        size = os.path.getsize(path)
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 10 or length > min(size - 8, MOST_HEADER):
                raise Refused(f"{path}: no safetensors file, or a truncated one: its header would be {length} bytes "
                              f"and the file is {size}")
            try:
                header = json.loads(file.read(length), object_pairs_hook=once_each)
                header.pop("__metadata__", None)
                self.entries = {name: entry_of(entry) for name, entry in header.items()}
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise Refused(f"{path}: no safetensors file: its header is no table of tensors") from error
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.start = 8 + length
        for name, (dtype, shape, begin, end) in self.entries.items():
            elements = 1
            for count in shape:
                elements *= count
            if not isinstance(dtype, str) or dtype not in BYTES:
                raise Refused(f"{path}: '{name}' is {dtype}, want F32, BF16 or F16")
            if end - begin != elements * BYTES[dtype]:
                raise Refused(f"{path}: '{name}' of {list(shape)} {dtype} has {end - begin} bytes")
            if self.start + end > size:
                raise Refused(f"{path}: truncated: '{name}' ends at byte {self.start + end} of {size}")
        at = 0
        for name, (_, _, begin, end) in sorted(self.entries.items(), key=lambda item: item[1][2:]):
            if begin != at:
                raise Refused(f"{path}: '{name}' begins at byte {begin} of the data, the tensor before it ends at {at}: "
                              "the file is damaged")
            at = end

    def bytes(self, name):
        _, _, begin, end = self.entries[name]
        return memoryview(self.map)[self.start + begin:self.start + end]


class SafeFolder:
    """The weights of a folder: model.safetensors, or the files of its index."""

    def __init__(self, folder):
        self.files = {}  # tensor: SafeFile
        paths, wanted = files_of(folder)
        for path in paths:
            part = SafeFile(path)
            for name in part.entries:
                if name in self.files:
                    raise Refused(f"{path}: '{name}' is in {self.files[name].path} too")
                self.files[name] = part
        for name, path in wanted.items():
            if name not in self.files or self.files[name].path != path:
                there = f"; {self.files[name].path} has it" if name in self.files else ""
                raise Refused(f"{os.path.join(folder, INDEX)}: says that '{name}' is in {path}, which has no such "
                              f"tensor{there}")

    def shape(self, name):
        return self.files[name].entries[name][1]

    def dtype(self, name):
        return self.files[name].entries[name][0]

    def bytes(self, name):
        return self.files[name].bytes(name)

    def values(self, name):
        """As float32."""
        return dequantise(self.bytes(name), GGUF_TYPES[self.dtype(name)], f"'{name}'")


def once_each(pairs):
    """A table of JSON. ValueError: a key is there twice."""
    table = dict(pairs)
    if len(table) != len(pairs):
        raise ValueError("a key is there twice")
    return table


def entry_of(entry):
    """(dtype, shape, begin, end). TypeError, ValueError: it is none."""
    shape, (begin, end) = tuple(entry["shape"]), entry["data_offsets"]
    if not all(isinstance(count, int) and count >= 0 for count in (*shape, begin, end)):
        raise TypeError("no count")
    return entry["dtype"], shape, begin, end


def files_of(folder):
    """The paths of the files, and {tensor: path} where an index says it."""
    whole = os.path.join(folder, "model.safetensors")
    if os.path.isfile(whole):
        return [whole], {}
    index = os.path.join(folder, INDEX)
    if not os.path.isfile(index):
        raise Refused(f"{folder}: neither model.safetensors nor {INDEX} there (a folder of .bin files is of pickles: "
                      "save it again with transformers, which writes safetensors)")
    check_fetched(index)
    try:
        with open(index, encoding="utf-8") as file:
            names = dict(json.load(file)["weight_map"])
        paths = {name: os.path.join(folder, name) for name in sorted(set(names.values()))}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{index}: no index of safetensors files: {error}") from error
    for name, path in paths.items():
        if os.path.basename(name) != name or not os.path.isfile(path):
            raise Refused(f"{index}: names '{name}', which is no file beside it")
    return list(paths.values()), {tensor: paths[name] for tensor, name in names.items()}


def not_finite(dtype, values):
    """(how many elements are NaN or infinite, the index of the first) of a tensor's bytes."""
    numpy = need("numpy", "checking that weights are finite")
    bits = numpy.frombuffer(values, f"<u{BYTES[dtype]}")
    count, first = 0, 0
    for at in range(0, len(bits), PIECE):
        bad = numpy.flatnonzero((bits[at:at + PIECE] & EXPONENT[dtype]) == EXPONENT[dtype])
        if len(bad) and not count:
            first = at + int(bad[0])
        count += len(bad)
    return count, first


def write(file, tensors, metadata, values_of):
    """`tensors`: {name: (dtype, shape)} in the order of the file; values_of(name) is their bytes,
    asked for one after the other."""
    header, at = {"__metadata__": metadata}, 0
    for name, (dtype, shape) in tensors.items():
        size = BYTES[dtype]
        for count in shape:
            size *= count
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for name in tensors:
        values = memoryview(values_of(name)).cast("B")
        begin, end = header[name]["data_offsets"]
        if len(values) != end - begin:
            raise Refused(f"'{name}' has {len(values)} bytes and must have {end - begin}")
        file.write(values)
    return at
