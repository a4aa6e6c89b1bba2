"""`longhaul import text`: files of text as token files, by a model's tokenizer."""

import os
import re
from hashlib import sha256

from .outputs import Outputs
from .refusal import Refused, need
from .sources import gather, read
from .tokens import TokenFile, vocab_of

BATCH = 64  # texts that are encoded at a time
MOST_OF_TEXT = 32  # no text is more than this part of a file that --most-tokens bounds: the rest of it is left out
SEPARATORS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")


class Tokenizer:
    def __init__(self, place):
        """`place`: a folder with tokenizer.json and, for the vocabulary, model.toml; or the file itself."""
        folder = place if os.path.isdir(place) else os.path.dirname(place)
        self.path = os.path.join(place, "tokenizer.json") if os.path.isdir(place) else place
        if not os.path.isfile(self.path):
            raise Refused(f"--tokenizer {place}: no tokenizer.json there")
        tokenizers = need("tokenizers", "encoding text")
        try:
            self.tokenizer = tokenizers.Tokenizer.from_file(self.path)
        except Exception as error:  # the package raises nothing more special
            raise Refused(f"{self.path}: no tokenizer: {error}") from error
        # Text that spells a special token is text.
        self.tokenizer.encode_special_tokens = True
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        with open(self.path, "rb") as file:
            self.sha256 = sha256(file.read()).hexdigest()
        ids = self.tokenizer.get_vocab_size(with_added_tokens=True)
        self.vocab = ids
        if os.path.isfile(os.path.join(folder, "model.toml")):
            self.vocab = vocab_of(folder)
            if ids > self.vocab:
                raise Refused(f"{self.path}: has {ids} ids, and the model beside it a vocabulary of {self.vocab}: it "
                              "is another model's")

    def separator(self, wanted):
        """(id, token) of what stands before each text; (None, "none")."""
        if wanted == "none":
            return None, "none"
        for token in [wanted] if wanted else SEPARATORS:
            found = self.tokenizer.token_to_id(token)
            if found is not None:
                return found, token
        raise Refused(f"{self.path}: no token {' or '.join([wanted] if wanted else SEPARATORS)}: say "
                      "--separator TOKEN or --separator none")

    def encode(self, texts):
        return [encoded.ids for encoded in self.tokenizer.encode_batch(texts, add_special_tokens=False)]


def kinds_of(words):
    """"NAME" or "NAME=PATTERN" words: {name: patterns, or None for what the machine has}."""
    kinds = {}
    for word in words:
        name, equals, pattern = word.partition("=")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name) or (equals and not pattern):
            raise Refused(f"'{word}': want NAME=PATTERN, with a NAME of letters, digits, - and _")
        if name in kinds and (not equals or kinds[name] is None):
            raise Refused(f"'{word}': the kind {name} is named twice")
        if equals:
            kinds.setdefault(name, []).append(pattern)
        else:
            kinds[name] = None
    return kinds


def write_kind(outputs, name, patterns, tokenizer, separator, most, out):
    """Returns a line about it."""
    import numpy
    found = gather(name, patterns)
    path = os.path.join(out, name + ".bin")
    tokens = TokenFile(outputs, path, tokenizer.vocab, name)
    first, token = separator
    rows, total = [], sha256()
    for at in range(0, len(found.files), BATCH):
        batch = found.files[at:at + BATCH]
        # Read once more: all texts of a machine's manual need not fit into memory.
        texts = [read(source)[0] or "" for _, source in batch]
        for (digest, source), text, ids in zip(batch, texts, tokenizer.encode(texts)):
            if sha256(text.encode()).hexdigest() != digest:
                raise Refused(f"{name}: {source} changed while it was read")
            if first is not None:
                ids = [first] + ids
            if most:
                ids = ids[:min(most - tokens.count, max(most // MOST_OF_TEXT, 1))]
            if not ids:
                break
            rows.append(f"{tokens.count}\t{len(ids)}\t{digest}\t{source}\n")
            total.update(bytes.fromhex(digest))
            tokens.add(numpy.asarray(ids, dtype=numpy.int64))
        if most and tokens.count >= most:
            break
    word = tokens.close()
    outputs.text(os.path.join(out, name + ".sources.tsv"),
                 f"# texts of {name}.bin, in its order; tokenizer.json {tokenizer.sha256}; before each text: {token}\n"
                 f"# first token\ttokens\tsha256 of the text\tfile\n" + "".join(rows))
    skipped = ", ".join(f"{count} {why}" for why, count in sorted(found.skipped.items()))
    return (f"{name}: {tokens.count:,} tokens of {len(rows):,} texts ({len(found.files):,} found"
            f"{'; left out: ' + skipped if skipped else ''}); sources {total.hexdigest()}; {word}")


def import_text(words, place, out, most=None, separator=None, replace=False):
    kinds = kinds_of(words)
    tokenizer = Tokenizer(place)
    before = tokenizer.separator(separator)
    if most is not None and most < 2:
        raise Refused(f"--most-tokens {most}: want 2 or more")
    lines = []
    for name, patterns in kinds.items():
        with Outputs(replace) as outputs:
            lines.append(write_kind(outputs, name, patterns, tokenizer, before, most, out))
        print(lines[-1], flush=True)
    return (f"{len(kinds)} files; before each text: {before[1]}; texts lie in the order of their hashes, and the last "
            "1/64 of a file is held out")
