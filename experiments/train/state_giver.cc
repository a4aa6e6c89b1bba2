#include <atomic>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <thread>

#include "absl/strings/str_cat.h"
#include "experiments/train/state_swarm.h"
#include "plugin/swarm/swarm.h"
#include "pp_group/handover.h"

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
        thread_([this, store = std::move(store)] { Run(*store); }) {}

  ~SwarmGiver() override {
    stop_ = true;
    thread_.join();
  }

  std::vector<std::string> TakeWords() override {
    const std::lock_guard lock(mu_);
    return std::exchange(words_, {});
  }

 private:
  void Run(c10d::Store& store) {
    try {
      RoundStore own(store.clone(), stages_, groups_);
      Give(own);
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

  void Give(RoundStore& store) {
    std::vector<std::string> addresses;
    for (const auto& [group, life] : joiners_) {
      addresses.push_back(store.Get(absl::StrCat("join/", group, "/", life, "/", state_.stage)));
    }
    std::vector<std::string> parts = {kStatePart};
    const auto place = std::distance(state_.members.begin(), state_.members.find(group_));
    if (state_.moments) parts.push_back(MomentsPart(static_cast<int>(place)));
    for (const std::string& part : parts) {
      const std::string key =
          absl::StrCat("swarm/", state_.step, "/", state_.stage, "/", group_, "/", part);
      const absl::StatusOr<std::string> word = SharePart(part, addresses, store);
      store.Set(key, word.ok() ? *word : absl::StrCat("! ", std::string(word.status().message())));
      if (!word.ok()) Say(std::string(word.status().message()));
    }
    AwaitJoiners(store);
  }

  // What the store is to say of it.
  absl::StatusOr<std::string> SharePart(const std::string& part,
                                        const std::vector<std::string>& members,
                                        RoundStore& store) {
    const std::string folder = absl::StrCat(state_.folder, "/", part);
    const absl::StatusOr<Manifest> manifest =
        MakeManifest(folder, {.model = "", .run = "", .step = state_.step});
    if (!manifest.ok()) return manifest.status();
    // A quarter of what this member will give at least: its moments, and its share of the rest.
    const auto n = static_cast<int64_t>(state_.members.size());
    wanted_ += TotalBytes(*manifest) / (part == kStatePart ? 4 * n : 4);
    SwarmOptions options{.listen = {.ip = state_.ip, .port = 0}, .members = members};
    options.notice = [this](const std::string& line) { Say(line); };
    if (state_.midway) {
      options.given = [this](int64_t bytes) {
        if ((given_ += bytes) >= wanted_) state_.midway();
      };
    }
    absl::StatusOr<std::unique_ptr<Share>> share = Share::Start(*manifest, folder, options);
    if (!share.ok()) return share.status();
    const std::string digest = ManifestDigest(*manifest);
    const std::string text_key = "manifest/" + digest;
    if (!store.Has(text_key)) store.Set(text_key, ManifestText(*manifest));
    shares_.push_back(*std::move(share));
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
  std::vector<std::unique_ptr<Share>> shares_;   // the thread's
  std::mutex mu_;
  std::vector<std::string> words_;  // mu_
  std::thread thread_;              // last: it uses the others
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
