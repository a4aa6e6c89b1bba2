"""examples/tutorial.ipynb, its code cells in their order.

    test_notebook.py --write

runs them and keeps what they show in the notebook.
"""

import ast
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import unittest

NOTEBOOK = pathlib.Path(__file__).resolve().parents[3] / "examples/tutorial.ipynb"


def executed(cells):
    """(text that was printed, value of the last line or None) of each code cell."""
    space, out = {"__name__": "notebook"}, []
    for number, cell in enumerate(cells, 1):
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(tree, f"cell {number}", "exec"), space)
            value = last and eval(compile(last, f"cell {number}", "eval"), space)
        out.append((printed.getvalue(), value))
    return out


def cells_of(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


@contextlib.contextmanager
def elsewhere():
    """Cells write into a folder of their own."""
    was = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(was)


class Notebook(unittest.TestCase):
    def test_cells_run_and_show_what_is_kept(self):
        notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
        with elsewhere():
            found = executed(cells_of(notebook))
        shown = [value for _, value in found]
        self.assertIn("ok, 60/60 steps", repr(shown[1]))
        self.assertEqual(list(shown[2].direction), ["forward", "backward"])
        self.assertIn("three-bits", shown[4].index)
        self.assertLess(shown[6], 3.5, "the model has learnt something")
        self.assertIn("All boundaries of S stages compressed", found[7][0])
        for cell, (printed, value) in zip(cells_of(notebook), found):
            self.assertEqual(bool(cell["outputs"]), bool(printed.strip()) or value is not None, "".join(cell["source"]))
        kept = "".join(cells_of(notebook)[7]["outputs"][0]["text"]).splitlines()
        line = kept.index("All boundaries of S stages compressed, forward")
        self.assertEqual([one.split()[:3] for one in kept[line + 1:line + 7]],
                         [one.split()[:3] for one in found[7][0].splitlines()[line + 1:line + 7]])


def write():
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    with elsewhere():
        for count, (cell, (printed, value)) in enumerate(zip(cells_of(notebook), executed(cells_of(notebook))), 1):
            cell["execution_count"], cell["outputs"] = count, []
            if printed.strip():
                cell["outputs"].append({"output_type": "stream", "name": "stdout", "text": printed.splitlines(True)})
            if value is not None:
                cell["outputs"].append({"output_type": "execute_result", "execution_count": count, "metadata": {},
                                        "data": {"text/plain": repr(value).splitlines(True)}})
    NOTEBOOK.write_text(json.dumps(notebook, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--write"] else unittest.main()
