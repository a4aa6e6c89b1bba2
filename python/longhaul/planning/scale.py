"""Runs in simulated time over a product of settings: what seeds say of each point. The runs are the engine's
(`longhaul _clock`); here are the sweep, the intervals, the table, the CSV, the document and the figure.
"""

import itertools
import math
from dataclasses import dataclass, field
from xml.sax.saxutils import escape

from longhaul.commands import ask_clock
from longhaul.refusal import Refused
from longhaul.tables import Column, Measured, Table, cell, csv_rows, csv_text, for_programs, grid_text, number
from longhaul.toml import shown

MOST_POINTS = 10_000
MOST_SEEDS = 1000


@dataclass(frozen=True)
class Axis:
    """One key of the spec and the values that it takes in turn."""

    key: str
    values: list


@dataclass
class Point:
    at: list  # one value of each axis
    run: dict  # what the engine says of it
    seeds: list = field(default_factory=list)

    def over_seeds(self, value) -> Measured:
        from longhaul.analysis.interval import mean_of  # pylint: disable=import-outside-toplevel
        return mean_of([value(seed) for seed in self.seeds])

    def mean(self, key):
        return sum(seed[key] for seed in self.seeds) / len(self.seeds)

    @property
    def ideal(self):
        return self.run["ideal_tokens_per_s"]

    @property
    def goodput(self):
        return self.over_seeds(lambda r: r["goodput_tokens_per_s"])

    @property
    def seconds(self):
        return self.over_seeds(lambda r: r["seconds"])

    @property
    def utilisation(self):
        return self.over_seeds(lambda r: r["utilisation"])

    @property
    def lost_share(self):
        def share(r):
            every = r["tokens_counted"] + r["tokens_lost"]
            return r["tokens_lost"] / every if every > 0 else 0.0
        return self.over_seeds(share)

    @property
    def remark(self):
        early = [r["ended_early"] for r in self.seeds if r["ended_early"]]
        return f"{len(early)} of {len(self.seeds)} seeds ended early: {early[0]}" if early else ""


def parse_axis(text):
    """"outer.inner_steps=50,100,200"."""
    key, equals, values = text.partition("=")
    if not key or not equals or not values:
        raise Refused(f"'{shown(text)}': want KEY=VALUE,VALUE, as scale.mtbf_h=6,24,96")
    axis = Axis(key, values.split(","))
    if "" in axis.values:
        raise Refused(f"'{shown(text)}': an empty value")
    return axis


@dataclass
class Sweep:
    axes: list
    points: list

    def text(self):
        head, seeds = self.points[0].run, len(self.points[0].seeds)
        table = Table("", [Column(axis.key) for axis in self.axes])
        table.add_columns("step s | round s | p95 | days | goodput tokens/s | of ideal % | lost % | busy % | faults")
        remarks = ""
        for p in self.points:
            table.add(*p.at, cell(p.run["step_s"], "{:.4g}"), cell(p.mean("round_mean_s"), "{:.5g}"),
                      cell(p.mean("round_p95_s"), "{:.5g}"), cell(p.seconds.value / 86400, "{:.3f}"),
                      _with_interval(p.goodput, 1, 0), _with_interval(p.goodput, 100 / p.ideal, 1),
                      _with_interval(p.lost_share, 100, 2), _with_interval(p.utilisation, 100, 1),
                      cell(p.mean("faults"), "{:.0f}"))
            if p.remark:
                remarks += f"{', '.join(p.at)}: {p.remark}\n"
        return (f"simulated time: S = {head['stages']}, G = {head['groups']}, {head['steps']} steps in rounds of "
                f"{max(1, head['inner_steps'])}, {head['schedule']}; {head['profile']} to "
                f"{number(head['inside_bit_per_s'] / 1e6)} Mbit/s inside, {number(head['between_bit_per_s'] / 1e6)} between; "
                f"{seeds} seed{'' if seeds == 1 else 's'}\nNothing is trained: step times are P2's of [compute], links as "
                f"named, without random loss.\n{grid_text(table)}{remarks}")

    def csv(self):
        keys = ("seed step_s rounds faults seconds round_mean_s round_p50_s round_p95_s round_max_s tokens_counted "
                "tokens_lost goodput_tokens_per_s ideal_tokens_per_s utilisation exchange_s ended_early").split()
        table = Table("", [Column(None, (axis.key,)) for axis in self.axes])
        table.add_columns(for_programs(" | ".join(keys)))
        for p in self.points:
            for seed in p.seeds:
                row = p.run | seed | {"ended_early": bool(seed["ended_early"])}
                table.add(*p.at, *(row[key] for key in keys))
        return csv_text(csv_rows(table))

    def document(self):
        """longhaul.scale/1: every point with every seed, and where there is one point also its rounds."""
        def measured(m):
            i = m.interval
            return {"value": m.value} | ({"low": i.low, "high": i.high, "level": i.level} if i else {})
        points = [{"step_s": p.run["step_s"], "ideal_tokens_per_s": p.ideal, "goodput_tokens_per_s": measured(p.goodput),
                   "seconds": measured(p.seconds), "lost_share": measured(p.lost_share),
                   "utilisation": measured(p.utilisation), "at": dict(zip((axis.key for axis in self.axes), p.at)),
                   "seeds": [{key: value for key, value in seed.items() if key != "ended_early" or value}
                             for seed in p.seeds]} for p in self.points]
        return {"schema": "longhaul.scale/1", "points": points}

    def svg(self):
        """Goodput over the first axis, whose values are numbers, a line for each value of the others."""
        if not self.axes:
            raise Refused("a plot needs a --sweep whose values are its x axis")
        return _figure(self.axes, _lines(self.axes, self.points))


def sweep(spec, sets=(), axes=(), seeds=1):
    """Every point of the product of the axes, the last fastest, each with seeds spec.seed, spec.seed + 1, ..."""
    if math.prod(len(axis.values) for axis in axes) > MOST_POINTS:
        raise Refused(f"the lists have more than {MOST_POINTS} combinations")
    places = [list(at) for at in itertools.product(*(axis.values for axis in axes))]
    request = {"spec": spec, "sets": list(sets), "seeds": seeds,
               "points": [[f"{axis.key}={value}" for axis, value in zip(axes, at)] for at in places]}
    points = []
    for at, run in zip(places, ask_clock("scale", request)):
        points.append(Point(at, run, run.pop("seeds")))
    return Sweep(list(axes), points)


def _with_interval(m, factor, digits):
    text = f"{m.value * factor:.{digits}f}"
    if m.interval:
        text += f" [{m.interval.low * factor:.{digits}f}, {m.interval.high * factor:.{digits}f}]"
    return text


def _lines(axes, points):
    """By the values of all axes but the first: where each point is on that, logarithmic and ascending."""
    lines = {}
    for p in points:
        try:
            x = float(p.at[0])
        except ValueError:
            x = 0.0
        if not x > 0:
            raise Refused(f"a plot's x axis, {axes[0].key}, wants positive numbers; got '{p.at[0]}'")
        name = ", ".join(f"{axis.key} {value}" for axis, value in zip(axes[1:], p.at[1:]))
        lines.setdefault(name, []).append((math.log(x), p))
    return {name: sorted(lines[name], key=lambda one: one[0]) for name in sorted(lines)}


_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 640, 400, 70, 50, 30, 160
_COLOURS = ("#1b6ca8", "#c8553d", "#3a7d44", "#8e5ea2", "#b8860b", "#444444")


def _figure(axes, lines):
    least = min(line[0][0] for line in lines.values())
    most = max(line[-1][0] for line in lines.values())
    span = most - least if most > least else 1

    def px(x):
        return _LEFT + (x - least) / span * (_WIDTH - _LEFT - _RIGHT)

    def py(share):
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _BOTTOM - _TOP)
    svg = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{_HEIGHT}" font-family="sans-serif" '
           f'font-size="12"><rect width="{_WIDTH}" height="{_HEIGHT}" fill="white"/>\n']
    for tick in range(0, 11, 2):
        svg.append(f'<path d="M{_LEFT:.1f} {py(tick / 10):.1f}H{_WIDTH - _RIGHT:.1f}" stroke="#ddd"/><text '
                   f'x="{_LEFT - 6:.1f}" y="{py(tick / 10) + 4:.1f}" text-anchor="end">{tick * 10}</text>\n')
    for value in axes[0].values:
        svg.append(f'<text x="{px(math.log(float(value))):.1f}" y="{_HEIGHT - _BOTTOM + 18:.1f}" '
                   f'text-anchor="middle">{escape(value)}</text>\n')
    svg.append(f'<text x="{(_LEFT + _WIDTH - _RIGHT) / 2:.1f}" y="{_HEIGHT - 12:.1f}" text-anchor="middle">'
               f'{escape(axes[0].key)} (log)</text><text x="{_LEFT:.1f}" y="18">goodput, % of ideal; bars: 95 % over '
               'seeds</text>\n')
    for n, (name, line) in enumerate(lines.items()):
        colour, path = _COLOURS[n % len(_COLOURS)], ""
        for x, p in line:
            goodput = p.goodput
            path += f"{'L' if path else 'M'}{px(x):.1f} {py(goodput.value / p.ideal):.1f}"
            if goodput.interval:
                svg.append(f'<path d="M{px(x):.1f} {py(goodput.interval.low / p.ideal):.1f}'
                           f'V{py(goodput.interval.high / p.ideal):.1f}" stroke="{colour}"/>\n')
        svg.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>\n')
        svg.append(f'<text x="{_WIDTH - _RIGHT + 8:.1f}" y="{_TOP + 14 * (n + 1):.1f}" fill="{colour}" font-size="10">'
                   f'{escape(name)}</text>\n')
    return "".join(svg) + "</svg>\n"
