"""PyTorch's own distributed tests (in the wheel), on CPU: what passes with gloo must pass with longhaul.

Usage: python tests/backend/torch_suite.py all FOLDER      what `make test-torch` runs: some 15 minutes
       python tests/backend/torch_suite.py short           the selection that `make test` runs
       python tests/backend/torch_suite.py run WHO WORLD RESULT.json [TEST ...]
       python tests/backend/torch_suite.py judge FOLDER    of the results of `all`, again

Many of these tests ask for the backend's name when they are defined, and skip for any but the built-in
ones. So they are always defined for gloo, and run with
  gloo       gloo
  longhaul   groups of the backend "longhaul"
  forced     the tests of FORCED, which ask once more when they run, each under the name that it wants
at 3 and at 4 ranks. `all` fails where a test that gloo passes does not pass with ours, where ours
skips another set than gloo, and where FORCED and EXCEPT are not exactly the tests that need them.
Needs the package expecttest beside torch.
"""

import collections
import glob
import json
import os
import pathlib
import subprocess
import sys
import unittest
import unittest.mock

WORLDS = (3, 4)
WHO = ("gloo", "longhaul", "forced")

# "as gloo": torch.distributed makes our groups where it would make gloo's. "at init": the test thinks
# that it runs gloo, and the default group is of the backend "longhaul". (Under gloo's name DDP would
# take our group's memory for one of gloo's.)
FORCED = {
    "test_monitored_barrier_gloo": "as gloo",
    "test_monitored_barrier_gloo_subgroup": "as gloo",
    "test_accumulate_gradients_no_sync": "at init",
    "test_accumulate_gradients_no_sync_allreduce_hook": "at init",
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook": "at init",
    "test_accumulate_gradients_no_sync_grad_is_view": "at init",
}
# Cannot pass with any backend that is not built in.
EXCEPT = {
    "test_ddp_logging_data_cpu": "torch logs every plug-in as 'custom', the test wants its name",
}

# One of each kind of operation, for `make test`.
SHORT = ["test_reduce_sum", "test_gather", "test_scatter", "test_all_gather_coalesced_simple",
         "test_sparse_all_reduce_sum", "test_barrier_timeout_full_group",
         "test_batch_isend_irecv_gloo_tags", "test_DistributedDataParallelCPU",
         "test_monitored_barrier_gloo", "test_accumulate_gradients_no_sync"]


def see_expecttest():
    try:
        import expecttest  # noqa: F401
        return
    except ImportError:
        top = pathlib.Path(__file__).resolve().parents[2]
        sys.path += glob.glob(f"{top}/.venv-export/lib/python3*/site-packages")
    try:
        import expecttest  # noqa: F401
    except ImportError:
        print("SKIPPED: torch's own tests need the package expecttest")
        sys.exit(77)


def class_named_gloo():
    """What stands for torch's ProcessGroupGloo, and makes groups of ours."""
    import datetime

    from longhaul.options import Options
    from longhaul.registration import load_adapter

    class Named(type):
        def __instancecheck__(cls, instance):
            return isinstance(instance, load_adapter().ProcessGroupLonghaul)

        def __call__(cls, store, rank, size, timeout=datetime.timedelta(minutes=30)):
            adapter = load_adapter()
            options = Options().native(adapter)
            options.timeout = timeout
            options.group_name = "gloo"
            return adapter.ProcessGroupLonghaul(store, rank, size, options)

    return Named("ProcessGroupGloo", (), {})


def force_name(case, how):
    """Until `case` is over."""
    import torch.distributed as dist
    import torch.distributed.distributed_c10d as c10d

    if how == "as gloo":
        patch = unittest.mock.patch.object(c10d, "ProcessGroupGloo", class_named_gloo())
    else:
        init = dist.init_process_group
        patch = unittest.mock.patch.object(
            dist, "init_process_group", lambda *args, **named: init(*args, **{**named, "backend": "longhaul"}))
    patch.start()
    case.addCleanup(patch.stop)


def load_suite(who, world):
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    see_expecttest()
    import torch.multiprocessing
    from torch.testing._internal.common_distributed import DistTestCases

    import longhaul  # noqa: F401  (registers the backend)

    for feature in ("gpu", "cuda", "ddp", "subgroup", "plugin"):
        DistTestCases.backend_feature[feature].add("longhaul")
    from torch.testing._internal.distributed import distributed_test as suite

    # TEMP_DIR in the environment marks that a parent has done it: again would split its barrier.
    if "TEMP_DIR" not in os.environ:
        suite.initialize_temp_directories()

    class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            named = who in ("forced", "short") and FORCED.get(self._testMethodName)
            suite.BACKEND = os.environ["BACKEND"] = "gloo" if named or who == "gloo" else "longhaul"
            if named:
                force_name(self, named)
            # spawn would import torch anew in each child of each test
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return Suite


class Outcomes(unittest.TextTestResult):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.by_test = {}

    def note(self, test, outcome, why=""):
        self.by_test[test._testMethodName] = [outcome, why]

    def addSuccess(self, test):
        super().addSuccess(test)
        self.note(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.note(test, "failed", str(err[1])[-4000:])

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failed", str(err[1])[-4000:])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)


def run(who, world, result_file, wanted=()):
    case = load_suite(who, world)
    names = wanted or unittest.TestLoader().getTestCaseNames(case)
    runner = unittest.TextTestRunner(resultclass=Outcomes, verbosity=2)
    outcomes = runner.run(unittest.TestSuite(case(name) for name in names)).by_test
    with open(result_file, "w") as file:
        json.dump(outcomes, file, indent=1)


def of(results, outcome):
    return {test for test, (what, _) in results.items() if what == outcome}


def why(result):
    lines = [line for line in result[1].splitlines() if "Error" in line or "longhaul: " in line]
    return (lines or [result[1][-200:]])[-1][:300]


def complaints(world, gloo, ours, forced):
    """What breaks the promise at the head of this file, in words."""
    said = []
    failing = of(gloo, "passed") - of(ours, "passed")
    for test in sorted(failing - set(FORCED) - set(EXCEPT)):
        said.append(f"longhaul, {world} ranks: {test} {ours[test][0]}: {why(ours[test])}")
    for test in sorted((set(FORCED) | set(EXCEPT)) - failing):
        said.append(f"{world} ranks: {test} needs no other name (or gloo fails it): take it off the list")
    for test in sorted(set(FORCED) - of(forced, "passed")):
        said.append(f"forced, {world} ranks: {test}: {why(forced.get(test, ['', 'did not run']))}")
    if of(ours, "skipped") != of(gloo, "skipped"):
        differ = sorted(of(ours, "skipped") ^ of(gloo, "skipped"))
        said.append(f"{world} ranks: longhaul and gloo do not skip the same: {differ}")
    return said


def judge(folder):
    said = []
    print("| ranks | tests | skipped (GPUs, other backends) | pass with gloo | of these with longhaul "
          "| under a forced name | not |")
    print("|---|---|---|---|---|---|---|")
    for world in WORLDS:
        gloo, ours, forced = (json.loads((pathlib.Path(folder) / f"{who}-{world}.json").read_text())
                              for who in WHO)
        wanted = of(gloo, "passed")
        passed = wanted & of(ours, "passed")
        named = wanted & of(forced, "passed") - passed
        print(f"| {world} | {len(gloo)} | {len(of(gloo, 'skipped'))} | {len(wanted)} | {len(passed)} | "
              f"{len(named)} | {', '.join(sorted(wanted - passed - named)) or 'none'} |")
        said += complaints(world, gloo, ours, forced)
    print("\n".join(f"{test}: {reason}" for test, reason in EXCEPT.items()))
    print("\n".join(said or ["Every other test that passes with gloo passes with longhaul."]))
    return 1 if said else 0


def one(who, world, result_file, wanted=()):
    """In a process of its own, because BACKEND and WORLD_SIZE are read at import."""
    log = pathlib.Path(result_file).with_suffix(".log")
    with open(log, "w") as file:
        ended = subprocess.run([sys.executable, __file__, "run", who, str(world), str(result_file),
                                *wanted], stdout=file, stderr=subprocess.STDOUT, check=False)
    if ended.returncode:
        sys.stdout.write(log.read_text()[-3000:])
        sys.exit(ended.returncode)
    return json.loads(pathlib.Path(result_file).read_text())


def everything(folder):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
    for world in WORLDS:
        for who in WHO:
            print(f"{who}, {world} ranks ...", flush=True)
            one(who, world, pathlib.Path(folder) / f"{who}-{world}.json",
                list(FORCED) if who == "forced" else [])
    return judge(folder)


def short():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        outcomes = one("short", 3, pathlib.Path(folder) / "short.json", SHORT)
    for test in SHORT:
        print(test, outcomes[test][0], outcomes[test][1][-2000:])
    return 1 if any(outcomes[test][0] != "passed" for test in SHORT) else 0


if __name__ == "__main__":
    words = sys.argv[1:]
    if len(words) >= 4 and words[0] == "run" and words[1] in (*WHO, "short"):
        run(words[1], int(words[2]), words[3], words[4:])
    elif len(words) == 2 and words[0] == "all":
        sys.exit(everything(words[1]))
    elif len(words) == 2 and words[0] == "judge":
        sys.exit(judge(words[1]))
    elif words == ["short"]:
        sys.exit(short())
    else:
        sys.exit(__doc__)
