"""Small records for tests, by the schema of the engine."""

import pathlib
import sqlite3

SCHEMA = pathlib.Path(__file__).parents[2] / "experiments" / "record" / "schema.sql"


class Made:
    """A record that is being written: rows are added by name, what is not said is 0 or empty."""

    def __init__(self, folder, without=()):
        pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
        self.folder = str(folder)
        self.db = sqlite3.connect(pathlib.Path(folder) / "longhaul.sqlite", isolation_level=None)
        self.db.executescript(SCHEMA.read_text(encoding="utf-8") + "PRAGMA user_version = 2;")
        for table in without:
            self.db.execute(f"DROP TABLE {table}")

    def add(self, table, **values):
        declared = list(self.db.execute(f"PRAGMA table_info({table})"))
        row = {name: values.get(name, (None if not needed else "" if kind == "TEXT" else 0))
               for _, name, kind, needed, _, key in declared if not (name == "id" and "id" not in values)}
        self.db.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
        return self.db.execute("SELECT last_insert_rowid()").fetchone()[0]

    def experiment(self, kind="run", name="x", plan_text="", **values):
        from longhaul.record.store import plan_sha256
        from longhaul.record import Experiment
        sha256 = plan_sha256(Experiment(0, kind, name, "", plan_text, "", None, ""))
        return self.add("experiments", kind=kind, name=name, plan_text=plan_text, plan_sha256=sha256,
                        begun_utc="2026-03-01T12:34:56.789Z", **values)

    def run(self, experiment, facts=None, **values):
        values = {"role": "single", "status": "ok", "stages": 1, "groups": 1, "arm": "a", "profile": "loopback",
                  "emulator": "none", "begun_utc": "2026-03-01T12:34:56.789Z"} | values
        number = self.add("runs", experiment_id=experiment, **values)
        for key, value in (facts or {}).items():
            self.add("run_facts", run_id=number, key=key, value=value)
        return number
