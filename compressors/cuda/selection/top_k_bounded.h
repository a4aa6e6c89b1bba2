#pragma once

#include "compressors/cuda/selection/selection_keys.h"
#include "compressors/cuda/team/team_scan.h"

namespace longhaul {

// The k largest |x| of a chunk, the lowest index first among equals, where k is small against the
// chunk: one warp per chunk, which is read once. Elements fall into up to 512 groups, and only
// every group's largest magnitude is kept in registers. A magnitude that k groups reach is a lower
// bound of the threshold, and few elements reach it: those are looked up again in the groups that
// do, and the threshold is then sought among them alone, in registers.
//
// Where they are more than there is room for (many equals, or values of nearly one size side by
// side), the groups are read for every step of that search: slower, with the same result.
template <DType kType>
struct BoundedTopKKernel {
  static constexpr int kThreads = kWarp;
  static constexpr int kMinBlocks = kType == DType::kF32 ? 3 : 4;
  static constexpr int kSlots = 16;                            // groups of a thread
  static constexpr int kBatch = kType == DType::kF32 ? 2 : 4;  // slots loaded together
  static constexpr uint32_t kGroups = kSlots * kWarp;
  // A group has eight neighbouring elements of every layer.
  static constexpr uint32_t kLayer = kGroups * kPerThread;
  static constexpr uint32_t kRoom = 512;  // elements that are listed
  static constexpr uint32_t kMostKept = kGroups / 2;
  static constexpr uint64_t kElementBytes = kType == DType::kF32 ? 4 : 2;
  struct Tops {
    uint32_t top[kSlots];  // magnitudes
  };
  struct Masks {
    uint32_t mask[kSlots];
  };
  // In both lists the last place is for what does not belong there: no branch, and nobody reads it.
  struct GroupList {
    uint16_t number[kGroups + 1];
  };
  struct ElementList {
    uint16_t index[kRoom + 1];
  };
  template <int kCount>
  struct Keys {
    uint32_t key[kCount];
  };
  // A chunk, and how many of its groups are listed.
  struct Groups {
    const std::byte* x;
    uint32_t length, listed;
  };

  SelectionRun run;

  // Whether chunks of this length are for this kernel; a row's short chunk is, if the others are.
  static bool Serves(uint32_t length, uint32_t kept) {
    return length >= 512 && kept <= kMostKept && kept <= length / 16;
  }

  LONGHAUL_HOST_DEVICE uint64_t teams() const { return run.rows * run.row_chunks; }

  template <class Team>
  LONGHAUL_TEXT void operator()(Team& team) const {
    const ChunkPlace place(run, team.index());
    const std::byte* x = run.x + place.first * kElementBytes;
    typename Team::template Own<Tops> tops;
    ReadTops(team, x, place.length, tops);
    Search search = Range(team, tops, place.length);
    if (search.high > kInfMagnitude<kType>) {
      team.Each([&](int t) {
        if (t == 0) Team::Min(&run.report->fault, 0);
      });
      return;
    }
    const uint32_t beyond = search.high;
    search.Narrow(place.kept, place.kept + place.kept / 4,
                  [&](uint32_t magnitude) { return GroupsReaching(team, tops, magnitude); });

    typename Team::template Shared<GroupList> list;
    typename Team::template Shared<ElementList> elements;
    const Groups groups = {x, place.length, ListGroups(team, tops, search.low, list)};
    const uint32_t reached = KeepInGroups<false>(
        team, groups, list, {search.low - 1, 0}, [&](uint32_t at, uint32_t index) {
          elements->index[at < kRoom ? at : kRoom] = static_cast<uint16_t>(index);
        });
    search = {search.low, reached, beyond, 0};
    if (reached <= 4 * kWarp) {
      KeepListed<4>(team, place, x, elements, search);
    } else if (reached <= kRoom) {
      KeepListed<static_cast<int>(kRoom) / kWarp>(team, place, x, elements, search);
    } else {
      KeepOfMany(team, place, groups, list, search);
    }
  }

  template <class Team, class Own>
  LONGHAUL_TEXT static void ReadTops(Team& team, const std::byte* x, uint32_t length, Own& tops) {
    team.Each([&](int t) { tops[t] = {}; });
    const bool aligned = Aligned(x, 16);
    for (uint32_t first = 0; first < length; first += kLayer) {
      if (aligned && length - first >= kLayer) {
        ReadLayer<true>(team, x, first, length, tops);
      } else {
        ReadLayer<false>(team, x, first, length, tops);
      }
    }
  }

  template <bool kWhole, class Team, class Own>
  LONGHAUL_TEXT static void ReadLayer(Team& team, const std::byte* x, uint32_t first,
                                      uint32_t length, Own& tops) {
    LONGHAUL_UNROLL
    for (int slot = 0; slot < kSlots; slot += kBatch) {
      if (!kWhole && first + IndexOf(slot, 0) >= length) return;
      team.Phase([&](int t) {  // a barrier, so that no more loads come together than registers hold
        const uint32_t own = first + IndexOf(0, t);
        RawEight<kType> raw[kBatch];
        LONGHAUL_UNROLL
        for (int b = 0; b < kBatch; ++b) {
          if constexpr (kWhole) {
            LoadEight<Team, kType>(
                x + own * kElementBytes + uint64_t{IndexOf(slot + b, 0)} * kElementBytes, raw[b]);
          } else {
            LoadPart<Team>(x, own + IndexOf(slot + b, 0), length, raw[b]);
          }
        }
        LONGHAUL_UNROLL
        for (int b = 0; b < kBatch; ++b) {
          const bool some = kWhole || own + IndexOf(slot + b, 0) < length;
          const uint32_t here = some ? LargestMagnitude<kType>(raw[b]) : 0;
          uint32_t& top = tops[t].top[slot + b];
          top = here > top ? here : top;
        }
      });
    }
  }

  template <class Team>
  LONGHAUL_TEXT static void LoadPart(const std::byte* x, uint32_t at, uint32_t length,
                                     RawEight<kType>& raw) {
    const std::byte* p = x + at * kElementBytes;
    const int count = CountBelow(at, length);
    if (count == kPerThread && Aligned(p, 16)) {
      LoadEight<Team, kType>(p, raw);
    } else {
      LoadSome<Team, kType>(p, count, raw);
    }
  }

  LONGHAUL_TEXT static uint32_t IndexOf(int slot, int t) {
    return static_cast<uint32_t>(slot * kStrip + t * kPerThread);
  }

  // From the least of the groups' magnitudes, which all of them reach, to what none reaches.
  template <class Team, class Own>
  LONGHAUL_TEXT static Search Range(Team& team, const Own& tops, uint32_t length) {
    typename Team::template Own<uint32_t> most, least;
    team.Each([&](int t) {
      most[t] = 0;
      least[t] = UINT32_MAX;
      LONGHAUL_UNROLL
      for (int s = 0; s < kSlots; ++s) {
        const uint32_t here = tops[t].top[s], below = here - 1;  // no group: the largest of all
        most[t] = here > most[t] ? here : most[t];
        least[t] = below < least[t] ? below : least[t];
      }
      least[t] = ~least[t];
    });
    const uint32_t groups = (length + kPerThread - 1) / kPerThread;
    return {~team.Largest(least) + 1, groups < kGroups ? groups : kGroups, team.Largest(most) + 1,
            0};
  }

  template <class Team, class Own>
  LONGHAUL_TEXT static uint32_t GroupsReaching(Team& team, const Own& tops, uint32_t magnitude) {
    typename Team::template Own<uint32_t> count;
    team.Each([&](int t) {
      count[t] = kSlots;
      LONGHAUL_UNROLL
      for (int s = 0; s < kSlots; ++s) count[t] -= (tops[t].top[s] - magnitude) >> 31;
    });
    return team.Total(count);
  }

  // The groups that reach the bound, in the order of their elements; answers how many.
  template <class Team, class Own, class List>
  LONGHAUL_TEXT static uint32_t ListGroups(Team& team, const Own& tops, uint32_t bound,
                                           List& list) {
    typename Team::template Own<Masks> masks;
    typename Team::template Own<uint32_t> listed;
    LONGHAUL_UNROLL
    for (int slot = 0; slot < kSlots; ++slot) {
      typename Team::template Own<bool> reaches;
      team.Each([&](int t) { reaches[t] = tops[t].top[slot] >= bound; });
      auto mask = team.Ballot(reaches);
      team.Each([&](int t) { masks[t].mask[slot] = mask[t]; });
    }
    team.Phase([&](int t) {
      listed[t] = 0;
      LONGHAUL_UNROLL
      for (int slot = 0; slot < kSlots; ++slot) {
        const uint32_t mask = masks[t].mask[slot];
        const uint32_t at = listed[t] + Team::BitCount(mask & BitsBelow(t));
        list->number[tops[t].top[slot] >= bound ? at : kGroups] =
            static_cast<uint16_t>(slot * kWarp + t);
        listed[t] += Team::BitCount(mask);
      }
    });
    return listed[team.thread()];
  }

  LONGHAUL_TEXT static uint32_t BitsBelow(int t) { return (uint32_t{1} << t) - 1; }

  // What a thread finds in a listed group.
  struct Found {
    uint32_t index;         // of the first of eight
    uint32_t above, equal;  // bit e: element e is above the threshold, or equal to it
  };

  // Calls sink(number, index) for what the threshold keeps of the listed groups, in order. Answers
  // how many. kTies: the threshold keeps equals.
  template <bool kTies, class Team, class List, class Sink>
  LONGHAUL_TEXT static uint32_t KeepInGroups(Team& team, const Groups& groups, List& list,
                                             Threshold threshold, Sink sink) {
    uint32_t above_before = 0, equal_before = 0;
    for (uint32_t layer = 0; layer < groups.length; layer += kLayer) {
      for (uint32_t first = 0; first < groups.listed; first += kWarp) {
        typename Team::template Own<Found> found;
        typename Team::template Own<uint32_t> count, before;  // above | equal << 16
        team.Phase([&](int t) {
          found[t] = LookInto<Team>(groups, list, layer, first + static_cast<uint32_t>(t),
                                    threshold.magnitude);
          count[t] = Team::BitCount(found[t].above);
          if constexpr (kTies) count[t] |= Team::BitCount(found[t].equal) << 16;
        });
        const uint32_t all = SumsBefore<uint32_t, 1>(team, count, before);
        team.Phase([&](int t) {
          uint32_t above = above_before + (before[t] & 0xFFFF);
          uint32_t equal = equal_before + (before[t] >> 16);
          uint32_t left = found[t].above | (kTies ? found[t].equal : 0);
          while (left != 0) {
            const uint32_t lowest = left & (0 - left);
            left ^= lowest;
            const bool is_equal = kTies && (found[t].equal & lowest) != 0;
            if (!is_equal || equal < threshold.equal) {
              sink(above + (equal < threshold.equal ? equal : threshold.equal),
                   found[t].index + Team::BitCount(lowest - 1));
            }
            (is_equal ? equal : above) += 1;
          }
        });
        above_before += all & 0xFFFF;
        equal_before += all >> 16;
      }
    }
    return above_before + (equal_before < threshold.equal ? equal_before : threshold.equal);
  }

  // Into the i-th listed group.
  template <class Team, class List>
  LONGHAUL_TEXT static Found LookInto(const Groups& groups, List& list, uint32_t layer, uint32_t i,
                                      uint32_t magnitude) {
    constexpr uint32_t kAbs = kType == DType::kF32 ? 0x7FFFFFFF : 0x7FFF;
    const uint32_t number = list->number[i < groups.listed ? i : 0];
    Found found = {layer + number * kPerThread, 0, 0};
    RawEight<kType> raw;
    LoadPart<Team>(groups.x, found.index, groups.length, raw);
    LONGHAUL_UNROLL
    for (int e = 0; e < kPerThread; ++e) {
      const uint32_t here = (BitsAt<kType>(raw, e) & kAbs) + 1;
      found.above |= here > magnitude ? 1u << e : 0u;
      found.equal |= here == magnitude ? 1u << e : 0u;
    }
    const int count = i < groups.listed ? CountBelow(found.index, groups.length) : 0;
    found.above &= (1u << count) - 1;
    found.equal &= (1u << count) - 1;
    return found;
  }

  // Ends the search among the listed elements, and writes what is kept. A thread has kCount of
  // them.
  template <int kCount, class Team, class List>
  LONGHAUL_TEXT void KeepListed(Team& team, const ChunkPlace& place, const std::byte* x,
                                List& elements, Search search) const {
    const uint32_t listed = search.reached;
    typename Team::template Own<Keys<kCount>> own;
    team.Phase([&](int t) {
      LONGHAUL_UNROLL
      for (int b = 0; b < kCount; ++b) {
        const auto i = static_cast<uint32_t>(b * kWarp + t);
        const uint32_t index = elements->index[i < listed ? i : 0];
        const uint32_t bits = LoadBits<Team, kType>(x + index * kElementBytes);
        own[t].key[b] = i < listed ? KeyOf<kType>(bits) : 0;
      }
    });
    search.Narrow(place.kept, place.kept, [&](uint32_t magnitude) {
      typename Team::template Own<uint32_t> count;
      team.Each([&](int t) {
        count[t] = kCount;
        LONGHAUL_UNROLL
        for (int b = 0; b < kCount; ++b) count[t] -= (MagnitudeOf(own[t].key[b]) - magnitude) >> 31;
      });
      return team.Total(count);
    });
    const Threshold threshold = search.Exactly(place.kept);
    uint32_t kept = 0, equal_before = 0;
    LONGHAUL_UNROLL
    for (int b = 0; b < kCount; ++b) {
      if (b * kWarp >= static_cast<int>(listed)) break;
      typename Team::template Own<bool> equal, taken;
      team.Each([&](int t) { equal[t] = MagnitudeOf(own[t].key[b]) == threshold.magnitude; });
      auto equals = team.Ballot(equal);
      team.Each([&](int t) {
        const uint32_t number = equal_before + Team::BitCount(equals[t] & BitsBelow(t));
        taken[t] = MagnitudeOf(own[t].key[b]) > threshold.magnitude ||
                   (equal[t] && number < threshold.equal);
      });
      auto takes = team.Ballot(taken);
      team.Phase([&](int t) {
        if (!taken[t]) return;
        const uint32_t at = kept + Team::BitCount(takes[t] & BitsBelow(t));
        Write(place.kept_at + at, elements->index[b * kWarp + t], own[t].key[b]);
      });
      kept += Team::BitCount(takes[team.thread()]);
      equal_before += Team::BitCount(equals[team.thread()]);
    }
  }

  LONGHAUL_TEXT void Write(uint64_t at, uint32_t index, uint32_t key) const {
    run.indices[at] = static_cast<uint16_t>(index);
    run.values[at] = ValueOf<kType>(key);
  }

  // The same among all elements of the groups. Often the bound is the threshold, with many equals:
  // that is looked at first.
  template <class Team, class List>
  LONGHAUL_TEXT void KeepOfMany(Team& team, const ChunkPlace& place, const Groups& groups,
                                List& list, Search search) const {
    const auto reaching = [&](uint32_t magnitude) {
      return KeepInGroups<false>(team, groups, list, {magnitude - 1, 0}, [](uint32_t, uint32_t) {});
    };
    const uint32_t more = reaching(search.low + 1);
    if (more < place.kept) {
      search.high = search.low + 1;
      search.above = more;
    }
    search.Narrow(place.kept, place.kept, reaching);
    KeepInGroups<true>(
        team, groups, list, search.Exactly(place.kept), [&](uint32_t at, uint32_t index) {
          Write(place.kept_at + at, index,
                KeyOf<kType>(LoadBits<Team, kType>(groups.x + index * kElementBytes)));
        });
  }
};

}  // namespace longhaul
