#include "experiments/train/boundary_state.h"

#include <utility>

namespace longhaul {
namespace {

class GroupChannelState final : public ChannelState {
 public:
  explicit GroupChannelState(c10::intrusive_ptr<ProcessGroupLonghaul> group)
      : group_(std::move(group)) {}
  absl::StatusOr<std::string> Save() override { return group_->group().SaveState(); }
  absl::Status Check(std::string_view saved) const override {
    return group_->group().CheckState(saved);
  }
  absl::Status Load(std::string_view saved) override { return group_->group().LoadState(saved); }

 private:
  const c10::intrusive_ptr<ProcessGroupLonghaul> group_;
};

}  // namespace

std::shared_ptr<ChannelState> StateOfGroup(c10::intrusive_ptr<ProcessGroupLonghaul> group) {
  return std::make_shared<GroupChannelState>(std::move(group));
}

}  // namespace longhaul
