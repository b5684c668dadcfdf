// Balancing: items of known cost laid over ranks x micro-batches so that little time is waited.
//
// The ranks of a step meet at every micro-batch (they gather the same weights), so a step takes
//   sum over micro-batches of the slowest rank's time, time = cost / speed of the rank,
// which is what is minimised here, under a token budget for every rank's micro-batch. With one
// micro-batch this is multiprocessor scheduling, NP-hard and in practice easy: a greedy start
// (R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl. Math. 1969; for ranks
// of different speed T. Gonzalez, O. Ibarra, S. Sahni, "Bounds for LPT schedules on uniform
// processors", SIAM J. Comput. 1977), then exchanges between the slowest rank and light ones.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace packtrain {

// What stays together in one micro-batch: an example, a piece of one, or a pack.
struct BalanceItem {
  double cost = 0;  // >= 0, any unit
  std::int64_t tokens = 0;
};

struct Placement {
  struct Slot {
    std::int32_t rank = 0;
    std::int32_t micro_batch = 0;
  };
  std::int32_t num_micro_batches = 0;
  std::vector<Slot> slots;  // [items]
};

// Lays `items` over `num_ranks` ranks and as few micro-batches as the heuristics find room for;
// no rank's micro-batch holds more than `max_tokens`. `speeds` [num_ranks]: each > 0, 1 = mean;
// empty or all equal: the ranks are alike. Deterministic: ties go to the lower index.
// Micro-batches come slowest first, so that the largest buffers are allocated at once.
// B items take O(B log(ranks * micro-batches)), and O(B) for each micro-batch that still has room
// for some item, however full the others are; unequal speeds a few times as long (greedy.h). The
// exchanges after that (exchange.h) are bounded by a multiple of ranks * micro-batches, and need
// fewer the more items a bin holds. All of it is done again for each number of micro-batches that
// no room was found in. Scratch memory is kept by the calling thread for its next call.
// Throws Error(kInternal) when a single item exceeds `max_tokens` or `speeds` has another size or a
// speed out of range: the planner has checked that.
Placement balance(std::span<const BalanceItem> items, int num_ranks, std::int64_t max_tokens,
                  std::span<const double> speeds = {});

// `placement` of the same items, for the same ranks, with items traded between the ranks of a
// micro-batch (balance/trade.h): for bins so full that balance() would need one micro-batch more.
// Never more micro-batches, never a longer step. Throws as balance() does.
Placement trade(std::span<const BalanceItem> items, const Placement& placement, int num_ranks,
                std::int64_t max_tokens, std::span<const double> speeds = {});

}  // namespace packtrain
