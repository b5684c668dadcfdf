#include "training/loop/run_inputs.h"

#include <string>
#include <utility>

#include "training/setup/training_store.h"
#include "training/setup/validation_overlap.h"

namespace packtrain {

RunInputs open_inputs(const Config& config, World& world,
                      std::shared_ptr<CollectiveFaults> faults) {
  RunInputs inputs;
  inputs.train_store = open_training_store(config.data);
  inputs.evaluations =
      std::make_unique<EvaluationSets>(config.data.validation, config.checkpoint.best_by);
  const TokenStore& train = *inputs.train_store;
  if (world.rank() == 0) {
    inputs.evaluations->for_each([&](const std::string& name, const TokenStore& store) {
      warn_of_overlap(train, name, store);
    });
  }
  inputs.source = find_model(config);
  check_vocabulary(train.folder(), train.info().vocab_size, inputs.source.decoder);
  inputs.device = choose_device(config, world);
  inputs.device.faults = std::move(faults);
  return inputs;
}

}  // namespace packtrain
