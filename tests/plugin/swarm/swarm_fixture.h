#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "plugin/swarm/swarm.h"

namespace longhaul {

// A folder of its own and members at 127.0.0.x: a lone process has a whole swarm.
class SwarmTest : public testing::Test {
 protected:
  SwarmTest();
  ~SwarmTest() override;

  const std::string& folder() const { return folder_; }
  // `bytes` of noise in two files, one of them in a subfolder, and an empty one; the same every
  // time.
  std::string MakeWeights(const std::string& name, int64_t bytes) const;
  SwarmOptions At(int member, std::vector<int> others);
  // 0 in `listen`: any port.
  std::unique_ptr<Share> StartShare(const Manifest& manifest, const std::string& weights,
                                    int member, std::vector<int> others);
  FetchOptions FetchAt(int member, const std::vector<const Share*>& sources);
  std::string Notices() const;

 private:
  const std::string folder_;
  mutable std::mutex mu_;
  std::string notices_;  // mu_
};

std::string MemberIp(int member);  // "127.0.0.<10 + member>"
bool SameFiles(const std::string& a, const std::string& b);

}  // namespace longhaul
