"""What a design can resolve, said before its first run. Noise is that of an earlier campaign of the record with at
least three seeds (a pilot) where there is one, else assumed and labelled so."""

import math
from dataclasses import dataclass

from longhaul.analysis.campaign import D0_REFERENCE, analyse, depth_text, other_text
from longhaul.analysis.changes import changes_text, spec_changes
from longhaul.analysis.interval import detectable_effect, t_quantile
from longhaul.record import Record

EFFECT_TO_SEE = 0.005  # per crossing: what planning assumes
PILOT_SEEDS = 3


@dataclass(frozen=True)
class Noise:
    sigma_nat: float  # spread of the final loss between seeds
    rho: float  # correlation of two arms of one seed
    slope_nat: float  # s, per e-fold of tokens
    source: str  # "pilot 'first'", "assumed, ..."

    @property
    def sd_ln_eta(self) -> float:
        """Of a paired difference: sigma sqrt(2 (1 - rho)) over the slope."""
        return self.sigma_nat * math.sqrt(2 * (1 - self.rho)) / self.slope_nat


def resolve(seeds: int, noise: Noise, crossings: int) -> tuple[float, float]:
    """Half of the 95 % interval of q, and the loss per crossing found with 80 % power; infinite for one seed."""
    if seeds < 2:
        return math.inf, math.inf
    return (t_quantile(0.975, seeds - 1) * noise.sd_ln_eta / math.sqrt(seeds) / crossings,
            detectable_effect(seeds) * noise.sd_ln_eta / crossings)


def forecast_sentence(seeds: int, noise: Noise, depths) -> str:
    """`depths`: (S, K). "n = 5, sigma 0.0030, rho 0.5 (pilot), s 0.30: 95% half-width on q is 0.0062 at S=2, ...; a
    loss of 0.5% per crossing is NOT resolvable at S = 2."."""
    text = f"n = {seeds}, sigma {noise.sigma_nat:.4f}, rho {noise.rho:.1f} ({noise.source}), s {noise.slope_nat:.2f}: "
    crossed = sorted(set(depth for depth in depths if depth[1] > 0))
    if not crossed:
        return f"{text}no arm has a q: none crosses a boundary with a codec alone."
    if seeds < 2:
        return f"{text}one seed gives no interval and no headline."
    found = [(depth_text(*depth), *resolve(seeds, noise, depth[1])) for depth in crossed]
    widths = ", ".join(f"{width:.4f} at S={name}" for name, width, _ in found)
    hidden = ", ".join(name for name, _, effect in found if effect > EFFECT_TO_SEE)
    return (f"{text}95% half-width on q is {widths}; a loss of 0.5% per crossing is "
            + (f"NOT resolvable at S = {hidden}." if hidden else "resolvable at each."))


def _pilot(record: Record, own_name: str, planned_d0: str) -> tuple[Noise | None, str]:
    """Noise of the record's earlier campaigns, newest first, and a line for each that may not speak. The campaign's own
    runs do not count: a forecast that changes while seeds come in would invite stopping on it."""
    refused = ""
    for experiment in reversed(record.experiments()):
        if not experiment.campaign or experiment.name == own_name:
            continue
        a = analyse(record, experiment)
        if not (a.curve and a.sd_delta_nat > 0 and a.curve.sigma_nat > 0
                and any(arm.off and arm.off.seeds >= PILOT_SEEDS for arm in a.arms)):
            continue
        # Where and how a run was executed does not change noise, slope and pairing.
        changes = [c for c in spec_changes(planned_d0, a.arm(D0_REFERENCE).first.spec_toml)
                   if c.key.startswith(("model.", "data.", "train.", "outer.", "eval."))]
        if not changes:
            return Noise(a.curve.sigma_nat, a.rho, a.curve.slope_nat, f"pilot '{experiment.name}'"), refused
        refused += f"\nCampaign '{experiment.name}' of this record is no pilot for this one: {changes_text(changes)}."
    return None, refused


def forecast(design: dict, record: Record | None) -> dict:
    """Args:
        design: Of a planned campaign: name, seeds (how many), primary, assumed {sigma_nat, rho, slope_nat}, and arms,
        each with
            name, role, stages, crossings, has_q and its resolved spec.
        record: None where there is none yet.

    Returns:
        text; primary_resolvable: 0.5 % per crossing in the primary contrast with 80 % power; advice: a line for each
        arm that will have no eta, as its losses are of another text.
    """
    d0 = next((arm["spec"] for arm in design["arms"] if arm["name"] == D0_REFERENCE), "")
    noise, refused = _pilot(record, design["name"], d0) if record else (None, "")
    noise = noise or Noise(**design["assumed"], source="assumed, no pilot in this record")
    seeds, depths = design["seeds"], {
        arm["name"]: (arm["stages"], arm["crossings"]) for arm in design["arms"] if arm["has_q"]
    }
    primary = depths.get(design["primary"])
    text = f"Resolution forecast: {forecast_sentence(seeds, noise, depths.values())}{refused}"
    text += f"\nPrimary contrast: arm '{design['primary']}', codec off at evaluation."
    if not primary:
        text += " It changes more than stages and codecs, or crosses nothing: its result is an efficiency, not a q."
    if seeds < 5:
        text += f"\nThis is a smoke campaign: {seeds} seeds; fewer than five are for orientation only."
    return {"text": text, "advice": _advice(design, d0),
            "primary_resolvable": not primary or resolve(seeds, noise, primary[1])[1] <= EFFECT_TO_SEE}


def _advice(design, d0):
    lines = []
    for arm in design["arms"]:
        other = other_text((d0, ""), (arm["spec"], "")) if d0 and arm["role"] == "arm" else ""
        if other:
            unless = ", unless both hold out the same tokens" if "data." in other else ""
            lines.append(
                f"arm '{arm['name']}' will have no eta{unless}: losses on different texts have no difference: {other}"
            )
    return lines
