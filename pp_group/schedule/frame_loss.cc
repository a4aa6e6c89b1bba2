#include "pp_group/schedule/frame_loss.h"

#include "compressors/numbers/noise.h"

namespace longhaul {
namespace {

bool Happens(uint32_t word, double prob) { return static_cast<double>(word) * 0x1p-32 < prob; }

}  // namespace

bool FrameFates::Lost(const FrameLoss& loss) {
  if (!loss.any()) return false;
  const uint64_t at = 2 * frames_++;
  const uint32_t word = NoiseWord(loss.key, NoisePurpose::kFrameLoss, at);
  if (loss.to_bad == 0) return Happens(word, loss.prob);
  const bool lost = Happens(word, bad_ ? loss.loss_bad : loss.loss_good);
  const uint32_t turn = NoiseWord(loss.key, NoisePurpose::kFrameLoss, at + 1);
  if (Happens(turn, bad_ ? loss.to_good : loss.to_bad)) bad_ = !bad_;
  return lost;
}

}  // namespace longhaul
