#include <atomic>
#include <filesystem>
#include <future>
#include <iterator>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "experiments/elastic/state_swarm.h"
#include "plugin/swarm/swarm.h"
#include "pp_group/state/handover.h"

namespace longhaul {
namespace {

// Whether a joiner is still there is asked this often.
constexpr absl::Duration kAskEvery = absl::Seconds(1);

class SwarmGiver final : public StateGiver {
 public:
  SwarmGiver(SharedState state, int group, Lives joiners, c10::intrusive_ptr<c10d::Store> store,
             int stages, int groups)
      : state_(std::move(state)),
        group_(group),
        joiners_(std::move(joiners)),
        stages_(stages),
        groups_(groups),
        thread_([this, store = std::move(store)] { Run(store); }) {}

  ~SwarmGiver() override {
    stop_ = true;
    thread_.join();
  }

  std::vector<std::string> TakeWarnings() override {
    const std::lock_guard lock(mu_);
    return std::exchange(words_, {});
  }

 private:
  void Run(c10::intrusive_ptr<c10d::Store> store) {
    try {
      RoundStore own(std::move(store), stages_, groups_);
      const absl::StatusOr<std::string> offers = ShareAll(own);
      if (!offers.ok()) Say(std::string(offers.status().message()));
      own.Set(absl::StrCat("swarm/", state_.step, "/", state_.stage, "/", group_),
              offers.ok() ? *offers : absl::StrCat("! ", std::string(offers.status().message())));
      if (offers.ok()) AwaitJoiners(own);
    } catch (const std::exception& e) {  // the store is lost: the training's thread finds it, too
      Say(std::string(e.what()).substr(0, 200));
    }
    for (const auto& share : shares_) {
      if (!share->health().ok()) Say(std::string(share->health().message()));
    }
    shares_.clear();
    std::error_code ignored;
    std::filesystem::remove_all(state_.folder, ignored);
  }

  // What the store is to say of both parts, which are prepared side by side.
  absl::StatusOr<std::string> ShareAll(RoundStore& store) {
    std::vector<std::string> joiners;
    for (const auto& [group, life] : joiners_) {
      joiners.push_back(absl::StrCat("join/", group, "/", life, "/", state_.stage));
    }
    joiners = store.GetAll(joiners);  // their addresses
    std::future<absl::StatusOr<std::string>> moments;
    if (state_.moments) {
      const auto place = std::distance(state_.members.begin(), state_.members.find(group_));
      moments = std::async(std::launch::async, [&, part = MomentsPart(static_cast<int>(place))] {
        return SharePart(part, joiners, store);
      });
    }
    const absl::StatusOr<std::string> common = SharePart(kStatePart, joiners, store);
    if (!state_.moments) return common;
    const absl::StatusOr<std::string> own = moments.get();
    if (!common.ok() || !own.ok()) return common.ok() ? own : common;
    return absl::StrCat(*common, " ", *own);
  }

  absl::StatusOr<std::string> SharePart(const std::string& part,
                                        const std::vector<std::string>& members,
                                        RoundStore& store) {
    const std::string folder = absl::StrCat(state_.folder, "/", part);
    ASSIGN_OR_RETURN(const Manifest manifest,
                     MakeManifest(folder, {.model = "", .run = "", .step = state_.step}));
    const std::string digest = ManifestDigest(manifest);
    store.Set("manifest/" + digest, ManifestText(manifest));
    // A quarter of what this member will give at least: its moments, and its share of the rest.
    const auto n = static_cast<int64_t>(state_.members.size());
    wanted_ += TotalBytes(manifest) / (part == kStatePart ? 4 * n : 4);
    SwarmOptions options{.listen = {.ip = state_.ip, .port = 0}, .members = members};
    options.notice = [this](const std::string& line) { Say(line); };
    // Half of what it gives is of either part.
    if (state_.up_bytes_per_s) {
      options.upload_bytes_per_s = *state_.up_bytes_per_s / (state_.moments ? 2 : 1);
    }
    if (state_.midway) {
      options.given = [this](int64_t bytes) {
        if ((given_ += bytes) >= wanted_) state_.midway();
      };
    }
    ASSIGN_OR_RETURN(std::unique_ptr<Share> share, Share::Start(manifest, folder, options));
    const std::lock_guard lock(mu_);
    shares_.push_back(std::move(share));
    return absl::StrCat(digest, " ", ToString(shares_.back()->address()));
  }

  void AwaitJoiners(RoundStore& store) {
    for (const auto& [group, life] : joiners_) {
      const std::string taken = absl::StrCat("taken/", group, "/", life, "/", state_.stage);
      while (!stop_ && !store.Await(taken, kAskEvery) && !store.Down(group, life)) {
      }
    }
  }

  void Say(const std::string& line) {
    const std::lock_guard lock(mu_);
    words_.push_back(line);
  }

  const SharedState state_;
  const int group_;
  const Lives joiners_;
  const int stages_, groups_;
  std::atomic<bool> stop_ = false;
  std::atomic<int64_t> given_ = 0, wanted_ = 0;  // bytes
  std::mutex mu_;
  std::vector<std::unique_ptr<Share>> shares_;  // mu_ until both are there
  std::vector<std::string> words_;              // mu_
  std::thread thread_;                          // last: it uses the others
};

}  // namespace

bool SwarmIsBuilt() { return true; }

absl::StatusOr<std::unique_ptr<StateGiver>> StateGiver::Start(SharedState state, int group,
                                                              Lives joiners,
                                                              c10::intrusive_ptr<c10d::Store> store,
                                                              int stages, int groups) {
  return std::make_unique<SwarmGiver>(std::move(state), group, std::move(joiners), std::move(store),
                                      stages, groups);
}

}  // namespace longhaul
