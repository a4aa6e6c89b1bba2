"""GGUF as it lies: keys, and tensors that are dequantised one at a time.

The layout: "GGUF", version (u32), tensors (u64), keys (u64); the keys; per tensor its name, sizes (the
innermost first), type and offset; padding to general.alignment; the tensors. Little-endian.
"""

import math
import mmap
import os
import struct

from .refusal import Refused, check_fetched, need

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
LONGEST_NAME = 200  # of what is read here; the longest that llama.cpp writes have some 60

# Type: (name, elements of a block, its bytes).
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22),
         7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34), 10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
         12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210), 30: ("BF16", 1, 2)}


class GgufFile:
    """`keys`: {name: value}; `tensors`: {name: (type, shape, offset)}, the outermost size first."""

    def __init__(self, path):
        self.path = path
        check_fetched(path)
        with open(path, "rb") as file:
            if os.fstat(file.fileno()).st_size < 24:
                raise Refused(f"{path}: no GGUF file: it has {os.fstat(file.fileno()).st_size} bytes")
            self.map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        self.at = 0
        if self._take(4) != b"GGUF":
            raise Refused(f"{path}: no GGUF file: it begins with {bytes(self.map[:4])!r}")
        version, tensors, keys = self._unpack("I"), None, None
        if version not in (2, 3):
            raise Refused(f"{path}: GGUF of version {version}: want 2 or 3, little-endian")
        tensors, keys = self._unpack("Q"), self._unpack("Q")
        self.keys = {}
        for _ in range(keys):
            name = self._name()
            self.keys[name] = self._value(self._unpack("I"), name)
        self.tensors = {}
        for _ in range(tensors):
            name = self._name()
            sizes = [self._unpack("Q") for _ in range(self._count(self._unpack("I"), name, 4))]
            self.tensors[name] = (self._unpack("I"), tuple(reversed(sizes)), self._unpack("Q"))
        alignment = self.keys.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 1:
            raise Refused(f"{path}: general.alignment = {alignment!r}: want a whole number above 0")
        self.start = self.at + -self.at % alignment
        for name in self.tensors:
            self._bytes(name)

    def _take(self, count):
        end = self.at + count
        if end > len(self.map):
            raise Refused(f"{self.path}: truncated: its header goes on at byte {end} of {len(self.map)}")
        taken = self.map[self.at:end]
        self.at = end
        return taken

    def _unpack(self, code):
        return struct.unpack("<" + code, self._take(struct.calcsize("<" + code)))[0]

    def _count(self, count, name, most):
        if count > most:
            raise Refused(f"{self.path}: '{name}' would have {count} parts: the file is damaged")
        return count

    def _name(self):
        name = self._string()
        if len(name) > LONGEST_NAME or not name.isprintable():
            raise Refused(f"{self.path}: no GGUF name: {name[:20]!r} of {len(name)} characters: the file is damaged")
        return name

    def _string(self):
        return self._take(self._unpack("Q")).decode("utf-8", "replace")

    def _value(self, kind, name):
        if kind == STRING:
            return self._string()
        if kind != ARRAY:
            if kind not in SCALARS:
                raise Refused(f"{self.path}: '{name}' is of type {kind}, which GGUF has not: the file is damaged")
            return self._unpack(SCALARS[kind])
        of, count = self._unpack("I"), self._unpack("Q")
        if of in SCALARS:
            size = struct.calcsize("<" + SCALARS[of])
            taken = self._take(count * size)
            return list(struct.unpack(f"<{count}{SCALARS[of]}", taken))
        if of != STRING:
            raise Refused(f"{self.path}: '{name}' is a list of type {of}: want numbers or strings")
        return [self._string() for _ in range(self._count(count, name, len(self.map)))]

    def _bytes(self, name):
        kind, shape, offset = self.tensors[name]
        if kind not in TYPES:
            raise Refused(f"{self.path}: '{name}' is of type {kind}, which this importer cannot dequantise; it can: "
                          + ", ".join(t[0] for t in TYPES.values()))
        type_name, elements, size = TYPES[kind]
        if not shape or shape[-1] % elements:
            raise Refused(f"{self.path}: '{name}' is {list(shape)} in {type_name}, whose blocks have {elements}")
        begin = self.start + offset
        end = begin + math.prod(shape) // elements * size
        if end > len(self.map):
            raise Refused(f"{self.path}: truncated: '{name}' ends at byte {end} of {len(self.map)}")
        return memoryview(self.map)[begin:end]

    def values(self, name):
        """The tensor as float32."""
        kind, shape, _ = self.tensors[name]
        what = f"{self.path}: '{name}' in {TYPES[kind][0]}"
        with need("numpy", what).errstate(all="ignore"):  # of scales that are NaN or infinite; the caller checks
            return dequantise(self._bytes(name), kind, what).reshape(shape)


def dequantise(data, kind, what):
    """`data`: whole blocks. float32, [elements]. As ggml does: each element is d q, or d q + m."""
    numpy = need("numpy", what)
    name, elements, size = TYPES[kind]
    raw = numpy.frombuffer(data, numpy.uint8)
    if name == "F32":
        return raw.view("<f4").astype(numpy.float32)
    if name == "F16":
        return raw.view("<f2").astype(numpy.float32)
    if name == "BF16":
        return (raw.view("<u2").astype(numpy.uint32) << 16).view(numpy.float32)
    blocks = raw.reshape(-1, size)
    if name.endswith("_K"):
        quants = need("gguf", what)
        return quants.quants.dequantize(blocks, quants.GGMLQuantizationType(kind)).astype(numpy.float32).reshape(-1)
    half = lambda at: numpy.ascontiguousarray(blocks[:, at:at + 2]).view("<f2").astype(numpy.float32)
    d = half(0)
    if name == "Q8_0":
        return (d * blocks[:, 2:].view(numpy.int8).astype(numpy.float32)).reshape(-1)
    with_m, with_fifth = name.endswith("_1"), name.startswith("Q5")
    at = 4 if with_m else 2
    if with_fifth:
        fifth = numpy.ascontiguousarray(blocks[:, at:at + 4]).view("<u4")
        fifth = (fifth >> numpy.arange(32, dtype=numpy.uint32)) & 1
        at += 4
    # The low halves of the bytes are the first 16 elements, the high ones the others.
    quants = numpy.concatenate([blocks[:, at:] & 15, blocks[:, at:] >> 4], axis=1).astype(numpy.float32)
    if with_fifth:
        quants += 16 * fifth.astype(numpy.float32)
    if with_m:
        return (d * quants + half(2)).reshape(-1)
    return (d * (quants - (16 if with_fifth else 8))).reshape(-1)
