#include "plugin/core/coding.h"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>

#include "base/status_macros.h"
#include "compressors/catalog.h"
#include "compressors/kernels/convert.h"
#include "compressors/numbers/noise.h"
#include "compressors/states/mirror.h"
#include "plugin/core/tensor_kind.h"

namespace longhaul {
namespace {

constexpr std::string_view kRaw = "none";

absl::StatusOr<std::shared_ptr<const Codec>> MakeOrRaw(const std::string& name) {
  if (name == kRaw) return std::shared_ptr<const Codec>();
  return MakeCodec(name);
}

constexpr std::string_view kWays[] = {"auto", "direct", "gather", "ring"};

}  // namespace

bool CodecPolicy::Collectives::lossless() const {
  return all_reduce == kRaw && reduce_scatter == kRaw && all_gather == kRaw;
}

std::string ToString(const CodecPolicy::Collectives& c) {
  if (c.lossless()) return "";
  return fmt::format(" all_reduce={} reduce_scatter={} all_gather={} way={} site_size={}",
                     c.all_reduce, c.reduce_scatter, c.all_gather,
                     kWays[static_cast<size_t>(c.way)], c.site_size);
}

bool CodecPolicy::lossless() const {
  if (forward != kRaw || backward != kRaw) return false;
  for (const auto& [boundary, pair] : by_boundary) {
    if (pair.forward != kRaw || pair.backward != kRaw) return false;
  }
  for (const auto& [tag, name] : by_tag) {
    if (name != kRaw) return false;
  }
  return collectives.lossless();
}

CodecPolicy::Pair CodecPolicy::Between(int rank, int peer) const {
  const auto found = by_boundary.find(std::min(rank, peer));
  if (std::abs(rank - peer) == 1 && found != by_boundary.end()) return found->second;
  return {forward, backward};
}

absl::StatusOr<CodingTable> CodingTable::Create(const CodecPolicy& policy, int rank, int size) {
  if (policy.min_elements < 0) {
    return absl::InvalidArgumentError(
        fmt::format("min_elements {}: want 0 or more", policy.min_elements));
  }
  CodingTable table;
  table.policy_ = policy;
  table.rank_ = rank;
  table.size_ = size;
  const auto make = [](const std::string& name, Entry& entry) {
    absl::StatusOr<std::shared_ptr<const Codec>> codec = MakeOrRaw(name);
    if (codec.ok()) entry.codec = *std::move(codec);
    return codec.status();
  };
  RETURN_IF_ERROR(make(policy.forward, table.forward_));
  RETURN_IF_ERROR(make(policy.backward, table.backward_));
  for (const auto& [boundary, pair] : policy.by_boundary) {
    auto& [forward, backward] = table.by_boundary_[boundary];
    RETURN_IF_ERROR(make(pair.forward, forward));
    RETURN_IF_ERROR(make(pair.backward, backward));
  }
  for (const auto& [tag, name] : policy.by_tag) {
    RETURN_IF_ERROR(make(name, table.by_tag_[tag]));
  }
  RETURN_IF_ERROR(table.MakeCollectives());
  return table;
}

absl::Status CodingTable::MakeCollectives() {
  const CodecPolicy::Collectives& wanted = policy_.collectives;
  if (wanted.site_size < 1 || size_ % wanted.site_size != 0) {
    return absl::InvalidArgumentError(
        fmt::format("sites of {} ranks do not cut a group of {}", wanted.site_size, size_));
  }
  if (wanted.site_size > 1 && wanted.lossless()) {
    return absl::InvalidArgumentError(
        fmt::format("sites of {} ranks, but no collective has a codec", wanted.site_size));
  }
  for (const auto& [name, entry] : {std::pair{&wanted.all_reduce, &all_reduce_},
                                    std::pair{&wanted.reduce_scatter, &reduce_scatter_},
                                    std::pair{&wanted.all_gather, &all_gather_}}) {
    ASSIGN_OR_RETURN(std::shared_ptr<const Codec> codec, MakeOrRaw(*name));
    if (name->ends_with("+sat")) {
      return absl::InvalidArgumentError(
          fmt::format("codec '{}' of collectives replaces NaN and Inf, from which every rank knows "
                      "that a step has overflowed; take it without +sat: collectives send tensors "
                      "that hold them as they are",
                      *name));
    }
    if (codec != nullptr && codec->NewState({1, 1}) != nullptr) {
      return absl::InvalidArgumentError(fmt::format(
          "codec '{}' of collectives keeps a state per tensor, and nothing says which tensor a "
          "collective has; take one without (no +ef, +ef21, +mc, aqsgd)",
          *name));
    }
    entry->codec = std::move(codec);
  }
  return absl::OkStatus();
}

const Codec* CodingTable::OfCollective(CollectiveKind kind, ReduceOp op) const {
  if (op != ReduceOp::kSum && op != ReduceOp::kAvg) return nullptr;
  switch (kind) {
    case CollectiveKind::kAllReduce:
      return all_reduce_.codec.get();
    case CollectiveKind::kReduceScatter:
      return reduce_scatter_.codec.get();
    case CollectiveKind::kAllGather:
      return all_gather_.codec.get();
    default:
      return nullptr;
  }
}

const Codec* CodingTable::ForCollective(CollectiveKind kind, const WireTensor& x,
                                        ReduceOp op) const {
  return LongEnough(x) ? OfCollective(kind, op) : nullptr;
}

bool CodingTable::TooShortFor(CollectiveKind kind, const WireTensor& x, ReduceOp op) const {
  return x.type <= ElementType::kF16 && !LongEnough(x) && OfCollective(kind, op) != nullptr;
}

bool CodingTable::LongEnough(const WireTensor& x) const {
  return x.type <= ElementType::kF16 && x.elements() >= std::max<int64_t>(1, policy_.min_elements);
}

absl::Status CodingTable::CheckKind(const WireTensor& x, int dst, int tag) const {
  const CodecPolicy::Pair codecs = policy_.Between(rank_, dst);
  if (codecs.forward == codecs.backward || !LongEnough(x)) return absl::OkStatus();
  if (by_tag_.contains(tag) || KindOfTag(tag).has_value()) return absl::OkStatus();
  const bool wraps = Wraps(rank_, dst);
  if (policy_.unnamed_kind == CodecPolicy::UnnamedKind::kByRank && !wraps) return absl::OkStatus();
  return absl::InvalidArgumentError(fmt::format(
      "{} to rank {} of {}, tag {}: is it an activation (codec '{}') or a gradient ('{}')? {}; say "
      "it by the tag: longhaul.activation_tag(), longhaul.gradient_tag() or Options.by_tag",
      ToString(x), dst, size_, tag, codecs.forward, codecs.backward,
      wraps ? "between the first rank and the last the order of ranks does not tell"
            : "this group takes no kind from the order of ranks"));
}

// Where a looped pipeline closes.
bool CodingTable::Wraps(int src, int dst) const {
  return size_ > 2 && std::abs(dst - src) == size_ - 1;
}

std::optional<TensorKind> CodingTable::KindOf(int src, int dst, int tag) const {
  if (const std::optional<TensorKind> told = KindOfTag(tag)) return told;
  const bool by_rank = policy_.unnamed_kind == CodecPolicy::UnnamedKind::kByRank;
  if (!by_rank || by_tag_.contains(tag) || Wraps(src, dst)) return std::nullopt;
  return dst > src ? TensorKind::kActivation : TensorKind::kGradient;
}

bool CodingTable::TooShort(const WireTensor& x, int dst, int tag) const {
  return x.type <= ElementType::kF16 && !LongEnough(x) && Named(dst, tag) != nullptr;
}

const Codec* CodingTable::Pick(const WireTensor& x, int dst, int tag) const {
  return LongEnough(x) ? Named(dst, tag) : nullptr;
}

const Codec* CodingTable::Named(int dst, int tag) const {
  const auto found = by_tag_.find(tag);
  if (found != by_tag_.end()) return found->second.codec.get();
  const TensorKind by_rank = dst > rank_ ? TensorKind::kActivation : TensorKind::kGradient;
  const TensorKind kind = KindOfTag(tag).value_or(by_rank);
  {
    const std::lock_guard lock(in_use_->mu);
    const auto used = in_use_->codecs.find({dst, kind});
    if (used != in_use_->codecs.end()) return used->second;
  }
  return OfPolicy(dst, kind);
}

const Codec* CodingTable::OfPolicy(int dst, TensorKind kind) const {
  const auto cut = by_boundary_.find(std::min(rank_, dst));
  const bool apart = std::abs(dst - rank_) != 1 || cut == by_boundary_.end();
  const Entry& forward = apart ? forward_ : cut->second.first;
  const Entry& backward = apart ? backward_ : cut->second.second;
  return (kind == TensorKind::kActivation ? forward : backward).codec.get();
}

absl::Status CodingTable::Use(int dst, TensorKind kind, std::string_view codec) {
  const Codec* const own = OfPolicy(dst, kind);
  const Codec* wanted = nullptr;
  const std::lock_guard lock(in_use_->mu);
  if (own != nullptr && own->name() == codec) {
    wanted = own;
  } else if (codec != kRaw) {
    std::shared_ptr<const Codec>& made = in_use_->made[std::string(codec)];
    if (made == nullptr) {
      ASSIGN_OR_RETURN(std::shared_ptr<const Codec> fresh, MakeCodec(codec));
      made = std::move(fresh);
    }
    wanted = made.get();
    if (wanted->NewState({1, 1}) != nullptr) {
      return absl::InvalidArgumentError(
          fmt::format("codec '{}' keeps a state from tensor to tensor, which a change of codecs "
                      "would end",
                      codec));
    }
  }
  if (wanted != nullptr && policy_.lossless()) {
    return absl::InvalidArgumentError(
        fmt::format("codec '{}' in a group whose policy is lossless: receivers refuse it", codec));
  }
  in_use_->codecs[{dst, kind}] = wanted;
  return absl::OkStatus();
}

CodingTable::Used CodingTable::used() const {
  const std::lock_guard lock(in_use_->mu);
  Used used;
  for (const auto& [key, codec] : in_use_->codecs) {
    used[key] = codec == nullptr ? kRaw : codec->name();
  }
  return used;
}

const Codec* PlainCodec(uint16_t id) {
  static const std::map<uint16_t, std::shared_ptr<const Codec>> by_id = [] {
    std::map<uint16_t, std::shared_ptr<const Codec>> made;
    std::vector<std::string> names = CodecNames();
    for (std::string& name : ParametricExamples()) names.push_back(std::move(name));
    for (const std::string& name : names) {
      if (auto codec = MakeCodec(name); codec.ok()) made.emplace((*codec)->id(), *codec);
    }
    return made;
  }();
  const auto found = by_id.find(id);
  return found == by_id.end() ? nullptr : found->second.get();
}

size_t StateSlots(const GroupOptions& options, int tag) {
  return IsSampleTag(tag) ? 1 : static_cast<size_t>(std::max(1, options.ef_slots));
}

uint64_t CodingOf(const Codec& codec, const CodecPolicy::Collectives& collectives) {
  uint64_t hash = 0;
  for (const char c : ToString(collectives)) hash = FoldSeed({hash, static_cast<unsigned char>(c)});
  return hash << 16 | codec.id();
}

float RawFrom(const Codec& codec, ElementType type) {
  const std::string_view name = codec.name();
  const bool half = type == ElementType::kF16 || name == "fp16" || name.ends_with("+fp16");
  return half ? 65520.0f : 0x1p120f;
}

uint64_t CodecTable() {
  uint64_t table = 0;
  std::vector<std::string> names = CodecNames();
  for (std::string& name : ParametricExamples()) names.push_back(std::move(name));
  for (const std::string& name : names) {
    for (const char c : name) table = FoldSeed({table, static_cast<unsigned char>(c)});
    table = FoldSeed({table, MakeCodec(name).value()->id()});
  }
  return table;
}

std::string CodingText(uint64_t coding) {
  return coding == 0 ? "exactly" : "as " + CodecNameOf(static_cast<uint16_t>(coding));
}

std::string CodecNameOf(uint16_t id) {
  const Codec* codec = PlainCodec(id);
  return codec == nullptr ? fmt::format("codec {:#x}", id) : std::string(codec->name());
}

size_t MaxFrameBytes(uint16_t id, const Tensor& x) { return MaxFrameBytesOf(id, x.shape, x.dtype); }

Tensor CodecTensor(const WireTensor& x, const PacketHeader& header) {
  Shape shape{.rows = 1, .cols = header.elements};
  if (header.rank > 0 && header.dims[header.rank - 1] > 0) {
    shape.cols = header.dims[header.rank - 1];
    shape.rows = header.elements / shape.cols;
  }
  return {.values = x.values, .dtype = static_cast<DType>(x.type), .shape = shape};
}

absl::Status DecodeLikeReceiver(std::span<const std::byte> frame, const CodecState* state,
                                Tensor x) {
  const auto* mirror = dynamic_cast<const Mirror*>(state);
  if (mirror == nullptr) return DecodeFrame(frame, x);
  for (uint64_t i = 0; i < x.shape.elements(); ++i) {
    StoreElement(LoadElement(mirror->values(), mirror->dtype(), i),
                 static_cast<std::byte*>(x.values), x.dtype, i);
  }
  return absl::OkStatus();
}

uint64_t FrameSeed(uint64_t group_seed, const PacketHeader& header) {
  return FoldSeed({group_seed, header.sequence, static_cast<uint64_t>(header.source_rank),
                   static_cast<uint64_t>(header.tag)});
}

double Nmse(ConstTensor decoded, ConstTensor x) {
  const auto* received = static_cast<const std::byte*>(decoded.values);
  const auto* source = static_cast<const std::byte*>(x.values);
  double error = 0, power = 0;
  const auto add = [&](double value, double back) {
    error += (back - value) * (back - value);
    power += value * value;
  };
  const uint64_t elements = x.shape.elements();
  if (x.dtype == DType::kF32 && decoded.dtype == DType::kF32) {
    const auto* values = reinterpret_cast<const float*>(source);
    const auto* backs = reinterpret_cast<const float*>(received);
    for (uint64_t i = 0; i < elements; ++i) add(values[i], backs[i]);
  } else {
    for (uint64_t i = 0; i < elements; ++i) {
      add(LoadElement(source, x.dtype, i), LoadElement(received, decoded.dtype, i));
    }
  }
  return power > 0 ? error / power : 0.0;
}

absl::StatusOr<double> FrameNmse(std::span<const std::byte> frame, ConstTensor x,
                                 const CodecState* state, std::span<std::byte> scratch) {
  ConstTensor decoded{.values = scratch.data(), .dtype = DType::kF32, .shape = x.shape};
  if (const auto* mirror = dynamic_cast<const Mirror*>(state)) {
    decoded = {.values = mirror->values(), .dtype = mirror->dtype(), .shape = x.shape};
  } else if (absl::Status s = DecodeFrame(frame, {scratch.data(), DType::kF32, x.shape}); !s.ok()) {
    return s;
  }
  return Nmse(decoded, x);
}

}  // namespace longhaul
