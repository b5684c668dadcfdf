#include "training/evaluation/best_losses.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace packtrain {

BestLosses::BestLosses(int count, std::vector<double> so_far)
    : count_(static_cast<std::size_t>(count)), lowest_(std::move(so_far)) {
  if (lowest_.size() > count_) lowest_.resize(count_);
}

bool BestLosses::add(std::int64_t step, double loss) {
  if (!std::isfinite(loss)) return false;
  latest_ = {step, loss};
  const auto place = std::ranges::upper_bound(lowest_, loss);
  const bool is_among = static_cast<std::size_t>(place - lowest_.begin()) < count_;
  lowest_.insert(place, loss);
  if (lowest_.size() > count_) lowest_.pop_back();
  return is_among;
}

std::optional<double> BestLosses::after(std::int64_t step) const {
  if (!latest_ || latest_->first != step) return std::nullopt;
  return latest_->second;
}

}  // namespace packtrain
