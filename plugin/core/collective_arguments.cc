#include "plugin/core/collective_arguments.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/status_macros.h"
#include "plugin/core/packet.h"
#include "plugin/core/reduce.h"

namespace longhaul {
namespace {

std::string Where(const GroupOptions& options) {
  return fmt::format("rank {} of group '{}' of {}", options.rank, options.name, options.size);
}

absl::Status CheckCounts(const GroupOptions& options, const WireTensor& x,
                         const std::vector<int64_t>& counts, std::string_view op,
                         std::string_view way) {
  bool possible = counts.size() == static_cast<size_t>(options.size);
  int64_t left = x.elements();
  for (const int64_t count : counts) {
    possible = possible && count >= 0 && count <= left;
    left -= possible ? count : 0;
  }
  if (possible && left == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} on {}: {} counts [{}] do not cut {}", op,
                                                Where(options), way, fmt::join(counts, ", "),
                                                ToString(x)));
}

// `all` holds the `one` of each rank.
absl::Status CheckAllOf(const GroupOptions& options, const WireTensor& one, const WireTensor& all,
                        std::string_view op) {
  if (one.type == all.type && all.elements() == one.elements() * options.size) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(fmt::format("{} on {}: {} of each of {} ranks is not {}", op,
                                                Where(options), ToString(one), options.size,
                                                ToString(all)));
}

// `all` has one like `one` for each rank.
absl::Status CheckOneOfEach(const GroupOptions& options, const WireTensor& one,
                            const std::vector<WireTensor>& all, std::string_view op) {
  if (all.size() != static_cast<size_t>(options.size)) {
    return absl::InvalidArgumentError(fmt::format("{} on {}: {} tensors for {} ranks", op,
                                                  Where(options), all.size(), options.size));
  }
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].type == one.type && all[r].elements() == one.elements()) continue;
    return absl::InvalidArgumentError(fmt::format("{} on {}: {} of rank {} is not like {}", op,
                                                  Where(options), ToString(all[r]), r,
                                                  ToString(one)));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckRoot(const GroupOptions& options, int root, std::string_view what) {
  if (root >= 0 && root < options.size) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("{} rank {} on {}", what, root, Where(options)));
}

absl::Status CheckAllGather(const GroupOptions& options, const WireTensor& in,
                            const WireTensor& out) {
  return CheckAllOf(options, in, out, "allgather");
}

absl::Status CheckAllToAll(const GroupOptions& options, const WireTensor& in,
                           const std::vector<int64_t>& send_counts, const WireTensor& out,
                           const std::vector<int64_t>& recv_counts) {
  RETURN_IF_ERROR(CheckCounts(options, in, send_counts, "alltoall", "send"));
  if (absl::Status s = CheckCounts(options, out, recv_counts, "alltoall", "receive"); !s.ok())
    return s;
  const auto own = static_cast<size_t>(options.rank);
  if (in.type == out.type && send_counts[own] == recv_counts[own]) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "alltoall on rank {} of group '{}': {} of {} sent to itself, {} of {} expected", options.rank,
      options.name, send_counts[own], ToString(in.type), recv_counts[own], ToString(out.type)));
}

absl::Status CheckReduceScatter(const GroupOptions& options, const WireTensor& in,
                                const std::vector<int64_t>& counts, const WireTensor& out,
                                ReduceOp op) {
  RETURN_IF_ERROR(CheckReduce(in.type, op));
  RETURN_IF_ERROR(CheckCounts(options, in, counts, "reducescatter", "the"));
  const int64_t own = counts[static_cast<size_t>(options.rank)];
  if (in.type == out.type && out.elements() == own) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format("reducescatter on {}: its part is {} x {}, not {}",
                                                Where(options), ToString(in.type), own,
                                                ToString(out)));
}

absl::Status CheckGather(const GroupOptions& options, const WireTensor& in,
                         const std::vector<WireTensor>& out, int root) {
  RETURN_IF_ERROR(CheckRoot(options, root, "gather to"));
  return options.rank == root ? CheckOneOfEach(options, in, out, "gather") : absl::OkStatus();
}

absl::Status CheckScatter(const GroupOptions& options, const std::vector<WireTensor>& in,
                          const WireTensor& out, int root) {
  RETURN_IF_ERROR(CheckRoot(options, root, "scatter from"));
  return options.rank == root ? CheckOneOfEach(options, out, in, "scatter") : absl::OkStatus();
}

}  // namespace longhaul
