// The plan of one run: the planner and its plan header.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/process_mesh.h"
#include "parallel/communicators/world.h"
#include "samplers/planner.h"
#include "training/checkpoint/training_state.h"
#include "training/plan/adapter_plans.h"
#include "training/plan/plan_header.h"
#include "training/steps/learning_rate.h"

namespace packtrain {

struct Continuation;

// The position from which a run resumes.
struct ResumePoint {
  std::int64_t step = 0;  // optimizer steps done
  PlanHeader header;      // no entries: the checkpoint has none
  std::string folder;     // of the checkpoint, for messages
  std::string guard;      // StepGuard::state(), or empty
  // Values of the run that saved the checkpoint, as in TrainingState.
  std::string config_yaml;
  std::string model_config;
  std::int64_t total_steps = 0;
  std::vector<double> best_losses;
  std::string validation_set;
  std::string early_stopping;
  bool evaluation_due = false;
  bool samples_due = false;
  std::int64_t epoch = 0;  // of the last step done
  std::string base_digest = {};
  std::string reference_digest = {};
  std::string adapter = {};
  std::vector<NamedCheckpoint> resumed_from = {};  // with this one, if checkpoint.resume named it
};

class RunPlan {
 public:
  // Finds the shard size, and what memory decides (run_memory.h). Costs are the model's FLOPs.
  // Measured costs of the checkpoint are used instead if they are asked for and come from the same
  // number of ranks. Collective. The stores must outlive it.
  RunPlan(const Config& config, const DecoderConfig& decoder, const TokenStore& store,
          const std::optional<ResumePoint>& resumed, const Device& device, World& world,
          const AdapterStores& adapters = {});

  ~RunPlan();

  const Planner& planner() const { return *planner_; }
  // How the plan continues that of the checkpoint.
  const Continuation& continuation() const { return *continuation_; }
  SchedulePosition schedule_from() const { return {header_.from_step, header_.schedule_position}; }
  const PlanHeader& header() const { return header_; }
  const ProcessMesh& mesh() const { return mesh_; }
  // The configured or found budget.
  std::int64_t first_budget() const { return header_.entries.back().first_budget(); }
  const PlanLayout& layout() const { return header_.entries.back().layout; }  // in force
  std::int64_t total_steps() const { return total_steps_; }
  // Of each adapter's own run. One element, total_steps(), where several are not trained.
  const std::vector<std::int64_t>& num_steps() const { return num_steps_; }
  // `config` with the shard size, the bound of keys, and what memory.fit and parallel.accumulate
  // chose.
  Config resolve(Config config) const;

  // Call it when this layout of `step` ran out of memory. Lays steps from `step` on over more
  // micro-batches, of at most three quarters of the tokens of the step's largest divisible
  // micro-batch. Where it has none, the largest of `mismatched` counts: the step's mismatched
  // answers (steps/mismatched_answers.h), or none. Every rank gets the same budget. Returns the new
  // budget. No other thread may plan meanwhile.
  std::int64_t lower_budget(std::int64_t step, const StepPlan& mismatched = {});

  // True when batch.cost is `measured` and no measured costs of these ranks are known.
  bool wants_measured_cost() const;
  // Holds from the first step of this run on. `speeds` [ranks]. No other thread may plan meanwhile.
  void set_measured_cost(const CostModel& cost, std::vector<double> speeds);

 private:
  void make_planner(const PlanOptions& options, const TokenStore& store, World& world);
  void begin(PlanEntry entry);
  void choose_accumulate(const DecoderConfig& decoder, const TokenStore& store,
                         std::optional<Accumulate> kept, const Device& device, World& world);
  void keep_lowered_budget(PlanEntry& entry) const;

  Config config_;
  ProcessMesh mesh_;
  std::int64_t first_step_ = 0;
  PlanHeader header_;
  std::unique_ptr<Continuation> continuation_;
  std::unique_ptr<Planner> planner_;
  std::int64_t total_steps_ = 0;
  std::vector<std::int64_t> num_steps_;
};

}  // namespace packtrain
