#include "training/loop/run_inputs.h"

#include <string>
#include <utility>

#include "training/setup/validation_overlap.h"
#include "training/steps/router_bias_update.h"

namespace packtrain {

std::vector<std::string> RunInputs::adapter_names() const {
  std::vector<std::string> names;
  for (const Config& own : stores.configs) names.push_back(own.adapter.name);
  return names;
}

RunInputs open_inputs(const Config& config, World& world,
                      std::shared_ptr<CollectiveFaults> faults) {
  RunInputs inputs;
  inputs.stores = open_training_stores(config);
  inputs.evaluations =
      std::make_unique<EvaluationSets>(inputs.stores.configs, config.checkpoint.best_by);
  const TokenStore& train = *inputs.stores.all;
  if (world.rank() == 0) {
    inputs.evaluations->for_each(
        [&](const std::string& name, const TokenStore& store, std::size_t adapter) {
          warn_of_overlap(inputs.stores.of(adapter), name, store);
        });
  }
  inputs.source = find_model(config);
  check_vocabulary(train.folder(), train.info().vocab_size, inputs.source.decoder);
  check_learned_positions(train, config.data.max_length, inputs.source.decoder);
  check_router_bias_rate(config.optimizer.router_bias_update_rate, inputs.source.decoder);
  inputs.device = choose_device(config, world);
  inputs.device.faults = std::move(faults);
  return inputs;
}

}  // namespace packtrain
