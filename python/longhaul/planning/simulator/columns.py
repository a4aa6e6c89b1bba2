"""What is reported of a scenario: quantities in SI units, as CSV and JSON have them, and columns in the units of documents.

Both are functions of rows: an object with an array for each field of model.Scenario and of what model.simulate() says.
"""

import numpy as np

from longhaul.commands import ask_clock
from longhaul.planning.simulator import model

# What rows have of their scenarios, beside all that simulate() says.
OF_SCENARIO = ("nodes", "devices", "peak_flops", "memory_bytes", "wall_clock", "wan_up", "wan_down", "wan_rtt",
               "regional_rate", "regional_rtt", "micro_batches")

QUANTITIES = {
    "nodes": lambda r: r.nodes,
    "devices_per_node": lambda r: r.devices,
    "h100_equivalents": lambda r: r.h100_equivalents,
    "parameters": lambda r: r.parameters,
    "active_parameters": lambda r: r.active_parameters,
    "stages": lambda r: r.stages,
    "groups": lambda r: r.groups,
    "payload_bits": lambda r: r.payload_bits,
    "step_seconds": lambda r: r.step_time,
    "expert_overhead": lambda r: r.overhead,
    "bubble": lambda r: r.bubble,
    "sync_seconds": lambda r: r.sync_time,
    "outer_seconds": lambda r: r.outer_time,
    "inner_steps": lambda r: r.inner_steps,
    "regional_cycles": lambda r: r.regional_cycles,
    "effective_steps": lambda r: r.effective_steps,
    "sync_rate_bit_s": lambda r: np.where(r.replicas > 1, r.payload_bits / r.outer_time, 0.0),
    "eta_h": lambda r: r.eta_h,
    "eta_c": lambda r: r.eta_c,
    "eta_r": lambda r: r.eta_r,
    "eta_act": lambda r: r.eta_act,
    "eta": lambda r: r.eta,
    "c_raw": lambda r: r.raw,
    "c_local": lambda r: r.local,
    "chi": lambda r: r.chi,
    "c_quality": lambda r: r.quality,
    "tokens": lambda r: r.tokens,
    "tokens_over_allocation": lambda r: r.overtraining,
    "global_mfu": lambda r: r.local / (np.asarray(r.nodes, float) * r.peak_flops * r.wall_clock),
    "cost_usd": lambda r: r.cost,
}


def _engine_times(r):
    """Seconds of a step of 1F1B and of an exchange, as the event engine that runs and their predictions use has them: the
    same compute, bits, rates and round trips, as a run of this program would spend them. nan: no such run, of more than
    1024 stages or micro-batches."""
    if not hasattr(r, "engine_step"):
        n = np.shape(r.stages)
        known = (r.stages <= 1024) & (np.asarray(r.micro_batches) <= 1024)
        slow = np.minimum(r.wan_up, r.wan_down)
        fields = {"stages": r.stages, "microbatches": r.micro_batches, "compute_s": r.compute_time,
                  "forward_bytes": r.forward_bits / 8 / r.micro_batches, "rate": np.where(r.over_wan, slow, r.regional_rate),
                  "backward_bytes": r.backward_bits / 8 / r.micro_batches,
                  "delay_s": np.where(r.over_wan, r.wan_rtt, r.regional_rtt) / 2,
                  "peers": r.replicas - 1, "sync_bytes": (r.replicas - 1) * r.payload_bits / 8 / r.stages,
                  "sync_rate": slow, "sync_delay_s": r.wan_rtt / 2}
        rows = [dict(zip(fields, values)) for values in
                zip(*(np.broadcast_to(f, n).ravel()[known.ravel()].tolist() for f in fields.values()))]
        r.engine_step, r.engine_sync = np.full(n, np.nan), np.full(n, np.nan)
        if rows:
            times = ask_clock("simulated", rows)[0]
            r.engine_step[known] = np.where(r.stages == 1, r.step_time, 0)[known]
            r.engine_step[known & (r.stages > 1)] = [t["step_s"] for t, row in zip(times, rows) if row["stages"] > 1]
            r.engine_sync[known] = [t["sync_s"] for t in times]
    return r


# Name: (head, form of a value that nobody published, value of rows). `threshold` is the file's, FLOP; `best` the most
# C_local of a table: of a [[scenario]] with lists, else of all rows.
_COMPUTE, _FACTOR, _COUNT, _TENTHS, _SIZE = "{:.2e}", "{:.3f}", "{:.0f}", "{:.1f}", "{:.4g}"


def _quantity(name, unit=1):
    return lambda r: QUANTITIES[name](r) / unit


COLUMNS = {
    "nodes": ("nodes", _COUNT, _quantity("nodes")),
    "gpus": ("devices", _COUNT, lambda r: np.asarray(r.nodes, float) * r.devices),
    "gpus_per_node": ("devices a node", _COUNT, _quantity("devices_per_node")),
    "petaflops": ("PFLOP/s a node", "{:.2f}", lambda r: r.peak_flops / 1e15),
    "memory_gb": ("GB a node", _COUNT, lambda r: r.memory_bytes / 1e9),
    "state_gb": ("state, GB", _COUNT, lambda r: r.state_bytes / 1e9),
    "h100_equivalents": ("H100 a node", _TENTHS, _quantity("h100_equivalents")),
    "cost_musd": ("cost, M$", _TENTHS, _quantity("cost_usd", 1e6)),
    "cost_busd": ("cost, B$", "{:.2f}", _quantity("cost_usd", 1e9)),
    "years": ("years", "{:g}", lambda r: r.wall_clock / model.YEAR_SECONDS),
    "wan_mbps": ("WAN, Mbit/s", "{:g}", lambda r: r.wan_up / 1e6),
    "wan_rtt_ms": ("RTT, ms", "{:g}", lambda r: r.wan_rtt * 1e3),
    "parameters_b": ("P, B", _SIZE, _quantity("parameters", 1e9)),
    "active_b": ("active, B", _SIZE, _quantity("active_parameters", 1e9)),
    "stages": ("S", _COUNT, _quantity("stages")),
    "groups": ("G", _COUNT, _quantity("groups")),
    "payload_gb": ("exchange, GB", _SIZE, _quantity("payload_bits", 8e9)),
    "compute_seconds": ("T_c, s", _TENTHS, lambda r: r.compute_time),
    "expert_seconds": ("T_EP, s", _TENTHS, lambda r: r.expert_time),
    "step_seconds": ("T_step, s", "{:.3f}", _quantity("step_seconds")),
    "sync_seconds": ("T_sync, s", _TENTHS, _quantity("sync_seconds")),
    "engine_step_seconds": ("engine T_step, s", "{:.3f}", lambda r: _engine_times(r).engine_step),
    "engine_sync_seconds": ("engine T_sync, s", _TENTHS, lambda r: _engine_times(r).engine_sync),
    "step_over_engine": ("T_step / engine", "{:.2f}", lambda r: r.step_time / _engine_times(r).engine_step),
    "sync_over_engine": ("T_sync / engine", "{:.2f}", lambda r: r.sync_time / _engine_times(r).engine_sync),
    "outer_minutes": ("outer, min", _TENTHS, _quantity("outer_seconds", 60)),
    "sync_mbps": ("mean Mbit/s each way", "{:.2f}", _quantity("sync_rate_bit_s", 1e6)),
    "latency_percent": ("RTT, % of a sync", "{:.4f}",
                        lambda r: 100 * (r.wan_rtt / (r.payload_bits / r.wan_up + r.payload_bits / r.wan_down))),
    "overhead_percent": ("experts, %", _TENTHS, lambda r: 100 * r.overhead),
    "bubble_percent": ("bubble, %", _TENTHS, lambda r: 100 * r.bubble),
    "inner_steps": ("H", _COUNT, _quantity("inner_steps")),
    "regional_cycles": ("H_R", _COUNT, _quantity("regional_cycles")),
    "effective_steps": ("H_eff", "{:.2f}", _quantity("effective_steps")),
    "eta_h": ("eta_H", _FACTOR, _quantity("eta_h")),
    "eta_c": ("eta_c", _FACTOR, _quantity("eta_c")),
    "eta_r": ("eta_r", _FACTOR, _quantity("eta_r")),
    "eta_act": ("eta_act", _FACTOR, _quantity("eta_act")),
    "eta": ("eta", _FACTOR, _quantity("eta")),
    "c_raw": ("C_raw", _COMPUTE, _quantity("c_raw")),
    "c_local": ("C_local", _COMPUTE, _quantity("c_local")),
    "chi": ("chi", _FACTOR, _quantity("chi")),
    "c_quality": ("C_quality", _COMPUTE, _quantity("c_quality")),
    "times_threshold": ("x threshold", _TENTHS, lambda r: r.local / r.threshold),
    "percent_of_best": ("% of best", _COUNT, lambda r: 100 * r.local / r.best),
    "tokens_t": ("tokens, T", _TENTHS, _quantity("tokens", 1e12)),
    "allocation_ratio": ("D/(rP)", _TENTHS, _quantity("tokens_over_allocation")),
}
NAMES = ", ".join(COLUMNS)


def rows_of(s, shape=None):
    """The rows of a scenario of arrays, each of `shape`."""
    out = model.simulate(s)
    for name in OF_SCENARIO:
        setattr(out, name, getattr(s, name))
    out.over_wan = (out.mode == model.MODES.index("pure-pp")) | (s.pipeline_links == "wan")
    out.forward_bits, out.backward_bits = model.bits_of_step(s, out.active_parameters)
    if shape is not None:
        for name, value in vars(out).items():
            setattr(out, name, np.broadcast_to(value, shape))
    return out


def values(r, names):
    """Each quantity of rows as a list of floats."""
    with np.errstate(all="ignore"):
        return {name: np.asarray(QUANTITIES[name](r), float) for name in names}

