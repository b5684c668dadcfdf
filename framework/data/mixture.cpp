#include "framework/data/mixture.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "framework/core/random.h"

namespace packtrain {
namespace {

// Order in which examples are chosen: by hash of their index.
class DrawnOrder {
 public:
  bool operator()(std::uint32_t a, std::uint32_t b) const {
    return std::pair(random_.bits(a), a) < std::pair(random_.bits(b), b);
  }

 private:
  CounterRandom random_{0, "part of a store"};
};

std::vector<std::uint32_t> all_examples(std::int64_t num_examples) {
  std::vector<std::uint32_t> examples(static_cast<std::size_t>(num_examples));
  std::iota(examples.begin(), examples.end(), 0U);
  return examples;
}

double total(std::span<const std::int32_t> amounts) {
  return static_cast<double>(std::accumulate(amounts.begin(), amounts.end(), std::int64_t{0}));
}

std::int64_t count_of(const MixturePart& part, double wanted) {
  constexpr double kMost = 0x1p53;  // larger than any plan, and an exact integer
  const auto num_examples = static_cast<double>(part.amounts.size());
  const double amount = total(part.amounts);
  const double whole_repeats = std::floor(wanted / amount);
  const double of_whole = whole_repeats * num_examples;
  if (of_whole >= kMost) return static_cast<std::int64_t>(kMost);
  return static_cast<std::int64_t>(of_whole) +
         count_to_choose(part.amounts, wanted - whole_repeats * amount);
}

}  // namespace

std::vector<std::uint32_t> choose_examples(std::int64_t num_examples, std::int64_t count) {
  std::vector<std::uint32_t> examples = all_examples(num_examples);
  const auto end = examples.begin() + count;
  std::nth_element(examples.begin(), end, examples.end(), DrawnOrder());
  examples.erase(end, examples.end());
  std::ranges::sort(examples);
  return examples;
}

// Quickselect by the sum of the amounts before an element, so that it takes only a few passes.
std::int64_t count_to_choose(std::span<const std::int32_t> amounts, double wanted) {
  std::vector<std::uint32_t> examples = all_examples(std::ssize(amounts));
  auto low = examples.begin();
  auto high = examples.end();
  double before = 0;  // sum of the amounts before `low`
  while (high - low > 1) {
    const auto middle = low + (high - low) / 2;
    std::nth_element(low, middle, high, DrawnOrder());
    const double sum = std::accumulate(low, middle, 0.0, [&](double so_far, std::uint32_t example) {
      return so_far + amounts[example];
    });
    if (before + sum >= wanted) {
      high = middle;
    } else {
      before += sum;
      low = middle;
    }
  }
  if (low == examples.end()) return 0;
  const double with_next = before + amounts[*low];
  const bool is_nearer = std::abs(with_next - wanted) < std::abs(before - wanted);
  return (low - examples.begin()) + (is_nearer ? 1 : 0);
}

std::vector<std::int64_t> mixture_counts(std::span<const MixturePart> parts, bool until_all) {
  double size = until_all ? 0 : std::numeric_limits<double>::infinity();  // of the epoch
  for (const MixturePart& part : parts) {
    const double until = total(part.amounts) / part.wanted;
    size = until_all ? std::max(size, until) : std::min(size, until);
  }
  std::vector<std::int64_t> counts;
  for (const MixturePart& part : parts) counts.push_back(count_of(part, part.wanted * size));
  return counts;
}

}  // namespace packtrain
