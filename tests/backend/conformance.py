"""Two processes: every operation with every dtype, on gloo and on longhaul, each value against a closed
form. The table that comes out stands in docs/torch-backend-reference.md: a difference fails.

Usage: python tests/backend/conformance.py         compares
       LONGHAUL_WRITE_DOCS=1 python ...            writes it there
"""

import datetime
import os
import pathlib

import torch
import torch.distributed as dist

import launch

DTYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64,
          "i8": torch.int8, "u8": torch.uint8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64,
          "bool": torch.bool, "c64": torch.complex64, "c128": torch.complex128}
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "torch-backend-reference.md"
BEGIN, END = "<!-- conformance.py: begin -->\n", "<!-- conformance.py: end -->\n"


def of(r, dtype):
    """What rank r brings: small enough for every dtype; of bool not all equal."""
    return torch.tensor([[1, 0, 2], [r, 1 - r, 3]]).to(dtype)


def same(got, want):
    return all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


def reduction(name, combine):
    def run(rank, dtype, group):
        x = of(rank, dtype)
        dist.all_reduce(x, getattr(dist.ReduceOp, name), group=group)
        return same([x], [combine(of(0, dtype), of(1, dtype)).to(dtype)])
    return run


def add(a, b):
    return a | b if a.dtype == torch.bool else a + b


def send_recv(rank, dtype, group):
    x = torch.zeros(2, 3, dtype=dtype)
    if rank == 0:
        dist.send(of(0, dtype), 1, group=group)
        dist.recv(x, 1, group=group)
    else:
        dist.recv(x, 0, group=group)
        dist.send(of(1, dtype), 0, group=group)
    return same([x], [of(1 - rank, dtype)])


def recv_any(rank, dtype, group):
    if rank == 0:
        dist.send(of(0, dtype), 1, group=group)
        return True
    x = torch.zeros(2, 3, dtype=dtype)
    return dist.recv(x, group=group) == 0 and same([x], [of(0, dtype)])


def broadcast(rank, dtype, group):
    x = of(rank, dtype)
    dist.broadcast(x, 1, group=group)
    return same([x], [of(1, dtype)])


def reduce(rank, dtype, group):
    x = of(rank, dtype)
    dist.reduce(x, 1, group=group)
    return rank == 0 or same([x], [add(of(0, dtype), of(1, dtype))])


def gather(rank, dtype, group):
    parts = [torch.zeros(2, 3, dtype=dtype) for _ in range(2)]
    dist.gather(of(rank, dtype), parts if rank == 1 else None, dst=1, group=group)
    return rank == 0 or same(parts, [of(0, dtype), of(1, dtype)])


def scatter(rank, dtype, group):
    x = torch.zeros(2, 3, dtype=dtype)
    dist.scatter(x, [of(0, dtype), of(1, dtype)] if rank == 0 else None, src=0, group=group)
    return same([x], [of(rank, dtype)])


def all_gather(rank, dtype, group):
    parts = [torch.zeros(2, 3, dtype=dtype) for _ in range(2)]
    dist.all_gather(parts, of(rank, dtype), group=group)
    return same(parts, [of(0, dtype), of(1, dtype)])


def all_gather_into_tensor(rank, dtype, group):
    out = torch.zeros(4, 3, dtype=dtype)
    dist.all_gather_into_tensor(out, of(rank, dtype), group=group)
    return same([out], [torch.cat([of(0, dtype), of(1, dtype)])])


def all_gather_coalesced(rank, dtype, group):
    parts = [[torch.zeros(2, 3, dtype=dtype), torch.zeros(3, dtype=dtype)] for _ in range(2)]
    dist.all_gather_coalesced(parts, [of(rank, dtype), of(rank, dtype)[1]], group=group)
    return all(same(parts[r], [of(r, dtype), of(r, dtype)[1]]) for r in range(2))


def reduce_scatter(rank, dtype, group):
    out = torch.zeros(2, 3, dtype=dtype)
    dist.reduce_scatter(out, [of(rank, dtype), of(1 - rank, dtype)], group=group)
    return same([out], [add(of(0, dtype), of(1, dtype))])


def reduce_scatter_uneven(rank, dtype, group):
    out = torch.zeros(1 + rank, 3, dtype=dtype)
    dist.reduce_scatter(out, [of(rank, dtype)[:1], of(rank, dtype)], group=group)
    return same([out], [add(of(0, dtype), of(1, dtype))[:1 + rank]])


def reduce_scatter_tensor(rank, dtype, group):
    out = torch.zeros(1, 3, dtype=dtype)
    dist.reduce_scatter_tensor(out, of(rank, dtype), group=group)
    return same([out], [add(of(0, dtype), of(1, dtype))[rank:rank + 1]])


def all_reduce_coalesced(rank, dtype, group):
    x = [of(rank, dtype), of(rank, dtype)[1].clone()]
    dist.all_reduce_coalesced(x, group=group)
    return same(x, [add(of(0, dtype), of(1, dtype)), add(of(0, dtype), of(1, dtype))[1]])


def all_reduce_sparse(rank, dtype, group):
    x = of(rank, dtype).to_sparse()
    dist.all_reduce(x, group=group)
    return same([x.to_dense()], [add(of(0, dtype), of(1, dtype))])


def all_to_all(rank, dtype, group):
    parts = [torch.zeros(2, 3, dtype=dtype) for _ in range(2)]
    dist.all_to_all(parts, [of(rank, dtype), of(1 - rank, dtype)], group=group)
    return same(parts, [of(rank, dtype), of(1 - rank, dtype)])


def all_to_all_uneven(rank, dtype, group):
    sends = [[1, 3], [2, 0]]
    x = torch.cat([of(rank, dtype), of(rank, dtype)])[:sum(sends[rank])]
    receives = [row[rank] for row in sends]
    out = torch.zeros(sum(receives), 3, dtype=dtype)
    dist.all_to_all_single(out, x, receives, sends[rank], group=group)
    whole = [torch.cat([of(r, dtype), of(r, dtype)]) for r in range(2)]
    want = [whole[0][:1], whole[1][:2]] if rank == 0 else [whole[0][1:4], whole[1][2:2]]
    return same([out], [torch.cat(want)])


OPERATIONS = {
    "send, recv": send_recv,
    "recv from any rank": recv_any,
    "broadcast": broadcast,
    "all_reduce SUM": reduction("SUM", add),
    "all_reduce AVG": reduction("AVG", lambda a, b: (a + b) / 2),
    "all_reduce PRODUCT": reduction("PRODUCT", lambda a, b: a & b if a.dtype == torch.bool else a * b),
    "all_reduce MIN": reduction("MIN", torch.minimum),
    "all_reduce MAX": reduction("MAX", torch.maximum),
    "all_reduce BAND": reduction("BAND", lambda a, b: a & b),
    "all_reduce BOR": reduction("BOR", lambda a, b: a | b),
    "all_reduce BXOR": reduction("BXOR", lambda a, b: a ^ b),
    "all_reduce_coalesced": all_reduce_coalesced,
    "all_reduce of sparse tensors": all_reduce_sparse,
    "reduce": reduce,
    "gather": gather,
    "scatter": scatter,
    "all_gather": all_gather,
    "all_gather_into_tensor": all_gather_into_tensor,
    "all_gather_coalesced": all_gather_coalesced,
    "reduce_scatter": reduce_scatter,
    "reduce_scatter of uneven parts": reduce_scatter_uneven,
    "reduce_scatter_tensor": reduce_scatter_tensor,
    "all_to_all": all_to_all,
    "all_to_all_single, uneven": all_to_all_uneven,
}


def passing(rank, backend, run):
    """The dtypes whose values are right on both ranks."""
    names, group = [], None
    for name, dtype in DTYPES.items():
        if group is None:
            dist.barrier()
            group = dist.new_group([0, 1], backend=backend, timeout=datetime.timedelta(seconds=5))
        try:
            right = run(rank, dtype, group)
        except (ValueError, RuntimeError, TypeError):  # refused
            right = False
        both = torch.tensor([int(right)])
        dist.all_reduce(both, dist.ReduceOp.MIN)
        if both:
            names.append(name)
        else:  # gloo's may not be the same after it
            dist.destroy_process_group(group)
            group = None
    if group is not None:
        dist.destroy_process_group(group)
    return names


def words(names):
    if len(names) == len(DTYPES):
        return "all"
    if len(names) > len(DTYPES) / 2:
        return "all but " + ", ".join(n for n in DTYPES if n not in names)
    return ", ".join(names) or "none"


def worker():
    rank, _ = launch.init()
    rows = []
    for name, run in OPERATIONS.items():
        gloo, ours = passing(rank, "gloo", run), passing(rank, "longhaul", run)
        assert set(gloo) <= set(ours), (name, gloo, ours)
        rows.append(f"| {name} | {words(gloo)} | {words(ours)} |\n")
    if rank == 0:
        table = "| operation | gloo | longhaul |\n|---|---|---|\n" + "".join(rows)
        print(table)
        text = DOCS.read_text()
        before, rest = text.split(BEGIN)
        stands, after = rest.split(END)
        if os.environ.get("LONGHAUL_WRITE_DOCS"):
            DOCS.write_text(before + BEGIN + table + END + after)
        elif torch.__version__.startswith("2.13."):  # what gloo does is that version's
            assert stands == table, "docs/torch-backend-reference.md has another table: LONGHAUL_WRITE_DOCS=1"
    dist.destroy_process_group()


launch.main(worker)
