"""isend_decoded: what a sender is told of its tensor is what the receiver gets, bit for bit; and a
compressed outer loop by hand, whose ranks stay equal by it."""

import torch
import torch.distributed as dist

import launch
import longhaul

CODECS = ("bf16", "fp8-e4m3-g16", "int8-b64", "int8-b64+sr", "int4-b64-h64", "int4-b64+sr", "sign1",
          "int4-b64-h64+ef", "int8-b64+sr+ef", "int4-b64+ef21", "aqsgd4", "topk-64of4096+bf16+ef")
DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def exchanged(told, rank):
    """The other rank's `told`, by an exact group."""
    other = torch.empty_like(told)
    works = [dist.isend(told, 1 - rank), dist.irecv(other, 1 - rank)]
    for work in works:
        work.wait()
    return other


def every_codec(rank):
    torch.manual_seed(rank)
    for codec in CODECS:
        group = dist.new_group([0, 1], backend="longhaul", pg_options=longhaul.Options(
            forward=codec, backward=codec, seed=3))
        for dtype in DTYPES:
            for turn in range(3):
                x = torch.randn(8, 1024).to(dtype)
                got = torch.empty_like(x)
                tag = DTYPES.index(dtype)
                receive = dist.irecv(got, 1 - rank, group=group, tag=tag)
                send, told = longhaul.isend_decoded(x, 1 - rank, group=group, tag=tag)
                send.wait()
                receive.wait()
                assert torch.equal(got, exchanged(told, rank)), (codec, dtype, turn)
                assert dtype is not torch.float32 or not torch.equal(told, x), (codec, turn)
        dist.destroy_process_group(group)


def other_tensors(rank):
    """Exact ones, strided ones, a send that is refused, and the send after it."""
    group = dist.new_group([0, 1], backend="longhaul", pg_options=longhaul.Options(
        forward="int8-b64", backward="int8-b64"))
    for x in (torch.arange(9000), torch.randn(10), torch.randn(100, 90).T, torch.randn(0)):
        got = torch.empty(x.shape, dtype=x.dtype)
        receive = dist.irecv(got, 1 - rank, group=group)
        told = longhaul.send_decoded(x, group_dst=1 - rank, group=group)
        receive.wait()
        assert told.is_contiguous() and torch.equal(got, exchanged(told, rank)), x.shape
        assert x.numel() > 4096 and x.is_floating_point() or torch.equal(told, x), x.shape
    bad = torch.full((8192,), float("nan"))
    receive = dist.irecv(torch.empty_like(bad), 1 - rank, group=group)
    launch.expect_error(ValueError, ["NaN"], lambda: longhaul.send_decoded(bad, 1 - rank, group))
    launch.expect_error((ValueError, RuntimeError), ["NaN"], receive.wait)
    launch.expect_error(ValueError, ["rank"], lambda: longhaul.send_decoded(bad, rank, group))
    launch.expect_error(ValueError, ["dst"], lambda: longhaul.send_decoded(bad, group=group))
    dist.destroy_process_group(group)


def worker():
    rank, _ = launch.init()
    for check in (every_codec, other_tensors):
        check(rank)
        print(f"rank {rank}: ok {check.__name__}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


launch.main(worker)
