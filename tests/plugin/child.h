#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace longhaul {

// A process that answers each line on its stdin with one on its stdout (ucx_peer). Killed with -9
// by the destructor, and with this process.
class Child {
 public:
  // With `wrapper`, runs that command with the program's path appended.
  explicit Child(std::vector<std::string> wrapper = {});
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { Kill(); }

  std::string Ask(const std::string& line);  // "" when it has ended
  void Tell(const std::string& line);
  std::string Answer();
  void Signal(int signal) const;
  void Kill();  // -9, and waits for it
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int to_ = -1, from_ = -1;
};

}  // namespace longhaul
