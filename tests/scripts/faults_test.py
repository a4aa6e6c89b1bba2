#!/usr/bin/env python3
"""scripts/faults.py: what it draws is one changed line of code that can compile, the same for the same seed."""
import ast
import itertools
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import faults

SAMPLE = '''\
#define HALF(x) (x / 2)
// a < b + 1
int Sum(int a) {
  const char* text = "a < 1";  // 3 + 4
  /* a <= 7
     b = 8; */
  if (a <= limit_) return 0;
  total_ += std::min(a, 5);
  return a -
         2;
}
'''


def main():
    drawn = [(kind, at, line) for kind, at, line in faults.cpp_faults(SAMPLE)]
    assert drawn == [
        ("comparison", 6, "  if (a < limit_) return 0;"),
        ("condition", 6, "  if (!(a <= limit_)) return 0;"),
        ("constant", 6, "  if (a <= limit_) return 1;"),
        ("operator", 7, "  total_ -= std::min(a, 5);"),
        ("operator", 7, "  total_ += std::max(a, 5);"),
        ("constant", 7, "  total_ += std::min(a, 6);"),
        ("statement", 7, "  ;"),
        ("constant", 9, "         3;"),
    ], drawn
    python = "def f(a):\n    # a < 2\n    if a < 2 and g('1 < 2'):\n        g(a)\n    return max(a, 1) * 3\n"
    of_python = sorted(set(line.strip() for _, _, line in faults.python_faults(python)))
    assert of_python == [
        "if a < 2 or g('1 < 2'):", "if a < 3 and g('1 < 2'):", "if a <= 2 and g('1 < 2'):",
        "if not (a < 2 and g('1 < 2')):", "pass", "return max(a, 1) * 4", "return max(a, 1) / 3",
        "return max(a, 2) * 3", "return min(a, 1) * 3"], of_python
    for folder in faults.FOLDERS:
        first = list(itertools.islice(faults.draw(folder, 7), 60))
        assert first == list(itertools.islice(faults.draw(folder, 7), 60)), folder
        assert first != list(itertools.islice(faults.draw(folder, 8), 60)), folder
        assert len({fault["kind"] for fault in first}) == 5, folder
        for fault in first:
            path = faults.copies.TOP / fault["file"]
            lines = path.read_text().split("\n")
            assert lines[fault["line"] - 1] == fault["was"] != fault["is"], fault
            lines[fault["line"] - 1] = fault["is"]
            if path.suffix == ".py":
                ast.parse("\n".join(lines))
            else:
                assert all(fault["is"].count(a) - fault["is"].count(b) == fault["was"].count(a) - fault["was"].count(b)
                           for a, b in ("()", "{}", "[]")) or fault["kind"] == "statement", fault


main()
