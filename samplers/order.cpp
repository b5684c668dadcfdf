#include "samplers/order.h"

#include <algorithm>
#include <array>
#include <functional>
#include <mutex>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/random.h"
#include "samplers/permutation.h"

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

// The number of examples that group_by_length sorts as one mega-batch.
std::size_t mega_batch_size(const OrderOptions& options) {
  return static_cast<std::size_t>(kStepsPerMegaBatch * options.global_batch_size);
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
    // The short step goes last. Its examples are drawn at random, or epochs would always end with
    // the shortest examples.
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
  const std::size_t most = mega_batch_size(options);
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

// Computes single entries, or one mega-batch at a time. The latest mega-batch is cached.
class Order::Computed {
 public:
  Computed(const OrderOptions& options, std::int64_t epoch)
      : options_(options),
        epoch_(epoch),
        permutation_(options.seed, "computed order", static_cast<std::uint64_t>(epoch),
                     options.selection.examples().size()) {}

  ExampleIndex at(std::size_t place) const {
    if (options_.kind == OrderKind::kSequential) return options_.selection.examples()[place];
    if (options_.kind == OrderKind::kRandom) return shuffled(place);
    const std::size_t first = place - place % mega_batch_size(options_);
    const std::lock_guard lock(mutex_);
    if (group_.empty() || first_ != first) make_group(first);
    return group_[place - first];
  }

 private:
  ExampleIndex shuffled(std::size_t place) const {
    return options_.selection.examples()[permutation_[place]];
  }

  void make_group(std::size_t first) const {
    const std::size_t size = options_.selection.examples().size();
    group_.resize(std::min(mega_batch_size(options_), size - first));
    for (std::size_t i = 0; i < group_.size(); ++i) group_[i] = shuffled(first + i);
    const CounterRandom random(options_.seed, "mega-batches", static_cast<std::uint64_t>(epoch_));
    group_mega_batch(options_, random, first, group_);
    first_ = first;
  }

  OrderOptions options_;
  std::int64_t epoch_;
  Permutation permutation_;
  mutable std::mutex mutex_;
  mutable std::size_t first_ = 0;
  mutable std::vector<ExampleIndex> group_;
};

Order::Order(const OrderOptions& options, std::int64_t epoch)
    : size_(options.selection.examples().size()) {
  const bool is_shuffled =
      options.version < 2 || size_ <= static_cast<std::size_t>(options.most_shuffled);
  if (is_shuffled) {
    table_ = options.selection.examples().table();
    arrange(options, epoch, table_);
  } else {
    computed_ = std::make_unique<Computed>(options, epoch);
  }
}

Order::Order(std::vector<ExampleIndex> table) : size_(table.size()), table_(std::move(table)) {}
Order::~Order() = default;
Order::Order(Order&&) noexcept = default;

ExampleIndex Order::compute(std::size_t place) const {
  return computed_->at(place);
}

std::vector<ExampleIndex> Order::take_table() && {
  if (computed_ == nullptr) return std::move(table_);
  std::vector<ExampleIndex> table(size_);
  for (std::size_t place = 0; place < size_; ++place) table[place] = compute(place);
  return table;
}

void arrange(const OrderOptions& options, std::int64_t epoch, std::span<ExampleIndex> examples) {
  for (const OrderEntry& entry : kOrders) {
    if (entry.kind == options.kind) return entry.arrange(options, epoch, examples);
  }
  throw Error(ErrorCategory::kInternal, "this order is missing from the table in samplers/order");
}

}  // namespace packtrain
