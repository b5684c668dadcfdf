#include "samplers/batches/file_steps.h"

#include <vector>

#include "samplers/group_units.h"
#include "samplers/plan_file/plan_file.h"

namespace packtrain {
namespace {

class FileSteps final : public EpochBatches {
 public:
  explicit FileSteps(const BatchInputs& inputs)
      : selection_(inputs.selection),
        file_(*inputs.options.plan_file),
        epoch_(static_cast<std::int64_t>(inputs.epoch) % file_.num_epochs()),
        is_selected_(inputs.selection.flags()) {}

  std::int64_t num_steps() const override { return file_.num_steps(epoch_); }

  StepPieces step(std::int64_t step_of_epoch) const override {
    const PlanFileStep planned = file_.step(epoch_, step_of_epoch);
    StepPieces step;
    for (const auto& micro_batches : planned.ranks) {
      for (const auto& examples : micro_batches) {
        if (file_.has_ranks()) step.pack_begins.push_back(step.pieces.size());
        for (const std::int64_t example : examples) add(example, step);
      }
    }
    return step;
  }

 private:
  void add(std::int64_t named, StepPieces& step) const {
    std::int64_t example = named;
    if (const GroupUnits* units = selection_.units()) {
      example = units->store().groups()->group_of(named);
      if (units->group(example).first_example != named) return;  // the group is there already
    }
    if (!is_selected_.empty() && !is_selected_[static_cast<std::size_t>(example)]) return;
    step.append(selection_, static_cast<ExampleIndex>(example));
  }

  const Selection& selection_;
  const PlanFile& file_;
  std::int64_t epoch_;  // of the file
  std::vector<bool> is_selected_;
};

}  // namespace

std::unique_ptr<EpochBatches> make_file_steps(BatchInputs inputs) {
  return std::make_unique<FileSteps>(inputs);
}

std::optional<std::int64_t> file_steps(const Selection&, const PlanOptions& options) {
  const PlanFile& file = *options.plan_file;
  for (std::int64_t epoch = 1; epoch < file.num_epochs(); ++epoch) {
    if (file.num_steps(epoch) != file.num_steps(0)) return std::nullopt;
  }
  return file.num_steps(0);
}

}  // namespace packtrain
