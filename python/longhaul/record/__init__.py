"""The record of one results folder, FOLDER/longhaul.sqlite, as the engine wrote it; read only.

    record = open_record("results/shaped")
    for experiment in record.experiments():
        for run in record.runs(experiment.id):
            record.read(Step, run.id)          # dataclasses of longhaul.record.rows
    record.frame("steps")                      # a table as a data frame; units are in the columns' names

Needs the standard library alone; frames need pandas.
"""

from longhaul.record.rows import (DIRECTIONS, CodecSwitch, Crossing, CrossingError, Estimate, Evaluation, Experiment,
                                  Fault, Link, OuterDelta, Round, Run, Simulated, Step)
from longhaul.record.store import RECORD, OtherVersion, Record, Unreadable, open_record

__all__ = ["DIRECTIONS", "RECORD", "CodecSwitch", "Crossing", "CrossingError", "Estimate", "Evaluation", "Experiment",
           "Fault", "Link", "OtherVersion", "OuterDelta", "Record", "Round", "Run", "Simulated", "Step", "Unreadable", "open_record"]
