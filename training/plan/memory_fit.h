// memory.fit: chooses, among settings that change no number of a step, the fastest whose planned
// memory fits. These are recompute by layer, gather slots, and the tokens of a micro-batch where
// the strategy's steps do not depend on them. Times are those of StepTimeModel.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "models/layers/decoder_config.h"
#include "training/plan/memory_limit.h"
#include "training/plan/step_time_model.h"

namespace packtrain {

// Inputs of a choice, the same on all ranks. `config` has the shard size.
struct FitInput {
  Config config;
  DecoderConfig decoder;
  MemoryRanks ranks;
  MemoryLimit limit;
  StepWork work;
};

struct FitCandidate {
  MemorySettings settings;
  std::int64_t bytes = 0;  // planned memory of a rank
  double seconds = 0;      // estimated time of a step
};

struct MemoryChoice {
  FitCandidate chosen;
  std::optional<FitCandidate> next;  // the fastest of the others that fit
};

// Whether memory.fit chooses anything. On CPUs only with memory.limit_gib: free memory of a host
// varies, and so would the choice.
bool chooses_memory(const MemorySection& memory, DeviceKind device);

// The plan of the largest micro-batch of a step.
MemoryPlan plan_with(const FitInput& input, const MemorySettings& settings);

// The values of memory.recompute in the order of the memory that they save: recompute_steps(). One
// value if it is set.
std::vector<RecomputeByLayer> recompute_choices(const MemorySection& memory,
                                                std::int64_t num_layers);

// Tokens of a micro-batch, descending from batch.max_tokens_per_micro_batch to an example of
// data.max_length. One value where they may not change; none for `auto`, which memory decides.
std::vector<std::int64_t> token_choices(const Config& config, int num_ranks);

// The settings that fit, in the order of preference. First what a run has when memory.fit is off,
// if that fits. Then the fastest first. There is one for each number of tokens and some numbers of
// slots. It has the least recompute that fits, and as many more slots as fit. Empty when nothing
// fits.
// Throws Error(kConfig) when batch.max_tokens_per_micro_batch is auto and nothing fits.
std::vector<FitCandidate> fit_candidates(const FitInput& input);

// The first two candidates. What the limit reserves is used only when nothing fits without it.
// Where memory.offload is `auto`, activations are offloaded only when nothing fits otherwise. The
// optimizer's state is only when nothing fits with that, and both last. limit.host_bytes must hold
// what is offloaded.
std::optional<MemoryChoice> fit_memory(const FitInput& input);

// The choice that needs least memory.
FitCandidate least_memory(const FitInput& input);

// "memory.recompute=full:12+selective parallel.gather_slots=3
// batch.max_tokens_per_micro_batch=4096"
std::string settings_text(const MemorySettings& settings);

// Two lines for people: what was chosen, and the next. `limit`: of the input.
std::string choice_text(const MemoryChoice& choice, const MemoryLimit& limit);

}  // namespace packtrain
