"""Weighted sums of ln eta over arms of an analysis."""

from dataclasses import dataclass

from longhaul.analysis import NotEstimated
from longhaul.analysis.efficiency import estimate_contrast
from longhaul.tables import Measured


@dataclass
class Contrast:
    name: str
    value: Measured | None = None
    seeds: int = 0
    note: str = ""  # why there is no value


def reference_losses(a, arm) -> dict[int, float]:
    reference = a.reference_of(arm)
    return reference.losses() if reference else {}


def contrast(a, name: str, weighted, note: str = "") -> Contrast:
    """A weighted sum of ln eta over (weight, arm); what keeps it from being estimated stands in its note."""
    out, terms = Contrast(name, note=note), []
    for weight, arm in weighted:
        if arm.note:
            out.note = f"arm '{arm.name}': {arm.note}"
        terms.append((weight, reference_losses(a, arm), arm.losses()))
    return of_terms(a, out, terms)


def of_terms(a, out: Contrast, terms) -> Contrast:
    """`out` with the value of its terms (weight, losses of the reference, losses of the arm)."""
    if not out.note and not a.curve:
        out.note = a.curve_note
    if not out.note:
        try:
            out.value, out.seeds = estimate_contrast(a.curve, terms)
        except NotEstimated as why:
            out.note = str(why)
    return out
