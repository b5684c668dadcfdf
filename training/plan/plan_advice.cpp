#include "training/plan/plan_advice.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "framework/core/error.h"
#include "samplers/planner.h"

namespace packtrain {
namespace {

constexpr std::int64_t kMaxSample = 65'536;           // lengths
constexpr std::int64_t kMaxSteps = 32;                // planned for a candidate
constexpr std::int64_t kMaxPlannedExamples = 32'768;  // of all these steps

class EveryTokenCounts final : public LossCounter {
 public:
  std::int64_t loss_tokens_before(std::int64_t, std::int32_t num_tokens) const override {
    return num_tokens;
  }
};

// Every N-th length, leaving out examples that are not trained.
std::vector<std::int32_t> sample_lengths(const ExampleCounts& lengths, const PlanOptions& options) {
  const auto stride = static_cast<std::size_t>((std::ssize(lengths) + kMaxSample - 1) / kMaxSample);
  std::vector<std::int32_t> sample;
  for (std::size_t e = 0; e < lengths.size(); e += stride) {
    const bool is_too_long = lengths[e] > options.max_length;
    if (lengths[e] == 0 || (is_too_long && options.too_long == TooLong::kDrop)) continue;
    sample.push_back(is_too_long ? static_cast<std::int32_t>(options.max_length) : lengths[e]);
  }
  return sample;
}

class Search {
 public:
  Search(std::vector<std::int32_t> sample, const PlanSummaryOptions& survey, double target)
      : sample_(std::move(sample)), ones_(sample_.size(), 1), survey_(survey), target_(target) {}

  // Nothing when it cannot be planned.
  std::optional<Utilization> utilization(const PlanOptions& options) const {
    try {
      const EveryTokenCounts counter;
      const Planner planner(sample_, ones_, counter, options);
      PlanSummary survey(survey_);
      // The last step of an epoch may be short and is not typical.
      const std::int64_t num_full = std::max<std::int64_t>(1, planner.num_steps(1) - 1);
      const std::int64_t most = std::clamp<std::int64_t>(
          kMaxPlannedExamples * num_full / std::ssize(sample_), 1, kMaxSteps);
      const std::int64_t num_steps = std::min(num_full, most);
      for (std::int64_t i = 0; i < num_steps; ++i)
        survey.add(planner.plan(i * num_full / num_steps));
      return Utilization{survey.cost_utilization(), survey.cost_bound()};
    } catch (const Error&) {
      return {};
    }
  }

  std::optional<Candidate> larger_batch(PlanOptions options) const {
    const bool in_tokens = options.global_batch_tokens > 0;
    std::int64_t& size = in_tokens ? options.global_batch_tokens : options.global_batch_size;
    const std::int64_t most = in_tokens ? num_tokens() : std::ssize(sample_);
    while ((size *= 2) <= std::min(most, most * kMaxPlannedExamples / std::ssize(sample_))) {
      const auto found = utilization(options);
      if (!found) return {};
      if (found->reached >= target_) return Candidate{size, *found};
    }
    return {};
  }

  std::optional<Candidate> fewer_ranks(PlanOptions options) const {
    while ((options.num_ranks /= 2) >= 1) {
      const auto found = utilization(options);
      if (!found) return {};
      if (found->reached >= target_) return Candidate{options.num_ranks, *found};
    }
    return {};
  }

 private:
  std::int64_t num_tokens() const {
    return std::accumulate(sample_.begin(), sample_.end(), std::int64_t{0});
  }

  std::vector<std::int32_t> sample_;
  std::vector<std::int32_t> ones_;  // labels of each example
  PlanSummaryOptions survey_;
  double target_;
};

}  // namespace

PlanAdvice advise(const ExampleCounts& lengths, const PlanOptions& options,
                  const PlanSummaryOptions& survey, double target) {
  PlanAdvice advice;
  if (traits_of(options.strategy).has_plan_file) return advice;  // its steps fit no sample
  const Search search(sample_lengths(lengths, options), survey, target);
  if (options.strategy != kDefaultStrategy) {
    PlanOptions balanced = options;
    balanced.strategy = kDefaultStrategy;
    PlanSummaryOptions packed = survey;
    packed.pad_to_longest = traits_of(kDefaultStrategy).pads_to_longest;
    advice.balanced =
        Search(sample_lengths(lengths, options), packed, target).utilization(balanced);
  }
  advice.batch_size = search.larger_batch(options);
  advice.num_ranks = search.fewer_ranks(options);
  return advice;
}

}  // namespace packtrain
