"""Collectives with a codec: three ranks hold the bits of int8-b64 written again here in torch, encoded,
added up and encoded again by hand; DDP and FSDP2 by one line, beside one process; bytes as counted."""

import copy

import torch
import torch._dynamo  # noqa: F401  what optimizers import, once before the ranks are forked
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import fully_shard

import launch
import longhaul

RANKS = 3
HEADER = 112


def int8(x):
    """What decodes of int8-b64's frame of x: s = bf16(max|x| / 127) of 64 values, q = round(x * (1 / s))."""
    padded = torch.nn.functional.pad(x, (0, -x.numel() % 64)).view(-1, 64)
    scales = (padded.abs().amax(1, keepdim=True) / 127).bfloat16().float()
    quotients = padded * torch.where(scales > 0, 1 / scales, torch.zeros(()))
    return (quotients.round().clamp(-127, 127) * scales).flatten()[:x.numel()]


def new_group(**options):
    return dist.new_group(list(range(RANKS)), backend="longhaul",
                          pg_options=longhaul.Options(min_elements=100, **options))


def inputs(count, dtype=torch.float32):
    torch.manual_seed(count)
    return [torch.randn(count).to(dtype) for _ in range(RANKS)]


def parts(x):
    """Of almost equal length, the first longer: torch.tensor_split's."""
    return list(torch.tensor_split(x, RANKS))


def owned(r, shares):
    """Rank r's part added up, in rank order: its own exact, the others' from their frames."""
    total = torch.zeros(())
    for source, share in enumerate(shares):
        total = total + (share.float() if source == r else int8(share.float()))
    return total


def sums_bit_for_bit(rank):
    direct = new_group(collectives="int8-b64", collective_way="direct")
    gather = new_group(collectives={"all_reduce": "int8-b64"}, collective_way="gather")
    for count in (4099, 60_001):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            xs = inputs(count, dtype)
            cut = [parts(x) for x in xs]
            sums = [owned(r, [c[r] for c in cut]) for r in range(RANKS)]
            want = torch.cat([int8(total / RANKS) for total in sums]).to(dtype)
            got = xs[rank].clone()
            dist.all_reduce(got, op=dist.ReduceOp.AVG, group=direct)
            assert torch.equal(got, want), (count, dtype, (got - want).abs().max())

            want = (int8(xs[0].float()) + int8(xs[1].float()) + int8(xs[2].float())).to(dtype)
            got = xs[rank].clone()
            dist.all_reduce(got, group=gather)
            assert torch.equal(got, want), (count, dtype)

            got = torch.empty(cut[rank][rank].shape, dtype=dtype)
            dist.reduce_scatter(got, [part.clone() for part in cut[rank]], group=direct)
            assert torch.equal(got, sums[rank].to(dtype)), (count, dtype)

            got = torch.empty(RANKS * count, dtype=dtype)
            dist.all_gather_into_tensor(got, xs[rank], group=direct)
            assert torch.equal(got, torch.cat([int8(x.float()).to(dtype) for x in xs])), (count, dtype)
    for row in longhaul.crossings(gather):
        assert row.codec in ("int8-b64", "none"), row


def the_rest_is_exact(rank):
    group = new_group(collectives="int4-b64")
    for x, op, want in (
            (torch.full((5000,), 2**40 + rank), dist.ReduceOp.SUM, 3 * 2**40 + 3),
            (torch.full((5000,), 0.1, dtype=torch.float64), dist.ReduceOp.SUM, 0.1 + 0.1 + 0.1),
            (torch.full((5000,), 0.1 * rank), dist.ReduceOp.MAX, 0.2),
            (torch.full((99,), 0.5 + rank), dist.ReduceOp.SUM, 4.5),
            (torch.empty(0), dist.ReduceOp.SUM, None)):
        dist.all_reduce(x, op=op, group=group)
        assert want is None or torch.equal(x, torch.full_like(x, want)), (x, want)
    x = torch.full((5000,), 0.1 * rank)
    dist.broadcast(x, src=1, group=group)
    assert torch.equal(x, torch.full((5000,), 0.1))
    assert not any(row.codec == "int4-b64" for row in longhaul.crossings(group))
    launch.expect_error(ValueError, ["int8-b64+sat", "take it without +sat"],
                        lambda: new_group(collectives="int8-b64+sat"))


def overflows_reach_every_rank(rank):
    """NaN and Inf of one rank, and of two with opposite signs, through every form that DDP and FSDP use."""
    inf, nan = float("inf"), float("nan")
    for codec in ("int8-b64", "int4-b64-h64", "fp16", "topk-64of4096+bf16"):
        group = new_group(collectives=codec)
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            x = torch.ones(3 * 4096, dtype=dtype)
            if rank == 1:
                x[5], x[9000] = inf, nan
            if rank != 0:
                x[7000] = inf if rank == 1 else -inf
            shard, gathered = torch.empty(4096, dtype=dtype), torch.empty(3 * x.numel(), dtype=dtype)
            works = [dist.reduce_scatter_tensor(shard, x.clone(), group=group, async_op=True),
                     dist.all_gather_into_tensor(gathered, x, group=group, async_op=True)]
            for work in works:
                work.wait()
            summed = x.clone()
            dist.all_reduce(summed, op=dist.ReduceOp.AVG, group=group, async_op=True).wait()
            kinds = torch.zeros(x.numel())
            kinds[5], kinds[7000], kinds[9000] = inf, nan, nan
            for got, want in ((summed, kinds), (shard, kinds[4096 * rank:4096 * (rank + 1)])):
                assert torch.equal(got.isnan(), want.isnan()) and torch.equal(got == inf, want == inf), (codec, dtype)
                assert got.isfinite().sum() == want.isfinite().sum(), (codec, dtype)
            assert gathered[x.numel() + 5] == inf and gathered[x.numel() + 9000].isnan()
            assert gathered[:6000].isfinite().all()
    large = torch.full((5000,), 30000.0, dtype=torch.float16)  # 90000 is beyond it
    dist.all_reduce(large, group=new_group(collectives="fp16", collective_way="direct"))
    assert (large == inf).all(), large


def scaled_gradients(rank):
    """GradScaler: a step that overflows on one rank is skipped by all, whose scales halve together, and
    training goes on with equal weights, as without a codec."""
    for collectives in ("int8-b64", "int4-b64-h64", "none"):
        group = new_group(collectives=collectives)
        for wrap in (lambda m: torch.nn.parallel.DistributedDataParallel(m, process_group=group),
                     lambda m: fully_shard(m, mesh=DeviceMesh.from_group(group, "cpu"))):
            torch.manual_seed(0)
            module = wrap(torch.nn.Linear(96, 96))
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10, growth_interval=1000)
            scales, weights = [], []
            for step in range(5):
                x = torch.randn(8, 96, generator=torch.Generator().manual_seed(100 * step + rank))
                optimizer.zero_grad()
                loss = module(x).square().mean() * (3e38 if step == 2 and rank == 1 else 1)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                scales.append(scaler.get_scale())
                whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in module.parameters()]
                weights.append(torch.cat([p.detach().flatten() for p in whole]).clone())
            assert scales == [2.0**10] * 2 + [2.0**9] * 3, (collectives, scales)
            assert all(w.isfinite().all() for w in weights), collectives
            assert torch.equal(weights[1], weights[2]), f"{collectives}: the step that overflowed was taken"
            assert not torch.equal(weights[2], weights[3])
            if collectives != "none":  # FSDP2 gathers with the codec, so that is compared among ranks
                everyone = [torch.empty_like(weights[-1]) for _ in range(RANKS)]
                dist.all_gather(everyone, weights[-1])
                assert all(torch.equal(theirs, everyone[0]) for theirs in everyone), "replicas drift apart"


def model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.Tanh(), torch.nn.Linear(96, 64))


def batches():
    torch.manual_seed(4)
    return [[(torch.randn(16, 64), torch.randn(16, 64)) for _ in range(RANKS)] for _ in range(4)]


def train(module, steps_of):
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    losses = []
    for batch in batches():
        optimizer.zero_grad()
        total = 0.0
        mine = steps_of(batch)
        for x, target in mine:
            loss = torch.nn.functional.mse_loss(module(x), target)
            (loss / len(mine)).backward()
            total += loss.item() / len(mine)
        optimizer.step()
        losses.append(total)
    return torch.tensor(losses, dtype=torch.float64)


def frameworks_by_one_line(rank):
    """Losses of the mean over ranks stay beside those of one process, not equal to them."""
    group = new_group(collectives="int8-b64")
    alone = train(model(), lambda batch: batch)

    def together(module):
        losses = train(module, lambda batch: [batch[rank]])
        dist.all_reduce(losses)  # float64: exact
        off = (losses / RANKS - alone).abs().max().item()
        assert 0 < off < 2e-3, off

    replica = torch.nn.parallel.DistributedDataParallel(model(), process_group=group)
    together(replica)
    mine = torch.cat([p.detach().flatten() for p in replica.parameters()])
    everyone = [torch.empty_like(mine) for _ in range(RANKS)]
    dist.all_gather(everyone, mine)
    assert all(torch.equal(theirs, mine) for theirs in everyone), "replicas drift apart"
    before = sum(row.collective_bytes for row in longhaul.crossings(group))
    sharded = copy.deepcopy(model())
    fully_shard(sharded, mesh=DeviceMesh.from_group(group, "cpu"))
    together(sharded)
    assert sum(row.collective_bytes for row in longhaul.crossings(group)) > before


def bytes_as_the_formula(rank):
    group = new_group(collectives="int8-b64", collective_way="direct")
    dist.all_reduce(torch.randn(3 * 640_000), group=group)
    sent = sum(row.collective_bytes for row in longhaul.crossings(group)
               if row.sent and row.codec == "int8-b64")
    want = 2 * (RANKS - 1) * (launch.frame_bytes(640_000, 8) + HEADER)
    assert abs(sent / want - 1) < 0.005, (sent, want)


def worker():
    rank, _ = launch.init()
    for check in (sums_bit_for_bit, the_rest_is_exact, overflows_reach_every_rank, scaled_gradients,
                  frameworks_by_one_line, bytes_as_the_formula):
        check(rank)
        print(f"rank {rank}: ok {check.__name__}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


launch.main(worker, ranks=RANKS)
