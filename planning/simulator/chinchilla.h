#pragma once

namespace longhaul::simulator {

// The scaling law L(N, D) = 1.8172 + 482.01 N^-0.3478 + 2085.43 D^-0.3658, in nat (simulator.md
// section 6). N parameters, D tokens.
double Loss(double parameters, double tokens);
// dL/d ln D at that point, negative: nat per unit of ln D.
double LossSlope(double parameters, double tokens);
// The loss of compute C (FLOP) spent at D = r N: N = sqrt(C/(6r)).
double LossOfCompute(double compute, double tokens_per_parameter);

// The compute that reaches `loss` at D = r N, clamped to least..most (FLOP). The law is monotone.
double ComputeOfLoss(double loss, double tokens_per_parameter, double least, double most);

// chi(m) = min(1, C'/C_raw), where C' spent at D = r N reaches m L(P, D). C' in [1e10, 10 C_raw].
double Chi(double m, double parameters, double tokens, double raw, double tokens_per_parameter);

}  // namespace longhaul::simulator
