"""Token files: GPT trainers' header of 256 int32 and little-endian ids, uint16 or uint32."""

import os
import struct

from .refusal import Refused, need

FORMATS = {2: (20240520, 1, "tokens:"), 4: (20240801, 7, "tokens32:")}
HEADER = 256 * 4
MOST = 2**31 - 1  # of the header's count; files of more are written bare


def width_of(vocab):
    return 2 if vocab <= 65536 else 4


class TokenFile:
    """Writes ids below `vocab` into a new file that `outputs` will name `path`."""

    def __init__(self, outputs, path, vocab, source):
        self.numpy = need("numpy", "writing token files")
        self.path, self.vocab, self.source = path, vocab, source
        self.width = width_of(vocab)
        self.count = 0
        self.file = outputs.open(path)
        self.file.write(bytes(HEADER))

    def add(self, ids):
        """`ids`: a NumPy array of integers."""
        if len(ids) == 0:
            return
        least, most = int(ids.min()), int(ids.max())
        if least < 0 or most >= self.vocab:
            wrong = least if least < 0 else most
            at = self.count + int(self.numpy.flatnonzero(ids == wrong)[0])
            what = "is negative" if least < 0 else f"is not below the vocabulary's {self.vocab}"
            raise Refused(f"{self.source}: id {wrong} at token {at} {what}")
        self.file.write(ids.astype(f"<u{self.width}").tobytes())
        self.count += len(ids)

    def close(self):
        """Returns the word of data.source. The header is written last, with the count."""
        if self.count < 2:
            raise Refused(f"{self.source}: {self.count} tokens are too few for a file")
        if self.count > MOST:
            raise Refused(f"{self.source}: {self.count} tokens; a file's header counts to {MOST}: import it in parts "
                          "(data.source takes several files)")
        magic, version, word = FORMATS[self.width]
        self.file.seek(0)
        self.file.write(struct.pack("<3i", magic, version, self.count).ljust(HEADER, b"\0"))
        self.file.close()
        return f"{word}{self.path}"


def vocab_of(folder):
    """Of the [model] table of an imported folder."""
    path = os.path.join(folder, "model.toml")
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                key, _, value = line.partition("=")
                if key.strip() == "vocab":
                    return int(value)
    except (OSError, ValueError) as error:
        raise Refused(f"read the vocabulary of {path}: {error}") from error
    raise Refused(f"{path}: no 'vocab' there")
