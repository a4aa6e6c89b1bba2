#include "plugin/backend/process_group.h"

#include <algorithm>

#include <c10/util/Logging.h>

#include "plugin/backend/call.h"
#include "plugin/backend/device_coders.h"
#include "plugin/backend/join.h"
#include "plugin/backend/torch_error.h"
#include "plugin/core/coding.h"

namespace longhaul {
namespace {

// What the ranks of a group must have in common.
std::string Agreement(const ProcessGroupLonghaul::Options& options) {
  std::string text =
      c10::str("forward=", options.codecs.forward, " backward=", options.codecs.backward,
               " min_elements=", options.codecs.min_elements);
  for (const auto& [boundary, pair] : options.codecs.by_boundary) {
    text += c10::str(" boundary", boundary, "=", pair.forward, "/", pair.backward);
  }
  for (const auto& [tag, codec] : options.codecs.by_tag) text += c10::str(" tag", tag, "=", codec);
  text += ToString(options.codecs.collectives);
  return text + c10::str(" seed=", options.seed, " ef_slots=", options.ef_slots,
                         " codec_table=", CodecTable());
}

void NoteError(std::atomic<c10d::ErrorType>& error, absl::StatusCode code) {
  c10d::ErrorType type;
  switch (code) {
    case absl::StatusCode::kOk:
    case absl::StatusCode::kInvalidArgument:  // that one call was wrong, the group is fine
    case absl::StatusCode::kUnimplemented:
      return;
    case absl::StatusCode::kDeadlineExceeded:
      type = c10d::ErrorType::TIMEOUT;
      break;
    case absl::StatusCode::kUnavailable:
      type = c10d::ErrorType::REMOTE_ERROR;
      break;
    default:
      type = c10d::ErrorType::COMM_ERROR;
      break;
  }
  c10d::ErrorType none = c10d::ErrorType::SUCCESS;
  error.compare_exchange_strong(none, type);
}

struct WantedDecoded {
  const ProcessGroupLonghaul* group = nullptr;
  at::Tensor out;
};
thread_local WantedDecoded wanted_decoded;  // of this thread's next send

}  // namespace

ProcessGroupLonghaul::Options::Options() : c10d::Backend::Options("longhaul") {}

ProcessGroupLonghaul::ProcessGroupLonghaul(c10::intrusive_ptr<c10d::Store> store, int rank,
                                           int size, c10::intrusive_ptr<Options> options)
    : Backend(rank, size), options_(c10::make_intrusive<Options>(*options)) {
  absl::Status known = CodingTable::Create(options_->codecs, rank, size).status();
  if (!known.ok()) {
    known = absl::Status(known.code(), c10::str("longhaul: group '", options_->group_name,
                                                "': ", std::string(known.message())));
  }
  options_->node_wishes.expected_peers = size - 1;
  Rendezvous rendezvous(*store, rank, size, options_->timeout);
  auto joined = Join(rendezvous, *store,
                     {.able = known,
                      .node = options_->node,
                      .wishes = options_->node_wishes,
                      .agreement = Agreement(*options_)});
  ThrowIfError(joined.status());
  node_ = std::move(joined->node);
  const Rendezvous::Peers& peers = joined->peers;
  ThrowIfError(
      rendezvous.Confirm(Connect(peers.addresses, c10::str(options_->group_name, "#", peers.nonce)),
                         ServerOf(*store)));
}

ProcessGroupLonghaul::ProcessGroupLonghaul(Connected, int rank, int size,
                                           c10::intrusive_ptr<Options> options,
                                           const std::vector<std::string>& addresses)
    : Backend(rank, size), options_(c10::make_intrusive<Options>(*options)), node_(options->node) {
  TORCH_CHECK_VALUE(node_ != nullptr, "longhaul: FromAddresses needs options->node");
  ThrowIfError(Connect(addresses, options_->group_name));
}

c10::intrusive_ptr<ProcessGroupLonghaul> ProcessGroupLonghaul::FromAddresses(
    int rank, const std::vector<std::string>& addresses, c10::intrusive_ptr<Options> options) {
  return c10::intrusive_ptr<ProcessGroupLonghaul>::unsafe_steal_from_new(new ProcessGroupLonghaul(
      Connected{}, rank, static_cast<int>(addresses.size()), std::move(options), addresses));
}

absl::Status ProcessGroupLonghaul::Connect(const std::vector<std::string>& addresses,
                                           const std::string& group_name) {
  where_ = c10::str("group '", options_->group_name, "' rank ", getRank());
  absl::StatusOr<std::shared_ptr<Group>> group =
      Group::Create(node_,
                    {.name = group_name,
                     .rank = getRank(),
                     .size = getSize(),
                     .timeout = absl::FromChrono(options_->timeout),
                     .codecs = options_->codecs,
                     .seed = options_->seed,
                     .nmse_every = options_->nmse_every,
                     .ef_slots = options_->ef_slots},
                    addresses);
  if (!group.ok()) {
    return absl::Status(group.status().code(), c10::str("longhaul: ", where_, ": ",
                                                        std::string(group.status().message())));
  }
  group_ = *group;
  return absl::OkStatus();
}

void ProcessGroupLonghaul::setTimeout(std::chrono::milliseconds timeout) {
  options_->timeout = timeout;
  LiveGroup()->SetTimeout(absl::FromChrono(timeout));
}

c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupLonghaul::getBackendOptions() {
  return c10::make_intrusive<Options>(*options_);  // a copy: torch writes the split's name into it
}

c10d::ErrorType ProcessGroupLonghaul::getError() { return *error_; }

void ProcessGroupLonghaul::abort() {
  const absl::Status why = absl::AbortedError("abort() was called on this rank");
  NoteError(*error_, why.code());
  LiveGroup()->Abort(why);
}

std::vector<CrossingCounters> ProcessGroupLonghaul::counters() const {
  std::shared_ptr<Group> group;
  {
    const std::lock_guard<std::mutex> lock(mu_);
    if (group_ == nullptr) return counters_;
    group = group_;
  }
  return group->counters();
}

void ProcessGroupLonghaul::shutdown() {
  std::shared_ptr<Node> node;
  std::shared_ptr<Group> group;  // gone before the node, and both outside the lock: they may wait
  {
    const std::lock_guard<std::mutex> lock(mu_);
    group.swap(group_);
    node.swap(node_);
    options_->node.reset();
  }
  if (group == nullptr) return;
  std::vector<CrossingCounters> counters = group->counters();
  {
    const std::lock_guard<std::mutex> lock(mu_);
    counters_ = std::move(counters);
  }
  if (const std::string remark = group->NothingEncoded(); !remark.empty()) {
    LOG(WARNING) << "longhaul: " << remark;
  }
}

std::shared_ptr<Group> ProcessGroupLonghaul::LiveGroup() const {
  const std::lock_guard<std::mutex> lock(mu_);
  if (!group_)
    ThrowIfError(absl::AbortedError(c10::str("longhaul: ", where_, ": it was shut down")));
  return group_;
}

std::shared_ptr<Node> ProcessGroupLonghaul::LiveNode() const {
  LiveGroup();
  const std::lock_guard<std::mutex> lock(mu_);
  return node_;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupLonghaul::split(
    const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
    const c10::intrusive_ptr<c10d::Backend::Options>& opts) {
  const auto mine = std::find(ranks.begin(), ranks.end(), getRank());
  if (mine == ranks.end()) return nullptr;
  const auto* longhaul_opts = dynamic_cast<const Options*>(opts.get());
  auto options = c10::make_intrusive<Options>(longhaul_opts ? *longhaul_opts : *options_);
  if (opts) {
    options->timeout = opts->timeout;
    options->group_name = opts->group_name;
  }
  options->node = LiveNode();
  return c10::make_intrusive<ProcessGroupLonghaul>(store, static_cast<int>(mine - ranks.begin()),
                                                   static_cast<int>(ranks.size()), options);
}

c10::intrusive_ptr<LonghaulWork> ProcessGroupLonghaul::NewWork(Call call) {
  LonghaulWork::Spec spec{.type = call.type,
                          .op = call.op,
                          .where = where_,
                          .sequence = operations_++,
                          .parts = call.parts,
                          .timeout = call.timeout,
                          .assemble = std::move(call.assemble),
                          .profiling_title = call.profiling_title};
  return c10::make_intrusive<LonghaulWork>(getRank(), std::move(spec), std::move(call.stagings),
                                           std::move(call.outputs), call.inputs, finisher_);
}

Group::Done ProcessGroupLonghaul::DoneFor(c10::intrusive_ptr<LonghaulWork> work) {
  return [work = std::move(work), error = error_](absl::Status status) mutable {
    NoteError(*error, status.code());
    const auto ended = std::move(work);  // not kept by whoever still holds this callback
    ended->Complete(std::move(status));
  };
}

int ProcessGroupLonghaul::CheckedPeer(int peer, const char* op) const {
  TORCH_CHECK_VALUE(peer >= 0 && peer < getSize() && peer != getRank(), "longhaul: ", op, " (",
                    where_, "): peer ", peer, " is not another rank of a group of ", getSize());
  return peer;
}

int ProcessGroupLonghaul::CheckedRoot(int64_t root, const char* op) const {
  TORCH_CHECK_VALUE(root >= 0 && root < getSize(), "longhaul: ", op, " (", where_, "): root ", root,
                    " is not a rank of a group of ", getSize());
  return static_cast<int>(root);
}

void ProcessGroupLonghaul::CheckTag(int tag, const char* op) const {
  TORCH_CHECK_VALUE(tag >= 0, "longhaul: ", op, " (", where_, "): tag ", tag,
                    ", tags are 0 and more");
}

// A CUDA tensor that goes with a codec which has kernels is encoded where it lies; anything else
// goes through host memory.
Staging ProcessGroupLonghaul::StagedSend(const at::Tensor& x, int dst, int tag) const {
  if (x.defined() && x.is_cuda() && x.is_contiguous() && at::isFloatingType(x.scalar_type()) &&
      !x.is_neg()) {
    const WireTensor wire = DescribedForWire(x);
    const std::string_view codec = LiveGroup()->CodecFor(wire, dst, tag);
    std::shared_ptr<Coder> coder = codec.empty() ? nullptr : DeviceCoderFor(x, codec);
    if (coder != nullptr) return Staging::InPlace(x, std::move(coder), "send");
  }
  return Staging::Of(x, Access::kRead, "send");
}

// In a group with codecs a CUDA tensor is filled where it lies, whatever comes.
Staging ProcessGroupLonghaul::StagedReceive(const at::Tensor& x, const char* op) const {
  if (x.defined() && x.is_cuda() && x.is_contiguous() && at::isFloatingType(x.scalar_type()) &&
      !x.is_neg() && !lossless()) {
    std::shared_ptr<Coder> coder = DeviceCoderFor(x, "");
    if (coder != nullptr) return Staging::InPlace(x, std::move(coder), op);
  }
  return Staging::Of(x, Access::kWrite, op);
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::send(std::vector<at::Tensor>& tensors, int dst,
                                                          int tag) {
  CheckedPeer(dst, "send");
  CheckTag(tag, "send");
  if (wanted_decoded.group == this) {
    const at::Tensor out = std::exchange(wanted_decoded, {}).out;
    return SendDecoded(tensors, out, dst, tag);
  }
  const Staging x = StagedSend(OnlyTensor(tensors, "send"), dst, tag);
  const auto work = NewWork({.type = c10d::OpType::SEND,
                             .op = "send",
                             .profiling_title = "longhaul:send",
                             .inputs = tensors,
                             .stagings = {x},
                             .outputs = x.tensors()});
  LiveGroup()->Send(x.wire(), dst, tag, DoneFor(work));
  return work;
}

void ProcessGroupLonghaul::decode_next_send(at::Tensor out) {
  const bool wanted = out.defined();
  wanted_decoded = {wanted ? this : nullptr, std::move(out)};
}

// Through host memory in any case: a coder of a device would not have the values there.
c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::SendDecoded(std::vector<at::Tensor>& tensors,
                                                                 const at::Tensor& out, int dst,
                                                                 int tag) {
  const at::Tensor& tensor = OnlyTensor(tensors, "send");
  const Staging x = Staging::Of(tensor, Access::kRead, "send");
  const Staging decoded = Staging::Of(out, Access::kWrite, "send");
  TORCH_CHECK_VALUE(out.sizes() == tensor.sizes() && out.scalar_type() == tensor.scalar_type(),
                    "longhaul: send of ", tensor.scalar_type(), tensor.sizes(),
                    ": what the receiver gets does not fit ", out.scalar_type(), out.sizes());
  TORCH_CHECK_VALUE(!out.is_alias_of(tensor),
                    "longhaul: send: what the receiver gets needs memory of its own");
  const auto work = NewWork({.type = c10d::OpType::SEND,
                             .op = "send",
                             .profiling_title = "longhaul:send",
                             .inputs = tensors,
                             .stagings = {x, decoded},
                             .outputs = x.tensors()});
  LiveGroup()->SendDecoded(x.wire(), decoded.wire().values, dst, tag, DoneFor(work));
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::recv(std::vector<at::Tensor>& tensors, int src,
                                                          int tag) {
  CheckedPeer(src, "recv");
  CheckTag(tag, "recv");
  const Staging x = StagedReceive(OnlyTensor(tensors, "recv"), "recv");
  const auto work = NewWork({.type = c10d::OpType::RECV,
                             .op = "recv",
                             .profiling_title = "longhaul:recv",
                             .inputs = tensors,
                             .stagings = {x},
                             .outputs = x.tensors()});
  work->set_source_rank(src);
  LiveGroup()->Recv(x.wire(), src, tag, DoneFor(work));
  return work;
}

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::recvAnysource(std::vector<at::Tensor>& tensors,
                                                                   int tag) {
  CheckTag(tag, "recvAnysource");
  const Staging x = StagedReceive(OnlyTensor(tensors, "recvAnysource"), "recvAnysource");
  const auto work = NewWork({.type = c10d::OpType::RECVANYSOURCE,
                             .op = "recvAnysource",
                             .profiling_title = "longhaul:recvAnysource",
                             .inputs = tensors,
                             .stagings = {x},
                             .outputs = x.tensors()});
  LiveGroup()->RecvAny(x.wire(), tag, [work, error = error_](absl::StatusOr<int> source) mutable {
    NoteError(*error, source.status().code());
    const auto ended = std::move(work);
    ended->CompleteFrom(std::move(source));
  });
  return work;
}

}  // namespace longhaul
