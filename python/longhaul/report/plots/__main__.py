"""Draws the figures of a report from its CSV files.

    python plots FOLDER...

Each FOLDER is one experiment of a report: it holds fit.csv, losses.csv, arms.csv, joint.csv, residuals.csv,
depth_models.csv, diloco.csv and pareto.csv (a campaign), training.csv and step_times.csv; or it is a comparison of two records and
holds compare.csv; or what a scenario's ranges give, spread.csv and tornado.csv;
or a pricing, price_depths.csv and price_boundaries.csv. Figures whose data are there are written beside them as SVG,
each named as its function. Needs matplotlib and nothing else; imports no torch.
"""

import sys

from outer import compare, diloco, traffic
from pareto import pareto
from planning import fan, tornado
from price import price_boundaries, price_depths
from quality import depth, forest, reference, residuals
from runs import simulated, step_times, training

FIGURES = (reference, residuals, depth, forest, training, simulated, pareto, step_times, diloco, traffic, compare, fan, tornado,
           price_depths, price_boundaries)

for folder in sys.argv[1:]:
    for draw in FIGURES:
        draw(folder)
