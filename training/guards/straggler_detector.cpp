#include "training/guards/straggler_detector.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "framework/core/logging.h"
#include "framework/core/math.h"

namespace packtrain {
namespace {}  // namespace

const char* name_of(OwnTime phase) {
  constexpr std::array kNames = {"data", "compute"};
  return kNames.at(static_cast<std::size_t>(phase));
}

Straggler find_straggler(std::span<const double> seconds, int num_ranks, std::int64_t num_steps) {
  const auto own = [&](int rank, int phase) { return seconds[rank * kNumOwnTimes + phase]; };
  std::vector<double> whole(static_cast<std::size_t>(num_ranks));
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (int phase = 0; phase < kNumOwnTimes; ++phase) whole[rank] += own(rank, phase);
  }
  const double usual = median(whole);
  Straggler found;
  double most = 0;
  for (int phase = 0; phase < kNumOwnTimes; ++phase) {
    std::vector<double> times;
    for (int rank = 0; rank < num_ranks; ++rank) times.push_back(own(rank, phase));
    const double usual_here = median(times);
    for (int rank = 0; rank < num_ranks; ++rank) {
      const double excess = times[rank] - usual_here;
      if (excess <= most || usual <= 0) continue;
      most = excess;
      found = {rank, static_cast<OwnTime>(phase), (usual + excess) / usual,
               excess / static_cast<double>(num_steps)};
    }
  }
  return found;
}

void StragglerDetector::judge(const WaitedTime& waited, StepRecord& record) {
  if (ratio_ <= 0 || control_.size() == 1 || std::exchange(is_first_, false)) return;
  const double elsewhere_s = record.data_wait_s + record.checkpoint_wait_s + waited.total_s();
  seconds_[0] += record.data_wait_s;
  seconds_[1] += std::max(record.step_time_s - elsewhere_s, 0.0);
  ++num_steps_;
  if (record.step % kSteps == 0) compare(record.step);
  if (!latest_) return;
  record.slowest_rank = latest_->rank;
  record.slowest_ratio = latest_->ratio;
  record.slowest_phase = name_of(latest_->phase);
}

// Only rank 0 gathers all times; it then broadcasts the result.
Straggler StragglerDetector::agree_on_straggler() {
  const bool judges = control_.rank() == 0;
  const auto num_times = static_cast<std::size_t>(control_.size()) * kNumOwnTimes;
  std::vector<double> all(judges ? num_times : 0);
  control_.gather(seconds_.data(), all.data(), kNumOwnTimes, DataType::kFloat64, 0);
  Straggler found;
  if (judges) found = find_straggler(all, control_.size(), num_steps_);
  control_.broadcast(&found, sizeof found, 0, nullptr);
  return found;
}

void StragglerDetector::compare(std::int64_t step) {
  const int before = latest_ ? latest_->rank : -1;
  latest_ = agree_on_straggler();
  if (latest_->ratio <= ratio_) {
    num_consecutive_slow_ = 0;
  } else {
    num_consecutive_slow_ = latest_->rank == before ? num_consecutive_slow_ + 1 : 1;
  }
  if (num_consecutive_slow_ == 2) {
    log(control_.rank() == 0 ? LogLevel::kWarning : LogLevel::kDebug,
        "rank {} is slow: {:.2f} times the ranks' median, {:.3f} s a step more, in {} "
        "(steps {} to {})",
        latest_->rank, latest_->ratio, latest_->seconds_per_step, name_of(latest_->phase),
        step - num_steps_ + 1, step);
  }
  seconds_ = {};
  num_steps_ = 0;
}

}  // namespace packtrain
