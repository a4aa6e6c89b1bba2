"""Two processes: what torch builds on its collectives, each with the numbers of one process: FSDP2,
ZeRO, device meshes, DTensor, tensor parallelism, functional collectives, distributed checkpoints."""

import copy
import os
import shutil
import tempfile

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as functional
from torch.distributed.device_mesh import init_device_mesh
from torch.testing import assert_close

import launch

ROWS = 8  # of each rank's half of a batch


def model():
    torch.manual_seed(3)
    return torch.nn.Sequential(torch.nn.Linear(12, 7), torch.nn.Tanh(), torch.nn.Linear(7, 5))


def halves():
    torch.manual_seed(4)
    return [(torch.randn(ROWS, 12), torch.randn(ROWS, 5)) for _ in range(2)]


def loss_of(module, half):
    return torch.nn.functional.mse_loss(module(half[0].to(module[0].weight.dtype)).float(), half[1])


def gradients_in_one_process(module):
    """The mean of both halves' gradients, added up in float32 in rank order."""
    sums = [torch.zeros_like(p, dtype=torch.float32) for p in module.parameters()]
    for half in halves():
        for total, g in zip(sums, torch.autograd.grad(loss_of(module, half), list(module.parameters()))):
            total += g.float()
    return [total / 2 for total in sums]


def fsdp2(rank, mesh):
    from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

    for policy, reference in ((MixedPrecisionPolicy(), model()),
                              (MixedPrecisionPolicy(param_dtype=torch.bfloat16,
                                                    reduce_dtype=torch.float32), model().bfloat16())):
        sharded = model()
        for layer in (sharded[0], sharded[2]):
            fully_shard(layer, mesh=mesh, mp_policy=policy)
        fully_shard(sharded, mesh=mesh, mp_policy=policy)
        optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1)
        plain = list(model().parameters())
        x, target = halves()[rank]
        loss = torch.nn.functional.mse_loss(sharded(x).float(), target)
        assert loss.item() == loss_of(reference, (x, target)).item()
        loss.backward()
        optimizer.step()
        for p, want, before in zip(sharded.parameters(), gradients_in_one_process(reference), plain):
            assert torch.equal(p.grad.full_tensor(), want), (policy, p.grad.full_tensor() - want)
            assert torch.equal(p.full_tensor(), torch.add(before, want, alpha=-0.1))


def zero(rank, mesh):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    reference = model()
    adam = torch.optim.Adam(reference.parameters(), lr=0.01)
    replica = torch.nn.parallel.DistributedDataParallel(model())
    split = ZeroRedundancyOptimizer(replica.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    for _ in range(3):
        for p, g in zip(reference.parameters(), gradients_in_one_process(reference)):
            p.grad = g
        adam.step()
        split.zero_grad()
        x, target = halves()[rank]
        torch.nn.functional.mse_loss(replica(x), target).backward()
        split.step()
    for p, want in zip(replica.parameters(), reference.parameters()):
        assert torch.equal(p, want)
    split.consolidate_state_dict(to=1)
    if rank == 1:
        assert len(split.state_dict()["state"]) == len(list(reference.parameters()))


def device_meshes(rank, mesh):
    grid = init_device_mesh("cpu", (2, 1), mesh_dim_names=("rows", "columns"))
    x = torch.full((3,), rank + 1.0)
    dist.all_reduce(x, group=grid.get_group("rows"))
    assert_close(x, torch.full((3,), 3.0))
    dist.all_reduce(x, group=grid["columns"].get_group())  # of one rank
    assert_close(x, torch.full((3,), 3.0))
    assert list(grid.get_coordinate()) == [rank, 0]


def dtensor(rank, mesh):
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor

    torch.manual_seed(5)
    for whole in (torch.randn(6, 4), torch.randn(5, 3), torch.arange(35).view(5, 7)):
        placements = [Shard(0), Replicate(), Shard(1), Shard(0), Replicate()]
        x = distribute_tensor(whole, mesh, [placements[0]])
        for placement in placements[1:]:
            x = x.redistribute(mesh, [placement])
            assert torch.equal(x.full_tensor(), whole), placement
        pending = DTensor.from_local(whole * (rank + 1), mesh, [Partial()])
        for placement in (Replicate(), Shard(0), Shard(1)):
            assert torch.equal(pending.redistribute(mesh, [placement]).full_tensor(), whole * 3)
    a = distribute_tensor(torch.randn(6, 4).requires_grad_(), mesh, [Shard(1)])
    torch.manual_seed(6)
    b_whole = torch.randn(4, 6)
    b = distribute_tensor(b_whole, mesh, [Shard(0)])
    product = (a @ b).full_tensor()  # a sum over ranks
    assert_close(product, a.full_tensor() @ b_whole)
    product.sum().backward()
    assert_close(a.grad.full_tensor(), torch.ones(6, 6) @ b_whole.T)


def tensor_parallel(rank, mesh):
    from torch.distributed.tensor.parallel import (ColwiseParallel, RowwiseParallel,
                                                   parallelize_module)

    torch.manual_seed(7)
    plain = torch.nn.Sequential(torch.nn.Linear(12, 8), torch.nn.ReLU(), torch.nn.Linear(8, 5))
    split = parallelize_module(copy.deepcopy(plain), mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()})
    x, target = halves()[0]
    for module in (plain, split):
        torch.nn.functional.mse_loss(module(x), target).backward()
    assert_close(split(x), plain(x))
    for p, want in zip(split.parameters(), plain.parameters()):
        assert_close(p.grad.full_tensor(), want.grad)


def functional_collectives(rank, mesh):
    group = dist.group.WORLD

    def all_of_them(x):
        total = functional.all_reduce(x, "sum", group)
        both = functional.all_gather_tensor(x, 0, group)
        part = functional.reduce_scatter_tensor(both, "sum", 0, group)
        swapped = functional.all_to_all_single(x, [1, 1], [1, 1], group)
        return total, both, part, swapped, functional.broadcast(x, 1, group)

    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]]) + 10 * rank
    first, second = torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[11.0, 12.0], [13.0, 14.0]])
    want = (first + second, torch.cat([first, second]), 2 * x,
            torch.stack([first[rank], second[rank]]), second)
    for run in (all_of_them, torch.compile(all_of_them, backend="aot_eager", fullgraph=True)):
        for got, wanted in zip(run(x), want):
            assert torch.equal(got + 0, wanted), run
    pair = functional.all_gather_into_tensor_coalesced([x, x[0]], group)
    assert torch.equal(pair[0] + 0, want[1]) and torch.equal(pair[1] + 0, torch.cat([first[0], second[0]]))
    pair = functional.reduce_scatter_tensor_coalesced([want[1], want[1][:2]], "sum", [0, 0], group)
    assert torch.equal(pair[0] + 0, 2 * x) and torch.equal(pair[1] + 0, 2 * first[rank:rank + 1])


def checkpoints(rank, mesh):
    """Saved by two ranks and read by one, and the other way round."""
    import torch.distributed.checkpoint as checkpoint
    from torch.distributed.fsdp import fully_shard

    folder = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder, src=0)
    sharded = fully_shard(model(), mesh=mesh)
    checkpoint.save({"model": sharded.state_dict()}, checkpoint_id=f"{folder[0]}/two")
    alone = dist.new_group([0])
    if rank == 0:
        read = {name: torch.zeros_like(p) for name, p in model().state_dict().items()}
        checkpoint.load({"model": read}, checkpoint_id=f"{folder[0]}/two", process_group=alone)
        for name, want in model().state_dict().items():
            assert torch.equal(read[name], want), name
        half = {name: p / 2 for name, p in read.items()}
        checkpoint.save({"model": half}, checkpoint_id=f"{folder[0]}/one", process_group=alone)
    dist.barrier()
    state = sharded.state_dict()
    checkpoint.load({"model": state}, checkpoint_id=f"{folder[0]}/one")
    for name, want in model().state_dict().items():
        assert torch.equal(state[name].full_tensor(), want / 2), name
    dist.barrier()
    if rank == 0:
        dist.destroy_process_group(alone)
        shutil.rmtree(folder[0])


def groups_come_and_go(rank, mesh):
    """A hundred groups, one after another, leave no descriptor and no thread."""
    def held():
        return (len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task")))

    def round_trip():
        group = dist.new_group([0, 1])
        x = torch.ones(1000)
        dist.all_reduce(x, group=group)
        dist.destroy_process_group(group)

    for _ in range(3):
        round_trip()
    before = held()
    for _ in range(100):
        round_trip()
    after = held()
    assert all(a <= b + 2 for a, b in zip(after, before)), (before, after)


def worker():
    rank, _ = launch.init()
    mesh = init_device_mesh("cpu", (2,))
    for check in (fsdp2, zero, device_meshes, dtensor, tensor_parallel, functional_collectives, checkpoints,
                  groups_come_and_go):
        check(rank, mesh)
        print(f"rank {rank}: ok {check.__name__}", flush=True)
    dist.barrier()
    dist.destroy_process_group()


launch.main(worker)
