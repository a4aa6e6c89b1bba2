"""`longhaul help`: the pages as text."""

import contextlib
import io
import pathlib
import re
import unittest

from longhaul.commands import help as command
from longhaul.refusal import Refused

ROOT = pathlib.Path(__file__).resolve().parents[3]


def printed(*words):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        command.run(command.parser().parse_args(words))
    return out.getvalue()


class Help(unittest.TestCase):
    def test_lists_every_page(self):
        topics = set(command.pages())
        files = {page.relative_to(ROOT / "docs").as_posix() for page in (ROOT / "docs").rglob("*.md")}
        self.assertEqual(len(topics), len(files))
        self.assertLessEqual({"index", "estimates", "results", "results/law", "results/law/history"}, topics)
        lines = printed().splitlines()
        self.assertEqual(sum(line.startswith("  ") for line in lines),
                         sum(not topic.startswith("results/") for topic in topics))
        self.assertRegex(printed("results"), r"\n  results/law +Is the cost of a boundary the same")

    def test_prints_a_page_as_text(self):
        for topic in command.pages():
            text = printed(topic)
            outside = re.sub(r"^    .*$", "", text, flags=re.MULTILINE)
            self.assertNotRegex(outside, r"\]\(|```|<!--|\*\*|^#|!\[", topic)
        self.assertTrue(printed("glossary").startswith("Glossary\n========\n"))
        self.assertIn("\n    longhaul net up mine.toml", printed("plan"))  # code keeps its lines, indented

    def test_an_unknown_page_names_a_near_one(self):
        with self.assertRaisesRegex(Refused, "no page 'glosary'; did you mean 'glossary'"):
            printed("glosary")
        with self.assertRaisesRegex(Refused, "no page 'zzzz'; `longhaul help`"):
            printed("zzzz")


if __name__ == "__main__":
    unittest.main()
