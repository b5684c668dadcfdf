#include "samplers/order.h"

#include <algorithm>
#include <array>
#include <functional>
#include <utility>

#include "framework/support/error.h"
#include "framework/support/random.h"

namespace packtrain {
namespace {

void arrange_sequential(const OrderOptions&, std::int64_t, std::span<ExampleIndex>) {}

// R. Durstenfeld, "Algorithm 235: Random permutation", CACM 1964.
void arrange_random(const OrderOptions& options, std::int64_t epoch,
                    std::span<ExampleIndex> examples) {
  const CounterRandom random(options.seed, "order", static_cast<std::uint64_t>(epoch));
  for (std::size_t i = examples.size(); i > 1; --i) {
    std::swap(examples[i - 1], examples[random.below(i, i)]);
  }
}

// Sorts one mega-batch by length and shuffles its steps; `random` is read from `draw` on.
void group_mega_batch(const OrderOptions& options, const CounterRandom& random, std::uint64_t draw,
                      std::span<ExampleIndex> examples) {
  const auto size = static_cast<std::size_t>(options.global_batch_size);
  // Stable: equal lengths stay shuffled.
  std::ranges::stable_sort(examples, std::greater{},
                           [&](ExampleIndex example) { return options.selection.length(example); });
  const std::size_t num_steps = examples.size() / size;
  if (const std::size_t rest = examples.size() % size; rest > 0) {
    // The short step goes last. Drawn, or the epoch would always end with the shortest examples.
    const auto first = random.below(draw, num_steps + 1) * size;
    const auto begin = examples.begin() + static_cast<std::ptrdiff_t>(first);
    std::rotate(begin, begin + static_cast<std::ptrdiff_t>(rest), examples.end());
  }
  for (std::size_t step = num_steps; step > 1; --step) {
    const auto a = examples.subspan((step - 1) * size, size);
    const auto b = examples.subspan(random.below(draw + step, step) * size, size);
    if (a.data() != b.data()) std::ranges::swap_ranges(a, b);
  }
}

void arrange_group_by_length(const OrderOptions& options, std::int64_t epoch,
                             std::span<ExampleIndex> examples) {
  arrange_random(options, epoch, examples);
  const CounterRandom random(options.seed, "mega-batches", static_cast<std::uint64_t>(epoch));
  const auto most = static_cast<std::size_t>(kStepsPerMegaBatch * options.global_batch_size);
  for (std::size_t first = 0; first < examples.size(); first += most) {
    group_mega_batch(options, random, first,
                     examples.subspan(first, std::min(most, examples.size() - first)));
  }
}

struct OrderEntry {
  OrderKind kind;
  void (*arrange)(const OrderOptions& options, std::int64_t epoch,
                  std::span<ExampleIndex> examples);
};

constexpr std::array kOrders = {
    OrderEntry{OrderKind::kSequential, arrange_sequential},
    OrderEntry{OrderKind::kRandom, arrange_random},
    OrderEntry{OrderKind::kGroupByLength, arrange_group_by_length},
};

}  // namespace

void arrange(const OrderOptions& options, std::int64_t epoch, std::span<ExampleIndex> examples) {
  for (const OrderEntry& entry : kOrders) {
    if (entry.kind == options.kind) return entry.arrange(options, epoch, examples);
  }
  throw Error(ErrorCategory::kInternal, "this order is missing from the table in samplers/order");
}

}  // namespace packtrain
