#include "training/plan/step_count.h"

#include <optional>
#include <vector>

#include "framework/core/error.h"
#include "parallel/communicators/collectives.h"

namespace packtrain {
namespace {

// Step counts of `num_epochs` epochs from `first` on. Of N ranks, rank r counts every N-th from r
// on.
std::vector<std::int64_t> share_counts(const Planner& planner, std::int64_t first,
                                       std::int64_t num_epochs, Communicator& control) {
  const std::int64_t num_ranks = control.size();
  const std::int64_t num_each = (num_epochs + num_ranks - 1) / num_ranks;
  std::vector<std::int64_t> mine(static_cast<std::size_t>(num_each), 0);
  std::optional<Error> failure;
  try {
    for (std::int64_t i = 0; i < num_each; ++i) {
      const std::int64_t number = i * num_ranks + control.rank();
      if (number >= num_epochs) break;
      mine[static_cast<std::size_t>(i)] = planner.count_steps(first + number);
    }
  } catch (const Error& error) {
    failure = error;
  }
  throw_first_rank_error(failure, control);
  std::vector<std::int64_t> all(static_cast<std::size_t>(num_each * num_ranks));
  control.all_gather(mine.data(), all.data(), mine.size(), DataType::kInt64, nullptr);
  std::vector<std::int64_t> counts;
  for (std::int64_t number = 0; number < num_epochs; ++number) {
    const std::int64_t place = number % num_ranks * num_each + number / num_ranks;
    counts.push_back(all[static_cast<std::size_t>(place)]);
  }
  return counts;
}

}  // namespace

std::int64_t count_run_steps(const Planner& planner, const RunSection& run, Communicator& control) {
  const auto first = run.max_steps ? std::nullopt : planner.first_uncounted_epoch();
  if (first && control.size() > 1 && *first < run.num_epochs) {
    planner.add_counts(*first, share_counts(planner, *first, run.num_epochs - *first, control));
  }
  return planner.num_run_steps(run);
}

}  // namespace packtrain
