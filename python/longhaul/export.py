"""Writes a record for other tools: Parquet, TensorBoard, Weights & Biases (offline), MLflow.

    longhaul export RESULTS --to parquet|tensorboard|wandb|mlflow --out FOLDER

RESULTS holds longhaul.sqlite, which is only read. FOLDER must be new or empty. Parquet gets every
table of the record as it is; the others get every run: its spec, status and facts as parameters, and
these series by step. Needs the tool's own package and no torch; nothing is sent anywhere.

    train/loss_nat        nat per token, mean over groups
    train/tokens          seen by all groups up to here
    time/step_s, forward_s, backward_s, optimizer_s, wait_s, outer_s, encode_s, decode_s
                          seconds of one step, mean over workers
    outer/sent_bytes      frames of outer deltas or gradients, all workers
    eval/loss_nat/codec_off, eval/loss_nat/codec_on
"""

import contextlib
import datetime
import math
import os
import re
import shutil
import sqlite3

try:
    import tomllib
except ImportError:  # Python 3.10
    import tomli as tomllib

from longhaul.refusal import Refused, need

RECORD = "longhaul.sqlite"
BATCH = 100_000  # rows in memory at a time
TIMES = ("wall_s", "forward_s", "backward_s", "optimizer_s", "wait_s", "outer_s", "encode_s", "decode_s")


def plain(name):
    """A name of an arm or experiment as one component of a path."""
    text = re.sub(r"[^A-Za-z0-9._@+-]", "_", name)
    return "_" + text if text.startswith(".") or not text else text


def flat(table, prefix=""):
    """A TOML tree as {"train.lr": 0.003}."""
    out = {}
    for key, value in table.items():
        if isinstance(value, dict):
            out.update(flat(value, f"{prefix}{key}."))
        else:
            out[prefix + key] = value
    return out


def open_record(folder):
    path = os.path.join(folder, RECORD)
    if not os.path.isfile(path):
        raise Refused(f"{folder} holds no {RECORD}: want a results folder of run or measure")
    quoted = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    try:
        record = sqlite3.connect(f"file:{quoted}?mode=ro", uri=True)
        record.row_factory = sqlite3.Row
        tables = {row[0] for row in record.execute("SELECT name FROM sqlite_master")}
    except sqlite3.Error as error:
        raise Refused(f"read {path}: {error}") from error
    if not {"experiments", "runs", "steps", "evaluations"} <= tables:
        raise Refused(f"{path} is no record of longhaul: it lacks tables that every record has")
    return record


def seconds(utc):
    text = utc.replace("Z", "+00:00")
    moment = datetime.datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=datetime.timezone.utc)
    return moment.timestamp()


class Run:
    """One run as every tool wants it."""

    def __init__(self, record, row):
        self.id, self.arm, self.seed, self.status = row["id"], row["arm"], row["seed"], row["status"]
        self.experiment = f"{row['experiment_id']}-{row['experiment']}" if row["experiment"] else str(row["experiment_id"])
        self.name = f"{self.arm} seed {self.seed} run {self.id}"
        self.spec_toml = row["spec_toml"]
        self.begun = seconds(row["begun_utc"])
        self.finished = seconds(row["finished_utc"]) if row["finished_utc"] else None
        self.parameters = {f"spec.{k}": v for k, v in flat(tomllib.loads(self.spec_toml)).items()}
        for key in ("experiment", "arm", "role", "budget_fraction", "seed", "status", "reason", "stages", "groups",
                    "forward_codec", "backward_codec", "profile", "emulator", "host", "cpu", "isa", "torch_version",
                    "git_revision"):
            self.parameters[key] = row[key]
        for fact in record.execute("SELECT key, value FROM run_facts WHERE run_id = ? ORDER BY key", (self.id,)):
            self.parameters[f"fact.{fact['key']}"] = fact["value"]

        self.step, self.tokens, self.at = 0, 0, self.begun  # how far series() has told
        self.evaluated = set()

    def series(self, record, until=None):
        """(step, unix seconds, {name: value}) in order of what no earlier call told; of steps up to `until` where it is
        given. Values that are no numbers are left out."""
        means = ", ".join(f"AVG({t}) AS {t}" for t in TIMES)
        for row in record.execute(
                f"SELECT step, AVG(loss_nat) AS loss, {means}, SUM(outer_sent_bytes) AS sent,"
                " SUM(CASE WHEN stage = 0 THEN tokens ELSE 0 END) AS tokens"
                " FROM steps WHERE run_id = ? AND step > ? AND (? IS NULL OR step <= ?) GROUP BY step ORDER BY step",
                (self.id, self.step, until, until)):
            self.step = row["step"]
            self.tokens += row["tokens"]
            self.at += row["wall_s"]
            values = {"train/loss_nat": row["loss"], "train/tokens": self.tokens, "outer/sent_bytes": row["sent"],
                      "time/step_s": row["wall_s"]}
            values.update({f"time/{t}": row[t] for t in TIMES if t != "wall_s"})
            yield row["step"], self.at, finite(values)
        evaluations = {}
        for row in record.execute("SELECT step, codec, loss_nat FROM evaluations WHERE run_id = ? ORDER BY step",
                                  (self.id,)):
            if (row["step"], row["codec"]) not in self.evaluated:
                self.evaluated.add((row["step"], row["codec"]))
                evaluations.setdefault(row["step"], {})[f"eval/loss_nat/codec_{row['codec']}"] = row["loss_nat"]
        for step, values in evaluations.items():
            yield step, self.at, finite(values)


def finite(values):
    return {k: float(v) for k, v in values.items() if v is not None and math.isfinite(v)}


def runs_of(record, after=0):
    """In the order they were begun; those with a number above `after`."""
    for row in record.execute("SELECT runs.*, experiments.name AS experiment FROM runs"
                              " JOIN experiments ON experiments.id = runs.experiment_id"
                              " WHERE runs.id > ? ORDER BY runs.id", (after,)).fetchall():
        yield Run(record, row)


def to_parquet(record, out):
    """One file a table, columns as the schema declares them."""
    import pyarrow as arrow
    from pyarrow import parquet
    kinds = {"INTEGER": arrow.int64(), "REAL": arrow.float64(), "TEXT": arrow.string()}
    version = str(record.execute("PRAGMA user_version").fetchone()[0])
    names = [row[0] for row in record.execute(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name")]
    for name in names:
        columns = [(row["name"], kinds[row["type"]]) for row in record.execute(f'PRAGMA table_info("{name}")')]
        schema = arrow.schema(columns, metadata={"longhaul.record.version": version})
        rows = record.execute(f'SELECT * FROM "{name}"')
        with parquet.ParquetWriter(os.path.join(out, name + ".parquet"), schema) as writer:
            while batch := rows.fetchmany(BATCH):
                arrays = [arrow.array([row[i] for row in batch], type=kind) for i, (_, kind) in enumerate(columns)]
                writer.write_table(arrow.Table.from_arrays(arrays, schema=schema))
    return f"{len(names)} tables"


class TensorBoardRun:
    """Event files of one run."""

    def __init__(self, out, run):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.summary.writer.event_file_writer import EventFileWriter
        folder = os.path.join(out, plain(run.experiment), plain(run.arm), f"seed{run.seed}-run{run.id}")
        self.writer = EventFileWriter(folder)
        lines = "".join(f"    {key} = {value}\n" for key, value in run.parameters.items())
        self.writer.add_event(Event(step=0, wall_time=run.begun, summary=text_summary("run", lines)))

    def log(self, step, at, values):
        from tensorboard.compat.proto.event_pb2 import Event
        from tensorboard.compat.proto.summary_pb2 import Summary
        summary = Summary(value=[Summary.Value(tag=k, simple_value=v) for k, v in values.items()])
        self.writer.add_event(Event(step=step, wall_time=at, summary=summary))

    def flush(self):
        self.writer.flush()

    def close(self):
        self.writer.close()


def to_tensorboard(record, out):
    count = 0
    for run in runs_of(record):
        log = TensorBoardRun(out, run)
        for step, at, values in run.series(record):
            log.log(step, at, values)
        log.close()
        count += 1
    return f"{count} runs"


def text_summary(tag, text):
    """What the text plug-in shows; its own helper wants all of TensorFlow."""
    from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    plugin = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
    tensor = TensorProto(dtype=DT_STRING, string_val=[text.encode()])
    return Summary(value=[Summary.Value(tag=tag, metadata=plugin, tensor=tensor)])


class WandbRun:
    """One run of Weights & Biases; nothing is sent unless `mode` is "online"."""

    def __init__(self, out, run, mode="offline"):
        import wandb
        os.environ.setdefault("WANDB_SILENT", "true")
        self.run = wandb.init(mode=mode, dir=out, project=plain(run.experiment), group=run.arm, name=run.name,
                              config=run.parameters, tags=[run.status], reinit="create_new",
                              settings=wandb.Settings(console="off", disable_git=True, x_disable_stats=True))
        self.run.define_metric("step")
        self.run.define_metric("*", step_metric="step")

    def log(self, step, at, values):
        self.run.log({"step": step, **values})

    def flush(self):
        """It sends by itself."""

    def close(self):
        self.run.finish()


def to_wandb(record, out):
    count = 0
    for run in runs_of(record):
        log = WandbRun(out, run)
        for step, at, values in run.series(record):
            log.log(step, at, values)
        log.close()
        count += 1
    return f"{count} runs; `wandb sync {os.path.join(out, 'wandb', 'offline-run-*')}` uploads them"


def to_mlflow(record, out):
    # A plain folder needs no database; the tool asks for this where it is meant.
    os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param, RunTag
    client = MlflowClient(tracking_uri="file://" + os.path.abspath(out))
    experiments, count = {}, 0
    for run in runs_of(record):
        if run.experiment not in experiments:
            experiments[run.experiment] = client.create_experiment(run.experiment)
        made = client.create_run(experiments[run.experiment], start_time=int(1000 * run.begun), run_name=run.name)
        key = made.info.run_id
        params = [Param(re.sub(r"[^\w ./:-]", "_", k), str(v)[:6000]) for k, v in run.parameters.items()]
        for at in range(0, len(params), 100):
            client.log_batch(key, params=params[at:at + 100])
        client.log_batch(key, tags=[RunTag("status", run.status), RunTag("arm", run.arm)])
        metrics = [Metric(name, value, int(1000 * at), step)
                   for step, at, values in run.series(record) for name, value in values.items()]
        for at in range(0, len(metrics), 1000):
            client.log_batch(key, metrics=metrics[at:at + 1000])
        ended = "FINISHED" if run.status in ("ok", "partial") else "RUNNING" if run.status == "running" else "FAILED"
        client.set_terminated(key, ended, int(1000 * (run.finished or run.begun)))
        count += 1
    return f"{count} runs; `mlflow ui --backend-store-uri {out}` shows them"


# The module that the writer needs, the package that has it, the writer.
FORMATS = {
    "parquet": ("pyarrow", "pyarrow", to_parquet),
    "tensorboard": ("tensorboard", "tensorboard", to_tensorboard),
    "wandb": ("wandb", "wandb", to_wandb),
    "mlflow": ("mlflow", "mlflow-skinny", to_mlflow),
}


def export(results, to, out):
    """Returns what was written, in words. Refused: with one line that says why."""
    if os.path.exists(out) and (not os.path.isdir(out) or os.listdir(out)):
        raise Refused(f"--out {out} is there and not an empty folder: name a new one")
    module, install, write = FORMATS[to]
    with contextlib.closing(open_record(results)) as record:
        need(module, "this format", install)
        try:
            os.makedirs(out, exist_ok=True)
            return write(record, out)
        except BaseException as error:  # half an export must not pass for one
            shutil.rmtree(out, ignore_errors=True)
            if isinstance(error, (OSError, sqlite3.Error)):
                raise Refused(f"export {results} to {out}: {error}") from error
            raise
