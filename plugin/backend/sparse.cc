// Sums of sparse tensors: everybody gets everybody's indices and values, and adds them up in the same
// order. In bytes that is what the tensors hold; a sum by parts would have to know who has what.
#include <cstring>

#include <ATen/ATen.h>

#include "plugin/backend/call.h"
#include "plugin/backend/process_group.h"

namespace longhaul {
namespace {

constexpr const char* kOp = "allreduce of sparse tensors";

// What goes on the wire: the number of elements, what must be equal on all ranks, indices, values.
//   i64 elements, dtype, sparse dims, dims, sizes of the dims; i64 indices [sparse dims, elements];
//   values
struct Packed {
  explicit Packed(const at::Tensor& x) {
    const at::Tensor whole = x.detach().coalesce().cpu();
    const at::Tensor indices = whole.indices().contiguous(), values = whole.values().contiguous();
    Put(whole._nnz());
    for (const int64_t field : Form(whole)) Put(field);
    Put(indices.data_ptr(), indices.nbytes());
    Put(values.data_ptr(), values.nbytes());
  }
  static std::vector<int64_t> Form(const at::Tensor& x) {
    std::vector<int64_t> form = {static_cast<int64_t>(x.scalar_type()), x.sparse_dim(), x.dim()};
    form.insert(form.end(), x.sizes().begin(), x.sizes().end());
    return form;
  }

  // Of any tensor of that form: coalesced, it has each place at most once.
  static uint64_t MostBytes(const at::Tensor& x) {
    uint64_t places = 1, place = x.element_size(), most = 0;
    bool more = false;  // than can be counted
    for (int64_t d = 0; d < x.dim(); ++d) {
      uint64_t& product = d < x.sparse_dim() ? places : place;
      more |= __builtin_mul_overflow(product, static_cast<uint64_t>(x.size(d)), &product);
    }
    more |= __builtin_add_overflow(place, sizeof(int64_t) * x.sparse_dim(), &place);
    more |= __builtin_mul_overflow(places, place, &most);
    more |= __builtin_add_overflow(most, sizeof(int64_t) * (1 + Form(x).size()), &most);
    return more ? UINT64_MAX : most;
  }

  std::vector<std::byte> bytes;

 private:
  void Put(int64_t field) { Put(&field, sizeof(field)); }
  void Put(const void* start, size_t count) {
    const auto* const from = static_cast<const std::byte*>(start);
    bytes.insert(bytes.end(), from, from + count);
  }
};

// The indices [sparse dims, elements] and values of rank `r`, on the host. ValueError: not of the
// form of x.
std::pair<at::Tensor, at::Tensor> Unpacked(const std::vector<std::byte>& bytes, const at::Tensor& x,
                                           size_t r) {
  const std::vector<int64_t> form = Packed::Form(x);
  const size_t fields = (1 + form.size()) * sizeof(int64_t);
  const bool alike =
      bytes.size() >= fields &&
      std::memcmp(bytes.data() + sizeof(int64_t), form.data(), fields - sizeof(int64_t)) == 0;
  TORCH_CHECK_VALUE(alike, "longhaul: ", kOp, ": the tensor of rank ", r,
                    " has another dtype or other sizes than ", x.scalar_type(), x.sizes());
  int64_t elements = 0;
  std::memcpy(&elements, bytes.data(), sizeof(elements));
  std::vector<int64_t> sizes = {elements};
  sizes.insert(sizes.end(), x.sizes().begin() + x.sparse_dim(), x.sizes().end());
  at::Tensor indices = at::empty({x.sparse_dim(), elements}, at::kLong);
  at::Tensor values = at::empty(sizes, x.scalar_type());
  TORCH_CHECK_VALUE(bytes.size() == fields + indices.nbytes() + values.nbytes(), "longhaul: ", kOp,
                    ": ", bytes.size(), " bytes of rank ", r, " are not ", elements, " elements");
  if (elements > 0) {
    std::memcpy(indices.data_ptr(), bytes.data() + fields, indices.nbytes());
    std::memcpy(values.data_ptr(), bytes.data() + fields + indices.nbytes(), values.nbytes());
  }
  return {indices, values};
}

}  // namespace

c10::intrusive_ptr<c10d::Work> ProcessGroupLonghaul::allreduce_sparse(
    std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& opts) {
  const at::Tensor x = OnlyTensor(tensors, kOp);
  TORCH_CHECK_NOT_IMPLEMENTED(x.layout() == at::kSparse, "longhaul: ", kOp, ": layout ", x.layout(),
                              " is not supported; use sparse_coo or a dense tensor");
  TORCH_CHECK_NOT_IMPLEMENTED(opts.reduceOp == c10d::ReduceOp::SUM, "longhaul: ", kOp,
                              ": only SUM is supported; use to_dense() first");
  const auto mine = std::make_shared<Packed>(x);
  const auto all = std::make_shared<Group::Gathered>();
  const auto work = NewWork(
      {.type = c10d::OpType::_ALLREDUCE_SPARSE,
       .op = kOp,
       .profiling_title = "longhaul:all_reduce",
       .inputs = {},
       .stagings = {},
       .outputs = {},
       .assemble =
           [x, mine, all] {
             std::vector<at::Tensor> indices, values;
             for (size_t r = 0; r < all->size(); ++r) {
               auto [at, of] = Unpacked((*all)[r], x, r);
               indices.push_back(at);
               values.push_back(of);
             }
             // Sorts them, which keeps the order of ranks, then adds up.
             const at::Tensor sum =
                 at::sparse_coo_tensor(at::cat(indices, 1), at::cat(values), x.sizes()).coalesce();
             at::Tensor target = x;
             const at::NoGradGuard no_gradient;
             target.copy_(sum);
             return std::vector<at::Tensor>{target.detach()};
           },
       .timeout = opts.timeout});
  ++collectives_;
  LiveGroup()->AllGatherBytes(mine->bytes, Packed::MostBytes(x), all, DoneFor(work));
  return work;
}

}  // namespace longhaul
