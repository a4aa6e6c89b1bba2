"""`longhaul import text`: files of text as token files, by a model's tokenizer."""

import dataclasses
import os
import re
import tempfile
from hashlib import sha256

from .outputs import Outputs
from .refusal import Refused, check_fetched, need
from .sources import Text, gather
from .tokens import TokenFile, vocab_of

BATCH, BATCH_CHARACTERS = 64, 4 << 20  # texts or pieces that are encoded at a time, and when fewer are enough
MOST_OF_TEXT = 32  # of more texts than this none is a larger part of a file that --most-tokens bounds
SEPARATORS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>")


class Tokenizer:
    def __init__(self, place):
        """`place`: a folder with tokenizer.json and, for the vocabulary, model.toml; or the file itself."""
        folder = place if os.path.isdir(place) else os.path.dirname(place)
        self.path = os.path.join(place, "tokenizer.json") if os.path.isdir(place) else place
        if not os.path.isfile(self.path):
            raise Refused(f"--tokenizer {place}: no tokenizer.json there")
        check_fetched(self.path)
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
        # Ids may have holes, and a tokenizer more of them than the model has rows.
        self.vocab = max(self.tokenizer.get_vocab(with_added_tokens=True).values(), default=-1) + 1
        if os.path.isfile(os.path.join(folder, "model.toml")):
            self.vocab = vocab_of(folder)

    def separator(self, wanted):
        """(id, token) of what is put before each text; (None, "none")."""
        if wanted == "none":
            return None, "none"
        for token in [wanted] if wanted else SEPARATORS:
            found = self.tokenizer.token_to_id(token)
            if found is not None and found < self.vocab:
                return found, token
            if found is not None and wanted:
                raise Refused(f"--separator {token}: its id is {found}, and the model's vocabulary has {self.vocab} ids")
        raise Refused(f"{self.path}: no token {' or '.join([wanted] if wanted else SEPARATORS)} below the vocabulary's "
                      f"{self.vocab}: say --separator TOKEN or --separator none")

    def check(self, ids, place):
        """Refuses an id for which the model has no row."""
        if ids and max(ids) >= self.vocab:
            wrong = next(token for token in ids if token >= self.vocab)
            raise Refused(f"{place}: its text has the token {self.tokenizer.id_to_token(wrong)!r} (id {wrong}), and the "
                          f"model's vocabulary has {self.vocab} ids: leave that text out, or use the model's own tokenizer")

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


def encoded(found, tokenizer, wanted):
    """Yields (text, whether it begins here, ids) of each piece of each text in order, while wanted(text)."""
    batch, size = [], 0

    def flush():
        for (text, begins, _), ids in zip(batch, tokenizer.encode([piece for *_, piece in batch])):
            tokenizer.check(ids, text.place)
            yield text, begins, ids

    for text in found.texts:
        begins, digest = True, sha256()
        for piece in found.pieces(text):
            if not wanted(text):
                break
            digest.update(piece.encode())
            batch.append((text, begins, piece))
            begins, size = False, size + len(piece)
            if len(batch) >= BATCH or size >= BATCH_CHARACTERS:
                yield from flush()
                batch, size = [], 0
        else:
            if digest.hexdigest() != text.digest:
                raise Refused(f"{text.place} changed while it was read")
    yield from flush()


def escaped(place):
    """A file's name as one field of one line: backslashes, tabs, line ends and what is no Unicode as in Python."""
    return "".join(c if c.isprintable() and c != "\\" else c.encode("unicode_escape", "surrogatepass").decode()
                   for c in place)


@dataclasses.dataclass
class Row:
    """One text's place in a token file."""

    text: Text
    first: int
    count: int = 0


def write_kind(outputs, name, patterns, tokenizer, separator, most, out, how):
    """Returns a line about it. `how`: the named arguments of gather()."""
    import numpy
    path = os.path.join(out, name + ".bin")
    tokens = TokenFile(outputs, path, tokenizer.vocab, name)
    first, token = separator
    rows, total = [], sha256()
    with tempfile.TemporaryFile(dir=os.path.dirname(tokens.file.name) or ".") as scratch:
        found = gather(name, patterns, scratch, **how)
        bound = most and max(most // MOST_OF_TEXT, -(-most // len(found.texts)))
        wanted = lambda text: not most or not rows or rows[-1].text is not text or rows[-1].count < bound
        for text, begins, ids in encoded(found, tokenizer, wanted):
            if begins:
                rows.append(Row(text, tokens.count))
                ids = ids if first is None else [first] + ids
            if most:
                ids = ids[:min(most - tokens.count, bound - rows[-1].count)]
            rows[-1].count += len(ids)
            tokens.add(numpy.asarray(ids, dtype=numpy.int64))
            if most and tokens.count >= most:
                break
    rows = [row for row in rows if row.count]
    for row in rows:
        total.update(bytes.fromhex(row.text.digest))
    word = tokens.close()
    outputs.text(os.path.join(out, name + ".sources.tsv"),
                 f"# texts of {name}.bin, in its order; tokenizer.json {tokenizer.sha256}; before each text: {token}\n"
                 f"# first token\ttokens\tsha256 of the text\tfile, and the line or row in it\n"
                 + "".join(f"{row.first}\t{row.count}\t{row.text.digest}\t{escaped(row.text.place)}\n" for row in rows))
    skipped = ", ".join(f"{count} {why}" for why, count in sorted(found.skipped.items()))
    return (f"{name}: {tokens.count:,} tokens of {len(rows):,} texts ({len(found.texts):,} found"
            f"{f' in the split {found.split}' if found.split else ''}"
            f"{'; left out: ' + skipped if skipped else ''}); sources {total.hexdigest()}; {word}")


def import_text(words, place, out, most=None, separator=None, replace=False, **how):
    kinds = kinds_of(words)
    tokenizer = Tokenizer(place)
    before = tokenizer.separator(separator)
    if most is not None and most < 2:
        raise Refused(f"--most-tokens {most}: want 2 or more")
    lines = []
    for name, patterns in kinds.items():
        with Outputs(replace) as outputs:
            lines.append(write_kind(outputs, name, patterns, tokenizer, before, most, out, how))
        print(lines[-1], flush=True)
    return (f"{len(kinds)} files; before each text: {before[1]}; texts lie in the order of their hashes, and the last "
            "1/64 of a file is held out")
