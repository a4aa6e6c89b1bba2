"""Links between the nodes of a plan as `longhaul net probe LAB --json` wrote them: a matrix, each pair of nodes with a path.
A path's rate is the goodput that was measured with TCP's headers on top, or rate_mbit, the lab's own, where goodput is left
out; its delay half the median round trip."""

import json
import math

from longhaul import toml
from longhaul.refusal import Refused

WIRE_FACTOR = 1514.0 / 1448.0  # wire bytes over payload bytes of a full frame


class _NoPath(Exception):
    """Why a path of the file is none."""


def _finite(text):
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value


def _refuse_constant(text):
    raise ValueError(text)


def _number(of, key):
    value = of.get(key) if isinstance(of, dict) else None
    return None if isinstance(value, bool) or not isinstance(value, (int, float)) else float(value)


def _figure(of, table, key):
    """What the file has where a figure is wanted: "is null"."""
    if table not in of:
        return "is missing"
    if not isinstance(of[table], dict) or key not in of[table]:
        return "has no figure"
    return f"is {toml.shown(json.dumps(of[table][key], ensure_ascii=False))}"


def _path(of):
    """A path, and what there is to say of it: "" where its figures are what was measured in bounds."""
    why = of["why"] if isinstance(of.get("why"), str) else ""
    if of.get("carrier") == "down":
        raise _NoPath("was down when it was probed; bring it up (longhaul net set .. carrier=up), probe again")
    rtt = _number(of.get("rtt"), "median_ms")
    if _number(of.get("rtt"), "received") == 0:
        raise _NoPath("answered no echo: it loses everything")
    if rtt is None or not rtt > 0:
        raise _NoPath(f"has no round trip: rtt.median_ms {_figure(of, 'rtt', 'median_ms')}; "
                      f"{'the probe says: ' + why if why else 'probe it again'}")
    lost = _number(of.get("datagrams"), "loss")
    path = {"delay_ms": rtt / 2, "loss": lost if lost is not None else _number(of, "loss") or 0.0, "rate_mbit": None,
            "queue_packets": None}
    if not 0 <= path["loss"] < 1:
        raise _NoPath("loses everything: no message arrives")
    goodput, nominal, note = _number(of.get("goodput"), "mbit"), _number(of, "rate_mbit"), ""
    if "goodput" in of and goodput is None:
        raise _NoPath(f"was given no rate: goodput.mbit {_figure(of, 'goodput', 'mbit')}; probe it again, or leave goodput out "
                      "for rate_mbit")
    if goodput is None and "rate_mbit" not in of:
        raise _NoPath("has neither goodput.mbit nor rate_mbit; a link without a limit has rate_mbit null")
    if of.get("in_bounds") is False:
        note = "was out of bounds when it was probed" + (f": {why}" if why else "")
    elif goodput is None:
        note = "has no rate, measured or nominal: it counts as without a limit" if nominal is None else \
            f"has no measured rate: its nominal {nominal:g} Mbit/s is taken"
    rate = nominal if goodput is None else goodput * WIRE_FACTOR
    if rate is None:
        return path, note
    if not 0 < rate <= 1e6:
        raise _NoPath(f"has {rate:g} Mbit/s")
    queue = _number(of, "queue_packets")
    return path | {"rate_mbit": rate, "queue_packets": queue if queue is not None and queue >= 1 else None}, note


def parse(text, where, nodes):
    """The matrix as the engine takes it, and a line for each figure that is not one measured in bounds.

    Refused: not what a probe writes, a path that was down or has no figure, a pair without a path, another number of nodes."""
    try:
        document = json.loads(text, parse_float=_finite, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise Refused(f"{where}: no JSON, or a number too large for it") from None
    probed = document.get("paths") if isinstance(document, dict) else None
    if not isinstance(probed, list) or not probed:
        raise Refused(f"{where}: not what 'longhaul net probe LAB --json' writes: no 'paths'")
    names, paths, notes = [], {}, []
    for one in probed:
        if not isinstance(one, dict) or not isinstance(one.get("from"), str) or not isinstance(one.get("to"), str):
            raise Refused(f"{where}: a path without 'from' and 'to'")
        ends = one["from"], one["to"]
        name = f"path {ends[0]} > {ends[1]}"
        if ends[0] == ends[1]:
            raise Refused(f"{where}: {name} leads to itself")
        names += [end for end in ends if end not in names]
        try:
            path, note = _path(one)
        except _NoPath as why:
            raise Refused(f"{where}: {name} {why}") from None
        if note:
            notes.append(f"{name} {note}")
        if ends in paths:
            raise Refused(f"{where}: {name} stands there twice")
        paths[ends] = path
    if len(names) != nodes:
        raise Refused(f"{where}: has {len(names)} nodes; the run has {nodes} workers (ranks of a group times groups)")
    matrix = {"nodes": names, "paths": []}
    for a, from_name in enumerate(names):
        for b, to_name in enumerate(names):
            if a == b:
                continue
            if (from_name, to_name) not in paths:
                raise Refused(f"{where}: no path {from_name} > {to_name}; probe them all")
            matrix["paths"].append({"from": a, "to": b} | paths[from_name, to_name])
    return matrix, notes


def read(file, nodes):
    return parse(toml.read_text(file), file, nodes)
