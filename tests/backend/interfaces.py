"""Which interface a group runs over when its options name none: lo where every rank is on one host
and nowhere else; of several, the one that leads to the master; LONGHAUL_INTERFACE before both. And
which variables UCX_* pass. Network namespaces are the hosts."""

import os
import sys

import hosts
import launch

PORT = 29500  # in namespaces of the test's own
REFUSED = 3


def worker():
    import torch
    import torch.distributed as dist

    import longhaul

    backend = os.environ["FIRST_GROUP"]
    try:
        dist.init_process_group(backend, timeout=launch.TIMEOUT)
    except (dist.DistBackendError, dist.DistNetworkError) as error:
        print(str(error).splitlines()[0], flush=True)
        sys.exit(REFUSED)
    rank, size = dist.get_rank(), dist.get_world_size()
    near = [r for r in range(size) if r < 2]  # the ranks of the first host

    def show(group):
        x = torch.ones(3)
        dist.all_reduce(x, group=group)
        assert x.tolist() == [dist.get_world_size(group)] * 3
        print(longhaul.transport(group), flush=True)

    if backend == "gloo":
        small = dist.new_group(near, backend="longhaul")
        if rank in near:
            show(small)
        show(dist.new_group(backend="longhaul"))
        again = dist.new_group(near, backend="longhaul")
        if rank in near:
            show(again)
    else:
        show(None)
    dist.barrier()
    dist.destroy_process_group()


def start(host, rank, size, master, backend="longhaul", **variables):
    environment = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(size), "LOCAL_RANK": "0",
                   "MASTER_ADDR": master, "MASTER_PORT": str(PORT), "FIRST_GROUP": backend,
                   "GLOO_SOCKET_IFNAME": "net0", "OMP_NUM_THREADS": "1", **variables}
    return host.fork(worker, environment)


def lines_of(processes, code=0):
    """What each printed, by rank."""
    printed = [process.communicate(timeout=120)[0] for process in processes]
    codes = [process.returncode for process in processes]
    assert codes == [code] * len(processes), (codes, printed)
    return [text.splitlines() for text in printed]


def used(line):
    """The interface, and why."""
    return line.split(",")[0].removeprefix("ucx ")


def one_host_without_a_network():
    with hosts.Host() as host:
        for printed in lines_of([start(host, rank, 2, "127.0.0.1") for rank in range(2)]):
            assert used(printed[0]) == "tcp/lo (every rank is on this host)", printed
        quiet = lines_of([start(host, 0, 1, "127.0.0.1", UCX_WARN_UNUSED_ENV_VARS="n")])[0]
        assert len(quiet) == 1, quiet
        loud = lines_of([start(host, 0, 1, "127.0.0.1", UCX_LOG_LEVEL="debug")])[0]
        assert any("UCX" in line and "DEBUG" in line for line in loud), loud[:5]
        refused = lines_of([start(host, 0, 1, "127.0.0.1", UCX_TCP_KEEPIDLE="1s")], REFUSED)[0]
        assert "UCX_TCP_KEEPIDLE" in refused[0] and "ucx_environment=True" in refused[0], refused
        other = lines_of([start(host, rank, 2, "127.0.0.1", LONGHAUL_INTERFACE="eth7")
                          for rank in range(2)], REFUSED)
        for text in other:
            assert "no interface 'eth7' (LONGHAUL_INTERFACE)" in text[0], other


def two_hosts_with_several_interfaces():
    with hosts.Host() as first, hosts.Host() as second:
        pair = (first, second)
        hosts.connect(pair, "spare0", "10.98.0")
        hosts.connect(pair, "net0", "10.99.0")

        def ranks(*places, **options):
            return lines_of([start(host, rank, len(places), **options)
                             for rank, host in enumerate(places)])

        for printed in ranks(first, second, master="10.99.0.1"):
            assert used(printed[0]) == "tcp/net0 (it leads to 10.99.0.1)", printed
        for printed in ranks(first, second, master="10.99.0.1", LONGHAUL_INTERFACE="spare0"):
            assert used(printed[0]) == "tcp/spare0 (LONGHAUL_INTERFACE)", printed

        # A master that knows itself by an address of lo, as distributions write it: the way to the
        # rank elsewhere tells.
        first.name_hosts({"master": "127.0.1.1"})
        second.name_hosts({"master": "10.99.0.1"})
        there, here = ranks(first, second, master="master")
        assert used(there[0]) == "tcp/net0 (it leads to 10.99.0.2)", there
        assert used(here[0]) == "tcp/net0 (it leads to master)", here

        # A group of one host, then one across hosts, then one of one host again.
        over_lo, over_net = "tcp/lo (every rank is on this host)", "tcp/net0 (it leads to 10.99.0.1)"
        near, also_near, far = ranks(first, first, second, master="10.99.0.1", backend="gloo")
        assert [used(line) for line in near] == [over_lo, over_net, over_net], near
        assert [used(line) for line in also_near] == [over_lo, over_net, over_net], also_near
        assert [used(line) for line in far] == [over_net], far


launch.check()
hosts.check()
import longhaul  # noqa: E402,F401  with torch, for all ranks; starts no thread

for check in (one_host_without_a_network, two_hosts_with_several_interfaces):
    check()
    print(f"ok {check.__name__}", flush=True)
