"""Draws the figures of a scenario's ranges from its CSV files.

    python plots FOLDER...

Each FOLDER holds spread.csv and tornado.csv. Figures are written beside them as SVG, each named as its function. Needs
matplotlib and nothing else; imports no torch.
"""

import sys

from planning import fan, tornado

for folder in sys.argv[1:]:
    for draw in (fan, tornado):
        draw(folder)
