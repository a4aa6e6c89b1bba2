#pragma once

#include <cstdint>
#include <cstdio>

#include "absl/status/status.h"
#include "experiments/record/record.h"
#include "experiments/spec/campaign.h"

namespace longhaul {

// Prices what each arm's boundaries cost the weights that the reference of its seed ended with, as the fact
// kUntrainedPriceFact of the arm's run, and removes the weights (WeightsFolder). Of arms that differ from
// reference@1 in stages and boundary codecs alone. A model that cannot be priced costs nothing but itself: one line on
// `out`. Errors are the record's.
absl::Status PriceReferences(Record& record, int64_t experiment, const CampaignSpec& campaign,
                             std::FILE* out);

}  // namespace longhaul
