"""Two processes over UCX: every operation through torch.distributed's own functions, and the wire."""

import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.testing import assert_close

import launch
import longhaul


def point_to_point(rank):
    x = torch.arange(6, dtype=torch.float64).view(2, 3)
    if rank == 0:
        dist.send(x, 1)
        dist.send(x.int(), 1, tag=3)
    else:
        tagged, first = torch.zeros(2, 3, dtype=torch.int32), torch.zeros(2, 3, dtype=torch.float64)
        dist.recv(tagged, 0, tag=3)  # matched by tag, not by arrival
        assert dist.recv(first) == 0  # from any rank
        assert_close(first, x, rtol=0, atol=0)
        assert_close(tagged, x.int())


def both_directions_at_once(rank):
    sent = [torch.full((100_000,), 10.0 * rank + i) for i in range(5)]
    received = [torch.zeros(100_000) for _ in sent]
    operations = [dist.P2POp(dist.isend, x, 1 - rank) for x in sent]
    operations += [dist.P2POp(dist.irecv, x, 1 - rank) for x in received]
    for work in dist.batch_isend_irecv(operations):
        work.wait()
    for i, x in enumerate(received):
        assert_close(x, torch.full((100_000,), 10.0 * (1 - rank) + i))


def collectives(rank):
    for dtype in (torch.float32, torch.bfloat16, torch.int64):
        x = torch.full((1000, 3), rank + 1, dtype=dtype)
        assert dist.all_reduce(x) is None
        assert_close(x, torch.full((1000, 3), 3, dtype=dtype))
        x = torch.full((7,), rank + 5, dtype=dtype)
        dist.broadcast(x, src=1)
        assert_close(x, torch.full((7,), 6, dtype=dtype))
        gathered = [torch.zeros(2, dtype=dtype) for _ in range(2)]
        dist.all_gather(gathered, torch.full((2,), rank + 1, dtype=dtype))
        assert_close(torch.cat(gathered), torch.tensor([1, 1, 2, 2], dtype=dtype))
        flat = torch.zeros(4, dtype=dtype)
        dist.all_gather_into_tensor(flat, torch.full((2,), rank + 1, dtype=dtype))
        assert_close(flat, torch.cat(gathered))
    dist.barrier()


def all_to_all_as_gloo(rank):
    gloo = dist.new_group([0, 1], backend="gloo")
    torch.manual_seed(rank)
    for sends in ([[2, 3], [5, 0]], [[0, 4], [1, 1]], [[70_000, 130_000], [1, 90_000]]):
        x = torch.randn(sum(sends[rank]), 3)
        receives = [row[rank] for row in sends]
        got = [torch.zeros(sum(receives), 3) for _ in range(2)]
        for out, group in zip(got, (None, gloo)):
            dist.all_to_all_single(out, x, receives, sends[rank], group=group)
        assert_close(got[0], got[1], rtol=0, atol=0)
        parts = [torch.zeros(n, 3) for n in receives]
        dist.all_to_all(parts, list(x.split(sends[rank])))  # gloo has no list form
        assert_close(torch.cat(parts), got[1], rtol=0, atol=0)
    even = [torch.zeros(4, 2) for _ in range(2)]
    for out, group in zip(even, (None, gloo)):
        dist.all_to_all_single(out, torch.arange(8.0).view(4, 2) + 100 * rank, group=group)
    assert_close(even[0], even[1], rtol=0, atol=0)
    launch.expect_error(ValueError, ["3 rows", "2 ranks"],
                        lambda: dist.all_to_all_single(torch.zeros(3), torch.zeros(3)))
    dist.destroy_process_group(gloo)


def all_to_all_carries_gradients(rank):
    import torch.distributed._functional_collectives as functional

    x = torch.arange(4.0).add(10 * rank).requires_grad_()
    y = functional.all_to_all_single_autograd(x, [2, 2], [2, 2], dist.group.WORLD)
    (y * (rank + 1)).sum().backward()
    assert_close(x.grad, torch.tensor([1.0, 1.0, 2.0, 2.0]))  # what the ranks that got it made of it


def objects(rank):
    said = [{"rank": rank, "words": "x" * (100 * rank)}]
    everyone = [None, None]
    dist.all_gather_object(everyone, said[0])
    assert [o["rank"] for o in everyone] == [0, 1] and len(everyone[1]["words"]) == 100
    dist.broadcast_object_list(said, src=1)
    assert said[0]["rank"] == 1


def futures(rank):
    """Python callbacks, on work whose tensors and handle nobody else keeps."""
    doubled = dist.all_reduce(torch.ones(4), async_op=True).get_future().then(
        lambda f: f.value()[0] * 2)
    assert_close(doubled.wait(), torch.full((4,), 4.0))
    dist.isend(torch.ones(50_000), 1 - rank)
    got = torch.zeros(50_000)
    dist.irecv(got, 1 - rank).wait()
    assert_close(got, torch.ones(50_000))
    # Waited for by other threads, several for one work.
    works = [dist.all_reduce(torch.ones(1 << 16), async_op=True) for _ in range(3)]
    with ThreadPoolExecutor(3) as threads:
        assert all(threads.map(lambda work: work.wait(), 2 * works))


def coalesced_and_empty(rank):
    x, y, none = torch.ones(3), torch.ones(5), torch.empty(0)
    with dist.distributed_c10d._coalescing_manager(async_ops=True) as together:
        dist.all_reduce(x)
        dist.all_reduce(y)
    together.wait()
    assert_close(torch.cat((x, y)), torch.full((8,), 2.0))
    dist.all_reduce(none)
    dist.all_gather([none.clone(), none.clone()], none)
    dist.reduce_scatter_tensor(none.clone(), none)
    dist.all_to_all_single(none.clone(), none)
    if rank == 0:
        dist.send(none, 1)
    else:
        dist.recv(none, 0)


def functional_collectives(rank):
    import torch.distributed._functional_collectives as functional

    x = functional.all_reduce(torch.full((3,), rank + 1.0), "sum", dist.group.WORLD)
    assert_close(x + 0, torch.full((3,), 3.0))


def operations_with_a_root(rank):
    gathered = [torch.zeros(2) for _ in range(2)]
    dist.gather(torch.full((2,), rank + 1.0), gathered if rank == 1 else None, dst=1)
    assert_close(torch.cat(gathered), torch.tensor([1.0, 1, 2, 2] if rank == 1 else [0.0] * 4))
    got = torch.zeros(3)
    dist.scatter(got, [torch.full((3,), 5.0), torch.full((3,), 6.0)] if rank == 0 else None, src=0)
    assert_close(got, torch.full((3,), 5.0 + rank))
    x = torch.full((5000,), rank + 1, dtype=torch.int64)
    assert dist.reduce(x, dst=0) is None
    assert_close(x, torch.full((5000,), 2 if rank else 3))
    objects = [None, None]
    dist.gather_object({"rank": rank}, objects if rank == 0 else None, dst=0)
    assert objects == ([{"rank": 0}, {"rank": 1}] if rank == 0 else [None, None])
    mine = [None]
    dist.scatter_object_list(mine, ["a", "b"] if rank == 1 else None, src=1)
    assert mine == ["ab"[rank]]


def monitored_barriers(rank):
    """By the group's own method: torch.distributed.monitored_barrier asks for the name gloo."""
    dist.group.WORLD.monitored_barrier(timedelta(seconds=30), wait_all_ranks=True)


def reduce_scatters(rank):
    x = torch.arange(4.0) + 10 * rank
    flat, part = torch.zeros(2), torch.zeros(2)
    dist.reduce_scatter_tensor(flat, x)
    dist.reduce_scatter(part, list(x.split(2)))
    assert_close(flat, 2 * torch.arange(4.0)[2 * rank:2 * rank + 2] + 10)
    assert_close(part, flat, rtol=0, atol=0)
    uneven = torch.zeros(3 - 2 * rank)  # 3 for rank 0, 1 for rank 1
    dist.reduce_scatter(uneven, list(x.split([3, 1])), op=dist.ReduceOp.AVG)
    assert_close(uneven, torch.tensor([5.0, 6, 7] if rank == 0 else [8.0]))


def errors_leave_the_group_usable(rank):
    if rank == 0:
        dist.send(torch.zeros(3, dtype=torch.int64), 1)
    else:
        launch.expect_error(ValueError, ["i64", "f32"], lambda: dist.recv(torch.zeros(4), 0))
    collectives(rank)


def subgroup_of_one_backend_object(rank):
    group = dist.new_group([0, 1], backend="longhaul")
    x = torch.ones(3)
    dist.all_reduce(x, group=group)
    assert_close(x, torch.full((3,), 2.0))
    dist.destroy_process_group(group)


def split_groups(rank):
    """By the group's own method: torch.distributed.split_group wants a default group bound to a GPU."""
    group = dist.group.WORLD.split_group([0, 1], None, None, "half", "")
    x = torch.full((3,), rank + 1.0)
    dist.all_reduce(x, group=group)
    assert_close(x, torch.full((3,), 3.0))


def abort_ends_both_sides(rank):
    group = dist.new_group([0, 1])
    waiting = dist.irecv(torch.zeros(3), 1 - rank, group=group)
    if rank == 0:
        group.abort()
    launch.expect_error(dist.DistBackendError, ["ABORTED", "abort() was called on this rank"],
                        waiting.wait)


def codec_on_the_wire(rank):
    group = dist.new_group([0, 1], backend="longhaul", pg_options=longhaul.Options(
        forward="int4-b64-h64", backward="int8-b64", seed=7))
    torch.manual_seed(0)
    x = torch.randn(128, 256)
    for _ in range(3):
        got = torch.zeros_like(x)
        if rank == 0:
            dist.send(x, 1, group=group)
            dist.recv(got, 1, group=group)
        else:
            dist.recv(got, 0, group=group)
            dist.send(x, 0, group=group)
        error = (got - x).square().sum() / x.square().sum()
        assert 0 < error < (0.02 if rank == 1 else 1e-3), error
    exact = torch.arange(10_000)  # integers are never encoded
    dist.all_reduce(exact, group=group)
    assert_close(exact, 2 * torch.arange(10_000))

    bits, codec = (4, "int4-b64-h64") if rank == 0 else (8, "int8-b64")
    sent = [c for c in longhaul.crossings(group) if c.sent and c.codec == codec]
    assert len(sent) == 1 and sent[0].peer == 1 - rank, longhaul.crossings(group)
    assert sent[0].tensors == 3 and sent[0].elements == 3 * x.numel()
    assert sent[0].payload_bytes == 3 * launch.frame_bytes(x.numel(), bits), sent
    assert sent[0].bits_per_element < bits + 0.27
    # Headers of ours: a message costs a few hundred bytes at most, not a copy of the tensor.
    assert sent[0].payload_bytes < sent[0].message_bytes < sent[0].payload_bytes + 3 * 1024
    received = [c for c in longhaul.crossings(group) if not c.sent and c.tensors]
    assert sum(c.payload_bytes for c in received) == 3 * launch.frame_bytes(x.numel(), 12 - bits)
    assert longhaul.traffic(group).sent_bytes >= sent[0].message_bytes
    print(f"rank {rank}: {codec}: {sent[0].bits_per_element:.4f} bits per element over "
          f"{longhaul.transport(group)}", flush=True)


def pipelines_are_not_imported(_):
    """By groups with a codec, though they teach its stages: it would take seconds of every job."""
    assert "torch.distributed.pipelining" not in sys.modules


def options_must_agree(rank):
    launch.expect_error(ValueError, ["options differ"], lambda: dist.new_group(
        [0, 1], backend="longhaul",
        pg_options=longhaul.Options(forward="none" if rank else "int8-b64")))


def worker():
    rank, _ = launch.init()
    assert "tcp" in longhaul.transport(), longhaul.transport()
    for check in (point_to_point, both_directions_at_once, collectives, all_to_all_as_gloo,
                  all_to_all_carries_gradients, objects, futures, coalesced_and_empty,
                  functional_collectives, operations_with_a_root, monitored_barriers, reduce_scatters, errors_leave_the_group_usable,
                  subgroup_of_one_backend_object, split_groups,
                  abort_ends_both_sides, codec_on_the_wire, pipelines_are_not_imported,
                  options_must_agree):
        check(rank)
        print(f"rank {rank}: ok {check.__name__}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


launch.main(worker, agent=True)
