// Two threads that take turns on a core keep their vector registers. Nobody doubts it of a kernel
// on its own processor; the guest's is helped over processors whose state is larger than it knows
// (guest/wide_state.c), and this is the proof. Run by itself and inside the guest.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <thread>

namespace longhaul {
namespace {

#if defined(__x86_64__)

constexpr uint64_t kSpins = 30'000'000;  // some ten milliseconds: a tick of the guest or more
constexpr int kRounds = 20;

using Words = std::array<uint32_t, 16>;

// Fills registers, spins, and says what they hold then: ymm5, and of AVX-512 zmm19 and a mask.
void HoldAvx(uint32_t word, uint64_t spins, Words& held) {
  asm volatile(
      "vmovd %[word], %%xmm5\n"
      "vpshufd $0, %%xmm5, %%xmm5\n"
      "vinsertf128 $1, %%xmm5, %%ymm5, %%ymm5\n"
      "1: dec %[spins]\n"
      "jnz 1b\n"
      "vmovups %%ymm5, %[held]\n"
      "vzeroupper\n"
      : [spins] "+r"(spins), [held] "=m"(held)
      : [word] "r"(word)
      : "xmm5", "cc");
}
[[gnu::target("avx512f")]] void HoldAvx512(uint32_t word, uint64_t spins, Words& held,
                                           uint32_t& mask) {
  asm volatile(
      "vpbroadcastd %[word], %%zmm19\n"
      "kmovw %[word], %%k3\n"
      "1: dec %[spins]\n"
      "jnz 1b\n"
      "vmovdqu32 %%zmm19, %[held]\n"
      "kmovw %%k3, %[mask]\n"
      : [spins] "+r"(spins), [held] "=m"(held), [mask] "=r"(mask)
      : [word] "r"(word)
      : "xmm19", "k3", "cc");
}

struct Lost {
  int avx = 0, avx512 = 0, mask = 0;
};

Lost Hold(uint32_t word) {
  Lost lost;
  const bool wide = __builtin_cpu_supports("avx512f");
  for (int round = 0; round < kRounds; ++round) {
    Words held = {};
    HoldAvx(word, kSpins, held);
    lost.avx += std::count(held.begin(), held.begin() + 8, word) != 8;
    if (!wide) continue;
    uint32_t mask = 0;
    HoldAvx512(word, kSpins, held, mask);
    lost.avx512 += std::count(held.begin(), held.end(), word) != 16;
    lost.mask += mask != (word & 0xFFFF);
  }
  return lost;
}

TEST(VectorStateTest, ThreadsThatTakeTurnsKeepTheirRegisters) {
  if (!__builtin_cpu_supports("avx")) GTEST_SKIP() << "this processor has no AVX";
  std::array<Lost, 3> lost;
  std::array<std::thread, 3> threads;
  for (uint32_t t = 0; t < threads.size(); ++t) {
    threads[t] = std::thread([&, t] { lost[t] = Hold(0x01010101 * (t + 1)); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Lost& of : lost) {
    EXPECT_EQ(of.avx, 0);
    EXPECT_EQ(of.avx512, 0);
    EXPECT_EQ(of.mask, 0);
  }
}

#endif

}  // namespace
}  // namespace longhaul
