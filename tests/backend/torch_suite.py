"""PyTorch's own distributed tests (in the wheel), on CPU: what passes with gloo must pass with longhaul.

Usage: python tests/backend/torch_suite.py all FOLDER      what `make test-torch` runs: some 15 minutes
       python tests/backend/torch_suite.py short           the selection that `make test` runs
       python tests/backend/torch_suite.py run WHO WORLD RESULT.json [TEST ...]
       python tests/backend/torch_suite.py judge FOLDER    of the results of `all`, again

Many of these tests ask for the backend's name when they are defined, and skip for any but the built-in
ones. So they are always defined for gloo, and run by
  gloo               gloo
  longhaul           groups of the backend "longhaul"
  longhaul-as-gloo   groups of ours that torch.distributed takes for gloo's, for the tests of
                     AS_GLOO_ONLY, which ask for the name once more when they run
at 3 and at 4 ranks. `all` fails where a test that gloo passes does not pass with ours, where ours
skips another set than gloo, or where AS_GLOO_ONLY is not exactly what needs the name. Needs the
package expecttest beside torch.
"""

import collections
import glob
import json
import os
import pathlib
import subprocess
import sys
import unittest

WORLDS = (3, 4)
WHO = ("gloo", "longhaul", "longhaul-as-gloo")

# What asks for the name "gloo" when it runs: monitored_barrier is refused by torch.distributed for any
# other, and DDP logs plug-ins as "custom".
AS_GLOO_ONLY = """
""".split()

# One of each operation that only the forced name or the newest code reaches; seconds each.
SHORT = """
""".split()


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


def take_gloos_name():
    """From here on torch.distributed makes a longhaul group where it would make one of gloo."""
    import datetime

    import torch.distributed.distributed_c10d as c10d
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

    class ProcessGroupGloo(metaclass=Named):
        pass

    c10d.ProcessGroupGloo = ProcessGroupGloo


def load_suite(who, world):
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(world), MASTER_ADDR="127.0.0.1",
                      CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
    see_expecttest()
    import torch.multiprocessing
    from torch.testing._internal.common_distributed import DistTestCases

    import longhaul  # noqa: F401  (registers the backend)

    if who == "longhaul-as-gloo":
        take_gloos_name()
    for feature in ("gpu", "cuda", "ddp", "subgroup", "plugin"):
        DistTestCases.backend_feature[feature].add("longhaul")
    from torch.testing._internal.distributed import distributed_test as suite

    if who == "longhaul":
        suite.BACKEND = os.environ["BACKEND"] = "longhaul"
    # TEMP_DIR in the environment marks that a parent has done it: again would split its barrier.
    if "TEMP_DIR" not in os.environ:
        suite.initialize_temp_directories()

    class Suite(suite.TestDistBackend, suite.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
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


def complaints(world, gloo, ours, as_gloo):
    """What breaks the promise at the head of this file, in words."""
    said = []
    needs_the_name = of(gloo, "passed") - of(ours, "passed")
    for test in sorted(needs_the_name - set(AS_GLOO_ONLY)):
        said.append(f"longhaul, {world} ranks: {test} {ours[test][0]}: {why(ours[test])}")
    for test in sorted(set(AS_GLOO_ONLY) & of(gloo, "passed")):
        if test not in needs_the_name:
            said.append(f"{world} ranks: {test} passes without gloo's name: take it off AS_GLOO_ONLY")
        if as_gloo.get(test, ["missing", ""])[0] != "passed":
            said.append(f"longhaul-as-gloo, {world} ranks: {test}: {why(as_gloo[test])}")
    if of(ours, "skipped") != of(gloo, "skipped"):
        differ = sorted(of(ours, "skipped") ^ of(gloo, "skipped"))
        said.append(f"{world} ranks: longhaul and gloo do not skip the same: {differ}")
    return said


def judge(folder):
    said = []
    print("| ranks | pass with gloo | pass with longhaul | under gloo's name | skipped by both |")
    print("|---|---|---|---|---|")
    for world in WORLDS:
        gloo, ours, as_gloo = (json.loads((pathlib.Path(folder) / f"{who}-{world}.json").read_text())
                               for who in WHO)
        passed = of(gloo, "passed")
        print(f"| {world} | {len(passed)} | {len(passed & of(ours, 'passed'))} | "
              f"{len(passed & of(as_gloo, 'passed') - of(ours, 'passed'))} | "
              f"{len(of(gloo, 'skipped') & of(ours, 'skipped'))} |")
        said += complaints(world, gloo, ours, as_gloo)
    print("\n".join(said or ["Every test that passes with gloo passes with longhaul."]))
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
                AS_GLOO_ONLY if who == "longhaul-as-gloo" else [])
    return judge(folder)


def short():
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        outcomes = one("longhaul-as-gloo", 3, pathlib.Path(folder) / "short.json", SHORT)
    for test in SHORT:
        print(test, *outcomes[test][:1])
        if outcomes[test][0] != "passed":
            print(outcomes[test][1][-3000:])
    return 0 if outcomes and all(what == "passed" for what, _ in outcomes.values()) else 1


if __name__ == "__main__":
    words = sys.argv[1:]
    if len(words) >= 4 and words[0] == "run" and words[1] in WHO:
        run(words[1], int(words[2]), words[3], words[4:])
    elif len(words) == 2 and words[0] == "all":
        sys.exit(everything(words[1]))
    elif len(words) == 2 and words[0] == "judge":
        sys.exit(judge(words[1]))
    elif words == ["short"]:
        sys.exit(short())
    else:
        sys.exit(__doc__)
