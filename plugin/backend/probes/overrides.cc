// Compiles where c10d::Backend and Work have the virtual functions that the adapter overrides, with
// the parameters it expects (seen in torch 2.11 to 2.14).
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

using c10::intrusive_ptr;

struct Group : c10d::Backend {
  using Backend::Backend;
  const std::string getBackendName() const override { return "probe"; }
  intrusive_ptr<Options> getBackendOptions() override { return {}; }
  void setTimeout(std::chrono::milliseconds) override {}
  c10d::ErrorType getError() override { return c10d::ErrorType::SUCCESS; }
  void abort() override {}
  void shutdown() override {}
  bool supportsSplitting() const override { return true; }
  intrusive_ptr<Backend> split(const intrusive_ptr<c10d::Store>&, const std::vector<int>&,
                               const intrusive_ptr<Options>&) override {
    return {};
  }
  intrusive_ptr<c10d::Work> _allgather_base(at::Tensor&, at::Tensor&,
                                            const c10d::AllgatherOptions&) override {
    return {};
  }
};

struct Operation : c10d::Work {
  Operation() : c10d::Work(0, c10d::OpType::SEND, nullptr, std::vector<at::Tensor>{}) {}
  bool wait(std::chrono::milliseconds) override { return true; }
  intrusive_ptr<c10::ivalue::Future> getFuture() override { return {}; }
  uint64_t getSequencenumber() const override { return 0; }
};

void Use(Group* group, Operation* work) {
  work->wait(kNoTimeout);
  group->shutdown();
}
