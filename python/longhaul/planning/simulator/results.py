"""The scenarios of a file, computed: rows, and their table as text, CSV and JSON."""

import json
import math
from types import SimpleNamespace

import numpy as np

from longhaul.planning.simulator import columns, model, scenario_file
from longhaul.tables import Column, Table, cell, csv_rows, csv_text, grid_text, none, number, shown

MOST_LINES = 200  # of a terminal's table
MOST_WARNINGS = 20


class Rows:
    """Every scenario of a file in its order, or of a search one for each of its targets. `of` has an array for each field
    (columns.py); at_least and found are of a search."""

    def __init__(self, file):
        self.file, self.n = file, file.rows
        self.at_least, self.found = None, np.ones(self.n, bool)
        if file.search:
            self._search()
        else:
            self._all(file.scenarios())

    def _all(self, blocks):
        whole = {}
        for places, scenario in blocks:
            for name, value in vars(columns.rows_of(scenario, places.shape)).items():
                whole.setdefault(name, np.empty(self.n, np.asarray(value).dtype))[places] = value
        self.of = SimpleNamespace(**whole)

    def _search(self):
        search, nodes = self.file.search, []
        self.at_least = np.tile(search.at_least, self.file.size)
        scenarios = [self.file.scenario_at(i) for i in range(self.file.size)]
        for s in scenarios:
            nodes += [model.fewest_nodes(s, search.target, flop, search.most_nodes)[0] for flop in search.at_least]
        self.found = ~np.isnan(nodes)
        self.nodes = np.where(self.found, nodes, search.most_nodes).astype(int)
        each = len(search.at_least)
        self._all((np.arange(i * each, (i + 1) * each), s.but(nodes=self.nodes[i * each:(i + 1) * each]))
                  for i, s in enumerate(scenarios))

    def scenario_index(self, row):
        return row // len(self.file.search.at_least) if self.file.search else row

    def at(self, row):
        return self.file.at(self.scenario_index(row))

    def scenario(self, row):
        s = self.file.scenario_at(self.scenario_index(row))
        return s.but(nodes=int(self.nodes[row])) if self.file.search else s

    def field(self, name, row):
        return getattr(self.of, name)[row].item()

    def mode(self, row):
        return model.MODES[int(self.of.mode[row])]

    def profile(self, row):
        return (self.file.named[self.at(row)[0]] if self.file.named else self.file.draft).scenario.profile

    def warnings(self, row):
        if not self._flagged()[row]:
            return []
        out = SimpleNamespace(**{name: self.field(name, row) for name in (*_FLAGS, "stages")})
        return model.warning_texts(self.scenario(row), out)

    def _flagged(self):
        if not hasattr(self, "flagged"):
            self.flagged = np.zeros(self.n, bool)
            for name in _FLAGS:
                self.flagged |= getattr(self.of, name).astype(bool)
        return self.flagged

    def first_warnings(self):
        """The first MOST_WARNINGS that differ, sorted."""
        kinds = np.stack([np.asarray(getattr(self.of, name), float) for name in (*_FLAGS, "nodes", "stages")], axis=1)
        texts, seen = set(), set()
        for row in np.flatnonzero(self._flagged()):
            # Rows of one kind say the same but for what lists give, of which there are few.
            kind = (kinds[row].tobytes(), tuple(n for axis, n in zip(self.file.axes, self.at(row)) if axis.key in _SAID))
            if kind in seen:
                continue
            seen.add(kind)
            for text in self.warnings(row):
                if len(texts) < MOST_WARNINGS:
                    texts.add(text)
            if len(texts) == MOST_WARNINGS:
                break
        return "".join(f"warning: {text}\n" for text in sorted(texts))


_FLAGS = ("hierarchy_fell_back", "pipeline_fell_back", "too_few_nodes", "mfu_above_plausible", "activation_table_ended",
          "gradient_table_ended")
_SAID = ("scenario", "network.group_nodes", "node.mfu", "training.gradient_ratio", "training.activation_ratio",
         "training.backward_ratio", "switches.eta_c", "switches.eta_act")


# --- places


def axis_columns(file):
    return [Column(axis.key, (axis.key,)) for axis in file.axes]


def labels(file, at):
    return [axis.labels[n] for axis, n in zip(file.axes, at)]


def axis_json(file, at):
    return dict(zip((axis.key for axis in file.axes), labels(file, at)))


def place_text(file, at):
    """"network.nodes 500, case central"; of a [[scenario]] its name. "": the file has no lists."""
    return ", ".join(f"{axis.key} {label}" if axis.of else label for axis, label in zip(file.axes, labels(file, at)))


def name_of(file, at):
    return place_text(file, at) or "the scenario"


# --- the head


def differences(s):
    """(switch, its value, the profile's) of those that differ from the scenario's profile."""
    theirs = model.switches(model.profile(s.profile))
    return [(name, value, theirs[name]) for name, value in model.switches(s).items() if value != theirs[name]]


def profile_text(file):
    """Profile, replica form, and the switches that differ from the profile: what every table starts with."""
    common = file.draft.scenario
    text = file.title + "\n" if file.title else ""
    replica = "as listed" if file.has_axis("switches.replica") else common.replica
    text += f"profile {file.profile}, replica form {replica}, case " \
            f"{'as listed' if file.has_axis('case') else common.case}\n"
    text += "".join(f"switch {name} = {value} (profile: {theirs})\n" for name, value, theirs in differences(common))
    for label, named in zip(file.axes[0].labels if file.named else (), file.named):
        s, of = named.scenario, f"scenario {label}: "
        if s.profile != common.profile:
            text += f"{of}profile {s.profile}, replica form {s.replica}\n"
        if s.case != common.case:
            text += f"{of}case {s.case}\n"
        if model.switches(s) != model.switches(common):
            text += "".join(f"{of}switch {name} = {value} (profile: {theirs})\n" for name, value, theirs in differences(s))
    for axis in file.axes:
        if axis.key.startswith("switches."):
            text += f"switch {axis.key[9:]} differs from row to row\n"
    for a in file.factors:
        span = f" in [{number(a.low)}, {number(a.high)}]" if a.uncertain else ""
        text += f"assume {a.name} = {number(a.mid)}{span}\n"
    return text


def head_json(file):
    def differs(s):
        return [{"switch": name, "value": value, "profile": theirs} for name, value, theirs in differences(s)]
    common = file.draft.scenario
    head = {"schema": "longhaul.simulate/1", "title": file.title, "profile": file.profile, "case": common.case,
            "switches": model.switches(common), "differs": differs(common)}
    if file.named:
        head["scenarios"] = [{"name": label, "profile": n.scenario.profile, "case": n.scenario.case,
                              "differs": differs(n.scenario)} for label, n in zip(file.axes[0].labels, file.named)]
    if file.factors:
        head["assume"] = {a.name: {"low": a.low, "mid": a.mid, "high": a.high} for a in file.factors}
    return head


# --- the usual table


def _counts_chi(file):
    return file.has_axis("switches.chi") or any(d.scenario.chi for d in (file.draft, *file.named))


def _usual_text(rows):
    file, r = rows.file, rows.of
    table = Table("", axis_columns(file))
    counted, with_chi = not file.has_axis("network.nodes"), _counts_chi(file)
    if file.search:
        table.add_columns([Column(f"{file.search.target} >=")])
    table.add_columns(" | ".join([*(["nodes"] if counted else []),
                                  "mode | P, B | S x G | H | eta_H | eta_c | eta_r | eta_act | eta | C_local",
                                  *(["chi | C_quality"] if with_chi else []), "D/(rP) | cost, M$"]))
    for i in range(min(rows.n, MOST_LINES)):
        cells = labels(file, rows.at(i))
        if file.search:
            cells.append(cell(rows.at_least[i], "{:g}"))
            if not rows.found[i]:
                table.add(*cells, f"> {file.search.most_nodes}")
                continue
        nodes, mode = int(r.nodes[i]), rows.mode(i)
        steps = int(r.inner_steps[i])
        if mode == "hierarchical":
            steps = f"{steps} x {int(r.regional_cycles[i])} -> {r.effective_steps[i]:.2f}"
        cells += [nodes] if counted else []
        cells += [mode, cell(r.parameters[i] / 1e9, "{:.4g}"),
                  f"{int(r.stages[i])} x {nodes if mode == 'flat' else int(r.groups[i])}", str(steps),
                  *(cell(getattr(r, name)[i], "{:.3f}") for name in ("eta_h", "eta_c", "eta_r", "eta_act", "eta")),
                  cell(r.local[i], "{:.3e}")]
        if with_chi:
            cells += [cell(r.chi[i], "{:.3f}"), cell(r.quality[i], "{:.3e}")]
        table.add(*cells, cell(r.overtraining[i], "{:.2f}"), cell(r.cost[i] / 1e6, "{:.1f}"))
    return grid_text(table) + _rest(rows) + rows.first_warnings()


def _rest(rows):
    return f"... and {rows.n - MOST_LINES} rows more; --csv FILE holds all\n" if rows.n > MOST_LINES else ""


def _csv(rows):
    """All columns at full precision, one line each."""
    file = rows.file
    yield ",".join([*(axis.key for axis in file.axes), *(["at_least", "found"] if file.search else []), "profile", "mode",
                    *columns.QUANTITIES]) + "\n"
    values = list(columns.values(rows.of, columns.QUANTITIES).values())
    for begin in range(0, rows.n, 4096):
        block = np.stack([v[begin:begin + 4096] for v in values], axis=1).tolist()
        for i, line in enumerate(block, begin):
            own = labels(file, rows.at(i))
            if file.search:
                own += [number(rows.at_least[i]), str(int(rows.found[i]))]
            yield ",".join([*own, rows.profile(i), rows.mode(i), *map(number, line)]) + "\n"


def _json(rows):
    """A dict for each row."""
    file, values = rows.file, columns.values(rows.of, columns.QUANTITIES)
    for i in range(rows.n):
        out = {"mode": rows.mode(i)}
        if file.axes:
            out["at"] = axis_json(file, rows.at(i))
        if file.search:
            out |= {"at_least": float(rows.at_least[i]), "found": bool(rows.found[i])}
        out |= {name: float(value[i]) for name, value in values.items()}
        warnings = rows.warnings(i)
        yield out | ({"warnings": warnings} if warnings else {})


# --- a table of chosen columns, with what is published


def _chosen(rows):
    """(value, text, printed, misprint, agrees) of each row and column; None: a search found nothing."""
    file, r = rows.file, rows.of
    groups = np.array([rows.at(i)[0] if file.named and len(file.axes) > 1 else 0 for i in range(rows.n)])
    best = np.zeros(groups.max(initial=0) + 1)
    np.maximum.at(best, groups, r.local)
    r.best, r.threshold = best[groups], file.threshold
    with np.errstate(all="ignore"):
        values = [np.asarray(columns.COLUMNS[name][2](r), float) for name in file.columns]
    cells = []
    for i in range(rows.n):
        if not rows.found[i]:
            cells.append(None)
            continue
        line = []
        for name, value in zip(file.columns, values):
            printed, misprint = file.published[name][i] if name in file.published else ("", "")
            one = float(value[i])
            text = scenario_file.as_printed(one, printed) if printed else columns.COLUMNS[name][1].format(one)
            line.append((one, text, printed, misprint, not printed or text == printed))
        cells.append(line)
    return cells


def _check_text(rows, cells):
    checked, agree, text, file = 0, 0, "", rows.file
    for i, line in enumerate(cells):
        for name, (_, computed, printed, misprint, agrees) in zip(file.columns, line or ()):
            if not printed:
                continue
            checked, agree = checked + 1, agree + agrees
            if agrees and not misprint:
                continue
            where = name_of(file, rows.at(i))
            if file.search:
                place = place_text(file, rows.at(i))
                where = f"{place}{', ' if place else ''}>= {rows.at_least[i]:g}"
            line_of = f"{where}, {name}: printed {printed}, computed {computed}"
            text += f"no misprint: {line_of}\n" if agrees else \
                f"misprint: {line_of}: {misprint}\n" if misprint else f"DIFFERS: {line_of}\n"
    if not checked:
        return ""
    return f"{checked} published values, compared at their printed digits: {agree} agree, {checked - agree} do not\n{text}"


def _chosen_table(rows, cells, most):
    file = rows.file
    table = Table("", axis_columns(file))
    if file.search:
        table.add_columns([Column(f"{file.search.target} >=", ("at_least",)), Column(None, ("found",))])
    table.add_columns("-:profile | mode:mode")
    for name in file.columns:
        table.add_columns([Column(columns.COLUMNS[name][0], (name,))])
        if name in file.published:
            table.add_columns(f"-:{name}_published | -:{name}_agrees")
    for i, line in enumerate(cells[:most]):
        row, mode = labels(file, rows.at(i)), rows.mode(i)
        if file.search:
            row += [cell(rows.at_least[i], "{:g}"), bool(rows.found[i])]
        row += [rows.profile(i), mode if rows.found[i] else shown(f"> {file.search.most_nodes} nodes", mode)]
        for name, (value, text, printed, _, agrees) in zip(file.columns, line or ()):
            row.append(shown(text if agrees else f"{text} ({printed})", value))
            if name in file.published:
                row += [printed, cell(agrees) if printed else none()]
        table.add(*row)
    return table


def _chosen_json(rows, cells):
    for out, line in zip(_json(rows), cells):
        for name, (value, _, printed, misprint, agrees) in zip(rows.file.columns, line or ()):
            out.setdefault("shown", {})[name] = value
            if printed:
                out.setdefault("published", {})[name] = {"printed": printed, "agrees": agrees} | \
                    ({"misprint": misprint} if misprint else {})
        yield out


class Results:
    """The rows of a file as they are shown: the table that all files have, or the columns that this one chooses."""

    def __init__(self, file):
        self.rows = Rows(file)
        self.cells = _chosen(self.rows) if file.columns else None

    def text(self):
        if self.cells is None:
            return _usual_text(self.rows)
        return grid_text(_chosen_table(self.rows, self.cells, MOST_LINES)) + _rest(self.rows) + \
            _check_text(self.rows, self.cells) + self.rows.first_warnings()

    def csv(self):
        """Its text in parts."""
        if self.cells is None:
            return _csv(self.rows)
        return [csv_text(csv_rows(_chosen_table(self.rows, self.cells, self.rows.n)))]

    def json(self, more):
        """One document, as its lines; more: members that stand behind the rows."""
        rows = _json(self.rows) if self.cells is None else _chosen_json(self.rows, self.cells)
        yield dumped(head_json(self.rows.file))[:-1] + ',"rows":['
        for i, row in enumerate(rows):
            yield (",\n" if i else "\n") + dumped(row)
        yield "]" + "".join(f',"{name}":{dumped(value)}' for name, value in more.items()) + "}\n"


def dumped(value):
    """JSON of one line, members by name; null for what is no number."""
    def finite(one):
        if isinstance(one, dict):
            return {key: finite(v) for key, v in one.items()}
        if isinstance(one, (list, tuple)):
            return [finite(v) for v in one]
        return None if isinstance(one, float) and not math.isfinite(one) else one
    return json.dumps(finite(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"))
