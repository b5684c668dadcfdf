// The plan of one run: the planner, and the header that it plans by.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "framework/training/plan/plan_header.h"
#include "framework/training/steps/learning_rate.h"
#include "models/decoder_config.h"
#include "parallel/world.h"
#include "samplers/planner.h"

namespace packtrain {

struct Continuation;

// Where a run goes on from.
struct ResumePoint {
  std::int64_t step = 0;  // optimizer steps done
  PlanHeader header;      // no entries: the checkpoint has none
  std::string folder;     // of the checkpoint, for messages
  std::string guard;      // StepGuard::state(), or empty
  // Of the run that saved it, as in TrainingState.
  std::string config_yaml;
  std::string model_config;
  std::int64_t total_steps = 0;
  std::vector<double> best_losses;
  std::string validation_set;
  std::string early_stopping;
  bool evaluation_due = false;
  bool samples_due = false;
  std::int64_t epoch = 0;  // of the last step done
};

class RunPlan {
 public:
  // Finds the shard size and the token budget: the configured one, else that of the checkpoint,
  // else what memory allows. Costs are the model's FLOPs, unless the checkpoint holds costs that
  // were measured on as many ranks and these are asked for. Collective. `store` must outlive it.
  RunPlan(const Config& config, const DecoderConfig& decoder, const TokenStore& store,
          const std::optional<ResumePoint>& resumed, const Device& device, World& world);

  ~RunPlan();

  const Planner& planner() const { return *planner_; }
  // How the plan goes on from the checkpoint's.
  const Continuation& continuation() const { return *continuation_; }
  SchedulePosition schedule_from() const { return {header_.from_step, header_.schedule_position}; }
  const PlanHeader& header() const { return header_; }
  // Ranks that share one copy of the model's state.
  int shard_size() const { return static_cast<int>(*config_.parallel.shard_size); }
  // What was configured or found.
  std::int64_t first_budget() const { return header_.entries.back().first_budget(); }
  const PlanLayout& layout() const { return header_.entries.back().layout; }  // in force
  std::int64_t total_steps() const { return total_steps_; }

  // Steps from `step` on are laid over more micro-batches, because this layout of it took too much
  // memory: at most three quarters of the tokens of its largest micro-batch that can be divided,
  // the same on every rank. Returns the new budget. Not while other threads plan.
  std::int64_t lower_budget(std::int64_t step);

  // batch.cost is measured, and no measured costs of these ranks are known.
  bool wants_measured_cost() const;
  // From the first step of this run on. `speeds` [ranks]. Not while other threads plan.
  void set_measured_cost(const CostModel& cost, std::vector<double> speeds);

 private:
  void begin(PlanEntry entry);
  void keep_lowered_budget(PlanEntry& entry) const;

  Config config_;
  std::int64_t first_step_ = 0;
  PlanHeader header_;
  std::unique_ptr<LossCounter> loss_counter_;
  std::unique_ptr<Continuation> continuation_;
  std::unique_ptr<Planner> planner_;
  std::int64_t total_steps_ = 0;
};

}  // namespace packtrain
