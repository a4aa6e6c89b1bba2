"""What a timing grid found: step times against P2, where steps go, which codecs pay."""

import math
from dataclasses import dataclass, field

from longhaul.record import Record, Run
from longhaul.record.contents import mixed_contents
from longhaul.refusal import Refused, need
from longhaul.report.step_time import ACCEPTED_RESIDUAL, StepTime, Verdict, judge, step_times
from longhaul.tables import Cell, Interval, Measured, Table, badge, none, shown


@dataclass
class TimingCell:
    """One cell of a grid over its repeats. Means over repeats; intervals are t at 95 %, none with one repeat."""

    profile: str
    codecs: str
    schedule: str
    stages: int
    groups: int
    by_repeat: dict[int, StepTime] = field(default_factory=dict)
    invalid: int = 0  # runs whose links or bytes were out of bounds, or that failed
    step_s: Measured = Measured(0.0)  # of the runs' medians
    residual: Measured = Measured(0.0)  # ln(step / P2)
    # Where a step goes, s: mean worker's compute, bubble, coding, links, rest; they add up to step_s.
    parts_s: tuple[float, ...] = ()
    # Step without codecs over step with them, same links, schedule, S and G; above 1: the codec pays. None for the cell
    # without codecs, or without one.
    gain: Measured | None = None
    gain_disturbed: bool = False  # the times of one of both cells are
    note: str = ""  # why its times are disturbed
    verdict: Verdict = Verdict()  # of `residual`

    @property
    def repeats(self) -> int:
        return len(self.by_repeat)

    def mean(self, of) -> float:
        return sum(map(of, self.by_repeat.values())) / self.repeats


@dataclass
class TimingFindings:
    cells: list[TimingCell]  # in the order of their first runs
    # Over cells that are not disturbed, with an interval without assumptions on its distribution.
    median_residual: Measured | None = None
    undisturbed: int = 0


def pair_name(forward: str, backward: str) -> str:
    return forward if forward == backward else f"{forward} / {backward}"


def _cells(record, runs):
    times = {}
    for time in step_times(record, [run for run in runs if run.status == "ok"]):
        times[time.run] = time
    cells = {}
    for run in runs:
        kind = _schedule_of(run)
        c = cells.setdefault(run.arm, TimingCell(run.profile, pair_name(run.forward_codec, run.backward_codec), kind,
                                                 run.stages, run.groups))
        c.invalid += run.status in ("invalid", "failed")
        time = times.get(run.id)
        if time and time.measured_steps and time.p2_s is not None:
            c.by_repeat[run.seed] = time
    return list(cells.values())


def _schedule_of(run):
    from longhaul.record.specs import tree, value
    spec = tree(run.spec_toml)
    if spec is None or not value(spec, "schedule.kind"):
        raise Refused(f"run {run.id}: its spec is none that this version can read")
    return value(spec, "schedule.kind")


def _summarise(c, mean_of):
    if not c.repeats:
        return
    c.by_repeat = dict(sorted(c.by_repeat.items()))
    for time in c.by_repeat.values():
        c.note = time.note or c.note
    c.step_s = mean_of([t.measured_s.value for t in c.by_repeat.values()])
    c.residual = mean_of([math.log(t.measured_s.value / t.p2_s) for t in c.by_repeat.values()])
    c.parts_s = tuple(map(c.mean, (lambda t: t.compute_s, lambda t: t.alone_s - t.compute_s, lambda t: t.coded_s - t.alone_s,
                                   lambda t: t.p2_s - t.coded_s, lambda t: t.measured_s.value - t.p2_s)))


def _compare(without, c, ratio_of_means):
    """Repeats of one number ran beside one another, as seeds do: they are paired."""
    both = [(without.by_repeat[seed].measured_s.value, time.measured_s.value)
            for seed, time in c.by_repeat.items() if seed in without.by_repeat]
    if both:
        c.gain = ratio_of_means([base for base, _ in both], [step for _, step in both])
    c.gain_disturbed = bool(without.note or c.note)


def timing_findings(record: Record, runs: list[Run]) -> TimingFindings:
    """Of runs that ended ok; of one (cell, seed) the last.

    Raises:
        Refused: Runs of other files, or a spec that cannot be read; SciPy is missing.
    """
    if mixed := mixed_contents(runs):
        raise Refused(f"{record.path}: runs of other files are not mixed: {mixed}")
    need("scipy", "the table of a timing grid")
    from longhaul.analysis.interval import mean_of, median_of_independent, ratio_of_means
    cells = _cells(record, runs)
    for c in cells:
        _summarise(c, mean_of)
    for c in cells:
        for other in cells:
            same = (other.profile, other.schedule, other.stages, other.groups) == (c.profile, c.schedule, c.stages, c.groups)
            if same and c.codecs != "none" and other.codecs == "none":
                _compare(other, c, ratio_of_means)
        if c.repeats:
            c.verdict = judge(c.residual, c.note)
    residuals = [c.residual.value for c in cells if c.repeats and not c.note]
    return TimingFindings(cells, median_of_independent(residuals) if residuals else None, len(residuals))


def gain_verdict(c: TimingCell) -> str:
    """"pays", "costs" or "no difference shown"; "no verdict: timing disturbed"."""
    if c.gain_disturbed:
        return "no verdict: timing disturbed"
    i = c.gain.interval if c.gain else None
    return "no difference shown" if not i else "pays" if i.low > 1 else "costs" if i.high < 1 else "no difference shown"


def _text(m, form):
    ends = f" [{m.interval.low:{form}}, {m.interval.high:{form}}]" if m.interval else ""
    return f"{m.value:{form}}{ends}"


def _nine(x):
    """Nine digits, as the files of all versions have."""
    return float(f"{x:.9g}")


def _timed(m, form):
    i = m.interval
    return shown(_text(m, form), Measured(_nine(m.value), Interval(_nine(i.low), _nine(i.high), 0.95, "") if i else None))


def _row(c, wide):
    row = [c.profile, c.codecs, c.schedule, shown(f"{c.groups} x {c.stages}", c.stages), c.groups, c.repeats, c.invalid]
    if not c.repeats:
        row.append(none(f"{c.invalid} invalid") if c.invalid else Cell("not run", None, "open"))
        return row + [none()] * (wide - len(row))
    whole = c.step_s.value
    tones = {"within": "good", "beyond": "bad"}
    verdict = Cell("no verdict" if c.verdict.kind == "not judged" else c.verdict.text, c.verdict.text,
                   tones.get(c.verdict.kind, "open"))
    p1_s, p2_s, p3_s = c.mean(lambda t: t.p1_s), c.mean(lambda t: t.p2_s), c.mean(lambda t: t.p3_s)
    gain = gain_verdict(c)
    outer = [none(), none()]
    if list(c.by_repeat.values())[-1].outer_measured_s is not None:
        outer = [shown("-", _nine(c.mean(lambda t: t.outer_measured_s or 0))),
                 shown("-", _nine(c.mean(lambda t: t.outer_predicted_s or 0)))]
    return row + [
        _timed(c.step_s, ".4f"), f"{p2_s:.4f}", _timed(c.residual, "+.3f"), verdict, shown(f"{p1_s / whole:.2f}", _nine(p1_s)),
        shown("-", _nine(p2_s)), shown(f"{p3_s / whole:.2f}", _nine(p3_s)),
        *(shown(f"{100 * part / whole:.0f}", _nine(part)) for part in c.parts_s),
        _timed(c.gain, ".2f") if c.gain else none(),
        badge(gain, {"pays": "good", "costs": "bad"}.get(gain, "open")) if c.gain else none(), *outer,
        c.note or None, c.verdict.text or None]


def timing_table(findings: TimingFindings) -> Table:
    """For programs in s, every number with its interval."""
    table = Table(
        "On which links which codec pays",
        "links:links | codecs:codecs | schedule:schedule | groups x stages:stages | -:groups | n:repeats | -:invalid | "
        "step, s:step_s,step_low_s,step_high_s | P2, s | ln(step / P2):residual,residual_low,residual_high |  | P1/step:p1_s | "
        "-:p2_s | P3/step:p3_s | compute %:compute_s | bubble %:bubble_s | coding %:coding_s | links %:wire_s | rest %:rest_s | "
        "step without codecs / step:gain,gain_low,gain_high | :verdict | -:outer_s | -:outer_predicted_s | -:note | "
        "-:residual_verdict",
        notes=["Means over n repeats, t intervals at 95 %. Shares of a step, mean worker: compute; bubble, what the schedule "
               "alone makes stages wait; coding and links, what P2 adds with the measured times of encoding and decoding and "
               "with the links; rest, what P2 does not explain."])
    for c in findings.cells:
        table.add(*_row(c, len(table.columns)))
    if findings.undisturbed:
        table.notes.append(f"median of ln(step / P2) over {findings.undisturbed} cells: "
                           f"{_text(findings.median_residual, '+.3f')}")
    kinds = [c.verdict.kind for c in findings.cells if c.repeats]
    if kinds:
        within, beyond, open_ones = (kinds.count(kind) for kind in ("within", "beyond", "not judged"))
        table.notes.append(f"ln(step / P2) with its interval: {within} cells within {ACCEPTED_RESIDUAL:.2f}, {beyond} beyond, "
                           f"{open_ones} without a verdict")
    table.notes += [f"{c.profile}, {c.codecs}, {c.schedule}, {c.groups} x {c.stages}: {c.verdict.text}"
                    for c in findings.cells if c.repeats and c.verdict.kind == "not judged"]
    return table
