"""Two records beside each other: the same plan on another machine or by another version, or two plans with arms of the same
name. Estimates of both are computed here and now, by one program."""

import math
from collections import defaultdict
from dataclasses import dataclass, field

from longhaul.analysis.changes import changes_text, spec_changes
from longhaul.analysis.rows import estimate, estimates
from longhaul.files import make_folder, write_whole
from longhaul.record import Estimate, Record
from longhaul.record import rows
from longhaul.record.contents import read_contents, short
from longhaul.refusal import Refused
from longhaul.report.data import Reported, read_experiment
from longhaul.report.figures import draw
from longhaul.report.page import figure_html, html_page
from longhaul.tables import (LOW_END, UPPER, Interval, Measured, Table, badge, cell, csv_rows, csv_text, escaped, grid_html,
                             none, with_interval)


@dataclass
class ComparedEstimate:
    """One quantity that both records have, or that one of them lacks."""

    arm: str
    evaluation: str
    quantity: str
    unit: str
    a: Estimate | None = None
    b: Estimate | None = None
    # b - a. The interval is MOVER's (Zou and Donner 2008, from the two intervals): it takes the two for independent. Seeds
    # that both have make it wider than it need be, never narrower.
    difference: Measured | None = None
    note: str = ""  # why there is no difference, or no interval

    @property
    def apart(self) -> bool:
        """The interval excludes 0."""
        i = self.difference.interval if self.difference else None
        return bool(i) and (i.low > 0 or i.high < 0)

    @property
    def verdict(self) -> str:
        if not self.difference or not self.difference.interval:
            return ""
        return "apart" if self.apart else "not told apart"


@dataclass
class ComparedExperiment:
    a: str  # names
    b: str
    same_plan: bool
    arms_of_a: int = 0
    arms_of_b: int = 0
    arms: int = 0
    # Runs of one arm and seed in both, with a final loss (codec off at evaluation); how many of them have the very same bits
    # of it, and the widest that two are apart.
    runs: int = 0
    identical: int = 0
    widest_nat: float = 0.0
    settings: dict[str, list[str]] = field(default_factory=dict)  # "train.lr 0.003 > 0.002": the arms it was found in
    machines: list[str] = field(default_factory=list)  # "cpu: X > Y"
    estimates: list[ComparedEstimate] = field(default_factory=list)
    first_lines: tuple[str, str] = ("", "")  # what each could resolve, where it is a campaign


@dataclass
class RecordComparison:
    a: str  # folders
    b: str
    experiments: list[ComparedExperiment] = field(default_factory=list)
    only_a: list[str] = field(default_factory=list)  # names of experiments
    only_b: list[str] = field(default_factory=list)


def _final_losses(e):
    return {(arm.name, o.run.seed): o.off for arm in (e.campaign.arms if e.campaign else ()) for o in arm.outcomes
            if o.off is not None}


def _last_runs(e):
    """The run that counts for each arm and seed: the last one."""
    return {key: run for key, run in sorted({(run.arm, run.seed): run for run in e.runs}.items())}


def _compare_settings(a, b, out):
    of_a, of_b = _last_runs(a), _last_runs(b)
    in_a, in_b = ({arm for arm, _ in of} for of in (of_a, of_b))
    out.arms_of_a, out.arms_of_b, out.arms = len(in_a), len(in_b), len(in_a & in_b)
    for key, run in of_a.items():
        for change in spec_changes(run.spec_toml, of_b[key].spec_toml) if key in of_b else ():
            arms = out.settings.setdefault(changes_text([change]), [])
            if arms[-1:] != [key[0]]:
                arms.append(key[0])


def _made_with(run):
    """What a run was made with, by name."""
    left_out = {rows.RUN_ID, rows.ATTEMPT, rows.NAMED_FILES, rows.STILL_SHARE, rows.CORE_WAIT_SHARE, rows.STOLEN_SHARE}
    out = {key: told for key, told in run.facts.items() if key not in left_out}
    for file in read_contents(run.facts.get(rows.NAMED_FILES, "")):
        out[f"SHA-256 of {file.key}"] = short(file.sha256)
    return out | {"revision": run.git_revision, "host": run.host, "kernel": run.kernel, "torch": run.torch_version,
                  "cpu": run.cpu, "codecs' instruction set": run.isa, "threads": str(run.threads), "emulator": run.emulator}


def _compare_machines(a, b, out):
    """Facts of single runs (times, counts) are not settings: only those that few values of a side share."""
    sides = []
    for e in (a, b):
        values = defaultdict(set)
        for run in e.runs:
            for name, told in _made_with(run).items():
                values[name].add(told)
        sides.append(values)
    of_a, of_b = sides
    for name in sorted(of_a):
        if name in of_b and of_a[name] != of_b[name] and len(of_a[name]) <= 3 and len(of_b[name]) <= 3:
            out.machines.append(f"{name}: {' and '.join(sorted(of_a[name]))} > {' and '.join(sorted(of_b[name]))}")


def _estimates(e: Reported):
    """Of a campaign; else step times, which timing runs are compared by."""
    if e.campaign:
        return estimates(e.campaign)
    return [estimate(f"{t.arm}, {t.profile}, {t.schedule}, S = {t.stages}, G = {t.groups}", "", "step time", "s", t.measured_s,
                     0, t.note) for t in e.step_times]


# What is no measurement of its own and does not gain from a difference.
_LEFT_OUT = (" z at S", ", p by Holm", "p that gamma is 1")


def _subtract(out):
    a, b = out.a, out.b
    if a.value is None or b.value is None:
        out.note = f"no value on one side: {b.note if a.value is not None else a.note}"
        return
    if a.value_bound or b.value_bound:
        out.note = "a bound has no difference"
        return
    d = b.value - a.value
    out.difference = Measured(d)
    if None in (a.low, a.high, b.low, b.high):
        out.note = "no interval on one side"
    elif a.low_bound or b.low_bound:
        out.note = "an interval that is cut gives the difference none"
    else:
        out.difference = Measured(d, Interval(d - math.hypot(b.value - b.low, a.high - a.value),
                                              d + math.hypot(b.high - b.value, a.value - a.low), a.level or 0.95, "mover"))


def _compare_estimates(a, b):
    sides = [{}, {}]
    for side, e in zip(sides, (a, b)):
        for row in _estimates(e):
            if not any(words in row.quantity for words in _LEFT_OUT):
                side[row.arm, row.evaluation, row.quantity] = row
    found = []
    for key in dict.fromkeys([*sides[0], *sides[1]]):
        ours, theirs = sides[0].get(key), sides[1].get(key)
        out = ComparedEstimate(*key, (ours or theirs).unit, ours, theirs)
        if ours and theirs:
            _subtract(out)
        else:
            out.note = "only in A" if ours else "only in B"
        found.append(out)
    return found


def _compare_two(a: Reported, b: Reported):
    out = ComparedExperiment(a.row.name, b.row.name, bool(a.row.plan_text) and a.row.plan_sha256 == b.row.plan_sha256,
                             first_lines=tuple(e.campaign.resolvable if e.campaign else "" for e in (a, b)))
    ours, theirs = _final_losses(a), _final_losses(b)
    apart = [abs(loss - theirs[key]) for key, loss in ours.items() if key in theirs]
    out.runs, out.identical, out.widest_nat = len(apart), apart.count(0.0), max(apart, default=0.0)
    _compare_settings(a, b, out)
    _compare_machines(a, b, out)
    out.estimates = _compare_estimates(a, b)
    return out


def _newest(record):
    """The newest experiment of each kind and name."""
    found = {(not row.campaign and "run" or "z", row.name): row for row in record.experiments()}
    return dict(sorted(found.items()))


def _match_sole_campaigns(of_a, of_b):
    """Where each side has one campaign, B's takes the name of A's."""
    sole = [[key for key in of if key[0] != "run"] for of in (of_a, of_b)]
    if len(sole[0]) == len(sole[1]) == 1 and sole[0] != sole[1]:
        of_b[sole[0][0]] = of_b.pop(sole[1][0])


def _check_no_shared_run(a, b):
    """The same runs on both sides are no comparison: through a link, in a copy, after a merge."""
    ids = [[told for told, in record.query(f"SELECT value FROM run_facts WHERE key = '{rows.RUN_ID}'")] for record in (a, b)]
    shared = len(set(ids[0]).intersection(ids[1])) + len(ids[1]) - len(set(ids[1]))
    if shared:
        raise Refused(f"compare {a.folder} and {b.folder}: {shared} of the {len(ids[1])} runs of the second are runs of the first "
                      "(the same run_id): name two records with runs of their own")


def compare_records(a: Record, b: Record) -> RecordComparison:
    """Experiments are matched by kind and name, the newest of several; where each record has one campaign, these two whatever
    they are called.

    Raises:
        Refused: They have none in common, or a run in common.
    """
    _check_no_shared_run(a, b)
    of_a, of_b = _newest(a), _newest(b)
    _match_sole_campaigns(of_a, of_b)
    out = RecordComparison(a.folder, b.folder)
    for key, row in of_a.items():
        if key in of_b:
            out.experiments.append(_compare_two(read_experiment(a, row), read_experiment(b, of_b[key])))
        else:
            out.only_a.append(key[1])
    out.only_b = [name for kind, name in of_b if (kind, name) not in of_a]
    if not out.experiments:
        names = (", ".join(name for _, name in of) for of in (of_a, of_b))
        raise Refused(f"compare {a.folder} and {b.folder}: no experiment of one kind and name is in both; there are "
                      f"{' and '.join(names)}")
    return out


# --- as text, CSV and a page

CHANCE = 0.05  # of 95 % intervals of nothing


def _side(row):
    if not row or row.value is None:
        return none()
    bound = LOW_END if row.low_bound else UPPER if row.value_bound else ""
    ends = Interval(row.low, row.high, row.level or 0.95, row.method) if None not in (row.low, row.high) else None
    return cell(Measured(row.value, ends, bound))


def _tally(e):
    told = [x.apart for x in e.estimates if x.verdict]
    if not told:
        return "No estimate has an interval on both sides."
    return (f"{sum(told)} of {len(told)} differences are apart at 95 %; about {CHANCE * len(told):.0f} would be by chance alone "
            "(they are not independent of each other: eta, ln eta and q of one arm are one finding).")


def _runs_text(e):
    if not e.runs:
        return "no final loss of the same arm and seed on both sides"
    if e.identical == e.runs:
        return f"all {e.runs} final losses of the same arm and seed are the same bits"
    return (f"{e.identical} of {e.runs} final losses of the same arm and seed are the same bits; the others are up to "
            f"{e.widest_nat:.2g} nat apart")


def _conditions(e):
    return (f"{'the same plan' if e.same_plan else 'different plans'}; {e.arms} arms in both, {e.arms_of_a - e.arms} only in A, "
            f"{e.arms_of_b - e.arms} only in B; {_runs_text(e)}")


def _settings(e):
    return [f"{text} ({'every arm' if len(arms) == e.arms else ', '.join(arms)})" for text, arms in e.settings.items()]


def _names(e):
    return e.a if e.a == e.b else f"{e.a} (A), {e.b} (B)"


def _experiment_text(e):
    lines = [f"{_names(e)}: {_conditions(e)}."]
    lines += [f"  differs: {line}" for line in _settings(e)] + [f"  made with other {line}" for line in e.machines]
    for x in e.estimates:
        headline = x.quantity in ("eta", "q", "step time") and x.difference and x.evaluation != "on"
        if x.apart or headline:
            name = (x.arm or "campaign") + (f", codec {x.evaluation}" if x.evaluation else "")
            lines.append(f"  {name}, {x.quantity}: A {_side(x.a).text}, B {_side(x.b).text}, B - A "
                         f"{with_interval(x.difference, 4)}  {x.verdict}")
    return "\n".join([*lines, f"  {_tally(e)}"]) + "\n"


def comparison_text(c: RecordComparison) -> str:
    text = f"A: {c.a}\nB: {c.b}\n" + "".join(map(_experiment_text, c.experiments))
    for side, names in (("A", c.only_a), ("B", c.only_b)):
        if names:
            text += f"only in {side}: {', '.join(names)}\n"
    return text


def estimates_table(experiments: list[ComparedExperiment]) -> Table:
    table = Table(columns="-:experiment | arm:arm | codec:evaluation | quantity:quantity | unit:unit | A:a,a_low,a_high | -:a_bound | "
                          "-:a_low_bound | B:b,b_low,b_high | -:b_bound | -:b_low_bound | "
                          "B - A:difference,difference_low,difference_high |  | -:verdict | -:note")

    def marks(row):
        return (row.value_bound, row.low_bound) if row else ("", "")
    for e in experiments:
        for x in e.estimates:
            table.add(e.a, x.arm, x.evaluation, x.quantity, x.unit, _side(x.a), *marks(x.a), _side(x.b), *marks(x.b), x.difference,
                      badge(x.verdict, "bad" if x.apart else "plain") if x.verdict else x.note, x.verdict, x.note)
    return table


def _experiment_html(e):
    out = f'<section><h2>{escaped(_names(e))}</h2>\n<p class="conditions">{_conditions(e)}.</p>\n'
    for side, line in zip("AB", e.first_lines):
        if line:
            out += f'<p class="note">{side}: {escaped(line)}</p>\n'
    for title, lines in (("Settings that differ, A &gt; B", _settings(e)), ("Made with other, A &gt; B", e.machines)):
        if lines:
            out += f"<h3>{title}</h3><ul>{''.join(f'<li>{escaped(line)}</li>' for line in lines)}</ul>\n"
    return (f'{out}<h3>Estimates</h3><p class="note">{escaped(_tally(e))} The difference\'s interval takes the two sides for '
            f"independent; where they share seeds it is wider than it need be.</p>{grid_html(estimates_table([e]))}</section>\n")


def write_comparison(c: RecordComparison, out: str) -> str:
    """Writes OUT/index.html, compare.csv and compare.svg; the path of the page."""
    make_folder(out)
    write_whole(f"{out}/compare.csv", csv_text(csv_rows(estimates_table(c.experiments))))
    body = f"<header><h1>Two records beside each other</h1>\n<p>A: {escaped(c.a)}<br>B: {escaped(c.b)}</p></header>\n"
    figures = {}
    try:
        figures = draw(out)
    except Refused as refused:
        body += f'<p class="note">No figures: {escaped(str(refused))}</p>\n'
    body += figure_html(figures.get("compare", ""), "&eta; of arms in both records, codec off at evaluation, 95 % intervals, and "
                                                    "the difference B - A.")
    write_whole(f"{out}/index.html", html_page("longhaul: two records", body + "".join(map(_experiment_html, c.experiments))))
    return f"{out}/index.html"
