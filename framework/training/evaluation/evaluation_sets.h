// The stores of data.validation: evaluated one after the other, each with a loss of its own. The
// loss of one of them decides what is best and when to stop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "framework/metrics/metrics.h"
#include "framework/training/evaluation/evaluator.h"
#include "models/decoder_config.h"
#include "parallel/sharding/sharded_model.h"
#include "parallel/world.h"

namespace packtrain {

class EvaluationSets {
 public:
  // Opens the stores. `best_by`: the name of the one that decides; empty: the first.
  EvaluationSets(const std::vector<ValidationStore>& stores, const std::string& best_by);

  // Once, before evaluate(): lays the stores over ranks and micro-batches. Everything given must
  // outlive this. Throws Error(kData) for a store with ids outside the model's vocabulary.
  void prepare(const DecoderConfig& decoder, std::int64_t max_tokens_per_micro_batch,
               Device& device, World& world);

  // Collective; every rank gets the same record: that of the set that decides, and where sets have
  // names those of all. Throws what Evaluator::evaluate() does.
  EvaluationRecord evaluate(ShardedModel& model, std::int64_t step,
                            const std::function<bool()>& stop_requested = {});

  // Of all sets (Evaluator::lower_budget).
  void lower_budget(std::int64_t max_tokens);

  void for_each(
      const std::function<void(const std::string& name, const TokenStore& store)>& visit) const;

  bool empty() const { return sets_.empty(); }
  // Name of the set that decides; empty without names.
  std::string deciding() const { return empty() ? "" : sets_[early_stopping_set_].name; }

 private:
  struct Set {
    std::string name;
    std::unique_ptr<TokenStore> store;
    std::unique_ptr<Evaluator> evaluator;
  };
  std::vector<Set> sets_;
  std::size_t early_stopping_set_ = 0;
};

}  // namespace packtrain
