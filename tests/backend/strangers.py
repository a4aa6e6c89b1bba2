"""A port scanner, somebody who sends what comes to mind, and 200 connections that say nothing, at the
ports of a rank: its groups work on, new ones are made, and the silent ones are shown out and counted.
The ports are open at the one address that the group was told."""

import datetime
import os
import select
import socket
import time

import launch

SILENT = 100  # at each port
DEADLINE = datetime.timedelta(seconds=10)  # so long they may say nothing


def listening():
    """(address, port) of the IPv4 sockets at which this process listens."""
    mine = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            mine.add(os.readlink(f"/proc/self/fd/{fd}"))
        except OSError:
            continue  # of the listing itself
    found = []
    for line in open("/proc/self/net/tcp").read().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A" and f"socket:[{words[9]}]" in mine:
            address, port = words[1].split(":")
            found.append((socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)))
    return found


def knock(places):
    """Returns the connections that said something, and those that say too little to be anybody."""
    kept, silent = [], []
    for place in places:
        socket.create_connection(place).close()  # a scanner
        for said in (b"GET / HTTP/1.1\r\n\r\n", os.urandom(100_000)):
            talker = socket.create_connection(place)
            try:
                talker.sendall(said)
            except OSError:
                pass  # it was shown the door meanwhile
            kept.append(talker)
        silent += [socket.create_connection(place) for _ in range(SILENT)]
        silent[-1].sendall(b"\x16\x03\x01")
    return kept, silent


def ended(connections, within=120):
    """Whether the other end has closed all of them."""
    deadline, left = time.monotonic() + within, set(connections)
    while left and time.monotonic() < deadline:
        left -= set(select.select(list(left), [], [], 1)[0])  # nothing is ever sent to them
    return not left


def descriptors():
    return len(os.listdir("/proc/self/fd"))


def worker():
    import torch
    import torch.distributed as dist

    import longhaul

    rank, _ = launch.init(peer_deadline=DEADLINE)
    x = torch.ones(1 << 20)
    dist.all_reduce(x)
    places = [None]
    if rank == 0:
        places = [listening()]
        assert len(places[0]) == 2 and {address for address, _ in places[0]} == {"127.0.0.1"}, places
    before = descriptors()
    dist.broadcast_object_list(places, 0)
    kept, silent = knock(places[0]) if rank == 1 else ([], [])
    dist.barrier()
    for _ in range(3):
        dist.all_reduce(x)
    assert x[-1] == 16, x[-1]
    group = dist.new_group(backend="longhaul")
    dist.all_reduce(x, group=group)
    assert x[0] == 32, x[0]
    assert ended(silent), "rank 0 keeps connections that say nothing"
    for connection in kept + silent:
        connection.close()
    dist.destroy_process_group(group)
    dist.barrier()
    deadline = time.monotonic() + 30
    while rank == 0 and descriptors() > before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert rank == 1 or descriptors() <= before, (descriptors(), before)
    traffic = longhaul.traffic()
    assert traffic.refused_strangers == 0, traffic  # what speaks no UCX, UCX turns away itself
    assert traffic.refused_messages == 0, traffic
    assert traffic.silent_connections == (2 * SILENT if rank == 0 else 0), traffic
    dist.barrier()
    dist.destroy_process_group()


launch.main(worker)
