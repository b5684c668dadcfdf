#include "training/plan/training_tokens.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace packtrain {
namespace {

const char* place(double ratio) {
  if (ratio < kOneEpochRatio) {
    return "below 5 (One Epoch Is All You Need): a smaller model or more text would reach a lower "
           "loss with the same computation";
  }
  if (ratio <= kComputeOptimalRatio) {
    return "between 5 (One Epoch Is All You Need) and 20 (compute-optimal)";
  }
  return "above 20 (compute-optimal): a larger model would reach a lower loss with the same "
         "computation, but costs more to use";
}

}  // namespace

double TrainingTokens::per_parameter() const {
  return num_parameters == 0 ? 0
                             : static_cast<double>(tokens) / static_cast<double>(num_parameters);
}

TrainingTokens training_tokens(std::int64_t num_tokens, std::int64_t num_steps,
                               std::int64_t epoch_steps, std::int64_t run_steps) {
  const auto divide = [](std::int64_t a, std::int64_t b) {
    return static_cast<double>(a) / static_cast<double>(std::max<std::int64_t>(1, b));
  };
  TrainingTokens training;
  training.tokens = std::llround(divide(num_tokens, num_steps) * static_cast<double>(run_steps));
  training.num_epochs = divide(run_steps, epoch_steps);
  return training;
}

std::string describe(const TrainingTokens& training) {
  std::string text =
      fmt::format("{:.3g} in {:.2f} epochs", training.per_parameter(), training.num_epochs);
  if (!training.from_random_weights) return text + " of a trained model";
  text += fmt::format(", {}", place(training.per_parameter()));
  if (training.num_epochs > kUsefulEpochs) {
    text += fmt::format("; more than {:.0f} epochs add little", kUsefulEpochs);
  }
  return text;
}

}  // namespace packtrain
