#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <variant>

#include "plugin/core/host_coder.h"
#include "tests/plugin/group_fixture.h"

namespace longhaul {

// A coder that keeps what it is given until the test says which job comes to its end.
class RiggedCoder final : public Coder {
 public:
  enum class Hold { kNothing, kEncodes, kDecodes };
  explicit RiggedCoder(Hold hold) : hold_(hold) {}

  void Encode(EncodeJob job) override {
    if (hold_ != Hold::kEncodes) return inner_.Encode(std::move(job));
    Keep(std::move(job));
  }
  void Decode(DecodeJob job) override {
    if (hold_ != Hold::kDecodes) return inner_.Decode(std::move(job));
    Keep(std::move(job));
  }
  bool reads_pieces() const override { return true; }
  void Drain() override {
    while (Finish(0)) {
    }
  }

  // Until so many are kept; false: they did not come within ten seconds.
  bool Await(size_t jobs) {
    std::unique_lock lock(mu_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return kept_.size() >= jobs; });
  }
  size_t kept() {
    const std::lock_guard lock(mu_);
    return kept_.size();
  }
  // Does the i-th of those that are kept; false: there is none.
  bool Finish(size_t i) {
    std::variant<EncodeJob, DecodeJob> job;
    {
      const std::lock_guard lock(mu_);
      if (i >= kept_.size()) return false;
      job = std::move(kept_[i]);
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (auto* encode = std::get_if<EncodeJob>(&job)) {
      inner_.Encode(std::move(*encode));
    } else {
      inner_.Decode(std::move(std::get<DecodeJob>(job)));
    }
    return true;
  }

 private:
  void Keep(std::variant<EncodeJob, DecodeJob> job) {
    const std::lock_guard lock(mu_);
    kept_.push_back(std::move(job));
    changed_.notify_all();
  }

  const Hold hold_;
  BufferPool pool_;
  HostCoder inner_{0, pool_, &MonotonicClock()};
  std::mutex mu_;
  std::condition_variable changed_;
  std::deque<std::variant<EncodeJob, DecodeJob>> kept_;  // under mu_
};

// Two nodes of which one has a rigged coder.
struct RiggedPair {
  RiggedPair(TransportKind kind, int rigged_rank, RiggedCoder::Hold hold)
      : cluster(kind, 2, [&, rank = 0](NodeOptions& options) mutable {
          if (rank++ != rigged_rank) return;
          options.coder = [this, hold] {
            auto made = std::make_unique<RiggedCoder>(hold);
            coder = made.get();
            return made;
          };
        }) {}
  RiggedCoder* coder = nullptr;
  Cluster cluster;
};

}  // namespace longhaul
