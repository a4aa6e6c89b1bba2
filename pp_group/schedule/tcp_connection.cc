#include "pp_group/schedule/tcp_connection.h"

#include <utility>

namespace longhaul {

const std::deque<TcpSender::Message>& TcpConnection::Send(const TcpPath& path, double ready,
                                                          double segments) {
  if (!now_) now_.emplace(path, 0.0);
  if (ahead_ && ahead_->now() <= ready) now_ = std::move(ahead_);
  now_->AdvanceTo(ready);
  now_->Write(path, segments);
  ahead_ = now_;
  ahead_->Finish();
  return ahead_->messages();
}

}  // namespace longhaul
