#include "training/steps/hessian_batches.h"

#include <cmath>

#include "collators/collator.h"
#include "framework/config/sophia_settings.h"
#include "framework/core/random.h"

namespace packtrain {
namespace {

CollatorOptions collator_options(const HessianBatchOptions& options, std::int64_t step,
                                 LabelWeights* label_weights) {
  const auto index = static_cast<std::uint64_t>(step);
  CollatorOptions result;
  result.label_weights = label_weights;
  result.sample_seeds = CounterRandom(options.settings.seed, "optimizer.hessian.labels", index);
  if (options.dropout_seed) {
    result.row_seeds = CounterRandom(*options.dropout_seed, "dropout", index);
  }
  return result;
}

}  // namespace

std::optional<HessianSettings> hessian_settings(const Config& config) {
  if (!has_hessian(config.optimizer)) return std::nullopt;
  return HessianSettings{config.optimizer.hessian_every, config.optimizer.hessian_share,
                         config.run.seed};
}

bool hessian_is_due(const HessianSettings& settings, std::int64_t step) {
  return step % settings.every == 0;
}

std::optional<HessianBatches> hessian_batches(const TokenStore& store, const Planner& planner,
                                              std::int64_t step, const HessianBatchOptions& options,
                                              LabelWeights* label_weights,
                                              const HostAllocator& allocate) {
  const CounterRandom examples(options.settings.seed, "optimizer.hessian.examples",
                               static_cast<std::uint64_t>(step));
  HessianBatches result;
  result.plan = planner.plan_share(step, options.settings.share, examples);
  const LossNormalization normalization = loss_normalization(result.plan, options.normalize);
  if (result.plan.ranks.empty() || normalization.denominator <= 0) return std::nullopt;
  result.num_tokens = static_cast<double>(result.plan.num_loss_tokens);
  const Collator collate = find_collator(planner.options().strategy);
  const CollatorOptions collating = collator_options(options, step, label_weights);
  for (const MicroBatch& pieces : result.plan.ranks.at(static_cast<std::size_t>(options.rank))) {
    PackedBatch batch = collate(store, pieces, normalization, collating, allocate);
    for (float& weight : batch.loss_weight) {
      weight = static_cast<float>(std::sqrt(weight / result.num_tokens));
    }
    result.micro_batches.push_back(std::move(batch));
  }
  return result;
}

}  // namespace packtrain
