#include "training/loop/run_inputs.h"

#include <string>
#include <utility>

#include "framework/config/adapters.h"
#include "training/setup/training_store.h"
#include "training/setup/validation_overlap.h"

namespace packtrain {

std::vector<std::string> RunInputs::adapter_names() const {
  std::vector<std::string> names;
  for (const Config& own : own_configs) names.push_back(own.adapter.name);
  return names;
}

RunInputs open_inputs(const Config& config, World& world,
                      std::shared_ptr<CollectiveFaults> faults) {
  RunInputs inputs;
  inputs.own_configs = adapter_configs(config);
  inputs.train_store = open_joined_stores(inputs.own_configs);
  if (inputs.has_several_adapters()) {
    for (const Config& own : inputs.own_configs) {
      inputs.own_stores.push_back(open_training_store(own.data));
    }
  }
  inputs.evaluations =
      std::make_unique<EvaluationSets>(inputs.own_configs, config.checkpoint.best_by);
  const TokenStore& train = *inputs.train_store;
  if (world.rank() == 0) {
    inputs.evaluations->for_each([&](const std::string& name, const TokenStore& store,
                                     std::size_t adapter) {
      warn_of_overlap(inputs.own_stores.empty() ? train : *inputs.own_stores[adapter], name, store);
    });
  }
  inputs.source = find_model(config);
  check_vocabulary(train.folder(), train.info().vocab_size, inputs.source.decoder);
  inputs.device = choose_device(config, world);
  inputs.device.faults = std::move(faults);
  return inputs;
}

}  // namespace packtrain
