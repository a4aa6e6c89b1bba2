"""Scenario files: keys with their bounds, lists whose product is the scenarios, [[scenario]], [assume], [search], and what a
document has published (docs/simulator.md). Bad input is one line with file, line and the known keys.
"""

import copy
import itertools
import math
import re
from dataclasses import dataclass, field

import numpy as np

from longhaul import toml
from longhaul.planning.simulator import columns, model, terms
from longhaul.refusal import Refused
from longhaul.tables import number

MOST_SCENARIOS = 1_000_000
MOST_UNCERTAIN = 1000  # with ranges: 10,000 draws each
MOST_SEARCHED_NODES = 1_000_000
MOST_NAMED = 1000  # elements of [[scenario]]
MOST_TABLE_ROWS = 10_000  # where the file chooses columns
_TABLES = ("node", "model", "network", "training", "switches")
# What a file may have beside them, and a [[scenario]] may not.
_OTHERS = ("search", "assume", "scenario", "columns", "published", "threshold", "break_even")


@dataclass(frozen=True)
class Key:
    """One key: of numbers with its bounds, ends included, or of names; no bounds and no names: true or false."""

    table: str
    name: str
    of: type
    least: float = 0
    most: float = 0
    names: tuple = ()
    fields: tuple = ()  # of the scenario, or of the draft's node
    times: float = 1  # a field's unit in the key's

    @property
    def path(self):
        return f"{self.table}.{self.name}" if self.table else self.name

    @property
    def is_number(self):
        return self.of in (int, float)

    def put(self, draft, value):
        if self.times != 1:
            value = value * self.times if self.times > 1 else value / round(1 / self.times)
        for name in self.fields:
            setattr(draft if name in Draft.NODE else draft.scenario, name, value)


def _number(table, name, least, most, fields=None, times=1, of=float):
    return Key(table, name, of, of(least), of(most), (), tuple((fields or name).split()), times)


def _whole(table, name, least, most, fields=None):
    return _number(table, name, least, most, fields, 1, int)


def _choice(table, name, names, fields=None):
    return Key(table, name, str, names=tuple(names), fields=(fields or name,))


KEYS = (
    _choice("", "case", terms.CASES),
    _choice("node", "device", model.DEVICES),
    _whole("node", "devices", 1, 1e6),
    _choice("node", "precision", model.PRECISIONS),
    _number("node", "petaflops", 1e-3, 1e6),
    _number("node", "memory_gb", 1e-3, 1e9),
    _number("node", "device_usd", 0.01, 1e9),
    _number("node", "mfu", 0.001, 1),
    _number("model", "parameters_b", 1e-3, 1e6, "parameters", 1e9),
    _number("model", "active_b", 1e-3, 1e6, "active_parameters", 1e9),
    _choice("model", "expert_parallel", model.EXPERTS),
    _whole("model", "moe_layers", 1, 10000),
    _whole("network", "nodes", 1, 1e9),
    _whole("network", "group_nodes", 2, 1e6),
    _choice("network", "topology", model.TOPOLOGIES),
    _number("network", "wan_mbps", 1e-3, 1e7, "wan_up wan_down", 1e6),
    _number("network", "wan_up_mbps", 1e-3, 1e7, "wan_up", 1e6),
    _number("network", "wan_down_mbps", 1e-3, 1e7, "wan_down", 1e6),
    _number("network", "wan_rtt_ms", 0, 1e6, "wan_rtt", 1e-3),
    _number("network", "regional_mbps", 1e-3, 1e7, "regional_rate", 1e6),
    _number("network", "regional_rtt_ms", 0, 1e6, "regional_rtt", 1e-3),
    _number("training", "gradient_ratio", 1, 1e6),
    _number("training", "activation_ratio", 1, 1e6),
    _number("training", "backward_ratio", 1, 1e6),
    _whole("training", "micro_batches", 1, 1e6),
    _whole("training", "inner_steps", 1, 1e9),
    _number("training", "step_tokens", 1, 1e12),
    _number("training", "years", 1e-6, 1000, "wall_clock", model.YEAR_SECONDS),
    _choice("switches", "eta_c", terms.GRADIENT_TABLES, "gradient_table"),
    _choice("switches", "eta_act", terms.ACTIVATION_TABLES, "activation_table"),
    _choice("switches", "replica", model.REPLICAS),
    _choice("switches", "straggler", model.STRAGGLERS),
    _choice("switches", "pp_links", model.LINKS, "pipeline_links"),
    _choice("switches", "micro_compute", model.MICRO_COMPUTES),
    _number("switches", "tokens_per_parameter", 0.1, 1e6),
    _number("switches", "overtrain_target", 0.001, 1e6),
    *(Key("switches", name, bool, fields=(name,)) for name in
      ("chi", "boundary_overlap", "stage_parallel_sync", "streaming")),
)

_SHARE = "as a share, not in per cent"
# Factors of [assume]: least, most, what it counts, fields of model.Factors. Draws are by a factor's place here: new ones
# come last. byte_ratio_backward stands behind byte_ratio, in whose place it then is.
FACTORS = {
    "q": (0.01, 1, "kept per crossing and direction, as a share, not in per cent", ("q",)),
    "gamma": (0, 3, "as the exponent of S - 1", ("gamma",)),
    "byte_ratio": (1, 1e6, "bytes before over bytes after", ("forward_ratio", "backward_ratio")),
    "alpha_scale": (0, 100, "times the formula's alpha", ("alpha_scale",)),
    "eta_h": (0.001, 1, _SHARE, ("eta_h",)),
    "eta_c": (0.001, 1, _SHARE, ("eta_c",)),
    "eta_r": (0.001, 1, _SHARE, ("eta_r",)),
    "straggler": (0, 1, "per doubling of the nodes, as a share, not in per cent", ("straggler_coefficient",)),
    "step_time": (0.01, 100, "times the formula's step, not in seconds", ("step_time_ratio",)),
    "byte_ratio_backward": (1, 1e6, "bytes before over bytes after", ("backward_ratio",)),
    "replica": (0, 1, "per doubling of the replicas, as a share, not in per cent", ("replica_coefficient",)),
    "replica_floor": (0, 1, _SHARE, ("replica_floor",)),
}


def set_factor(factors, name, value):
    for one in FACTORS[name][3]:
        setattr(factors, one, value)


@dataclass
class Assumption:
    """A factor in place of the model's own: a number (low = mid = high), or a range."""

    name: str
    low: float
    mid: float
    high: float

    @property
    def uncertain(self):
        return self.low < self.high


@dataclass
class Draft:
    """A scenario before its node is put together."""

    NODE = ("device", "devices", "petaflops", "memory_gb", "device_usd")

    scenario: model.Scenario
    device: str = "a100"
    devices: object = 48
    petaflops: object = None  # in place of the device's own
    memory_gb: object = None
    device_usd: object = None

    def but(self, changes):
        """A copy with some keys set: pairs of Key and value."""
        other = copy.copy(self)
        other.scenario = self.scenario.but()
        for key, value in changes:
            key.put(other, value)
        return other

    def build(self):
        """The scenario with its node, and (index of the first that cannot be, why), or None where all can be."""
        s, own = self.scenario, {}
        if self.petaflops is not None:
            own["fp16_flops" if s.precision == "fp16" else "fp8_flops"] = self.petaflops * 1e15 / self.devices
        if self.memory_gb is not None:
            own["memory_bytes"] = self.memory_gb * 1e9 / self.devices
        if self.device_usd is not None:
            own["price"] = self.device_usd
        whole = model.node(s, self.device, self.devices, **own)
        if not np.all(whole.peak_flops > 0):
            return whole, (0, f"'node.device' {self.device} has no {s.precision} peak in the catalogue; say "
                              "node.petaflops, or another precision")
        if not np.all(np.asarray(whole.device_price) > 0):
            return whole, (0, f"'node.device' {self.device} has no price in the list of profile '{s.profile}'; say "
                              "node.device_usd")
        every = np.where(np.asarray(s.parameters) > 0, s.parameters,
                         whole.memory_bytes / model.state_bytes_per_parameter(s.precision))
        active, every = np.broadcast_arrays(s.active_parameters, every)
        above = np.flatnonzero(active > every)
        if above.size:
            at = above[0]
            return whole, (at, f"'model.active_b' is {number(active.flat[at] / 1e9)}, above all parameters of the model, "
                               f"{number(every.flat[at] / 1e9)} billion")
        return whole, None


def profile_draft(name):
    s = model.profile(name)
    return Draft(s, devices=s.devices)


@dataclass
class Axis:
    key: str
    values: list
    labels: list
    of: Key | None  # None: the [[scenario]]s


@dataclass
class Search:
    target: str
    at_least: list
    most_nodes: int


@dataclass
class ScenarioFile:
    where: str  # the file, for messages
    title: str = ""
    profile: str = "governance"
    draft: Draft = None
    named: list = field(default_factory=list)  # a Draft for each [[scenario]]
    axes: list = field(default_factory=list)  # "scenario" if there are any, then in the order of KEYS
    search: Search | None = None
    factors: list = field(default_factory=list)  # Assumptions; every scenario has their middles
    seed: int = 1  # of the draws
    columns: list = field(default_factory=list)  # that the file chooses to show; none: the usual ones
    published: dict = field(default_factory=dict)  # column: (digits as printed, why they are a misprint) of each row
    threshold: float = 0.0

    @property
    def uncertain(self):
        return any(a.uncertain for a in self.factors)

    @property
    def shape(self):
        return tuple(len(axis.values) for axis in self.axes)

    @property
    def size(self):
        return math.prod(self.shape)

    @property
    def rows(self):
        return self.size * (len(self.search.at_least) if self.search else 1)

    def has_axis(self, key):
        return any(axis.key == key for axis in self.axes)

    def at(self, i):
        """The value indices of scenario i."""
        return tuple(int(n) for n in np.unravel_index(i, self.shape)) if self.axes else ()

    def draft_at(self, i):
        at = self.at(i)
        base = self.named[at[0]] if self.named else self.draft
        return base.but((axis.of, axis.values[n]) for axis, n in zip(self.axes, at) if axis.of)

    def scenario_at(self, i):
        scenario, wrong = self.draft_at(i).build()
        if wrong:
            raise Refused(f"{self.where}: {wrong[1]}")
        return scenario

    def blocks(self):
        """The scenarios as few of arrays: pairs of their places in the file's order, and the Draft of all of them."""
        numeric = [n for n, axis in enumerate(self.axes) if axis.of and axis.of.is_number]
        others = [n for n in range(len(self.axes)) if n not in numeric]
        grid = [g.ravel() for g in np.meshgrid(*(np.arange(self.shape[n]) for n in numeric), indexing="ij")]
        for chosen in itertools.product(*(range(self.shape[n]) for n in others)):
            at = dict(zip(others, chosen)) | dict(zip(numeric, grid))
            places = np.ravel_multi_index([np.broadcast_to(at[n], grid[0].shape if grid else (1,))
                                           for n in range(len(self.axes))], self.shape) if self.axes else np.array([0])
            base = self.named[at[0]] if self.named else self.draft
            yield places, base.but((axis.of, np.asarray(axis.values)[at[n]] if n in numeric else axis.values[at[n]])
                                   for n, axis in enumerate(self.axes) if axis.of)

    def scenarios(self):
        """blocks() put together. Refused: the first scenario of the file that cannot be, or `check`s failure."""
        built, wrong = [], []
        for places, draft in self.blocks():
            scenario, failure = draft.build()
            built.append((places, scenario))
            if failure:
                wrong.append((places[failure[0]], failure[1]))
        if wrong:
            raise Refused(f"{self.where}: {min(wrong)[1]}")
        return built


# --- reading


def _read_key(r, key, root, file):
    r.skip(key.name)
    if not r.has(key.name) or r.error:
        return
    listed = toml.find(root, key.path).is_list
    if key.of is bool or not listed:
        values = [r.take(key.name, key.of, required=True)]
    else:
        values = r.take(key.name, [key.of], required=True)
    if r.error:
        return
    for value in values:
        if key.is_number:
            r.within(key.name, value, key.least, key.most)
        elif key.of is str:
            r.one_of(key.name, value, key.names)
    if r.error:
        return
    if not listed:
        key.put(file.draft, values[0])
        return
    r.check(values, key.name, "is an empty list; want a value or a list of values")
    r.check(len(set(values)) == len(values), key.name, "has a value twice")
    file.axes.append(Axis(key.path, values, [number(v) if key.of is float else str(v) for v in values], key))


def _read_keys(root, file):
    """Profile and keys of the tables: what a file says, or a [[scenario]] laid over it."""
    top = toml.Reader(root)
    file.title = top.take("title", str, "")
    if top.has("title"):
        top.line("title", file.title, 200)
    profile = top.take("profile", str, "governance")
    top.one_of("profile", profile, model.PROFILES)
    top.skip(*_TABLES, *_OTHERS)
    if profile in model.PROFILES:
        file.profile = profile
    file.draft = profile_draft(file.profile)
    for key in KEYS:
        if not key.table:
            _read_key(top, key, root, file)
    top.finish()
    for table in _TABLES:
        r = toml.Reader(root, table)
        for key in KEYS:
            if key.table == table:
                _read_key(r, key, root, file)
        if r.has("wan_mbps") and (r.has("wan_up_mbps") or r.has("wan_down_mbps")):
            r.fail("wan_mbps", "is both directions; leave out wan_up_mbps and wan_down_mbps, or it")
        r.finish()


def _read_search(root, file):
    r = toml.Reader(root, "search")
    if not r.present:
        return
    target = r.take("target", str, "c_local")
    r.one_of("target", target, tuple(model.TARGETS))
    at_least = r.take("at_least", [float], [], required=True)
    r.check(at_least or not r.has("at_least"), "at_least", "is an empty list")
    for flop in at_least:
        r.within("at_least", flop, 1.0, 1e40, "FLOP")
    most = r.take("most_nodes", int, 100_000)
    r.within("most_nodes", most, 1, MOST_SEARCHED_NODES)
    if toml.find(root, "network.nodes"):
        r.fail("at_least", "looks for the fewest nodes, but network.nodes is given; leave one out")
    file.search = Search(target, at_least, most)
    r.finish()


def _read_named(common, own, file, names):
    """One element of [[scenario]]: what it has of its own laid over what the file says for all."""
    if not own.is_table:
        raise Refused(f"{own.where}: 'scenario' is wanted as [[scenario]]")
    r = toml.Reader(own, label="scenario")
    name = r.take("name", str, "", required=True)
    if r.has("name"):
        r.line("name", name, 80)
    r.check("," not in name and '"' not in name, "name", "has a comma or a quote")
    r.check(name not in names.labels, "name", "stands in two of them")
    r.skip("profile", "case", "published", *_TABLES)
    for key, why in [(axis.key, "is a list for all scenarios; give it there, or to each scenario") for axis in file.axes] + \
            ([("network.nodes", "is given, but [search] looks for the fewest nodes; leave one out")] if file.search else []):
        found = toml.find(own, key)
        if found and r.error is None:
            r.error = f"{found.where if '.' not in key else own.where}: 'scenario.{key}' {why}"
    r.finish()
    own = toml.Value({key: value for key, value in own.value.items() if key not in ("name", "published")}, own.where)
    whole, one = toml.merged(common, own), ScenarioFile(file.where)
    _read_keys(whole, one)
    if one.axes:
        raise Refused(f"{toml.find(whole, one.axes[0].key).where}: '{one.axes[0].key}' is a list; a [[scenario]] has one "
                      "value of each key")
    names.values.append(len(file.named))
    names.labels.append(name)
    file.named.append(one.draft)


def _read_all_named(root, file):
    named = toml.find(root, "scenario")
    if not named:
        return
    if not named.is_list or not 1 <= len(named.value) <= MOST_NAMED:
        raise Refused(f"{named.where}: 'scenario' is wanted as 1 to {MOST_NAMED} tables, each under [[scenario]]")
    common = copy.deepcopy(root)
    for key in (*_OTHERS, *(axis.key for axis in file.axes)):
        toml.erase(common, key)
    names = Axis("scenario", [], [], None)
    for own in named.value:
        _read_named(common, own, file, names)
    file.axes.insert(0, names)


def _read_assumptions(root, file):
    r = toml.Reader(root, "assume")
    file.seed = r.take("seed", int, 1)
    r.within("seed", file.seed, 0, 1 << 53)
    for name, (least, most, unit, _) in FACTORS.items():
        r.skip(name)
        if not r.has(name) or r.error:
            continue
        if toml.find(root, f"assume.{name}").is_list:
            v = r.take(name, [float], [], required=True)
            r.check(len(v) == 3, name, f"is a list of {len(v)}; want a number or [low, mid, high]")
        else:
            v = [r.take(name, float, required=True)] * 3
        if r.error:
            continue
        for one in v:
            r.within(name, one, float(least), float(most), unit)
        listed = f"= [{', '.join(map(number, v))}]"
        r.check(v[0] <= v[2], name, f"{listed} is upside down; want [low, mid, high]")
        r.check(v[0] <= v[1] <= v[2], name, f"{listed} has its middle outside its ends; want [low, mid, high]")
        file.factors.append(Assumption(name, *v))
    r.finish()


# --- what a document prints

_PRINTED = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?")
_REMARK = re.compile(r"\(misprint: (.+)\)", re.S)


def parse_published(text):
    """"9.52e23" or "9.52e23 (misprint: no variant of the formulas gives it)" as its digits and the reason; "" or "-" is no
    value. ValueError: what it is instead."""
    if text in ("", "-"):
        return "", ""
    printed, bracket, rest = text.partition("(")
    printed = printed.rstrip(" ")
    if len(printed) > 17 or not _PRINTED.fullmatch(printed):
        raise ValueError(f"has '{toml.shown(text)}', which is no number as a document prints it, such as 9.52e23")
    remark = _REMARK.fullmatch(bracket + rest)
    if bracket and not remark:
        raise ValueError(f"has '{toml.shown(text)}'; a remark is \"(misprint: why)\"")
    return printed, remark[1] if remark else ""


def as_printed(value, printed):
    """A value with as many digits behind the point as `printed`, and with an exponent where that has one: "9.47e23"."""
    mantissa, e, exponent = printed.partition("e")
    digits = len(mantissa.partition(".")[2])
    if not e:
        return f"{value:.{digits}f}"
    text = f"{value:.{digits}e}"
    if exponent.startswith("+") or "e+" not in text:
        return text
    # Documents print 9.52e23 and 1e2, C prints 9.52e+23 and 1e+02.
    before, _, power = text.partition("e+")
    return f"{before}e{power.removeprefix('0') if len(exponent) == 1 else power}"


def _published_table(published, want, of):
    if not published.is_table:
        raise Refused(f"{published.where}: 'published.COLUMN' is wanted: a table of columns")
    found = {}
    for name, value in published.value.items():
        def at(item, what, name=name):
            return Refused(f"{item.where}: 'published.{name}' {what}")
        if name not in columns.COLUMNS:
            raise Refused(f"{value.where}: 'published' has no column '{toml.shown(name)}'; want one of {columns.NAMES}")
        found[name] = []
        for item in value.value if value.is_list else [value]:
            if not isinstance(item.value, str):
                raise at(item, f"is {toml.kind(item)}; want the digits as they are printed, in quotes: \"0.862\"")
            try:
                found[name].append(parse_published(item.value))
            except ValueError as error:
                raise at(item, str(error)) from None
        if len(found[name]) != want:
            raise at(value, f"has {len(found[name])} values, and {of} {want} rows; \"-\" stands where nothing is printed")
    return found


def _read_published(root, file):
    whole, named = toml.find(root, "published"), toml.find(root, "scenario")
    if whole:
        file.published = _published_table(whole, file.rows, "the table has")
    if not named:
        return
    each = file.rows // len(named.value)
    for n, one in enumerate(named.value):
        own = toml.find(one, "published")
        if not own:
            continue
        if whole:
            raise Refused(f"{own.where}: 'published' stands here and in [published]; give one of the two")
        for name, values in _published_table(own, each, "this scenario has").items():
            file.published.setdefault(name, [("", "")] * file.rows)[n * each:(n + 1) * each] = values


def _read_columns(root, file):
    top = toml.Reader(root)
    file.columns = top.take("columns", [str], [])
    file.threshold = top.take("threshold", float, 0.0)
    if top.has("threshold"):
        top.within("threshold", file.threshold, 1.0, 1e40, "FLOP")
    for name in file.columns:
        if name not in columns.COLUMNS:
            top.fail("columns", f"has '{toml.shown(name)}'; want some of {columns.NAMES}")
        if name == "times_threshold":
            top.check(top.has("threshold"), "columns", "has 'times_threshold'; say threshold = FLOP too")
    if top.has("columns"):
        top.check(file.columns, "columns", "is an empty list")
    top.done()
    _read_published(root, file)
    for name in sorted(file.published):
        if name not in file.columns:
            raise Refused(f"{(toml.find(root, 'columns') or root).where}: 'columns' lacks '{name}', of which there are "
                          "published values")
    if file.columns and file.rows > MOST_TABLE_ROWS:
        raise _too_many(file, MOST_TABLE_ROWS, "rows of a table with columns of its own")


def _too_many(file, most, of):
    return Refused(f"{file.where}: the lists make more than {most} {of}; shorten one")


def _check_replica_form(file):
    """A number that no formula takes would be believed."""
    of_form = next((a.name for a in file.factors if a.name in ("replica", "replica_floor")), None)
    if of_form is None:
        return
    for _, s in sorted(file.scenarios(), key=lambda block: block[0][0]):
        linear = s.replica in ("linear", "linear-no-floor")
        if not linear or s.measured.eta_r is not None:
            why = "'assume.eta_r' stands in their place" if linear else f"switches.replica is {s.replica}"
            raise Refused(f"{file.where}: 'assume.{of_form}' is of eta_r's linear forms, and {why}; leave one out")


def read(root):
    """The file of a tree that longhaul.toml has read."""
    file = ScenarioFile(root.where)
    for part in (_read_keys, _read_search, _read_all_named, _read_assumptions):
        part(root, file)
    for a in file.factors:
        for draft in (file.draft, *file.named):
            set_factor(draft.scenario.measured, a.name, a.mid)
    if file.uncertain and file.search:
        raise Refused(f"{file.where}: a search counts nodes for one value of each factor, and [assume] has a range; give a "
                      "number there, or leave out [search]")
    if file.size > MOST_SCENARIOS:
        raise _too_many(file, MOST_SCENARIOS, "scenarios")
    if file.uncertain and file.size > MOST_UNCERTAIN:
        raise _too_many(file, MOST_UNCERTAIN, "scenarios, too many to draw ranges of [assume] for")
    _check_replica_form(file)
    _read_columns(root, file)
    return file
