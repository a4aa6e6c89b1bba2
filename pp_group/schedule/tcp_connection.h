#pragma once

#include <deque>
#include <optional>

#include "pp_group/schedule/tcp_sender.h"

namespace longhaul {

// A connection whose messages are asked for one by one: what a message takes, as if none followed it.
class TcpConnection {
 public:
  // A message that is ready then, behind those before; returns messages() of the sender, the new one last.
  // What follows a message may have its losses told of sooner: earlier ones are said anew.
  const std::deque<TcpSender::Message>& Send(const TcpPath& path, double ready, double segments);
  const std::deque<TcpSender::Message>& messages() const { return ahead_->messages(); }
  double window() const { return now_->window(); }

 private:
  std::optional<TcpSender> now_;    // as the last message was written
  std::optional<TcpSender> ahead_;  // once it is there
};

}  // namespace longhaul
