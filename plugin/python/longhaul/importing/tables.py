"""Ids in NumPy arrays and in tables: Arrow files, folders that `datasets` saved, Parquet."""

import glob
import json
import os

from .refusal import Refused, need

COLUMNS = ("input_ids", "tokens", "ids")
PIECE = 1 << 20  # ids at a time


def of_numpy(path):
    """Yields (whether a document begins here, ids): each row of a table of rows is one."""
    numpy = need("numpy", "reading .npy")
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


def files_of(path):
    """The files of a table, in their order."""
    if os.path.isfile(path):
        return [path]
    if os.path.isfile(os.path.join(path, "dataset_dict.json")):
        parts = sorted(entry.name for entry in os.scandir(path) if entry.is_dir())
        raise Refused(f"{path}: has several parts: name one, {' or '.join(os.path.join(path, part) for part in parts)}")
    state = os.path.join(path, "state.json")
    if os.path.isfile(state):
        try:
            with open(state, encoding="utf-8") as file:
                table = json.load(file)
            names = [entry["filename"] for entry in table["_data_files"]]
        except (ValueError, KeyError, TypeError) as error:
            raise Refused(f"{state}: not what `datasets` writes: {error}") from error
        if table.get("_indices_files"):
            raise Refused(f"{state}: a selection of rows: save it after flatten_indices()")
        found = [os.path.join(path, name) for name in names]
    else:
        found = sorted(glob.glob(os.path.join(glob.escape(path), "*.arrow"))) or \
            sorted(glob.glob(os.path.join(glob.escape(path), "*.parquet")))
    for name in found:
        if not os.path.isfile(name):
            raise Refused(f"{path}: names {name}, which is not there")
    if not found:
        raise Refused(f"{path}: no .arrow or .parquet files there")
    return found


def batches_of(path):
    """Record batches of one file. Raises pyarrow's errors."""
    arrow = need("pyarrow", f"{path}: a table")
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
    raise Refused(f"{path}: no column {' or '.join([wanted] if wanted else COLUMNS)}; it has {', '.join(names)}"
                  + ("" if wanted else ": say --column"))


def of_table(path, wanted):
    """Yields (whether a document begins here, ids): a row of lists is one, a column of plain ids one in all."""
    arrow = need("pyarrow", f"{path}: a table")
    begun = False
    for file in files_of(path):
        try:
            for batch in batches_of(file):
                name = column_of(file, batch, wanted)
                column = batch.column(name)
                kind = column.type
                lists = any(is_list(kind) for is_list in (arrow.types.is_list, arrow.types.is_large_list,
                                                          arrow.types.is_fixed_size_list))
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
        except arrow.ArrowException as error:
            raise broken(file, error) from error
        except OSError as error:
            raise broken(file, error) from error
