#pragma once

#include <netinet/in.h>

#include <string_view>
#include <vector>

#include "absl/time/time.h"

namespace longhaul {

// Shows out who has connected to one of this process's UCX ports and says nothing. UCX would keep
// such a connection, and a descriptor for it, until the other end lets go; once there is no
// descriptor left it closes the port to everybody. A peer says who it is as soon as it is connected.
// Used by one thread, the one that also lets UCX close connections: a descriptor that is looked at
// cannot become another file meanwhile.
class Doorman {
 public:
  // Before and after a worker is made. `address`: the worker's, which names its port.
  void BeforeWorker();
  void AfterWorker(std::string_view address);

  // Ends connections that have been silent for `patience` since they were made, and answers how
  // many. None where the kernel does not tell how much has come over a connection.
  int ShowOut(absl::Duration patience) const;

 private:
  std::vector<sockaddr_in> before_;  // where this process listened already
  std::vector<sockaddr_in> ports_;
};

}  // namespace longhaul
