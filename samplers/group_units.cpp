#include "samplers/group_units.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <limits>
#include <numeric>
#include <span>
#include <thread>

#include "framework/core/error.h"
#include "framework/data/store_groups.h"

namespace packtrain {
namespace {

constexpr std::int32_t kUnknown = -1;
constexpr std::size_t kGroupsPerTask = 4096;  // fewer are compared on the calling thread
constexpr std::size_t kMaxThreads = 8;        // of each rank of a host

std::int32_t checked_count(std::int64_t count, const GroupUnits& units, std::size_t unit) {
  if (count <= std::numeric_limits<std::int32_t>::max()) {
    return static_cast<std::int32_t>(count);
  }
  throw Error(ErrorCategory::kData,
              fmt::format("{}: {} has {} tokens, at most {} can be planned", units.store().folder(),
                          units.describe(static_cast<std::int64_t>(unit)), count,
                          std::numeric_limits<std::int32_t>::max()),
              "Divide the group.");
}

std::size_t first_of(const ExampleGroup& group) {
  return static_cast<std::size_t>(group.first_example);
}

std::size_t end_of(const ExampleGroup& group) {
  return static_cast<std::size_t>(group.first_example + group.num_examples);
}

}  // namespace

GroupUnits::GroupUnits(const TokenStore& store, bool share_prefixes)
    : store_(store),
      share_prefixes_(share_prefixes),
      known_rows_(static_cast<std::size_t>(store.info().groups->num_groups)) {
  const std::span<const std::int32_t> kept =
      share_prefixes ? store.groups()->kept_rows() : std::span<const std::int32_t>();
  for (std::size_t g = 0; g < known_rows_.size(); ++g) {
    known_rows_[g].store(kept.empty() ? kUnknown : kept[g], std::memory_order_relaxed);
  }
}

std::int64_t GroupUnits::num_stored_tokens(const ExampleGroup& group) const {
  const ExampleCounts lengths = store_.lengths();
  std::int64_t sum = 0;
  for (std::size_t e = first_of(group); e < end_of(group); ++e) sum += lengths[e];
  return sum;
}

std::int32_t GroupUnits::longest_length(const ExampleGroup& group) const {
  const ExampleCounts lengths = store_.lengths();
  std::int32_t longest = 0;
  for (std::size_t e = first_of(group); e < end_of(group); ++e) {
    longest = std::max(longest, lengths[e]);
  }
  return longest;
}

bool GroupUnits::are_turns() const {
  return store_.info().groups->kind == GroupKind::kTurns;
}

// Each example but one saves the rows of the prefix. Turns share different numbers of tokens.
std::int32_t GroupUnits::num_prefix_tokens(std::int64_t number) const {
  const ExampleGroup own = group(number);
  if (own.num_examples < 2) return 0;
  if (are_turns()) return prefixes_of_turns(own).back();
  const std::int64_t saved = num_stored_tokens(own) - num_rows(static_cast<std::size_t>(number));
  return static_cast<std::int32_t>(saved / (own.num_examples - 1));
}

void GroupUnits::find_prefixes(std::size_t begin, std::size_t end) const {
  if (!share_prefixes_) return;
  const std::size_t count = end - begin;
  const std::size_t num_threads = std::clamp<std::size_t>(
      count / kGroupsPerTask, 1,
      std::min<std::size_t>(kMaxThreads, std::max(1U, std::thread::hardware_concurrency())));
  std::vector<std::exception_ptr> failures(num_threads);
  const auto find_part = [&](std::size_t part) {
    try {
      const std::size_t end_of_part = begin + count * (part + 1) / num_threads;
      for (std::size_t g = begin + count * part / num_threads; g < end_of_part; ++g) {
        num_rows(g);
      }
    } catch (...) {
      failures[part] = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::size_t part = 1; part < num_threads; ++part) threads.emplace_back(find_part, part);
    find_part(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
}

std::vector<std::int32_t> GroupUnits::prefixes_of_turns(const ExampleGroup& group) const {
  std::vector<std::int32_t> prefixes(static_cast<std::size_t>(group.num_examples), 0);
  if (!share_prefixes_) return prefixes;
  std::ranges::transform(shared_with_last(store_, group), prefixes.begin(),
                         [](std::int64_t shared) {
                           return static_cast<std::int32_t>(std::max<std::int64_t>(0, shared - 1));
                         });
  return prefixes;
}

void GroupUnits::append_pieces(std::int64_t number, std::vector<Piece>& pieces) const {
  const ExampleGroup own = group(number);
  const auto num_examples = static_cast<std::size_t>(own.num_examples);
  const std::vector<std::int32_t> prefixes =
      are_turns() ? prefixes_of_turns(own)
                  : std::vector<std::int32_t>(num_examples, num_prefix_tokens(number));
  const ExampleCounts lengths = store_.lengths();
  bool with_previous = false;
  if (prefixes.back() > 0) {  // that of the last example is the longest
    const auto last = static_cast<std::int64_t>(end_of(own)) - 1;
    pieces.push_back({.example = are_turns() ? last : own.first_example,
                      .length = prefixes.back(),
                      .is_prefix = true});
    with_previous = true;
  }
  for (std::size_t e = first_of(own); e < end_of(own); ++e) {
    const std::int32_t prefix = prefixes[e - first_of(own)];
    pieces.push_back({.example = static_cast<std::int64_t>(e),
                      .begin = prefix,
                      .length = lengths[e] - prefix,
                      .after_prefix = prefix > 0,
                      .with_previous = with_previous});
    with_previous = true;
  }
}

std::string GroupUnits::describe(std::int64_t number) const {
  const ExampleGroup own = group(number);
  if (own.num_examples == 1) return fmt::format("group {} (example {})", number, own.first_example);
  return fmt::format("group {} (examples {} to {})", number, own.first_example,
                     own.first_example + own.num_examples - 1);
}

// Every example computes the rows of the prefix but one.
std::int64_t GroupUnits::num_saved_rows(const ExampleGroup& group) const {
  if (!share_prefixes_) return 0;
  if (are_turns()) {
    const std::vector<std::int32_t> prefixes = prefixes_of_turns(group);
    return std::accumulate(prefixes.begin(), prefixes.end() - 1, std::int64_t{0});
  }
  const std::int64_t shared = num_shared_tokens(store_, group);
  return (group.num_examples - 1) * std::max<std::int64_t>(0, shared - 1);
}

// Every thread finds the same number, so it does not matter which one writes it.
std::int32_t GroupUnits::num_rows(std::size_t unit) const {
  const std::int32_t known = known_rows_[unit].load(std::memory_order_relaxed);
  if (known != kUnknown) return known;
  const ExampleGroup own = group(static_cast<std::int64_t>(unit));
  const std::int32_t rows =
      checked_count(num_stored_tokens(own) - num_saved_rows(own), *this, unit);
  known_rows_[unit].store(rows, std::memory_order_relaxed);
  return rows;
}

std::int32_t GroupUnits::num_labels(std::size_t unit) const {
  const ExampleGroup own = group(static_cast<std::int64_t>(unit));
  const ExampleCounts labels = store_.num_loss_tokens();
  std::int64_t sum = 0;
  for (std::size_t e = first_of(own); e < end_of(own); ++e) sum += labels[e];
  return checked_count(sum, *this, unit);
}

void GroupUnits::prefetch(std::size_t unit) const {
  __builtin_prefetch(&known_rows_[unit]);
}

}  // namespace packtrain
