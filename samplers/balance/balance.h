// Balancing: assigns items of known cost to ranks x micro-batches so that ranks wait little.
//
// All ranks synchronize at every micro-batch, because they gather the same weights. The time of a
// step is
//   sum over micro-batches of the slowest rank's time, time = cost / speed of the rank.
// Balancing minimises it under a token budget for the micro-batch of each rank. With one
// micro-batch this is multiprocessor scheduling, which is NP-hard and easy in practice. A greedy
// start comes first (R. L. Graham, "Bounds on multiprocessing timing anomalies", SIAM J. Appl.
// Math. 1969; for ranks of different speed T. Gonzalez, O. Ibarra, S. Sahni, "Bounds for LPT
// schedules on uniform processors", SIAM J. Comput. 1977). Then the slowest rank exchanges items
// with lighter ranks.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace packtrain {

// A unit that is placed as a whole: an example, a piece of one, or a pack.
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

// Assigns `items` to `num_ranks` ranks and to as few micro-batches as the heuristics find. No
// rank's micro-batch holds more than `max_tokens`.
// `speeds` [num_ranks]: each > 0, mean 1. Empty or all equal: all ranks have the same speed.
// Deterministic: ties go to the lower index. The slowest micro-batch comes first, so that the
// largest buffers are allocated first.
// B items take O(B log(ranks * micro-batches)), and O(B) for each micro-batch that still has space
// for some item. Unequal speeds take a few times as long (greedy.h). The number of exchanges
// (exchange.h) is bounded by a multiple of ranks * micro-batches; it falls as bins hold more items.
// All of this is repeated for each number of micro-batches that was too small. The calling thread
// keeps scratch memory for its next call.
// Throws Error(kInternal) when one item exceeds `max_tokens`, or `speeds` has another size or a
// speed out of range. The planner has checked both.
Placement balance(std::span<const BalanceItem> items, int num_ranks, std::int64_t max_tokens,
                  std::span<const double> speeds = {});

// Improves `placement` of the same items on the same ranks: ranks trade items within a micro-batch
// (balance/trade.h). It is for bins so full that balance() would need one micro-batch more. It
// never adds micro-batches and never makes the step longer. Throws as balance() does.
Placement trade(std::span<const BalanceItem> items, const Placement& placement, int num_ranks,
                std::int64_t max_tokens, std::span<const double> speeds = {});

}  // namespace packtrain
