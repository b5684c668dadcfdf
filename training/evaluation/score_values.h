// Values of consecutive examples, which ranks have parts of, on rank 0.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/core/safetensors.h"
#include "parallel/communicators/communicator.h"
#include "training/evaluation/token_scores.h"

namespace packtrain {

class ScoreValues {
 public:
  explicit ScoreValues(Communicator& control) : control_(control) {}

  // Collective. The next example, with `count` values. `own` is empty on ranks that did not compute
  // it.
  void add(const ExampleScores& own, std::int64_t count);
  // Collective. Call it once after the last example.
  void exchange();
  // Rank 0: tensors PREFIXlog_probs and PREFIXgreedy, valid as long as this object.
  void add_to(std::vector<TensorToWrite>& tensors, const std::string& prefix) const;

 private:
  Communicator& control_;
  // Of the examples since the last exchange, zeros for those of other ranks.
  std::vector<float> log_probs_;
  std::vector<std::int32_t> greedy_;
  std::vector<float> all_log_probs_;  // on rank 0
  std::vector<std::uint8_t> all_greedy_;
};

}  // namespace packtrain
