"""Logs the series of a record as it grows: longhaul.export has them and the runs of each tool.

    longhaul follow RESULTS --to tensorboard|trackio|wandb

The record is only read, and nothing is asked of the processes that write it.
"""

import contextlib
import os
import sqlite3
import time

from longhaul import export
from longhaul.record import open_record
from longhaul.refusal import Refused, need

# A worker so many steps behind another has left: steps are not held back for it.
LEFT_BEHIND = 50
# A campaign's next run may take some seconds to begin.
IDLE_POLLS = 3


class TrackioRun:
    """A run of Trackio: on this machine, unless its own environment variables say otherwise."""

    def __init__(self, out, run):
        import contextvars

        import trackio

        # In a context of its own: the next init() would end this run.
        self.run = contextvars.Context().run(lambda: trackio.init(
            project=export.plain(run.experiment), name=run.name, group=run.arm, config=run.parameters, embed=False,
            auto_log_gpu=False, auto_log_cpu=False))

    def log(self, step, at, values):
        self.run.log(values, step=step)

    def flush(self):
        """It sends by itself."""

    def close(self):
        self.run.finish()


# The module that the tool needs; its run, of a folder and a run of the record.
TOOLS = {
    "tensorboard": ("tensorboard", export.TensorBoardRun),
    "trackio": ("trackio", TrackioRun),
    "wandb": ("wandb", lambda out, run: export.WandbRun(out, run, os.environ.get("WANDB_MODE", "offline"))),
}


def complete_until(record, run):
    """The last step that every worker has told."""
    newest = [row[0] for row in record.execute(
        "SELECT MAX(step) FROM steps WHERE run_id = ? GROUP BY group_index, stage", (run,))]
    return min((step for step in newest if step > max(newest) - LEFT_BEHIND), default=0)


class Follower:
    """Every run of a record with the log that it goes to."""

    def __init__(self, results, to, out):
        self.rows = open_record(results)  # who still writes; refuses what cannot be read
        self.record = export.open_record(results)
        self.make, self.out = TOOLS[to][1], out
        self.logs = {}  # by run that is not closed
        self.last = self.runs = self.told = 0

    def poll(self):
        """Logs what is new. Returns how many runs are being written."""
        # Before its rows are read: what a run wrote last is there once it is no longer written.
        states = {number: status == "running" and self.rows.someone_writes(number)
                  for number, status in self.rows.query("SELECT id, status FROM runs")}
        for run in export.runs_of(self.record, self.last):
            self.last, self.runs = run.id, self.runs + 1
            self.logs[run.id] = (run, self.make(self.out, run))
        for number, (run, log) in list(self.logs.items()):
            active = states.get(number, True)
            for step, at, values in run.series(self.record, complete_until(self.record, number) if active else None):
                log.log(step, at, values)
                self.told += 1
            log.flush()
            if not active:
                log.close()
                del self.logs[number]
        return sum(states.values())

    def close(self):
        for _, log in self.logs.values():
            log.close()
        self.record.close()
        self.rows.close()


def follow(results, to, out=None, once=False, every_s=2.0):
    """Logs until no run is written any longer; `once`: what there is. Returns what was logged, in words.

    Raises:
        Refused: With one line that says why.
    """
    if not 0 < every_s <= 3600:
        raise Refused(f"--every {every_s}: want seconds, up to 3600")
    out = out or os.path.join(results, to)
    if to == "trackio":
        os.environ.setdefault("TRACKIO_DIR", os.path.abspath(out))  # read when it is imported
    need(TOOLS[to][0], f"--to {to}")
    if to != "trackio" and os.path.exists(out) and (not os.path.isdir(out) or os.listdir(out)):
        raise Refused(f"{out} is there and not an empty folder: name a new one with --out")
    follower = Follower(results, to, out)
    os.makedirs(out, exist_ok=True)
    try:
        with contextlib.closing(follower):
            idle = 0
            while True:
                idle = 0 if follower.poll() else idle + 1
                if once or idle == IDLE_POLLS:
                    return f"{follower.runs} runs, {follower.told} points"
                time.sleep(every_s)
    except sqlite3.Error as error:
        raise Refused(f"follow {results}: {error}") from error
