#include "framework/training/run_plan.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <utility>

#include "framework/support/error.h"
#include "framework/training/plan_source.h"
#include "framework/training/token_budget.h"

namespace packtrain {
namespace {

constexpr double kGibibyte = 1024.0 * 1024.0 * 1024.0;

// `auto` keeps the checkpoint's budget: packs are made of it, and a run is one run.
std::int64_t budget_of(const Config& config, const DecoderConfig& decoder,
                       const std::optional<ResumePoint>& resumed, const Device& device,
                       World& world) {
  const bool is_auto = !config.batch.max_tokens_per_micro_batch.has_value();
  if (is_auto && resumed && !resumed->header.entries.empty()) {
    const std::int64_t tokens = resumed->header.entries.back().layout.max_tokens_per_micro_batch;
    check_kept_budget(config, decoder, tokens, resumed->folder, device, world);
    spdlog::info("{} tokens a micro-batch, as in {}", tokens, resumed->folder);
    return tokens;
  }
  const TokenBudget budget = token_budget(config, decoder, device, world);
  if (budget.limit) {
    spdlog::info("{} tokens a micro-batch, found for {:.2f} GiB a rank: {}", budget.tokens,
                 static_cast<double>(budget.limit->bytes) / kGibibyte, budget.limit->basis);
  }
  return budget.tokens;
}

}  // namespace

RunPlan::RunPlan(const Config& config, const DecoderConfig& decoder, const TokenStore& store,
                 const std::optional<ResumePoint>& resumed, const Device& device, World& world)
    : config_(config), first_step_(resumed ? resumed->step : 0) {
  const PlanOptions options = plan_options(config, decoder, world.size(),
                                           budget_of(config, decoder, resumed, device, world));
  const PlanSettings settings = plan_settings(config, options, store.fingerprint());
  if (resumed) {
    check_same_batches(resumed->header.settings, settings, resumed->folder);
    header_.entries = resumed->header.entries;
  }
  header_.settings = settings;
  loss_counter_ = std::make_unique<StoreLossCounter>(store);
  planner_ =
      std::make_unique<Planner>(store.lengths(), store.num_loss_tokens(), *loss_counter_, options);
  total_steps_ = planner_->num_steps(config.run.num_epochs, config.run.max_steps);
  PlanEntry entry{{first_step_, options.max_tokens_per_micro_batch, options.cost, {}},
                  world.size(),
                  CostSource::kFlops};
  if (config.batch.cost == CostSource::kMeasured && !header_.entries.empty()) {
    const PlanEntry& newest = header_.entries.back();
    const bool is_known =
        newest.cost_source == CostSource::kMeasured && newest.num_ranks == world.size();
    if (is_known) {
      entry.layout.cost = newest.layout.cost;
      entry.layout.speeds = newest.layout.speeds;
      entry.cost_source = CostSource::kMeasured;
    }
  }
  begin(std::move(entry));
}

void RunPlan::begin(PlanEntry entry) {
  header_.begin(std::move(entry));
  planner_->set_layouts(header_.layouts(header_.entries.back().num_ranks));
}

bool RunPlan::wants_measured_cost() const {
  return config_.batch.cost == CostSource::kMeasured &&
         header_.entries.back().cost_source != CostSource::kMeasured;
}

void RunPlan::set_measured_cost(const CostModel& cost, std::vector<double> speeds) {
  PlanEntry entry = header_.entries.back();
  entry.layout.from_step = first_step_;
  entry.layout.cost = cost;
  entry.layout.speeds = std::move(speeds);
  entry.cost_source = CostSource::kMeasured;
  begin(std::move(entry));
}

}  // namespace packtrain
