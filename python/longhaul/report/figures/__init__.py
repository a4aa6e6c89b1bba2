"""The figures of a report: each is drawn from CSV files of one folder, and written beside them as SVG.

A folder is one experiment of a report, or a comparison of two records. A figure whose data are not there is not drawn.
"""

import os

from longhaul.refusal import need

# Module here: its figures, each named as its file.
FIGURES = {"quality": ("reference", "residuals", "depth", "forest"), "runs": ("training", "simulated", "step_times"),
           "pareto": ("pareto",), "outer": ("diloco", "traffic", "compare")}


def draw(folder: str) -> dict[str, str]:
    """{name: svg} of what could be drawn.

    Raises:
        Refused: matplotlib is missing.
    """
    need("matplotlib", "a figure")
    import importlib
    found = {}
    for module, names in FIGURES.items():
        drawing = importlib.import_module(f"longhaul.report.figures.{module}")
        for name in names:
            path = os.path.join(folder, f"{name}.svg")
            if os.path.exists(path):
                os.remove(path)  # a figure of an earlier report must not pass for one of this record
            getattr(drawing, name)(folder)
            if os.path.exists(path):
                with open(path, encoding="utf-8") as file:
                    text = file.read()
                found[name] = text[text.index("<svg"):]
    return found
