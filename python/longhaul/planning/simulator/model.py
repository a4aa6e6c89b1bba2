"""The planning model: what compute a network of nodes delivers. One scenario, or arrays of them in every field that holds
a number: everything goes elementwise. Rates bit/s, times s, memory bytes, compute FLOP.
"""

import copy
from dataclasses import dataclass, field
from types import SimpleNamespace

import numpy as np

from longhaul.planning.simulator import terms
from longhaul.tables import number

YEAR_SECONDS = 365.25 * 24 * 3600

PROFILES = ("governance", "governance-pp", "documentation", "latest")
PRECISIONS = ("fp16", "fp8", "fp4")
TOPOLOGIES = ("flat", "hierarchical")
EXPERTS = ("none", "global", "regional")
REPLICAS = ("linear", "linear-no-floor", "loss", "loss-without-h", "loss-in-chi")
STRAGGLERS = ("sync", "threshold", "backup", "relay")
LINKS = ("regional", "wan")
MICRO_COMPUTES = ("per-stage", "whole-model")
MODES = ("flat", "hierarchical", "pp-group", "pure-pp")
TARGETS = {"c_local": "local", "c_quality": "quality", "c_raw": "raw"}
_FLAT, _HIERARCHICAL, _GROUPS, _PURE = range(4)
_BITS = {"fp16": 16, "fp8": 8, "fp4": 4}


@dataclass
class Factors:
    """Measured factors in place of assumed ones; None (or nan, of an array): assumed."""

    q: object = None  # of a crossing
    gamma: object = None  # eta_act = q^(2 (S-1)^gamma)
    by_stages: list = field(default_factory=list)  # (S, ln eta)
    ln_eta: object = None  # of eta_act, at the scenario's own S
    forward_ratio: object = None  # bytes before over after, in T_step
    backward_ratio: object = None
    alpha_scale: object = None
    eta_h: object = None
    eta_c: object = None
    eta_r: object = None
    replica_coefficient: object = None  # of the linear forms of eta_r
    replica_floor: object = None
    straggler_coefficient: object = None
    step_time_ratio: object = None


@dataclass
class Scenario:
    profile: str = "governance"
    case: str = "expected"  # column of the compression tables
    # Switches.
    gradient_table: str = "governance"
    activation_table: str = "note"
    replica: str = "linear"
    straggler: str = "sync"
    chi: bool = False  # count C_quality = C_local chi
    tokens_per_parameter: object = 20.0
    overtrain_target: object = 1.0
    pipeline_links: str = "regional"
    micro_compute: str = "per-stage"
    boundary_overlap: bool = False  # a slot is the longer of compute and link, not their sum
    stage_parallel_sync: bool = False  # each stage sends its own V_b/S
    streaming: bool = True  # the outer exchange overlaps the inner steps
    # The node.
    devices: object = 48
    device_fp16_flops: object = 312e12  # counts H100 equivalents
    peak_flops: object = 48 * 312e12
    memory_bytes: object = 48 * 80e9
    device_price: object = 15000.0  # USD
    precision: str = "fp16"
    mfu: object = 0.40
    # The model. 0 parameters: the largest that fits; 0 active: dense.
    parameters: object = 0.0
    active_parameters: object = 0.0
    moe_layers: object = 32
    expert_parallel: str = "none"
    # The network.
    nodes: object = 1
    group_nodes: object = 8
    topology: str = "flat"
    wan_up: object = 100e6
    wan_down: object = 100e6
    wan_rtt: object = 0.100
    regional_rate: object = 1e9
    regional_rtt: object = 0.020
    # The training.
    step_tokens: object = 131072.0
    gradient_ratio: object = 16.0
    activation_ratio: object = 4.0
    backward_ratio: object = None  # of the gradients of activations; None: as activations
    micro_batches: object = 8
    inner_steps: object = None  # None: the least at which the exchange hides
    wall_clock: object = 1.5 * YEAR_SECONDS
    measured: Factors = field(default_factory=Factors)

    def but(self, **changes):
        """A copy with other fields; its factors are its own."""
        other = copy.copy(self)
        other.measured = copy.copy(self.measured)
        other.__dict__.update(changes)
        return other


# --- the catalogue and the profiles

# Name: FLOP/s dense in FP16 and FP8 (0: none), bytes, USD in the governance list and in the later one (0: not listed).
DEVICES = {
    "a100": (312e12, 0, 80e9, 15000, 7000),
    "h100": (990e12, 1980e12, 80e9, 30000, 25000),
    "gh200": (990e12, 1980e12, 144e9, 30000, 28000),
    "ascend-910b": (320e12, 640e12, 64e9, 0, 16000),
    "ascend-910c": (600e12, 1200e12, 128e9, 0, 26000),
    "tpu-v4": (275e12, 0, 32e9, 0, 12000),
    "tpu-v5e": (197e12, 0, 16e9, 0, 6000),
    "tpu-v5p": (459e12, 0, 95e9, 0, 20000),
    "tpu-v6e": (918e12, 1836e12, 32e9, 0, 25000),
}
SWITCHES = ("eta_c", "eta_act", "replica", "straggler", "chi", "tokens_per_parameter", "overtrain_target", "pp_links",
            "micro_compute", "boundary_overlap", "stage_parallel_sync", "streaming")
FIELD_OF_SWITCH = {"eta_c": "gradient_table", "eta_act": "activation_table", "pp_links": "pipeline_links"}
_OF_PROFILE = {
    "governance": {},
    "governance-pp": {"activation_table": "first-pp"},
    "documentation": {"gradient_table": "documentation", "activation_table": "documentation", "replica": "loss"},
    "latest": {"gradient_table": "latest-with-ef", "activation_table": "latest", "replica": "loss", "straggler": "relay",
               "gradient_ratio": 150.0},
}


def node(scenario, device, count, **own):
    """The scenario with `count` devices a node, FP4 at the FP8 peak. own: fp16_flops, fp8_flops, memory_bytes, price in
    place of the catalogue's. Peak or price is 0 where the catalogue has none."""
    fp16, fp8, memory, price, later = DEVICES[device]
    fp16, memory = own.get("fp16_flops", fp16), own.get("memory_bytes", memory)
    peak = fp16 if scenario.precision == "fp16" else own.get("fp8_flops", fp8)
    price = own.get("price", later if scenario.profile == "latest" else price)
    return scenario.but(devices=count, device_fp16_flops=fp16, peak_flops=count * peak,
                        memory_bytes=count * memory, device_price=price)


def profile(name):
    """The defaults and switches of a profile, for one node."""
    s = Scenario(profile=name)
    if name != "governance":
        s = s.but(tokens_per_parameter=25.6, chi=True)
    return node(s.but(**_OF_PROFILE[name]), "a100", 50 if name == "latest" else 48)


def a100_nodes(nodes, of_profile="governance"):
    return profile(of_profile).but(nodes=nodes)


def h100_fp8_nodes(nodes, of_profile="governance"):
    return node(profile(of_profile).but(precision="fp8"), "h100", 16).but(nodes=nodes)


def configuration(name):
    """"A" to "F" of section 8 of the governance tables: 4000 nodes of A100 (A, B, E) or 2000 of H100 in FP8; B, D, F
    hierarchical; E, F compress pseudo-gradients 100 times."""
    s = a100_nodes(4000) if name in "ABE" else h100_fp8_nodes(2000)
    if name in "BDF":
        s = s.but(topology="hierarchical")
    return s.but(gradient_ratio=100.0) if name in "EF" else s


def switches(s):
    """Every switch and its value as text, always in the same order."""
    values = ((name, getattr(s, FIELD_OF_SWITCH.get(name, name))) for name in SWITCHES)
    return {name: ("off", "on")[value] if isinstance(value, bool) else value if isinstance(value, str) else
            number(float(value)) for name, value in values}


# --- the model


def guarded_ceil(x):
    x = np.asarray(x, float)
    return np.clip(np.ceil(x - 1e-9 * np.maximum(1.0, np.abs(x))), 1.0, 2.0**62)


def state_bytes_per_parameter(precision):
    return 2 * _BITS[precision] / 8 + 12  # master copy and moments


def bits_of_step(s, active_parameters):
    """What crosses a boundary in a step and group, forward and backward."""
    forward = terms.given(s.measured.forward_ratio, s.activation_ratio)
    backward = terms.given(s.measured.backward_ratio,
                           s.activation_ratio if s.backward_ratio is None else s.backward_ratio)
    plain = s.step_tokens * (0.03 * np.sqrt(active_parameters)) * _BITS[s.precision]
    return plain / forward, plain / backward


def _step(s, out, rate, rtt):
    """T_step = (M+S-1) slot; a slot is one micro-batch's compute and its two crossings of a link."""
    batches = np.asarray(s.micro_batches, float)
    forward, backward = bits_of_step(s, out.active_parameters)
    share = out.stages if s.micro_compute == "per-stage" else 1
    compute = 6 * out.active_parameters * s.step_tokens / (s.peak_flops * s.mfu * share * batches)
    link = ((forward + backward) / (batches * rate) + rtt) * terms.straggler_factor(s.straggler, out.stages, s.measured)
    slot = np.maximum(compute, link) if s.boundary_overlap else compute + link
    step = (batches + out.stages - 1) * slot * terms.given(s.measured.step_time_ratio, 1.0)
    return compute, step


def _pipeline(s, out):
    """Fields of pipeline groups, and of less than two: one pipeline over the WAN."""
    nodes, stages = np.asarray(s.nodes, float), out.stages
    groups = np.floor(nodes / stages)
    alone = groups < 2
    slow = np.minimum(s.wan_up, s.wan_down)
    wan = s.pipeline_links == "wan"
    p = SimpleNamespace(mode=np.where(alone, _PURE, _GROUPS), groups=np.where(alone, 1, groups))
    p.compute_time, p.step_time = _step(s, out, np.where(alone, slow, slow if wan else s.regional_rate),
                                        np.where(alone, s.wan_rtt, s.wan_rtt if wan else s.regional_rtt))
    p.bubble = (stages - 1) / (np.asarray(s.micro_batches, float) + stages - 1)
    per_link = out.payload_bits / stages if s.stage_parallel_sync else out.payload_bits
    sync = (per_link / s.wan_up + per_link / s.wan_down + s.wan_rtt) * \
        terms.straggler_factor(s.straggler, p.groups, s.measured)
    p.inner_steps = np.where(alone, 1.0, guarded_ceil(sync / p.step_time)) if s.inner_steps is None else \
        np.asarray(s.inner_steps, float)
    inner = p.inner_steps * p.step_time
    p.sync_time = np.where(alone, 0.0, sync)
    p.outer_time = np.where(alone, inner, np.maximum(inner, sync) if s.streaming else inner + sync)
    tokens = np.where(alone, s.wall_clock / p.step_time * s.step_tokens * np.maximum(1.0, nodes / stages),
                      s.wall_clock / p.outer_time * p.inner_steps * s.step_tokens * groups)
    p.tokens = tokens / 1.1 if s.straggler == "backup" else tokens
    p.raw = 6 * out.active_parameters * p.tokens
    p.replicas, p.effective_steps, p.regional_cycles = p.groups, p.inner_steps, 1.0
    return p


def _used(s, inner, sync):
    """The share of T_w in which every node computes: 1 as long as the exchange hides behind H steps."""
    if not s.streaming:
        return inner / (inner + sync)
    return np.where(inner >= sync * (1 - 1e-8), 1.0, inner / sync)  # as lenient as guarded_ceil


def _outer(s, inner, sync):
    return np.maximum(inner, sync) if s.streaming else inner + sync


def _flat(s, out, step):
    alone = np.asarray(s.nodes) <= 1
    sync = (out.payload_bits / s.wan_up + out.payload_bits / s.wan_down + s.wan_rtt) * \
        terms.straggler_factor(s.straggler, s.nodes, s.measured)
    steps = guarded_ceil(sync / step) if s.inner_steps is None else np.asarray(s.inner_steps, float)
    inner = steps * step
    return SimpleNamespace(
        mode=_FLAT, groups=1.0, sync_time=np.where(alone, 0.0, sync), inner_steps=np.where(alone, 1.0, steps),
        regional_cycles=1.0, effective_steps=np.where(alone, 1.0, steps),
        outer_time=np.where(alone, step, _outer(s, inner, sync)), used=np.where(alone, 1.0, _used(s, inner, sync)))


def _hierarchical(s, out, step):
    groups = np.floor(np.asarray(s.nodes, float) / s.group_nodes)
    regional = (2 * out.payload_bits / s.regional_rate + s.regional_rtt) * \
        terms.straggler_factor(s.straggler, s.group_nodes, s.measured)
    steps = guarded_ceil(regional / step) if s.inner_steps is None else np.asarray(s.inner_steps, float)
    inner = steps * step
    cycle = _outer(s, inner, regional)
    sync = (out.payload_bits / s.wan_up + out.payload_bits / s.wan_down + s.wan_rtt) * \
        terms.straggler_factor(s.straggler, groups, s.measured)
    turns = guarded_ceil(sync / cycle)
    cycles = turns * cycle
    return SimpleNamespace(
        mode=_HIERARCHICAL, groups=groups, sync_time=sync, inner_steps=steps, regional_cycles=turns,
        effective_steps=steps * np.sqrt(turns), outer_time=_outer(s, cycles, sync),
        used=_used(s, inner, regional) * _used(s, cycles, sync))


def _merged(where, a, b):
    """The fields of `a` where it holds, else of `b`."""
    if np.all(where):
        return a
    if not np.any(where):
        return b
    return SimpleNamespace(**{key: np.where(where, value, getattr(b, key)) for key, value in vars(a).items()})


def _whole_nodes(s, out):
    """Every node holds the model: C_raw = N F MFU T_w, less what experts and short H wait for."""
    compute = 6 * out.active_parameters * s.step_tokens / (s.peak_flops * s.mfu)
    step = compute + out.expert_time
    hierarchy = s.topology == "hierarchical"
    enough = np.floor(np.asarray(s.nodes, float) / s.group_nodes) >= 2
    if hierarchy and np.any(enough):
        p = _merged(enough, _hierarchical(s, out, step), _flat(s, out, step))
    else:
        p = _flat(s, out, step)
    p = SimpleNamespace(**vars(p))
    p.compute_time, p.step_time, p.bubble, p.replicas = compute, step, 0.0, np.asarray(s.nodes, float)
    p.overhead = out.expert_time / step
    p.fell_back = hierarchy & ~enough
    nodes = np.asarray(s.nodes, float)
    if s.straggler == "backup":
        nodes = np.where(nodes > 1, nodes / 1.1, nodes)
    p.raw = nodes * s.peak_flops * s.mfu * s.wall_clock
    p.raw = np.where(out.expert_time > 0, p.raw * (1 - p.overhead), p.raw) * np.minimum(p.used, 1.0)
    p.tokens = p.raw / (6 * out.active_parameters)
    del p.used
    return p


def _eta_r(s, out, reference):
    m = s.measured
    if s.replica in ("linear", "linear-no-floor"):
        return terms.eta_r_linear(out.parameters, out.replicas,
                                  terms.given(m.replica_floor, 0.85 if s.replica == "linear" else 0.0),
                                  terms.given(m.replica_coefficient, 0.005))
    if s.replica == "loss-in-chi":
        return 1.0
    times = terms.replica_loss_factor(out.parameters, out.replicas, out.effective_steps, s.replica == "loss")
    ratio = terms.chi(times, out.parameters, out.tokens, out.raw, reference) / \
        terms.chi(1.0, out.parameters, out.tokens, out.raw, reference)
    return np.where(times <= 1, 1.0, ratio)


def _fill_eta(s, out, reference):
    m = s.measured
    out.alpha = terms.alpha(out.parameters) * terms.given(m.alpha_scale, 1.0)
    exchanges = out.replicas > 1
    eta_h = terms.given(m.eta_h, terms.eta_h(out.alpha, out.effective_steps, s.straggler))
    out.eta_h = np.where(exchanges | (out.mode == _PURE), eta_h, 1.0)
    out.eta_c = np.where(exchanges, terms.given(m.eta_c, terms.eta_c(s.gradient_table, s.case, s.gradient_ratio)), 1.0)
    needed = np.any(exchanges) and (m.eta_r is None or not isinstance(m.eta_r, float))
    out.eta_r = np.where(exchanges, terms.given(m.eta_r, _eta_r(s, out, reference) if needed else 1.0), 1.0)
    out.eta_act = terms.eta_act(s, out.stages)
    out.eta = out.eta_h * out.eta_c * out.eta_r * out.eta_act
    out.gradient_table_ended = exchanges & (np.asarray(s.gradient_ratio) > terms.last_gradient_anchor(s.gradient_table))
    if m.eta_c is not None:
        out.gradient_table_ended = out.gradient_table_ended & np.isnan(m.eta_c)
    largest = np.maximum(s.activation_ratio, 0.0 if s.backward_ratio is None else s.backward_ratio)
    out.activation_table_ended = (out.stages > 1) & (m.q is None) & \
        (largest > terms.last_activation_anchor(s.activation_table))


def _fill_quality(s, out, reference):
    out.local = out.raw * out.eta
    out.chi = 1.0
    if s.chi:
        times = terms.replica_loss_factor(out.parameters, out.replicas, out.effective_steps, False) \
            if s.replica == "loss-in-chi" else 1.0
        out.chi = np.where(np.asarray(s.nodes) > 1, terms.chi(times, out.parameters, out.tokens, out.raw, reference), 1.0)
    out.quality = out.local * out.chi
    out.overtraining = out.tokens / (reference * out.active_parameters)


def _experts(s, beta, out):
    """Experts spread over nodes: what one node holds then, and the two exchanges of every MoE layer."""
    out.expert_time = 0.0
    if s.expert_parallel == "none":
        return
    everywhere = s.expert_parallel == "global"
    ways = np.asarray(s.nodes if everywhere else np.minimum(s.nodes, s.group_nodes), float)
    resident = (out.active_parameters + (out.parameters - out.active_parameters) / ways) * beta
    fits = (out.stages > 1) & (guarded_ceil(resident / s.memory_bytes) <= 1)
    out.stages = np.where(fits, 1.0, out.stages)
    out.state_bytes = np.where(fits, resident, out.state_bytes)
    out.expert_time = np.where(fits, 2 * (s.wan_rtt if everywhere else s.regional_rtt) * s.moe_layers, 0.0)


def simulate(s):
    """What the model says of a scenario, or of arrays of them: an object with a field for each quantity.

    mode is an index into MODES; hierarchy_fell_back, pipeline_fell_back, too_few_nodes, mfu_above_plausible,
    activation_table_ended and gradient_table_ended are warnings.
    """
    with np.errstate(all="ignore"):
        out = SimpleNamespace()
        beta = state_bytes_per_parameter(s.precision)
        out.parameters = np.where(np.asarray(s.parameters) > 0, s.parameters, s.memory_bytes / beta)
        out.active_parameters = np.where(np.asarray(s.active_parameters) > 0, s.active_parameters, out.parameters)
        out.state_bytes = out.parameters * beta
        out.payload_bits = out.parameters * _BITS[s.precision] / s.gradient_ratio
        out.stages = guarded_ceil(out.state_bytes / s.memory_bytes)
        _experts(s, beta, out)
        pipelined = out.stages > 1
        parts = []
        if np.any(pipelined):
            parts.append(_pipeline(s, out))
            parts[-1].overhead, parts[-1].fell_back = 0.0, False
        if not np.all(pipelined):
            parts.append(_whole_nodes(s, out))
        vars(out).update(vars(_merged(pipelined, parts[0], parts[-1])))
        out.hierarchy_fell_back = out.fell_back
        out.pipeline_fell_back = out.mode == _PURE
        out.too_few_nodes = out.pipeline_fell_back & (np.asarray(s.nodes) < out.stages)
        out.mfu_above_plausible = np.asarray(s.mfu) > 0.60
        out.cost = np.asarray(s.nodes, float) * s.devices * s.device_price
        out.h100_equivalents = np.asarray(s.devices, float) * s.device_fp16_flops / 990e12
        reference = s.tokens_per_parameter * s.overtrain_target
        _fill_eta(s, out, reference)
        _fill_quality(s, out, reference)
        return out


def fewest_nodes(s, target, at_least, most, measured=None):
    """The fewest nodes, up to `most`, at which `target` (a key of TARGETS) is at least so many FLOP; nan: not within.
    measured: changes a scenario; its factors may be a column, one answer for each of its rows."""
    found, first, chunk = None, 1, 256
    while first <= most:
        nodes = np.arange(first, min(first + chunk, most + 1))
        one = s.but(nodes=nodes)
        value = getattr(simulate(measured(one) if measured else one), TARGETS[target])
        value = np.atleast_2d(np.broadcast_to(value, np.broadcast_shapes(np.shape(value), nodes.shape)))
        reached = value >= at_least
        here = np.where(reached.any(axis=1), nodes[np.argmax(reached, axis=1)], np.nan)
        found = here if found is None else np.where(np.isnan(found), here, found)
        if not np.isnan(found).any():
            break
        first += chunk
        chunk = min(chunk * 2, 65536)
    return found


def warning_texts(s, out):
    """What the fall-backs and the ends of tables want said, one sentence each; of one scenario."""
    texts = []
    if out.hierarchy_fell_back:
        texts.append(f"{s.nodes} nodes make fewer than two groups of {s.group_nodes}: computed flat")
    if out.too_few_nodes:
        texts.append(f"the model needs {int(out.stages)} nodes, there are {s.nodes}: it fits nowhere")
    elif out.pipeline_fell_back:
        texts.append(f"{s.nodes} nodes make fewer than two pipelines of {int(out.stages)}: one pipeline over the WAN, "
                     "every boundary at WAN rate")
    if out.mfu_above_plausible:
        texts.append(f"MFU {number(s.mfu)} is above the plausible 0.30 to 0.60")
    if out.gradient_table_ended:
        texts.append(f"eta_c table '{s.gradient_table}' ends below {number(s.gradient_ratio)}x: its last value is "
                     "held")
    if out.activation_table_ended:
        largest = max(s.activation_ratio, s.backward_ratio or 0)
        texts.append(f"eta_act table '{s.activation_table}' ends below {number(largest)}x: its last q is held")
    return texts
