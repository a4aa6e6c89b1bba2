#pragma once

#include <memory>
#include <string>

#include "plugin/core/collectives.h"

namespace longhaul {

// One collective under way. Steps (sends and receives) are counted; when a phase has none left the
// next begins. The first failure takes the remaining steps back; the operation ends when all have
// come back, because they hold the caller's buffers.
class Collectives::Op : public std::enable_shared_from_this<Collectives::Op> {
 public:
  Op(Collectives* owner, std::string name, Group::Done done)
      : owner_(owner), name_(std::move(name)), done_(std::move(done)) {}
  virtual ~Op() = default;

  void Begin(int tag, absl::Status failed_before);  // on another rank
  enum class Tell { kOthers, kNobody };
  void Fail(absl::Status why, Tell tell);

  int tag() const { return tag_; }
  void RunDone();

 protected:
  // Posts the steps of phase 0, 1, ...; false: there is no such phase.
  virtual bool Phase(int phase) = 0;

  void Send(const WireTensor& x, int dst);
  void Recv(const WireTensor& x, int src);
  int rank() const { return owner_->context_->options.rank; }
  int size() const { return owner_->context_->options.size; }
  BufferPool& pool() { return owner_->context_->node->pool(); }

 private:
  Group::Done Step();
  void Advance();

  Collectives* const owner_;
  const std::string name_;
  Once<absl::Status> done_;
  int tag_ = 0;
  int phase_ = 0;
  int steps_ = 0;
  bool posting_ = false;
  bool ended_ = false;
  absl::Status failure_;
};

}  // namespace longhaul
