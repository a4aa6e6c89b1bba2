"""What the ranges of [assume] do to every reported quantity, and where [break_even] turns."""

import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np

from longhaul import toml
from longhaul.planning.simulator import columns, scenario_file
from longhaul.planning.simulator.results import MOST_LINES, axis_columns, axis_json, labels, name_of
from longhaul.refusal import Refused
from longhaul.tables import Table, cell, csv_rows, csv_text, for_programs, grid_text, json_rows, number, shown

DRAWS = 10_000
_STEP = np.uint64(0x9E3779B97F4A7C15)


def mix(x):
    """SplitMix64's finaliser: a bijection of 64 bits."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def uniform(seed, draws, source):
    """Numbers in (0, 1) that depend on seed, draw and source alone: the same on every machine."""
    with np.errstate(over="ignore"):
        draw = np.arange(draws, dtype=np.uint64) * np.uint64(64) + np.uint64(source + 1)
        bits = mix(mix(np.uint64(seed + 1) * _STEP) ^ (draw * _STEP))
    return ((bits >> np.uint64(12)).astype(float) + 0.5) * 2.0**-52


def triangular_quantile(low, mid, high, u):
    """The u-quantile of the triangular distribution on low..high with its peak at mid."""
    u = np.asarray(u, float)
    if not low < high:
        return np.full(u.shape, mid)
    below = (mid - low) / (high - low)
    return np.where(u < below, low + np.sqrt(u * (high - low) * (mid - low)),
                    high - np.sqrt((1 - u) * (high - low) * (high - mid)))


@dataclass
class Spread:
    """A quantity over the draws: all factors vary, independently; 5, 25, 50, 75 and 95 % of them."""

    quantity: str
    mid: float  # every factor at its middle
    low: float
    lower_quartile: float
    median: float
    upper_quartile: float
    high: float


@dataclass
class Lever:
    """A quantity as one factor goes from low to high, the others at their middle."""

    quantity: str
    factor: scenario_file.Assumption
    at_low: float
    at_mid: float
    at_high: float

    @property
    def moves(self):
        return max(self.at_low, self.at_mid, self.at_high) - min(self.at_low, self.at_mid, self.at_high)


@dataclass
class Uncertain:
    """A scenario of a file and what comes of the ranges."""

    name: str
    at: tuple
    spreads: list
    levers: list  # that move; by quantity, the one that moves it most first


def _with(scenario, factors):
    other = scenario.but()
    for name, value in factors.items():
        scenario_file.set_factor(other.measured, name, value)
    return columns.values(columns.rows_of(other), columns.QUANTITIES)


def propagate(scenario, factors, seed):
    """The spreads and the levers of a scenario."""
    uncertain = [a for a in factors if a.uncertain]
    order = list(scenario_file.FACTORS)
    # By the factor's place in its table: one more factor leaves the draws of the others as they are.
    drawn = _with(scenario, {a.name: triangular_quantile(a.low, a.mid, a.high, uniform(seed, DRAWS, order.index(a.name)))
                             for a in uncertain})
    middle = _with(scenario, {})
    ends = [(a, _with(scenario, {a.name: a.low}), _with(scenario, {a.name: a.high})) for a in uncertain]
    spreads, levers = [], []
    tail, quarter = DRAWS // 20, DRAWS // 4
    for name in columns.QUANTITIES:
        v = np.sort(np.broadcast_to(drawn[name], DRAWS)).tolist()
        spreads.append(Spread(name, float(middle[name]), v[tail], v[quarter], (v[DRAWS // 2 - 1] + v[DRAWS // 2]) / 2,
                              v[DRAWS - 1 - quarter], v[DRAWS - 1 - tail]))
        of = [Lever(name, a, float(low[name]), float(middle[name]), float(high[name])) for a, low, high in ends]
        levers += sorted((one for one in of if one.moves > 0), key=lambda one: -one.moves)
    return spreads, levers


def uncertainty(rows):
    file = rows.file
    return [Uncertain(name_of(file, rows.at(i)), rows.at(i), *propagate(rows.scenario(i), file.factors, file.seed))
            for i in range(rows.n)]


_MOST_SHOWN = 10
_BAR = 30  # characters of the longest


def _spread_table(rows, file=None):
    """With the rows' places in `file`'s lists; without a file of what moves alone."""
    table = Table("", axis_columns(file) if file else [])
    table.add_columns("quantity:quantity | at the middle:middle | -:p05 | -:p25 | median:median | -:p75 | "
                      "90 % interval:p95")
    for row in rows:
        for s in row.spreads:
            if file or s.low != s.high:
                table.add(*(labels(file, row.at) if file else ()), s.quantity, cell(s.mid, "{:.5g}"), s.low,
                          s.lower_quartile, cell(s.median, "{:.5g}"), s.upper_quartile,
                          shown(f"[{s.low:.5g}, {s.high:.5g}]", s.high))
    return table


def _tornado_table(rows, file=None, quantity=""):
    """Of every quantity with the rows' places in `file`'s lists; without a file of `quantity` alone."""
    table = Table("", axis_columns(file) if file else [])
    table.add_columns(f"-:quantity | {quantity}:factor | from:factor_low | to:factor_high | at low:at_low | -:at_middle | "
                      "at high:at_high | moves:moves | bar")
    most = 0.0  # the first moves it most
    for row in rows:
        for one in row.levers:
            if not file and one.quantity != quantity:
                continue
            most = most or one.moves
            table.add(*(labels(file, row.at) if file else ()), one.quantity, one.factor.name,
                      cell(one.factor.low, "{:.5g}"), cell(one.factor.high, "{:.5g}"), cell(one.at_low, "{:.4g}"),
                      one.at_mid, cell(one.at_high, "{:.4g}"), cell(one.moves, "{:.3g}"),
                      "" if file else "#" * math.ceil(_BAR * one.moves / most))
    return table


def _tornado_text(row, quantity):
    table = _tornado_table([row], None, quantity)
    return f"one factor at a time, the others at their middle:\n{grid_text(table)}" if table.rows else ""


def uncertainty_text(file, rows):
    """Of the first scenarios the quantities that move and the tornado of C_local and, where counted, C_quality."""
    text = "Ranges of [assume]: triangular between low and high with the peak at the middle, independent;\n" \
           f"{DRAWS} draws, seed {file.seed}.\n"
    for row in rows[:_MOST_SHOWN]:
        table = _spread_table([row])
        text += f"\n{row.name}\n" + (grid_text(table) if table.rows else
                                     "nothing that is reported moves with these factors\n") + _tornado_text(row, "c_local")
        if file.draft.scenario.chi:
            text += _tornado_text(row, "c_quality")
    if len(rows) > _MOST_SHOWN:
        text += f"... and {len(rows) - _MOST_SHOWN} scenarios more; --spread FILE and --tornado FILE hold all\n"
    return text


def spread_csv(file, rows):
    return csv_text(csv_rows(_spread_table(rows, file)))


def tornado_csv(file, rows):
    return csv_text(csv_rows(_tornado_table(rows, file)))


def uncertainty_json(file, rows):
    places = {axis.key for axis in file.axes}

    def without_places(table):
        return [{key: value for key, value in one.items() if key not in places} for one in json_rows(table)]
    return {"seed": file.seed, "draws": DRAWS, "distribution": "triangular",
            "scenarios": [{"at": axis_json(file, row.at), "spreads": without_places(_spread_table([row], file)),
                           "tornado": without_places(_tornado_table([row], file))} for row in rows]}


# --- break-even

STEPS = 1000  # a factor's range is looked at in so many steps
MOST_BREAK_EVEN = 10_000  # scenarios
_RESOLUTION = 1e-9  # of the range


@dataclass
class BreakEven:
    """Between which values of one factor a quantity reaches a bar, or what another scenario has with the same factor."""

    factor: str  # of [assume], or a key of the file that holds a number
    low: float
    high: float
    target: str  # a column
    bar: float | None
    beats: str


@dataclass
class Turn:
    """Where the truth of "target >= bar" changes as the factor goes from low to high."""

    at: tuple
    at_from: bool
    changes: list  # ascending, each within 1e-9 of the range
    margin_from: float  # target over bar; infinite over a bar of 0
    margin_to: float


def changes_of(holds, low, high):
    """The changes of `holds`, a function of an array, over low..high: by equal steps, and by bisection within those whose
    ends differ. Two changes within one step are not seen."""
    at = low + (high - low) * np.arange(STEPS + 1) / STEPS
    at[-1] = high
    truth = holds(at)
    changes = []
    for n in np.flatnonzero(truth[1:] != truth[:-1]):
        inside, outside = float(at[n]), float(at[n + 1])
        while outside - inside > _RESOLUTION * (high - low):
            middle = inside + (outside - inside) / 2
            if holds(np.array([middle]))[0] == truth[n]:
                inside = middle
            else:
                outside = middle
        changes.append(outside)
    return changes


def _number_key(name):
    return next((key for key in scenario_file.KEYS if key.of is float and key.path == name), None)


def read_break_even(root, file):
    """The table [break_even]; None where the file has none."""
    r = toml.Reader(root, "break_even")
    if not r.present:
        return None
    search = BreakEven(r.take("factor", str, "", required=True), r.take("from", float, 0.0, required=True),
                       r.take("to", float, 0.0, required=True), r.take("target", str, "", required=True),
                       r.take("at_least", float), r.take("beats", str, ""))
    r.finish()
    key = _number_key(search.factor)
    if search.factor not in scenario_file.FACTORS and not key:
        r.fail("factor", f"is '{toml.shown(search.factor)}'; want one of {', '.join(scenario_file.FACTORS)}, or a key that "
                         "holds a number, such as network.wan_mbps")
    else:
        least, most = scenario_file.FACTORS[search.factor][:2] if not key else (key.least, key.most)
        r.within("from", search.low, float(least), float(most))
        r.within("to", search.high, float(least), float(most))
        r.check(search.low < search.high, "from", "is not below 'to'")
    r.check(not file.has_axis(search.factor), "factor", "is a list in this file; leave one of them out")
    r.check(search.target not in ("times_threshold", "percent_of_best"), "target", "is of a whole table; take c_local")
    if search.target not in columns.COLUMNS:
        r.fail("target", f"is '{toml.shown(search.target)}'; want one of {columns.NAMES}")
    r.check((search.bar is not None) == (not search.beats), "at_least",
            "or 'beats' is wanted: a number, or the name of a [[scenario]]; one of the two")
    if search.beats:
        r.check(file.named and search.beats in file.axes[0].labels, "beats", "names no [[scenario]] of this file")
    r.check(not file.search, "factor", "is sought, and [search] counts nodes; leave one of them out")
    r.check(file.size <= MOST_BREAK_EVEN, "factor", f"is sought in more than {MOST_BREAK_EVEN} scenarios; shorten a list")
    r.done()
    return search


def find_break_even(file, search):
    """A Turn for each scenario."""
    key = _number_key(search.factor)

    def target(draft, values):
        one = draft.but([(key, values)] if key else [])
        if not key:
            scenario_file.set_factor(one.scenario.measured, search.factor, values)
        scenario, wrong = one.build()
        if wrong:
            raise Refused(f"{file.where}: {wrong[1]}")
        rows = columns.rows_of(scenario, values.shape)
        rows.threshold, rows.best = 1.0, rows.local
        with np.errstate(all="ignore"):
            return np.asarray(columns.COLUMNS[search.target][2](SimpleNamespace(**vars(rows))), float)

    rival = file.named[file.axes[0].labels.index(search.beats)] if search.beats else None
    ends, turns = np.array([search.low, search.high]), []
    for i in range(file.size):
        draft = file.draft_at(i)

        def both(values, draft=draft):
            return target(draft, values), target(rival, values) if rival else np.full(values.shape, search.bar)

        def holds(values, both=both):
            have, bar = both(values)
            return have >= bar
        have, bar = both(ends)
        with np.errstate(all="ignore"):
            margins = np.where(bar > 0, have / bar, np.inf)
        turns.append(Turn(file.at(i), bool(have[0] >= bar[0]), changes_of(holds, search.low, search.high),
                          float(margins[0]), float(margins[1])))
    return turns


def _verdict(turn):
    if not turn.changes:
        return "everywhere" if turn.at_from else "nowhere"
    text, holds = "up to " if turn.at_from else "from ", turn.at_from
    for n, change in enumerate(turn.changes):
        text += ((" to " if holds else ", from ") if n else "") + f"{change:.4g}"
        holds = not holds
    return text


def break_even_text(file, search, turns):
    table = Table("", axis_columns(file))
    table.add_columns(f"holds | margin at {search.low:g} | margin at {search.high:g}")
    for turn in turns[:MOST_LINES]:
        table.add(*labels(file, turn.at), _verdict(turn), cell(turn.margin_from, "{:.4g}"), cell(turn.margin_to, "{:.4g}"))
    bar = f"that of {search.beats}" if search.bar is None else f"{search.bar:g}"
    text = f"Break-even: {search.target} at least {bar}, as {search.factor} goes from {search.low:g} to {search.high:g}\n" + \
        grid_text(table)
    if len(turns) > MOST_LINES:
        text += f"... and {len(turns) - MOST_LINES} rows more; --break-even FILE holds all\n"
    return text


def break_even_csv(file, search, turns):
    table = Table("", axis_columns(file))
    table.add_columns(for_programs("target | factor | from | to | holds_at_from | margin_from | margin_to | changes"))
    for turn in turns:
        table.add(*labels(file, turn.at), search.target, search.factor, search.low, search.high, turn.at_from,
                  turn.margin_from, turn.margin_to, " ".join(map(number, turn.changes)))
    return csv_text(csv_rows(table))


def break_even_json(file, search, turns):
    out = {"target": search.target, "factor": search.factor, "from": search.low, "to": search.high}
    out |= {"beats": search.beats} if search.bar is None else {"at_least": search.bar}
    return out | {"rows": [{"at": axis_json(file, turn.at), "holds_at_from": turn.at_from, "changes": turn.changes,
                            "margin_from": turn.margin_from, "margin_to": turn.margin_to} for turn in turns]}
