#pragma once

#include <cstdint>

#include "planning/simulator/scenario.h"

namespace longhaul::simulator {

// The scaling law L(N, D) = 1.8172 + 482.01 N^-0.3478 + 2085.43 D^-0.3658, in nat (simulator.md
// section 6). N parameters, D tokens.
double Loss(double parameters, double tokens);
// dL/d ln D at that point, negative: nat per unit of ln D.
double LossSlope(double parameters, double tokens);

// The compute that reaches `loss` at D = r N, clamped to least..most (FLOP). The law is monotone.
double ComputeOfLoss(double loss, double tokens_per_parameter, double least, double most);

// chi(m) = min(1, C'/C_raw), where C' spent at D = r N reaches m L(P, D). C' in [1e10, 10 C_raw].
double Chi(double m, double parameters, double tokens, double raw, double tokens_per_parameter);

// The factors of eta = eta_H eta_c eta_r eta_act (simulator.md sections 4 and 5). Each is in (0,
// 1].

// alpha = 0.08/(1 + log10(P in billions)/5); P in parameters.
double Alpha(double parameters);

// max(0.4, 1 - alpha log10 H_eff); under the threshold strategy the value within is over 1.15.
double EtaH(double alpha, double effective_steps, Straggler straggler);

// eta of pseudo-gradients compressed `ratio` times: linear in log10(ratio) between the table's
// anchors, 1 up to 1x, the last anchor beyond it.
double EtaC(GradientTable table, Case column, double ratio);
double LastGradientAnchor(GradientTable table);

// q of one boundary crossing at `ratio`, between anchors as EtaC; and eta_act = q^(2(S-1)), 1 for
// one stage or no compression. `measured` overrides both.
double QualityOfCrossing(ActivationTable table, Case column, double ratio);
double LastActivationAnchor(ActivationTable table);
double EtaAct(const Scenario& scenario, int64_t stages);

// max(floor, 1 - 0.005 min(2.4, P_B)/P_B log2 n); the golden floor is 0.85.
double EtaRLinear(double parameters, int64_t replicas, double floor, double coefficient = 0.005);

// m = M^(beta_0(P) ln H/ln 30), beta_0 = 1.0923 P^-0.2342, by how much M replicas raise the loss;
// 1 for M <= 1 or H <= 1. Without H: the exponent is beta_0 alone.
double ReplicaLossFactor(double parameters, int64_t replicas, double inner_steps, bool with_h);

// f(n): how much longer an exchange of n takes for its slowest member; f(1) = 1.
double StragglerFactor(Straggler straggler, double n, const Factors& measured);

}  // namespace longhaul::simulator
