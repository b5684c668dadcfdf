#include "training/evaluation/score_values.h"

#include <cstddef>
#include <span>

namespace packtrain {
namespace {

constexpr std::int64_t kChunkTokens = std::int64_t{1} << 20;  // that ranks exchange together

}  // namespace

void ScoreValues::add(const ExampleScores& own, std::int64_t count) {
  log_probs_.insert(log_probs_.end(), own.log_probs.begin(), own.log_probs.end());
  greedy_.insert(greedy_.end(), own.greedy.begin(), own.greedy.end());
  const auto missing = static_cast<std::size_t>(count) - own.log_probs.size();
  log_probs_.insert(log_probs_.end(), missing, 0.0F);
  greedy_.insert(greedy_.end(), missing, 0);
  if (std::ssize(log_probs_) >= kChunkTokens) exchange();
}

// A sum of one value and zeros is that value.
void ScoreValues::exchange() {
  if (log_probs_.empty()) return;
  control_.all_reduce(log_probs_.data(), log_probs_.size(), DataType::kFloat32, ReduceOp::kSum,
                      nullptr);
  control_.all_reduce(greedy_.data(), greedy_.size(), DataType::kInt32, ReduceOp::kSum, nullptr);
  if (control_.rank() == 0) {
    all_log_probs_.insert(all_log_probs_.end(), log_probs_.begin(), log_probs_.end());
    all_greedy_.insert(all_greedy_.end(), greedy_.begin(), greedy_.end());
  }
  log_probs_.clear();
  greedy_.clear();
}

void ScoreValues::add_to(std::vector<TensorToWrite>& tensors, const std::string& prefix) const {
  const auto add_one = [&](const char* name, DataType dtype, const auto& values) {
    tensors.push_back(
        {prefix + name, dtype, {std::ssize(values)}, std::as_bytes(std::span(values))});
  };
  add_one("log_probs", DataType::kFloat32, all_log_probs_);
  add_one("greedy", DataType::kUInt8, all_greedy_);
}

}  // namespace packtrain
