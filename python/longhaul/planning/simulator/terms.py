"""The formulas of the planning model: the loss law, and the factors of eta = eta_H eta_c eta_r eta_act (docs/simulator.md).

Numbers or arrays of them: everything goes elementwise. A factor of a calibration may be nan where it is not measured.
"""

import functools

import numpy as np

GRADIENT_TABLES = ("governance", "documentation", "latest-without-ef", "latest-with-ef")
ACTIVATION_TABLES = ("note", "first-pp", "latest", "documentation")
CASES = ("optimistic", "expected", "conservative")

# Ratio: value in each case. The values at one ratio are of pseudo-gradients compressed so many times ...
_GRADIENT = {
    "governance": {1: (1, 1, 1), 4: (1, 1, .99), 16: (1, .98, .95), 100: (.99, .95, .90)},
    "documentation": {1: (1, 1, 1), 4: (1, 1, .99), 16: (1, .99, .95), 100: (1, .98, .90), 500: (.99, .95, .75)},
    "latest-without-ef": {1: (1, 1, 1), 4: (1, 1, .99), 16: (1, .99, .95), 100: (1, .98, .90), 150: (.99, .96, .85),
                          500: (.99, .95, .75)},
    "latest-with-ef": {1: (1, 1, 1), 4: (1, 1, .99), 16: (1, 1, .97), 100: (1, .99, .93), 150: (1, .99, .91),
                       500: (.99, .96, .80)},
}
# ... and of one crossing of a boundary. The note calls 10x "high risk" and gives no number: its 4x is held, with a warning.
_ACTIVATION = {
    "note": {1: (1, 1, 1), 2: (1, 1, 1), 4: (.995,) * 3},
    "first-pp": {1: (1, 1, 1), 2: (1, 1, .995), 4: (1, .995, .98), 10: (.995, .98, .95)},
    "latest": {1: (1, 1, 1), 2: (1, 1, .99), 4: (1, .995, .96), 10: (.995, .98, .90)},
    "documentation": {1: (1, 1, 1), 2: (.995,) * 3, 4: (.995 * .98,) * 3, 10: (.995 * .98 * .95,) * 3},
}


def given(factor, otherwise):
    """The factor where there is one: not None, and not nan."""
    if factor is None:
        return otherwise
    if isinstance(factor, (int, float)):
        return factor
    return np.where(np.isnan(factor), otherwise, factor)


# L(N, D) = 1.8172 + 482.01 N^-0.3478 + 2085.43 D^-0.3658, nat.
_IRREDUCIBLE, _MODEL, _MODEL_POWER, _DATA, _DATA_POWER = 1.8172, 482.01, .3478, 2085.43, .3658


def loss(parameters, tokens):
    return _IRREDUCIBLE + _MODEL * np.power(parameters, -_MODEL_POWER) + _DATA * np.power(tokens, -_DATA_POWER)


def tokens_kept(nat, tokens):
    """The share of the tokens with which the law has, at the same model, a loss `nat` higher: inverted, not its tangent."""
    return np.power(1 + np.asarray(nat, float) / (_DATA * np.power(tokens, -_DATA_POWER)), -1 / _DATA_POWER)


def compute_of_loss(nat, tokens_per_parameter, least, most):
    """The FLOP that reach a loss at D = r N, within least..most. Newton on ln(L - 1.8172) over ln C: a sum of two falling
    exponentials of nearly one power is nearly a line there."""
    nat, low, high = np.asarray(nat, float), np.log(least), np.log(most)
    want = np.log(np.where(nat > _IRREDUCIBLE, nat - _IRREDUCIBLE, 1))
    model = _MODEL * np.power(6 * np.asarray(tokens_per_parameter, float), _MODEL_POWER / 2)
    data = _DATA * np.power(np.asarray(tokens_per_parameter, float) / 6, -_DATA_POWER / 2)
    x = 0.5 * (low + high) + np.zeros(np.broadcast_shapes(np.shape(nat), np.shape(high), np.shape(model)))
    for _ in range(50):
        of_model, of_data = model * np.exp(-0.5 * _MODEL_POWER * x), data * np.exp(-0.5 * _DATA_POWER * x)
        total = of_model + of_data
        slope = -0.5 * (_MODEL_POWER * of_model + _DATA_POWER * of_data) / total
        step = (want - np.log(total)) / slope
        x = x + step
        if np.all(np.abs(step) < 1e-13 * np.abs(x)):
            break
    return np.where(nat > _IRREDUCIBLE, np.exp(np.clip(x, low, high)), most)


def chi(m, parameters, tokens, raw, tokens_per_parameter):
    """min(1, C'/C_raw), where C' spent at D = r N reaches m L(P, D). C' in [1e10, 10 C_raw]."""
    reached = compute_of_loss(m * loss(parameters, tokens), tokens_per_parameter, 1e10, 10 * np.asarray(raw, float))
    return np.minimum(1.0, reached / raw)


def alpha(parameters):
    return 0.08 / (1 + np.log10(np.asarray(parameters, float) / 1e9) / 5)


def eta_h(alpha_of_size, effective_steps, straggler="sync"):
    """max(0.4, 1 - alpha log10 H_eff); under the threshold strategy the value within is over 1.15."""
    eta = 1 - alpha_of_size * np.log10(effective_steps)
    return np.maximum(0.4, eta / 1.15 if straggler == "threshold" else eta)


@functools.cache
def _anchors(kind, table, case):
    anchors = (_GRADIENT if kind == "gradient" else _ACTIVATION)[table]
    column = CASES.index(case)
    return np.log10(np.array(list(anchors), float)), np.array([values[column] for values in anchors.values()], float)


def eta_c(table, case, ratio):
    """Linear in log10(ratio) between the table's anchors, 1 up to 1x, the last anchor beyond it."""
    return np.interp(np.log10(ratio), *_anchors("gradient", table, case))


def quality_of_crossing(table, case, ratio):
    """q of one boundary crossing at a ratio, as eta_c."""
    return np.interp(np.log10(ratio), *_anchors("activation", table, case))


def last_gradient_anchor(table):
    return max(_GRADIENT[table])


def last_activation_anchor(table):
    return max(_ACTIVATION[table])


def between_depths(depths, stages):
    """ln eta at a listed S as it stands, on a line between two of them (S = 1 has 0); None deeper than all."""
    exact = next((ln for at, ln in depths if at == stages), None)
    if exact is not None:
        return exact
    below = max(((at, ln) for at, ln in depths if 1 < at < stages), key=lambda d: d[0], default=(1, 0.0))
    above = min(((at, ln) for at, ln in depths if at > stages), key=lambda d: d[0], default=None)
    if above is None:
        return None
    return below[1] + (stages - below[0]) / (above[0] - below[0]) * (above[1] - below[1])


def eta_act(s, stages):
    """q^(2(S-1)), 1 for one stage or no compression; what a calibration measures at or between depths stands in its place,
    at most 1: what compression gains is noise."""
    stages = np.asarray(stages)
    backward = s.backward_ratio if s.backward_ratio is not None else s.activation_ratio
    m, cuts = s.measured, np.maximum(stages - 1.0, 0)
    # q at one cut, both directions, fixes a: exp(-a) = q^2.
    power = cuts if m.gamma is None else np.power(cuts, m.gamma)
    if m.q is not None:
        eta = np.power(m.q, 2 * power)
    else:
        forward_q = quality_of_crossing(s.activation_table, s.case, s.activation_ratio)
        backward_q = forward_q if backward is s.activation_ratio else \
            quality_of_crossing(s.activation_table, s.case, backward)
        eta = np.power(forward_q * backward_q, power)
    if m.by_stages:
        for at in np.unique(stages):
            ln = between_depths(m.by_stages, int(at))
            if ln is not None:
                eta = np.where(stages == at, np.exp(np.minimum(0.0, ln)), eta)
    if m.ln_eta is not None:
        eta = np.where(np.isnan(m.ln_eta), eta, np.exp(np.minimum(0.0, m.ln_eta)))
    plain = (stages <= 1) | ((np.asarray(s.activation_ratio) <= 1) & (np.asarray(backward) <= 1))
    return np.where(plain, 1.0, eta)


def eta_r_linear(parameters, replicas, floor, coefficient=0.005):
    """max(floor, 1 - 0.005 min(2.4, P_B)/P_B log2 n)."""
    billions = np.asarray(parameters, float) / 1e9
    return np.maximum(floor, 1 - coefficient * (np.minimum(2.4, billions) / billions) * np.log2(replicas))


def replica_loss_factor(parameters, replicas, inner_steps, with_h):
    """m = M^(beta_0(P) ln H/ln 30), beta_0 = 1.0923 P^-0.2342: by how much M replicas raise the loss; 1 for M <= 1 or
    H <= 1. Without H the exponent is beta_0 alone."""
    replicas, inner_steps = np.asarray(replicas, float), np.asarray(inner_steps, float)
    beta = 1.0923 * np.power(np.asarray(parameters, float), -0.2342)
    h = np.log(inner_steps) / np.log(30.0) if with_h else 1.0
    return np.where((replicas <= 1) | (inner_steps <= 1), 1.0, np.power(replicas, beta * h))


def straggler_factor(straggler, n, measured):
    """f(n): how much longer an exchange of n takes for its slowest member; f(1) = 1."""
    if straggler == "threshold":
        return 1.0
    coefficient = given(measured.straggler_coefficient, 0.02 if straggler == "relay" else 0.05)
    excess = coefficient * np.log2(np.maximum(n, 1))
    return 1 + 0.3 * excess if straggler == "backup" else 1 + excess
