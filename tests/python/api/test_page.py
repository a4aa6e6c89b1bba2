"""docs/python.md: its blocks of Python in their order, and what they print."""

import contextlib
import io
import pathlib
import re
import unittest

from test_api import ROOT
from test_notebook import elsewhere


class Page(unittest.TestCase):
    def test_blocks_print_what_the_page_shows(self):
        import pandas

        page = (ROOT / "docs/python.md").read_text(encoding="utf-8")
        tutorial = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
        blocks = re.findall(r"^```(python|)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
        space, printed, shown = {}, "", 0
        with elsewhere(), pandas.option_context("display.width", 120, "display.max_columns", 10):
            pathlib.Path("first.toml").write_text(re.search(r"```toml\n(# first\.toml.*?)```", tutorial, re.DOTALL)[1],
                                                  encoding="utf-8")
            for name in ("docs", "examples", "experiments", "planning"):
                pathlib.Path(name).symlink_to(ROOT / name)
            for kind, text in blocks:
                if kind == "python" and "from_pretrained" not in text:
                    out = io.StringIO()
                    with contextlib.redirect_stdout(out):
                        exec(compile(text, "docs/python.md", "exec"), space)
                    printed = out.getvalue()
                elif not kind:
                    shown += 1
                    for ours, theirs in zip(text.splitlines(), printed.splitlines(), strict=True):
                        self.alike(ours.split(), theirs.split())
        self.assertEqual(shown, 4)

    def alike(self, ours, theirs):
        """Words are equal; figures of a training move in the last digits with the processor."""
        self.assertEqual(len(ours), len(theirs), (ours, theirs))
        for one, other in zip(ours, theirs):
            if re.fullmatch(r"-?\d+\.\d+", one):
                self.assertAlmostEqual(float(one), float(other), delta=0.02 * abs(float(one)) + 1e-3)
            else:
                self.assertEqual(one, other)


if __name__ == "__main__":
    unittest.main()
