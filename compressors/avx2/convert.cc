#include "compressors/convert.h"

#include "compressors/avx2/lanes.h"
#include "compressors/lane_kernels.h"

namespace longhaul {

const ConvertTable& Avx2Converters() {
  static constexpr ConvertTable table = MakeConverters<Avx2Lanes>();
  return table;
}

}  // namespace longhaul
