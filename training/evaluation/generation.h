// Generates text after prompts with a sharded model, token by token, on all ranks together.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "framework/config/config.h"
#include "framework/device/device.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "samplers/plan.h"
#include "training/evaluation/evaluated_adapter.h"
#include "training/evaluation/generation_batch.h"
#include "training/evaluation/prompts.h"

namespace packtrain {

struct GenerationOptions {
  SamplesSection samples;
  std::uint64_t seed = 0;
  std::int64_t vocab_size = 0;  // the model's
  std::int64_t max_tokens_per_micro_batch = 0;
  std::int64_t lowered =
      0;  // limit for micro-batches of several texts; 0: max_tokens_per_micro_batch
  EvaluatedAdapter adapter = {};              // of all prompts
  bool without_adapter = false;               // the model under the adapter writes
  std::function<bool()> stop_requested = {};  // or none; called between tokens
};

// The ids generated after each prompt, in the prompts' order. There are max_new_tokens of them, or
// fewer when the last is one of the prompt's ends. Each token is one forward pass over all texts.
// Nothing is cached between passes, so sharding, packing and all families work as in evaluation.
// Draws depend on seed, step, prompt and position. The result is the same from run to run, and for
// any number of ranks except for rounding. Prompts and options must be the same on all ranks, and
// each prompt must fit in a micro-batch. When memory runs out, micro-batches get smaller.
// Collective. Throws EvaluationStopped, or EvaluationError when it cannot be done, on every rank.
std::vector<std::vector<std::int32_t>> generate_continuations(const std::vector<Prompt>& prompts,
                                                              const GenerationOptions& options,
                                                              std::int64_t step,
                                                              ShardedModel& model, Device& device,
                                                              World& world);

}  // namespace packtrain
