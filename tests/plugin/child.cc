#include "tests/plugin/child.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace longhaul {

Child::Child(std::vector<std::string> wrapper) {
  int down[2], up[2];
  if (::pipe2(down, O_CLOEXEC) != 0 || ::pipe2(up, O_CLOEXEC) != 0) return;
  wrapper.push_back(LONGHAUL_UCX_PEER);
  std::vector<char*> arguments;
  for (std::string& argument : wrapper) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::dup2(down[0], STDIN_FILENO);
    ::dup2(up[1], STDOUT_FILENO);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  ::close(down[0]);
  ::close(up[1]);
  to_ = down[1];
  from_ = up[0];
}

void Child::Tell(const std::string& line) {
  const std::string whole = line + "\n";
  if (::write(to_, whole.data(), whole.size()) < 0) return;  // it has ended: Answer() will say so
}

std::string Child::Answer() {
  std::string line;
  for (char c; ::read(from_, &c, 1) == 1 && c != '\n';) line += c;
  return line;
}

std::string Child::Ask(const std::string& line) {
  Tell(line);
  return Answer();
}

void Child::Signal(int signal) const { ::kill(pid_, signal); }

void Child::Kill() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  ::close(to_);
  ::close(from_);
}

}  // namespace longhaul
