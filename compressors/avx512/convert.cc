#include "compressors/convert.h"

#include "compressors/avx512/lanes.h"
#include "compressors/lane_kernels.h"

namespace longhaul {

const ConvertTable& Avx512Converters() {
  static constexpr ConvertTable table = MakeConverters<Avx512Lanes>();
  return table;
}

}  // namespace longhaul
