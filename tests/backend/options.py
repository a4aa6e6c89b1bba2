"""What pg_options may be: wrong ones are one plain line, DeviceMesh takes them, and a group that is
given none takes those of the pipeline that it is a part of."""

import datetime
import os
import tempfile

import torch
import torch.distributed as dist

import launch
import longhaul
from longhaul.registration import load_adapter

LONG = 8192  # elements: above Options.min_elements


def one_line(kind, words, act):
    launch.expect_error(kind, words, act)
    try:
        act()
    except kind as error:
        assert "\n" not in str(error), error


def wrong_options():
    one_line(TypeError, ["forward must be a str, not int"], lambda: longhaul.Options(forward=4))
    one_line(TypeError, ["by_tag must be", "list"], lambda: longhaul.Options(by_tag=[1]))
    one_line(TypeError, ["by_tag[3] must be a str"], lambda: longhaul.Options(by_tag={3: None}))
    one_line(TypeError, ["min_elements must be an int, not str"],
             lambda: longhaul.Options(min_elements="12"))
    one_line(TypeError, ["ef_slots must be an int, not bool"], lambda: longhaul.Options(ef_slots=True))
    one_line(TypeError, ["peer_deadline must be a datetime.timedelta, not int"],
             lambda: longhaul.Options(peer_deadline=30))
    one_line(TypeError, ["shared_memory must be a bool"], lambda: longhaul.Options(shared_memory=1))
    one_line(ValueError, ["min_elements is -1"], lambda: longhaul.Options(min_elements=-1))
    one_line(ValueError, ["ef_slots is 0"], lambda: longhaul.Options(ef_slots=0))
    one_line(ValueError, ["seed is -3"], lambda: longhaul.Options(seed=-3))
    one_line(ValueError, ["credit_bytes is 5", "65536"], lambda: longhaul.Options(credit_bytes=5))
    one_line(ValueError, ["coder_threads is -1", "0 to 256"], lambda: longhaul.Options(coder_threads=-1))
    one_line(ValueError, ["coder_threads is 257"], lambda: longhaul.Options(coder_threads=257))
    one_line(TypeError, ["coder_threads must be an int, not str"],
             lambda: longhaul.Options(coder_threads="2"))
    assert load_adapter().MAX_CODER_THREADS == 256
    one_line(ValueError, ["kinds is 'x'", "'ranks' or 'tags'"], lambda: longhaul.Options(kinds="x"))
    one_line(ValueError, ["in collectives is 'allreduce'", "'all_reduce', 'reduce_scatter' or"],
             lambda: longhaul.Options(collectives={"allreduce": "int8-b64"}))
    one_line(TypeError, ["collectives must be a codec or", "int"], lambda: longhaul.Options(collectives=8))
    one_line(TypeError, ["collectives['all_gather'] must be a str"],
             lambda: longhaul.Options(collectives={"all_gather": 8}))
    one_line(ValueError, ["collective_way is 'tree'", "'ring'"],
             lambda: longhaul.Options(collective_way="tree"))
    one_line(ValueError, ["site_size is 0"], lambda: longhaul.Options(site_size=0))


def new_group(ranks=(0, 1), **options):
    return dist.new_group(list(ranks), backend="longhaul", pg_options=longhaul.Options(**options))


def refused_groups(rank):
    one_line(ValueError, ["'int4-b65'", "int4-b64"], lambda: new_group(forward="int4-b65"))
    one_line(ValueError, ["options differ", "ef_slots=2", "ef_slots=3"],
             lambda: new_group(forward="int8-b64+ef", ef_slots=2 + rank))
    one_line(ValueError, ["options differ", "all_reduce=int8-b64", "all_reduce=int4-b64"],
             lambda: new_group(collectives="int8-b64" if rank else "int4-b64"))
    one_line(ValueError, ["'int8-b64+ef' of collectives keeps a state"],
             lambda: new_group(collectives={"all_reduce": "int8-b64+ef"}))
    one_line(ValueError, ["sites of 3 ranks do not cut a group of 2"],
             lambda: new_group(collectives="int8-b64", site_size=3))
    one_line(dist.DistBackendError, ["peer_deadline 30s, 5s"],
             lambda: new_group(peer_deadline=datetime.timedelta(seconds=5)))
    one_line(dist.DistBackendError, ["credit_bytes 67108864, 1048576"],
             lambda: new_group(credit_bytes=1 << 20))
    one_line(dist.DistBackendError, ["coder_threads 2, 3"], lambda: new_group(coder_threads=3))
    one_line(TypeError, ["pg_options must be longhaul.Options, not dict"],
             lambda: dist.new_group([0, 1], backend="longhaul", pg_options={"forward": "none"}))
    same = new_group(credit_bytes=64 << 20, coder_threads=2)  # what the node has
    dist.destroy_process_group(same)


def crossed(group, rank, tag=0):
    """Whether a tensor from rank 0 to rank 1 arrives exact."""
    torch.manual_seed(0)
    x = torch.randn(LONG)
    if rank == 0:
        dist.send(x, 1, group=group, tag=tag)
        return None
    got = torch.zeros(LONG)
    dist.recv(got, 0, group=group, tag=tag)
    return torch.equal(got, x)


def device_mesh(rank):
    from torch.distributed.device_mesh import init_device_mesh

    options = longhaul.Options(forward="int8-b64", timeout=datetime.timedelta(seconds=41))
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("pp",),
                            backend_override={"pp": ("longhaul", options)})
    group = mesh.get_group("pp")
    assert crossed(group, rank) in (None, False)
    if rank == 1:
        row, = (c for c in longhaul.crossings(group) if c.tensors)
        assert row.codec == "int8-b64", row
    short = init_device_mesh("cpu", (2,), mesh_dim_names=("pp",), backend_override={
        "pp": ("longhaul", longhaul.Options(timeout=datetime.timedelta(milliseconds=300)))})
    if rank == 0:  # the other one never sends
        launch.expect_error(dist.DistBackendError, ["300ms"], lambda: dist.recv(
            torch.zeros(4), 1, group=short.get_group("pp")))
    dist.barrier()
    dist.destroy_process_group(group)
    dist.destroy_process_group(short.get_group("pp"))


def groups_without_options(rank):
    before = dist.new_group([0, 1], backend="longhaul")
    assert crossed(before, rank) in (None, True), "nobody opted in"
    pipeline = new_group(forward="int8-b64", backward="int4-b64-h64")
    derived = dist.new_group([0, 1], backend="longhaul")
    assert crossed(derived, rank) in (None, False)
    if rank == 1:
        row, = (c for c in longhaul.crossings(derived) if c.tensors)
        assert row.codec == "int8-b64", row
    exact = new_group()
    assert crossed(exact, rank) in (None, True), "options of its own win"
    assert crossed(dist.group.WORLD, rank) in (None, True), "a group that exists does not change"

    turned = dist.new_group([1, 0], backend="longhaul", sort_ranks=False)
    if rank == 0:  # rank 1 of this group: the order says the opposite of the pipeline's
        launch.expect_error(ValueError, ["activation", "gradient"], lambda: dist.send(
            torch.zeros(LONG), 1, group=turned))
    assert crossed(turned, rank, tag=longhaul.activation_tag()) in (None, False)

    other = new_group(forward="bf16")
    one_line(ValueError, ["was given no options", "different codecs", "longhaul.Options()"],
             lambda: dist.new_group([0, 1], backend="longhaul"))
    dist.destroy_process_group(other)
    dist.destroy_process_group(pipeline)
    after = dist.new_group([0, 1], backend="longhaul")
    assert crossed(after, rank) in (None, True), "the pipeline's group has gone"
    assert crossed(derived, rank) in (None, False)

    coded = new_group(collectives={"all_reduce": "int8-b64"})
    derived = dist.new_group([0, 1], backend="longhaul")
    dist.all_reduce(torch.randn(LONG), group=derived)
    assert {row.codec for row in longhaul.crossings(derived)} == {"int8-b64"}
    dist.destroy_process_group(coded)
    new_group(collectives="int8-b64", site_size=2)
    dist.new_group([0], backend="longhaul")  # the order of a part of the ranks says nothing of sites


def said_on_stderr(act):
    """What act() has the process write to its stderr, C++ included."""
    with tempfile.TemporaryFile() as kept:
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            act()
        finally:
            os.dup2(before, 2)
            os.close(before)
        kept.seek(0)
        return kept.read().decode()


def compressed_in_vain(rank):
    """Once, at the end of a group that opted in and whose tensors were all too small."""
    for elements, words in ((1000, ["encoded nothing", "min_elements = 4096", "1000 elements"]),
                            (LONG, [])):
        group = new_group(forward="int8-b64", backward="int8-b64")

        def use_and_end():
            for size in (elements, 3):
                x, got = torch.ones(size), torch.zeros(size)
                works = [dist.isend(x, 1 - rank, group=group), dist.irecv(got, 1 - rank, group=group)]
                for work in works:
                    work.wait()
            dist.barrier(group=group)
            dist.destroy_process_group(group)

        said = said_on_stderr(use_and_end)
        del group, use_and_end
        assert all(word in said for word in words), said
        assert said.count("encoded nothing") == (1 if words else 0), said


def coder_threads(count):
    """A node of its own with so many: it says so, and so many or fewer come with the first long
    tensors that are encoded or decoded."""
    rank, _ = launch.init(coder_threads=count)
    assert longhaul.transport().endswith(f", {count} coder threads"), longhaul.transport()
    group = new_group(forward="int8-b64")

    def cross(elements):
        tensors = [torch.ones(elements) for _ in range(4)]
        start = dist.isend if rank == 0 else dist.irecv
        for work in [start(x, 1 - rank, group=group) for x in tensors]:
            work.wait()

    cross(16)  # exact: whatever else starts threads has done so
    before = len(os.listdir("/proc/self/task"))
    cross(1 << 20)
    added = len(os.listdir("/proc/self/task")) - before
    assert min(count, 1) <= added <= count, (count, added)
    dist.barrier()
    dist.destroy_process_group()


def worker():
    wrong_options()
    rank, _ = launch.init()
    for check in (refused_groups, device_mesh, groups_without_options, compressed_in_vain):
        check(rank)
        print(f"rank {rank}: ok {check.__name__}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    for count in (0, 1, 3):
        coder_threads(count)
        print(f"rank {rank}: ok coder_threads {count}", flush=True)


launch.main(worker)
