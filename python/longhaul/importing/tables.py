"""Ids in NumPy arrays and in tables: Arrow files, folders that `datasets` saved, Parquet."""

import json
import os

from .refusal import Refused, check_fetched, need
from .splits import SPLITS, choose, distinct

COLUMNS = ("input_ids", "tokens", "ids")
PIECE = 1 << 20  # ids at a time

# Predicates of pyarrow.types; older versions lack some.
LISTS = ("is_list", "is_large_list", "is_fixed_size_list", "is_list_view", "is_large_list_view")
TEXTS = ("is_string", "is_large_string", "is_string_view")


def is_any(kind, predicates):
    types = need("pyarrow", "a table").types
    return any(getattr(types, name)(kind) for name in predicates if hasattr(types, name))


def plain_column(batch, name):
    column = batch.column(name)
    return column.dictionary_decode() if hasattr(column, "dictionary_decode") else column


def of_numpy(path):
    """Yields (whether a document begins here, ids): each row of a table of rows is one."""
    numpy = need("numpy", "reading .npy")
    check_fetched(path)
    try:
        array = numpy.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:  # of a damaged header NumPy raises what its parser of Python does
        first = (str(error).splitlines() or [""])[0]
        raise Refused(f"{path}: no NumPy array of numbers, or a truncated one: {first}") from error
    if not hasattr(array, "dtype") or array.dtype.kind not in "iu" or array.ndim not in (1, 2):
        what = f"{array.dtype} of {list(array.shape)}" if hasattr(array, "dtype") else "an archive of arrays"
        raise Refused(f"{path}: is {what}: want integers, one row or rows")
    for row in array if array.ndim == 2 else [array]:
        for at in range(0, len(row), PIECE):
            yield at == 0, row[at:at + PIECE]


ENDINGS = (".arrow", ".parquet")


def files_of(path, split=None):
    """The files of a table in their order, and words about which they are."""
    if os.path.isfile(path):
        if split:
            raise Refused(f"--split {split}: {path} is one file; a folder has splits")
        return [path], ""
    if os.path.isfile(os.path.join(path, "dataset_dict.json")):
        parts = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
        if split not in parts:
            raise Refused(f"{path}: has the splits {', '.join(parts)}: choose one with --split NAME")
        files, _ = files_of(os.path.join(path, split))
        return files, f"split {split}"
    if os.path.isfile(os.path.join(path, "state.json")):
        return saved_files(path, split), ""
    found, derived = walk(path)
    if not found:
        only = f" but {derived} that `datasets` derived from others (cache-*.arrow)" if derived else ""
        raise Refused(f"{path}: no .arrow or .parquet files there{only}")
    files, label = choose(found, split, path)
    homes = {home_of(file, path): file for file in files}
    if len(homes) > 1 or len({os.path.splitext(file)[1] for file in files}) > 1:
        raise Refused(f"{path}: tables of several data sets or forms ({', '.join(sorted(homes.values()))}): name one folder "
                      "or one file")
    kept = distinct(files)
    said = [f"split {label}"] if label else []
    said += [f"{len(kept)} file{'s' * (len(kept) > 1)}"]
    said += [f"left out: {derived} derived (cache-*.arrow)"] if derived else []
    said += [f"left out: {len(files) - len(kept)} that repeat another"] if len(kept) < len(files) else []
    return kept, ", ".join(said)


def walk(path):
    """The tables below a folder, sorted, and how many are left out: `datasets` keeps results of map() and filter() beside
    what they were made of."""
    found, derived, seen = [], 0, set()
    for place, folders, names in os.walk(path, followlinks=True):
        real = os.path.realpath(place)
        folders[:] = [name for name in folders if not name.startswith(".") and real not in seen]
        for name in [] if real in seen else names:
            if name.startswith("cache-") and name.endswith(".arrow"):
                derived += 1
            elif name.endswith(ENDINGS) and not name.startswith("."):
                found.append(os.path.join(place, name))
        seen.add(real)
    return sorted(found), derived


def home_of(file, root):
    """The folder of a data set that a file is in: "en" for en/train/0.parquet."""
    folders = os.path.relpath(os.path.dirname(file), root).split(os.sep)
    return os.sep.join(folders[:-1] if folders[-1].lower() in SPLITS else folders)


def saved_files(path, split):
    """What `datasets` saved to disk: state.json names the files."""
    state = os.path.join(path, "state.json")
    check_fetched(state)
    try:
        with open(state, encoding="utf-8") as file:
            table = json.load(file)
        names = [entry["filename"] for entry in table["_data_files"]]
        found = [os.path.join(path, name) for name in names]
        selected, own = table.get("_indices_files"), table.get("_split")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise Refused(f"{state}: not what `datasets` writes: {error}") from error
    if selected:
        raise Refused(f"{state}: a selection of rows: save it after flatten_indices()")
    if split and split != own:
        raise Refused(f"--split {split}: {path} is the split {own}")
    for name in found:
        if not os.path.isfile(name):
            raise Refused(f"{path}: names {name}, which is not there")
    if len(distinct(found)) < len(found):
        raise Refused(f"{state}: names the same file twice: {', '.join(names)}")
    if not found:
        raise Refused(f"{state}: names no files")
    return found


def batches_of(path):
    """Record batches of one file. Raises pyarrow's errors."""
    arrow = need("pyarrow", f"{path}: a table")
    check_fetched(path)
    with open(path, "rb") as file:
        magic = file.read(6)
    if magic.startswith(b"PAR1"):
        from pyarrow import parquet
        yield from parquet.ParquetFile(path).iter_batches()
        return
    with arrow.memory_map(path) as source:
        if magic == b"ARROW1":
            reader = arrow.ipc.open_file(source)
            for at in range(reader.num_record_batches):
                yield reader.get_batch(at)
        else:
            yield from arrow.ipc.open_stream(source)


def broken(path, error):
    first = (str(error).splitlines() or [""])[0]
    return Refused(f"{path}: no table of Arrow or Parquet, or a truncated one: {first}")


def column_of(path, batch, wanted):
    names = batch.schema.names
    for name in [wanted] if wanted else COLUMNS:
        if name in names:
            return name
    hint = "say --column" if "text" not in names else "texts are for `longhaul import text`"
    raise Refused(f"{path}: no column {' or '.join([wanted] if wanted else COLUMNS)}; it has {', '.join(names)}"
                  + ("" if wanted else f": {hint}"))


def tables_of(files):
    """Yields (file, record batch); pyarrow's errors become one line."""
    arrow = need("pyarrow", f"{files[0]}: a table")
    for file in files:
        try:
            for batch in batches_of(file):
                yield file, batch
        except (arrow.ArrowException, OSError) as error:
            raise broken(file, error) from error


def of_table(files, wanted):
    """Yields (whether a document begins here, ids): a row of lists is one, a column of plain ids one in all."""
    arrow, begun = need("pyarrow", f"{files[0]}: a table"), False
    for file, batch in tables_of(files):
        name = column_of(file, batch, wanted)
        column = plain_column(batch, name)
        kind = column.type
        lists = is_any(kind, LISTS)
        if not arrow.types.is_integer(kind.value_type if lists else kind):
            raise Refused(f"{file}: column '{name}' is {kind}: want integers, or lists of them")
        if column.null_count or (lists and column.flatten().null_count):
            raise Refused(f"{file}: column '{name}' has rows without a value")
        if not lists:
            yield not begun, column.to_numpy(zero_copy_only=False)
            begun = True
            continue
        for row in column:
            yield True, row.values.to_numpy(zero_copy_only=False)


def texts_of(path, wanted):
    """Yields (place, text) of each row."""
    first = 0
    for file, batch in tables_of([path]):
        if wanted not in batch.schema.names:
            raise Refused(f"{file}: no column '{wanted}'; it has {', '.join(batch.schema.names)}: say --column NAME")
        column = plain_column(batch, wanted)
        if not is_any(column.type, TEXTS):
            ids = "; ids are for `longhaul import ids`" if is_any(column.type, LISTS) else ""
            raise Refused(f"{file}: column '{wanted}' is {column.type}: want text{ids}")
        for row, text in enumerate(column.to_pylist(), first + 1):
            if text is None:
                raise Refused(f"{file}: row {row} has no '{wanted}'")
            yield f"{file}:{row}", text
        first += len(column)
