// How much a run trains: its tokens for each parameter of the model, and what was published about
// such ratios. Advice, never a rule.
#pragma once

#include <cstdint>
#include <string>

namespace packtrain {

// Tokens for each parameter, in one epoch, at which a given amount of computation reaches the
// lowest loss. From Komatsuzaki, "One Epoch Is All You Need" (arXiv 1906.06669).
inline constexpr double kOneEpochRatio = 5;
// Hoffmann et al. (arXiv 2203.15556) found the same of larger models and more text.
inline constexpr double kComputeOptimalRatio = 20;
// Repeated text is nearly as good as new text up to this number of epochs (Muennighoff et al.,
// arXiv 2305.16264).
inline constexpr double kUsefulEpochs = 4;

struct TrainingTokens {
  std::int64_t tokens = 0;  // of the whole run; a repeated token counts each time
  double num_epochs = 0;
  std::int64_t num_parameters = 0;  // of the whole model
  bool from_random_weights = true;

  double per_parameter() const;  // 0 for a model without parameters
};

// `num_tokens` of the first `num_steps` steps stand for the others: a run has `run_steps`, an epoch
// `epoch_steps`.
TrainingTokens training_tokens(std::int64_t num_tokens, std::int64_t num_steps,
                               std::int64_t epoch_steps, std::int64_t run_steps);

// One line: the ratio, the epochs, and where they are between the published ones. The ratios above
// are about models that begin with random weights, so that others get none of them.
std::string describe(const TrainingTokens& training);

}  // namespace packtrain
