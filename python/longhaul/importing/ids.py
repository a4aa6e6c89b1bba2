"""`longhaul import ids`: ids that a tokenizer has already made, as one token file."""

import os

from .megatron import documents as of_megatron
from .outputs import Outputs
from .refusal import Refused, need
from .tables import files_of, of_numpy, of_table
from .tokens import TokenFile, vocab_of

GATHER = 1 << 20  # ids that are written at a time


def reader_of(source, column, split):
    """(an iterator of (whether a document begins here, ids), words about which files are read)."""
    table = os.path.isdir(source) or source.endswith((".arrow", ".feather", ".parquet"))
    if not table:
        for option, value in (("--column", column), ("--split", split)):
            if value:
                raise Refused(f"{option} {value}: {source} is no table")
    if source.endswith(".idx") or (source.endswith(".bin") and os.path.isfile(source[:-4] + ".idx")):
        return of_megatron(source), ""
    if source.endswith((".npy", ".npz")):
        return of_numpy(source), ""
    if table:
        files, said = files_of(source, split)
        return of_table(files, column), said
    raise Refused(f"{source}: want FILE.idx with its .bin (Megatron), FILE.npy, or a file or folder of Arrow or "
                  "Parquet; bare ids need no import: data.source takes tokens:FILE (uint16) and tokens32:FILE (uint32)")


def import_ids(source, out, vocab=None, model=None, column=None, separator=None, replace=False,
               split=None):
    numpy = need("numpy", "reading ids")
    if not os.path.exists(source):
        raise Refused(f"{source}: no such file or folder")
    if (vocab is None) == (model is None):
        raise Refused("say how many ids there are, by one of --vocab N and --model FOLDER")
    vocab = vocab_of(model) if vocab is None else vocab
    if not 2 <= vocab <= 1 << 22:
        raise Refused(f"--vocab {vocab}: want 2 to {1 << 22}")
    reader, said = reader_of(source, column, split)
    with Outputs(replace) as outputs:
        tokens = TokenFile(outputs, out, vocab, source)
        documents, waiting, size = 0, [], 0
        for begins, ids in reader:
            documents += 1 if begins else 0
            if begins and separator is not None:
                waiting.append(numpy.array([separator]))
            waiting.append(numpy.asarray(ids).astype(numpy.int64))
            size += len(ids)
            if size >= GATHER or len(waiting) >= GATHER:
                tokens.add(numpy.concatenate(waiting))
                waiting, size = [], 0
        if waiting:
            tokens.add(numpy.concatenate(waiting))
        word = tokens.close()
    return f"{tokens.count:,} tokens of {documents:,} documents{f' ({said})' if said else ''}, ids below {vocab}; {word}"
