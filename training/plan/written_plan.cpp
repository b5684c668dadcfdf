#include "training/plan/written_plan.h"

#include <fmt/format.h>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "samplers/plan_file/plan_file.h"

namespace packtrain {
namespace {

PlanFileStep written_step(const StepPlan& plan) {
  PlanFileStep step;
  for (const std::vector<MicroBatch>& micro_batches : plan.ranks) {
    auto& rank = step.ranks.emplace_back();
    for (const MicroBatch& pieces : micro_batches) {
      auto& examples = rank.emplace_back();
      for (const Piece& piece : pieces) {
        if (piece.is_prefix) continue;  // its group's examples follow
        if (counts_example(piece) && !piece.continues) {
          examples.push_back(piece.example);
          continue;
        }
        throw Error(ErrorCategory::kConfig,
                    fmt::format("step {} has a part of example {}, and a plan file has whole ones",
                                plan.step, piece.example),
                    "Set data.too_long: truncate or drop, and a strategy other than fixed_length.");
      }
    }
  }
  return step;
}

}  // namespace

void write_plan_file(const Planner& planner, const ExampleCounts& lengths, std::int64_t num_epochs,
                     const std::string& path) {
  PlanFileHeader header;
  header.num_examples = std::ssize(lengths);
  header.num_ranks = planner.options().num_ranks;
  header.lengths = lengths_digest(lengths);
  std::string text = plan_file_header_line(header);
  std::int64_t epoch = 0;
  for (std::int64_t step = 0; step < planner.num_steps(num_epochs); ++step) {
    const StepPlan plan = planner.plan(step);
    if (plan.epoch != epoch) text += plan_file_epoch_line(plan.epoch);
    epoch = plan.epoch;
    text += plan_file_step_line(written_step(plan), /*has_ranks=*/true);
  }
  write_text_atomically(path, text, ErrorCategory::kConfig);
}

}  // namespace packtrain
