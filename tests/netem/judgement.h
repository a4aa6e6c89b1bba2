#pragma once

#include <functional>
#include <string>

#include "absl/time/time.h"
#include "netem/emulator.h"
#include "tests/netem/wake_control.h"

namespace longhaul {

// How the acceptance suite measures and judges; acceptance_test.cc says what.

bool InGuest();
bool Long();                  // LONGHAUL_LINKS=long
absl::Duration MeasureFor();  // of a rate, after its warm-up

double RttBoundMs(double nominal_ms);
double RateShare();  // share of the nominal rate that a rate may be off

// The topology at rates that can be judged here: the guest's one CPU carries less, and of a sender
// that paces its packets (BBR) less still.
enum class Sender { kBursts, kPaces };
Topology ForThisMachine(Topology topology, Sender sender = Sender::kBursts);
Topology Pair(const char* profile, Sender sender = Sender::kBursts);

// Print one measurement; true when it is within the bounds.
bool Judge(const char* what, double nominal, double measured, double low, double high);
bool Near(const char* what, double nominal, double measured, double bound);

// `measure` returns whether all was in bounds, `can_judge` whether the machine let it be so. Fails
// after three measurements that count; skips the test when six (in the short form four) were made
// and fewer count.
void ExpectInBounds(bool (*can_judge)(const Oversleep&), const std::function<bool()>& measure);

// Idle RTT: 100 echoes, mean and p99 (in the guest: the median).
bool RttInBounds(const Emulator& emulator, int from, int to);
// One TCP flow's goodput, from (1 - low_share) to (1 + high_share) times nominal.
bool RateInBounds(const Emulator& emulator, int from, int to, const std::string& control,
                  double low_share, double high_share);

}  // namespace longhaul
