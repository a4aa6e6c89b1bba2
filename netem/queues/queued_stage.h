#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <variant>
#include <vector>

#include "netem/queues/codel.h"
#include "netem/queues/fifo_queue.h"
#include "netem/queues/fq_codel_queue.h"
#include "netem/topology/rate_trace.h"
#include "netem/topology/topology.h"

namespace longhaul {

// What drains a queue, and who is dropped while frames wait.
struct QueuedStageSpec {
  std::optional<BitsPerSecond> rate;                 // nullopt: nothing holds a frame back
  std::shared_ptr<const RateTrace> trace = nullptr;  // instead of the rate
  int64_t trace_start_ns = 0;                        // when the trace begins
  QueueCapacity capacity = {};
  QueueManagement management = {};
  int64_t frame_bytes = 1514;  // a full one: CoDel's largest packet and fq_codel's quantum
  uint64_t seed = 1;           // of fq_codel's hash
};

// A queue and the server behind it, on synthetic time, where what leaves next is not known before
// it leaves: under queue management, or at the opportunities of a rate trace. The owner calls
// Serve() at the times it is told, in order of time with the arrivals. Thread safety: none.
class QueuedStage {
 public:
  explicit QueuedStage(const QueuedStageSpec& spec);

  // Returns when Serve() is to be called; nullopt: that is known already.
  std::optional<int64_t> Arrive(const QueuedFrame& frame, std::vector<DroppedFrame>& dropped);

  struct Departure {
    QueuedFrame frame;
    int64_t left_ns;  // its last bit has left the server
  };
  // Returns when to call again; nullopt: not before the next Arrive().
  std::optional<int64_t> Serve(int64_t now_ns, std::vector<Departure>& departures,
                               std::vector<DroppedFrame>& dropped);

  // Frames inside keep their order and the time of their arrival. A call of Serve() that was asked
  // for stays due.
  void Change(const QueuedStageSpec& spec, std::vector<DroppedFrame>& dropped);

  // Another server of the same link is busy until then.
  void HoldUntil(double ns) { free_ns_ = ns; }

 private:
  using Discipline = std::variant<FifoQueue, CodelQueue, FqCodelQueue>;
  static Discipline NewDiscipline(const QueuedStageSpec& spec);
  std::optional<QueuedFrame> Dequeue(int64_t now_ns, std::vector<DroppedFrame>& dropped);
  bool Waiting() const;
  std::optional<int64_t> ServeRate(int64_t now_ns, std::vector<Departure>& departures,
                                   std::vector<DroppedFrame>& dropped);
  std::optional<int64_t> ServeTrace(int64_t now_ns, std::vector<Departure>& departures,
                                    std::vector<DroppedFrame>& dropped);
  int64_t TakeOpportunity(int64_t after_ns);

  QueuedStageSpec spec_;
  Discipline discipline_;
  bool called_ = false;           // a call of Serve() is due
  double free_ns_ = 0;            // when the server is; a double, so that rounding does not add up
  int64_t next_opportunity_ = 0;  // the first that has not been used or passed over
  // Of a frame that an opportunity could not carry whole.
  std::optional<QueuedFrame> in_transit_;
  int64_t in_transit_left_bytes_ = 0;
};

}  // namespace longhaul
