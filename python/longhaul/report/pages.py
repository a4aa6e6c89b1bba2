"""A record as one self-contained page: OUT/index.html, styles and figures inlined, nothing is fetched, and training is never
computed again. Beside it OUT/tables/*.csv, every table of the record; OUT/<experiment>/*.csv, what the figures were drawn
from; for a campaign OUT/<experiment>/calibration.json."""

import datetime
import pathlib

from longhaul.analysis.calibration import calibration_json
from longhaul.files import make_folder, write_whole
from longhaul.record import Record
from longhaul.refusal import Refused
from longhaul.report import data
from longhaul.report.figures import draw
from longhaul.report.page import html_page
from longhaul.report.sections import section_html
from longhaul.report.timing import timing_table
from longhaul.tables import Table, csv_rows, csv_text, escaped


def _write_raw_tables(record, folder):
    """Every table of the record, as it is."""
    make_folder(folder)
    for table, in record.query("SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"):
        names = [row[1] for row in record.query(f'PRAGMA table_info("{table}")')]
        texts = ", ".join(f'COALESCE(CAST("{name}" AS TEXT), \'\')' for name in names)
        write_whole(f"{folder}/{table}.csv", csv_text([names, *record.query(f'SELECT {texts} FROM "{table}"')]))


def _files(record, e: data.Reported) -> dict[str, Table | str]:
    files = {"step_times.csv": data.step_times_table(e.step_times), "training.csv": data.training_table(record, e)}
    if e.timing:
        files["timing.csv"] = timing_table(e.timing)
    if a := e.campaign:
        files |= {"curve.csv": data.curve_table(a), "fit.csv": data.fit_table(a), "losses.csv": data.losses_table(a),
                  "arms.csv": data.arms_table(a), "joint.csv": data.joint_table(a), "depth_models.csv": data.depth_table(a),
                  "diloco.csv": data.diloco_table(a), "residuals.csv": data.residuals_table(a),
                  "pareto.csv": data.pareto_table(record, a), "wire.csv": data.wire_table(data.arms_on_the_wire(record, a)),
                  "calibration.json": calibration_json(a, data.frame_bytes)}
    return files


def _title(experiments):
    """What the page is about: campaigns ask for q, grids and shaped runs for times."""
    if any(e.campaign for e in experiments):
        return "What a pipeline boundary costs"
    if any(e.timing for e in experiments):
        return "Which codec pays on which links"
    if any(run.profile != "loopback" for e in experiments for run in e.runs):
        return "What a step takes over its links"
    return "How the loss fell"


def _header(record, experiments):
    many = "" if len(experiments) == 1 else "s"
    now = datetime.datetime.now(datetime.timezone.utc).isoformat()[:16]
    first = "".join(f'<p class="first">{escaped(e.row.name)}: {escaped(e.campaign.resolvable)}</p>\n'
                    for e in experiments if e.campaign)
    return (f"<header><h1>{_title(experiments)}</h1>\n<p>Record {escaped(record.path)}, {len(experiments)} experiment{many}; "
            f"written {now}.</p>\n{first}</header>\n")


def write_report(record: Record, out: str) -> str:
    """The path of the page. Where there is no matplotlib it says so and keeps its tables.

    Raises:
        Refused: numpy or SciPy is missing; the record cannot be read.
    """
    _write_raw_tables(record, f"{out}/tables")
    experiments = [e for row in record.experiments() if (e := data.read_experiment(record, row)).runs]
    body, note = _header(record, experiments), ""
    for e in experiments:
        folder = f"{out}/{e.folder}"
        make_folder(folder)
        for name, found in _files(record, e).items():
            write_whole(f"{folder}/{name}", found if isinstance(found, str) else csv_text(csv_rows(found)))
        figures = {}
        try:
            figures = draw(folder)
        except Refused as refused:
            note = str(refused)
        body += section_html(record, e, figures, note)
    title = f"longhaul: {pathlib.Path(record.folder).name}"
    write_whole(f"{out}/index.html", html_page(title, body))
    return f"{out}/index.html"
