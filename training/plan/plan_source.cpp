#include "training/plan/plan_source.h"

#include "collators/collator.h"
#include "framework/config/objective_settings.h"
#include "models/estimates/flops.h"
#include "models/layers/layer_attention.h"
#include "samplers/plan_file/plan_file.h"
#include "training/setup/store_kind.h"

namespace packtrain {

PlanOptions plan_options(const Config& config, const DecoderConfig& decoder, int num_ranks,
                         std::int64_t max_tokens_per_micro_batch, bool has_groups) {
  const bool shares = shares_prefixes(config, has_groups);
  require_shareable_rows(decoder, shares, "the model");
  PlanOptions options;
  options.strategy = config.batch.strategy;
  options.order = config.batch.order;
  options.too_long = config.data.too_long;
  options.max_length = config.data.max_length;
  const bool in_tokens = traits_of(options.strategy).counts_tokens();
  const std::int64_t size = config.batch.global_batch_size.value_or(0);
  options.global_batch_size = in_tokens ? 0 : size;
  options.global_batch_tokens =
      config.batch.global_batch_tokens.value_or(in_tokens ? size * config.data.max_length : 0);
  options.micro_batch_size = config.batch.micro_batch_size;
  options.cross_example_attention = config.batch.cross_example_attention;
  options.packing_window = config.batch.packing_window;
  if (traits_of(options.strategy).has_plan_file) {
    options.plan_file = PlanFile::open(config.batch.plan_file);
  }
  options.share_prefixes = shares;
  options.max_tokens_per_micro_batch = max_tokens_per_micro_batch;
  options.seed = config.run.seed;
  options.num_ranks = num_ranks;
  options.cost.linear = training_flops(decoder, 1.0, 0.0);
  options.cost.quadratic = training_flops(decoder, 0.0, 1.0);
  options.cost.span = attention_span(attention_patterns(decoder));
  return options;
}

PlanOptions plan_options(const Config& config, const DecoderConfig& decoder, int num_ranks,
                         std::int64_t max_tokens_per_micro_batch) {
  return plan_options(config, decoder, num_ranks, max_tokens_per_micro_batch,
                      trains_groups(config.objective));
}

PlanSummaryOptions plan_summary_options(const PlanOptions& plan, const DecoderConfig& decoder) {
  PlanSummaryOptions options;
  options.cost = utilization_cost(decoder.hidden_size);
  options.cost.span = plan.cost.span;
  options.flops = plan.cost;
  options.max_tokens_per_micro_batch = plan.max_tokens_per_micro_batch;
  options.row_multiple = CollatorOptions{}.row_multiple;
  options.pad_to_longest = traits_of(plan.strategy).pads_to_longest;
  return options;
}

}  // namespace packtrain
