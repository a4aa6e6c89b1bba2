"""Megatron's indexed data sets: FILE.idx says where the sequences and documents of FILE.bin are.

MMapIndexedDataset, little-endian: "MMIDIDX\\0\\0", version u64 = 1, dtype u8, sequences S u64, documents D + 1
u64; lengths i32 [S], byte offsets i64 [S], first sequence of each document i64 [D + 1]; more may follow.
IndexedDataset, which it took the place of: "TNTIDX\\0\\0", version u64 = 1, dtype, element's bytes, S, sizes, D + 1
u64; i64 each: [S + 1] dimensions, [S + 1] offsets in elements, [sizes] lengths, [D + 1] documents.
"""

import os
import struct

from .refusal import Refused, check_fetched, need

DTYPES = {1: "<u1", 2: "<i1", 3: "<i2", 4: "<i4", 5: "<i8", 8: "<u2"}
FLOATS = (6, 7)
MAPPED, OLD = b"MMIDIDX\0\0", b"TNTIDX\0\0"
PIECE = 1 << 20  # ids at a time


class Index:
    """Arrays `lengths`, `offsets` (in elements) and `documents` (first sequences, and the end)."""

    def __init__(self, path):
        self.numpy = need("numpy", "reading a Megatron data set")
        self.path = path
        check_fetched(path)
        with open(path, "rb") as file:
            self.raw = file.read()
        self.at = 0
        if self.raw.startswith(MAPPED):
            self._read_mapped()
        elif self.raw.startswith(OLD):
            self._read_old()
        else:
            raise Refused(f"{path}: no index of a Megatron data set: it begins with {self.raw[:9]!r}")
        self._check()

    def _numbers(self, layout):
        size = struct.calcsize(layout)
        self._reach(size)
        out = struct.unpack_from(layout, self.raw, self.at)
        self.at += size
        return out

    def _reach(self, size):
        if self.at + size > len(self.raw):
            raise Refused(f"{self.path}: truncated: it goes on to byte {self.at + size} and has {len(self.raw)}")

    def _array(self, dtype, count):
        self._reach(count * self.numpy.dtype(dtype).itemsize)
        out = self.numpy.frombuffer(self.raw, dtype, count, self.at)
        self.at += out.nbytes
        return out.astype(self.numpy.int64)

    def _begin(self, magic, code_layout):
        self.at = len(magic)
        (version,) = self._numbers("<Q")
        if version != 1:
            raise Refused(f"{self.path}: index of version {version}: want 1")
        (code,) = self._numbers(code_layout)
        if code not in DTYPES:
            what = "floats" if code in FLOATS else "unknown"
            raise Refused(f"{self.path}: dtype code {code} is {what}: token ids are integers (codes "
                          + ", ".join(map(str, DTYPES)) + ")")
        self.dtype = self.numpy.dtype(DTYPES[code])

    def _read_mapped(self):
        self._begin(MAPPED, "<B")
        sequences, documents = self._numbers("<QQ")
        self.lengths = self._array("<i4", sequences)
        offsets = self._array("<i8", sequences)
        if (offsets % self.dtype.itemsize).any():
            raise Refused(f"{self.path}: sequences begin within an id of {self.dtype.itemsize} bytes: the index is "
                          "damaged")
        self.offsets = offsets // self.dtype.itemsize
        self.documents = self._array("<i8", documents)

    def _read_old(self):
        self._begin(OLD, "<Q")
        element, sequences, sizes, documents = self._numbers("<4Q")
        if element != self.dtype.itemsize:
            raise Refused(f"{self.path}: ids of {element} bytes by one word and {self.dtype.itemsize} by another: the "
                          "index is damaged")
        if sizes != sequences:
            raise Refused(f"{self.path}: {sizes} sizes of {sequences} sequences: want rows of ids")
        self._array("<i8", sequences + 1)
        self.offsets = self._array("<i8", sequences + 1)[:-1]
        self.lengths = self._array("<i8", sequences)
        self.documents = self._array("<i8", documents)

    def _check(self):
        numpy = self.numpy
        bad = numpy.flatnonzero((self.lengths < 0) | (self.offsets < 0))
        if len(bad):
            raise Refused(f"{self.path}: sequence {bad[0]} has a negative length or place: the index is damaged")
        documents = self.documents
        in_order = len(documents) > 0 and documents[0] == 0 and (numpy.diff(documents) >= 0).all()
        if not in_order or documents[-1] != len(self.lengths):
            raise Refused(f"{self.path}: its documents are not 0 to {len(self.lengths)} in order: the index is damaged")


def documents(path):
    """Yields (whether a document begins here, ids)."""
    stem = path[:-4]
    index = Index(stem + ".idx")
    numpy, binary = index.numpy, stem + ".bin"
    if not os.path.isfile(binary):
        raise Refused(f"{path}: no {binary} beside it")
    check_fetched(binary)
    elements, odd = divmod(os.path.getsize(binary), index.dtype.itemsize)
    ends = index.offsets + index.lengths
    if odd or (len(ends) and int(ends.max()) > elements):
        raise Refused(f"{binary}: {os.path.getsize(binary)} bytes; by its index it has "
                      f"{int(ends.max()) * index.dtype.itemsize if len(ends) else 0}: truncated, or another's")
    if elements == 0:
        return
    ids = numpy.memmap(binary, index.dtype, "r")
    for first, last in zip(index.documents[:-1], index.documents[1:]):
        begins = True
        for sequence in range(first, last):
            for at in range(int(index.offsets[sequence]), int(ends[sequence]), PIECE):
                yield begins, ids[at:min(at + PIECE, int(ends[sequence]))]
                begins = False
