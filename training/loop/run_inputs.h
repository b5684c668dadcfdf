// What a run has before it is planned: its data, the description of its model, and its device.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "parallel/communicators/world.h"
#include "training/evaluation/evaluation_sets.h"
#include "training/setup/model_source.h"
#include "training/setup/run_device.h"
#include "training/setup/training_store.h"

namespace packtrain {

struct RunInputs {
  TrainingStores stores;
  std::unique_ptr<EvaluationSets> evaluations;
  ModelSource source;
  RunDevice device;

  bool has_several_adapters() const { return stores.are_several(); }
  std::vector<std::string> adapter_names() const;
};

// Opens the stores, finds the model and chooses the device. `faults` may be null. Collective.
// Throws Error(kData) when the training store's ids do not fit the model's vocabulary, and the
// errors of its parts.
RunInputs open_inputs(const Config& config, World& world, std::shared_ptr<CollectiveFaults> faults);

}  // namespace packtrain
