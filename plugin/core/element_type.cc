#include <iterator>

#include "plugin/core/group.h"

namespace longhaul {
namespace {

struct TypeRow {
  std::string_view name;
  size_t bytes;
};
constexpr TypeRow kTypes[] = {{"f32", 4},    {"bf16", 2},       {"f16", 2},        {"f64", 8},
                              {"i8", 1},     {"u8", 1},         {"i16", 2},        {"i32", 4},
                              {"i64", 8},    {"bool", 1},       {"c64", 8},        {"c128", 16},
                              {"u16", 2},    {"u32", 4},        {"u64", 8},        {"f8e4m3", 1},
                              {"f8e5m2", 1}, {"f8e4m3fnuz", 1}, {"f8e5m2fnuz", 1}, {"f8e8m0", 1}};
static_assert(std::size(kTypes) == static_cast<size_t>(kLastElementType) + 1);

constexpr std::string_view kOperations[] = {"sum", "avg",  "product", "min",
                                            "max", "band", "bor",     "bxor"};
static_assert(std::size(kOperations) == static_cast<size_t>(kLastReduceOp) + 1);

}  // namespace

size_t BytesPerElement(ElementType type) { return kTypes[static_cast<size_t>(type)].bytes; }

std::string_view ToString(ReduceOp op) { return kOperations[static_cast<size_t>(op)]; }

std::string_view ToString(ElementType type) { return kTypes[static_cast<size_t>(type)].name; }

int64_t WireTensor::elements() const {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

}  // namespace longhaul
