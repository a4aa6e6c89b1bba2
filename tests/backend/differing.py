"""Five ranks without an agent, so that rank 0 serves the store and takes it along when it ends: where
the ranks' options differ, or one of them cannot join, every rank gets that error, never one of a
store or a connection that has gone."""

import os
import sys

import launch

RANKS, ROUNDS, ODD = 5, 2, 3
ODD_OPTIONS = {"options": {"seed": 7}, "codec": {"forward": "int8-b64"}}


def worker(rank, case):
    import torch.distributed as dist

    import longhaul

    options = ODD_OPTIONS.get(case, {}) if rank == ODD else {}
    interface = "nosuch0" if case == "interface" and rank == ODD else "lo"
    try:
        dist.init_process_group("longhaul", timeout=launch.TIMEOUT, pg_options=longhaul.Options(
            interface=interface, **options))
    except (ValueError, RuntimeError) as error:
        print(str(error).splitlines()[0], flush=True)
        return
    print("no error", flush=True)


def words_of_ranks(case):
    """Each rank a process that is forked once torch is there, and that ends as any other does."""
    os.environ.update(WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                      MASTER_PORT=str(launch.free_port()))
    pipes = []
    for rank in range(RANKS):
        read, write = os.pipe()
        if os.fork() == 0:
            os.dup2(write, sys.stdout.fileno())
            os.environ["RANK"] = str(rank)
            worker(rank, case)
            sys.exit()
        os.close(write)
        pipes.append(os.fdopen(read))
    said = [pipe.read() for pipe in pipes]
    for _ in range(RANKS):
        os.wait()
    return said


def main():
    launch.check()
    import longhaul  # noqa: F401  with torch, for all the ranks; starts no thread
    for case, wanted in (("options", ["options differ", "seed=0", "seed=7", f"rank {ODD}"]),
                         ("codec", ["options differ", "forward=none", "forward=int8-b64",
                                    f"rank {ODD}"]),
                         ("interface", ["no interface 'nosuch0'"])):
        for turn in range(ROUNDS):
            said = words_of_ranks(case)
            assert all(word in line for line in said for word in wanted), (case, turn, said)
        print(f"ok {case}: {ROUNDS} rounds of {RANKS} ranks", flush=True)


main()
