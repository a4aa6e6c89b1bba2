#!/usr/bin/env python3
"""scripts/run_tests.py over a made-up test folder: what may be tried again, and what it says of it."""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "run_tests.py"
# name, label, what it runs. A "twice" passes the second time it runs.
TWICE = "if test -e %s; then exit 0; fi; touch %s; echo measured 3.2 of 3.0; %s"
TESTS = {
    "sound": ("cpu", "exit 0"),
    "left_out": ("cpu", "echo skipped: no such device; exit 77"),
    "wrong_once": ("cpu", TWICE % ("a", "a", "exit 1")),
    "late_once": ("physical", TWICE % ("b", "b", "exit 1")),
    "late_twice": ("physical", "exit 1"),
    "crashes_once": ("physical", TWICE % ("c", "c", "kill -SEGV $$")),
    "races_once": ("physical", TWICE % ("d", "d", "echo WARNING: ThreadSanitizer: data race; exit 1")),
    "hangs_once": ("physical", TWICE % ("e", "e", "sleep 60")),
}


def run(names):
    """(exit status, output, what was kept of first failures) of these tests alone."""
    with tempfile.TemporaryDirectory() as folder:
        lines = []
        for name in names:
            label, command = TESTS[name]
            lines.append(f'add_test({name} "sh" "-c" [==[{command}]==])')
            lines.append(f"set_tests_properties({name} PROPERTIES LABELS {label} SKIP_RETURN_CODE 77 TIMEOUT 2)")
        (pathlib.Path(folder) / "CTestTestfile.cmake").write_text("\n".join(lines))
        done = subprocess.run([SCRIPT, folder], text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              check=False)
        kept = {p.stem: p.read_text() for p in pathlib.Path(folder, "first-failures").glob("*.log")}
        return done.returncode, done.stdout, kept


def expect(names, status, last, said=(), unsaid=(), kept=()):
    got, output, files = run(names)
    wrong = [f"exit status {got}, wanted {status}"] if got != status else []
    if output.rstrip().splitlines()[-1] != last:
        wrong.append(f"last line is not '{last}'")
    wrong += [f"does not say '{text}'" for text in said if text not in output]
    wrong += [f"says '{text}'" for text in unsaid if text in output]
    if sorted(files) != sorted(kept):
        wrong.append(f"kept {sorted(files)}, wanted {sorted(kept)}")
    wrong += [f"{name} was kept without its output" for name, text in files.items() if "3.2 of 3.0" not in text
              and name != "late_twice"]
    if wrong:
        sys.exit(f"{names}: {'; '.join(wrong)}\n{output}")


expect(["sound", "left_out"], 0, "1 passed, 0 failed, 1 skipped", ["  none", "left_out: no such device"])
expect(["sound", "late_once"], 0, "2 passed, 0 failed, 0 skipped",
       ["Passed only when measured again:\n  late_once; what it printed"], kept=["late_once"])
expect(["sound", "late_twice"], 1, "1 passed, 1 failed, 0 skipped", ["Failed:\n  late_twice (Failed)"],
       kept=["late_twice"])
for once in ("wrong_once", "crashes_once", "races_once", "hangs_once"):
    expect(["sound", once], 1, "1 passed, 1 failed, 0 skipped", [f"Failed:\n  {once} ("], ["once more"])
print("6 cases and a skip: as expected")
