"""`longhaul help`: the pages of the documentation as text."""

import difflib
import pathlib
import re

import longhaul
from longhaul.commands import Parser
from longhaul.refusal import Refused

# setup.py puts the pages next to the package's modules; in a clone they are the source tree's.
PACKAGE = pathlib.Path(longhaul.__file__).resolve().parent
FOLDERS = (PACKAGE / "pages", PACKAGE.parents[1] / "docs")


def parser():
    whole = Parser("help", "Print a page of the documentation as text, or list the pages",
                   "Examples:\n  longhaul help\n  longhaul help estimates\n  longhaul help results/law")
    whole.add_argument("topic", nargs="?", default="",
                       help="Page, as the list names it; a folder such as results lists its pages")
    return whole


def pages():
    """{topic: file}; README.md of a folder has the folder's name, that of the whole the name index."""
    folder = next((folder for folder in FOLDERS if folder.is_dir()), None)
    if folder is None:
        raise Refused(f"no pages in '{FOLDERS[0]}': this package was installed without them; install it again")
    found = {}
    for file in sorted(folder.rglob("*.md")):
        topic = file.relative_to(folder).with_suffix("").as_posix()
        found["index" if topic == "README" else topic.removesuffix("/README")] = file
    return found


def title(file):
    with file.open(encoding="utf-8") as lines:
        return next(lines, "").lstrip("# ").strip()


def listing(found, folder=""):
    """A line for each page of `folder`, of the whole those that are in no folder of results."""
    shown = {topic: file for topic, file in found.items()
             if (topic.startswith(folder + "/") if folder else not topic.startswith("results/"))}
    width = max(map(len, shown))
    return "".join(f"  {topic:<{width}}  {title(file)}\n" for topic, file in shown.items())


def _prose(text):
    text = re.sub(r"<!--.*?-->\n?|^!\[.*\n", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"\*\*|`", "", re.sub(r"\[((?:[^][]|\[+[^]]*\]+(?!\())*)\]\([^)]*\)", r"\1", text))
    return re.sub(r"^(#+) (.*)", lambda found: f"{found[2]}\n{('=' if found[1] == '#' else '-') * len(found[2])}", text,
                  flags=re.MULTILINE)


def as_text(page):
    """Markdown as a terminal shows it: links as their words, code indented, headings underlined."""
    parts = re.split(r"^ *```.*\n((?:.*\n)*?) *```\n", page, flags=re.MULTILINE)
    return "".join(re.sub(r"^(?=.)", "    ", part, flags=re.MULTILINE) if place % 2 else _prose(part)
                   for place, part in enumerate(parts))


def run(options):
    found = pages()
    topic = options.topic.strip("/").removesuffix(".md")
    if not topic:
        print("Pages, printed by `longhaul help PAGE`; options of a command by `longhaul COMMAND --help`:\n")
        print(listing(found), end="")
    elif topic not in found and not any(name.startswith(topic + "/") for name in found):
        ends = {name.rpartition("/")[2]: name for name in found}
        near = difflib.get_close_matches(topic, [*found, *ends], 1, 0.6)
        also = f"; did you mean '{ends.get(near[0], near[0])}'?" if near else ""
        raise Refused(f"no page '{topic[:64]}'{also}; `longhaul help` lists the pages")
    else:
        if topic in found:
            print(as_text(found[topic].read_text(encoding="utf-8")), end="")
        if any(name.startswith(topic + "/") for name in found):
            print(f"\nPages in {topic}:\n\n{listing(found, topic)}", end="")
