// The batches whose gradient updates an optimizer's Hessian estimate (optimizer.name: sophia). They
// are a share of a step's examples, with labels that the model samples.
//
// The estimate of the Gauss-Newton matrix of sum_i a_i l_i, over labels i, is (sum_i c_i dl_i)^2 B
// for labels that the model samples. B is the number of labels, and c_i = sqrt(a_i / B). Its mean
// is sum_i a_i E (dl_i)^2, because the gradients dl_i of sampled labels are independent with mean
// zero. With equal weights a_i = 1 / B this is the mean loss and the factor B of Sophia-G (Liu et
// al., arXiv 2305.14342, section 2.3). With others a mean loss would give another matrix.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collators/batch_builder.h"
#include "collators/packed_batch.h"
#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "samplers/planner.h"

namespace packtrain {

struct HessianSettings {
  std::int64_t every = 10;  // steps
  double share = 0.5;       // of a step's examples
  std::uint64_t seed = 0;
};

// The settings of the configuration. Nothing: the optimizer has no Hessian estimate.
std::optional<HessianSettings> hessian_settings(const Config& config);

// True when the estimate is updated after step `step`, counted from 0. The first one is due.
bool hessian_is_due(const HessianSettings& settings, std::int64_t step);

struct HessianBatches {
  StepPlan plan;                           // of the share; plan.step is the step that it follows
  double num_tokens = 0;                   // B: labels of all ranks
  std::vector<PackedBatch> micro_batches;  // of this rank
};

struct HessianBatchOptions {
  HessianSettings settings;
  int rank = 0;
  Normalize normalize = Normalize::kTokens;
  std::optional<std::uint64_t> dropout_seed = {};  // as in BatchSourceOptions
};

// The batches of step `step`, the same examples and sampled labels on any number of ranks.
// `label_weights`: as in CollatorOptions. Nothing where the share has no labels. Any thread may
// call it.
std::optional<HessianBatches> hessian_batches(const TokenStore& store, const Planner& planner,
                                              std::int64_t step, const HessianBatchOptions& options,
                                              LabelWeights* label_weights,
                                              const HostAllocator& allocate = {});

}  // namespace packtrain
