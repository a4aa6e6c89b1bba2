"""PyTorch's own distributed tests (in the wheel) over one backend: what passes, fails, is skipped.

Usage: python tests/backend/torch_suite.py BACKEND RESULT.json [substring of test names]
       python tests/backend/torch_suite.py compare GLOO.json LONGHAUL.json

Run by hand, on a CPU, once for gloo and once for longhaul: what passes with gloo should pass with
longhaul, and every exception should be an operation that docs/torch-backend.md lists as missing.
Needs the package expecttest beside torch.
"""

import json
import os
import sys
import unittest


def load_suite(backend):
    os.environ.update(BACKEND=backend, WORLD_SIZE="3", MASTER_ADDR="127.0.0.1",
                      CUDA_VISIBLE_DEVICES="", OMP_NUM_THREADS="1")
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
            # spawn would import torch anew in each of three children of each test
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
        self.note(test, "failed", str(err[1])[-2000:])

    def addError(self, test, err):
        super().addError(test, err)
        self.note(test, "failed", str(err[1])[-2000:])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.note(test, "skipped", reason)


def run(backend, result_file, pattern=""):
    case = load_suite(backend)
    names = [n for n in unittest.TestLoader().getTestCaseNames(case) if pattern in n]
    runner = unittest.TextTestRunner(resultclass=Outcomes, verbosity=2)
    outcomes = runner.run(unittest.TestSuite(case(name) for name in names)).by_test
    with open(result_file, "w") as file:
        json.dump(outcomes, file, indent=1)


def compare(gloo_file, longhaul_file):
    with open(gloo_file) as g, open(longhaul_file) as l:
        gloo, ours = json.load(g), json.load(l)
    count = lambda results, what: sum(outcome == what for outcome, _ in results.values())
    for name, results in (("gloo", gloo), ("longhaul", ours)):
        print(name, {what: count(results, what) for what in ("passed", "failed", "skipped")})
    for test, (outcome, _) in sorted(gloo.items()):
        theirs, why = ours.get(test, ["missing", ""])
        if outcome == "passed" and theirs != "passed":
            reason = why.strip().splitlines()[-1] if why.strip() else ""
            print(f"{test}: {theirs}: {reason[:160]}")


if __name__ == "__main__":
    if len(sys.argv) == 4 and sys.argv[1] == "compare":
        compare(*sys.argv[2:])
    elif len(sys.argv) in (3, 4):
        run(*sys.argv[1:])
    else:
        sys.exit(__doc__)
