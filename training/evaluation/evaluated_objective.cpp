#include "training/evaluation/evaluated_objective.h"

#include "framework/config/objective_settings.h"
#include "models/objectives/make_objective.h"

namespace packtrain {

EvaluatedObjective evaluated_objective(const Config& config) {
  if (!trains_groups(config.objective)) return {};
  return {.objective = make_objective(config.objective),
          .normalize = config.batch.normalize,
          .share_prefixes = shares_prefixes(config),
          .has_divergence = has_divergence(config.objective),
          .seed = config.run.seed,
          .max_length = config.data.max_length};
}

EvaluatedObjective next_tokens_of(const TokenStore& store, const Config& config) {
  const auto& groups = store.info().groups;
  const bool has_answers =
      groups && (groups->kind == GroupKind::kPairs || groups->kind == GroupKind::kRollouts);
  EvaluatedObjective objective;
  objective.share_prefixes = has_answers && may_share_prefixes(config.batch);
  return objective;
}

}  // namespace packtrain
