#include "compressors/kernels/convert.h"

#include "compressors/kernels/avx2/lanes.h"
#include "compressors/kernels/lane_kernels.h"

namespace longhaul {

const ConvertTable& Avx2Converters() {
  static constexpr ConvertTable table = MakeConverters<Avx2Lanes>();
  return table;
}

}  // namespace longhaul
