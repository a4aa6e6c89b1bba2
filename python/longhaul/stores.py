"""Keeps a second init_process_group of a program from meeting the store of the first.

With env:// and tcp:// rank 0 serves the store inside its process, and the server ends when rank 0 has
destroyed the default group. Another rank that has destroyed its own a little earlier, and makes the
next one, would connect to that server, and lose it in the middle. So each other rank keeps one
connection of its own to the server, on which nothing is sent, and before it makes a next default
group it waits until the server has closed it. The server also outlives its group where rank 0's
program still holds a group that it made: then rank 0 says in the store that it has come to the next
group, which is made in the same store, as under torchrun. Where another process serves the store
(torchrun's agent), or the program made it, nobody waits.
"""

import dataclasses
import datetime
import functools
import logging
import os
import select
import socket
import sys
import time
from typing import Optional

_LONGEST_WAIT_S = 30.0  # rank 0 may be late by this much
_LOOK_AGAIN_S = 0.05
_CONNECT = datetime.timedelta(seconds=10)


@dataclasses.dataclass
class _Last:
    """The newest store that rank 0 serves, of this process's last default group."""

    rank: int
    server: tuple  # (host, port)
    connection: Optional[socket.socket]  # to it; None: this is rank 0


_last = None
_made = 0  # default groups whose store rank 0 serves: the same count on every rank


def watch(store, rank):
    """`store`: of the default group that is being made, where this process has `rank`."""
    global _last, _made
    _wrap_handlers()
    server = _server_of(store)
    _forget()
    if server is None or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == str(True):
        return
    _made += 1
    try:
        _last = _Last(rank, server, None if rank == 0 else _connect(server))
    except OSError as error:
        _log().info("store %s:%s cannot be watched (%s): should rank 0 close it late, a next "
                    "init_process_group may fail", *server, error)


def _connect(server):
    return socket.create_connection(server, timeout=_CONNECT.total_seconds())


def _client(server):
    from torch.distributed import TCPStore

    return TCPStore(*server, is_master=False, timeout=_CONNECT, wait_for_workers=False)


def _key():
    return f"longhaul/rank 0 goes on/{_made}"


def _server_of(store):
    """(host, port) of the TCPStore below what torch put around it; None: it is another store."""
    while hasattr(store, "underlying_store"):
        store = store.underlying_store
    host, port = getattr(store, "host", None), getattr(store, "port", None)
    return (host, port) if host and port else None


def _leave_last_store():
    if _last is None:
        return
    if _last.rank == 0:
        _say_that_it_is_kept(_last.server)
    else:
        _wait_for_end(_last)
    _forget()


def _say_that_it_is_kept(server):
    """On rank 0, which comes to its next group: does its own old server still live?"""
    try:
        _connect(server).close()
    except OSError:
        return  # closed: the others have seen it
    _client(server).set(_key(), "")


def _wait_for_end(last):
    end = select.poll()
    end.register(last.connection, select.POLLIN | select.POLLRDHUP)  # the server says nothing itself
    start = time.monotonic()
    client, told = None, False
    while not end.poll(1000 * _LOOK_AGAIN_S):
        try:
            client = client or _client(last.server)
            if client.check([_key()]):
                return
        except RuntimeError:
            return  # it was closed in between
        waited = time.monotonic() - start
        if waited > 1 and not told:
            _log().info("waiting up to %.0f s for rank 0 to end the last group: it still serves "
                        "the store %s:%s", _LONGEST_WAIT_S, *last.server)
            told = True
        if waited > _LONGEST_WAIT_S:
            _log().warning("rank 0 has not ended the last group %.0f s after this rank: the next "
                           "init_process_group may meet a store that is about to close", waited)
            return


def _forget():
    global _last
    if _last is not None and _last.connection is not None:
        _last.connection.close()
    _last = None


def _wrap_handlers():
    """init_process_group(init_method=...) asks these for a store; init_process_group(store=...), a
    store of the program's own, does not."""
    import torch.distributed  # noqa: F401

    handlers = getattr(sys.modules.get("torch.distributed.rendezvous"), "_rendezvous_handlers", {})
    for scheme in ("env", "tcp"):
        handler = handlers.get(scheme)
        if handler is None:
            _log().warning("this torch has no handler of %s:// where it is looked for: a second "
                           "init_process_group may meet the store of the first", scheme)
        elif not hasattr(handler, "_longhaul"):
            handlers[scheme] = _after_last_store(handler)


def _after_last_store(handler):
    @functools.wraps(handler)
    def rendezvous(*args, **kwargs):
        _leave_last_store()
        yield from handler(*args, **kwargs)

    rendezvous._longhaul = True
    return rendezvous


def _log():
    return logging.getLogger("longhaul")
