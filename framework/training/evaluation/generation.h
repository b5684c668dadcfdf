// What a sharded model writes after prompts: token by token, all ranks together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "framework/training/evaluation/generation_batch.h"
#include "framework/training/evaluation/prompts.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"
#include "samplers/plan.h"

namespace packtrain {

struct GenerationOptions {
  SamplesSection samples;
  std::uint64_t seed = 0;
  std::int64_t vocab_size = 0;  // the model's
  std::int64_t max_tokens_per_micro_batch = 0;
  std::int64_t lowered = 0;  // what micro-batches of several texts are to have at most; 0: the same
  std::function<bool()> stop_requested = {};  // or none; asked between tokens
};

// The ids written after each prompt, in the prompts' order: max_new_tokens of them, or fewer of
// which the last is one of the prompt's ends. Each token is one forward pass over all texts as they
// are so far; nothing is kept between passes, so that sharding, packing and every family serve as
// in evaluation. The same for any number of ranks but for rounding, and from run to run: draws go
// by seed, step, prompt and place. Prompts and options must be the same on all ranks, and fit a
// micro-batch each. Where memory runs out, they are laid over smaller micro-batches. Collective.
// Throws on every rank EvaluationStopped, or EvaluationError where it cannot be done.
std::vector<std::vector<std::int32_t>> generate_continuations(const std::vector<Prompt>& prompts,
                                                              const GenerationOptions& options,
                                                              std::int64_t step,
                                                              ShardedModel& model, Device& device,
                                                              World& world);

}  // namespace packtrain
