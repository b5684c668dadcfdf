// The stores of data.validation. Each is evaluated separately and has its own loss. The loss of one
// of them decides which weights are best and when to stop. Where several adapters are trained, each
// one has sets of its own, which are evaluated with that adapter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/data/token_store.h"
#include "framework/device/device.h"
#include "framework/metrics/metrics.h"
#include "models/layers/decoder_config.h"
#include "parallel/communicators/world.h"
#include "parallel/sharding/sharded_model.h"
#include "training/evaluation/evaluator.h"

namespace packtrain {

class EvaluationSets {
 public:
  // Opens the stores. `own`: the configuration of each adapter's own run (adapter_configs()). The
  // sets of several have the names of their adapters, and SET of data.validation is ADAPTER.SET.
  // `best_by`: name of the deciding one; empty: the first. `without_groups`: the loss is that
  // of next tokens (next_tokens_of()), for stores of any kind.
  EvaluationSets(std::span<const Config> own, const std::string& best_by,
                 bool without_groups = false);

  // Call it once before evaluate(). Assigns the examples to ranks and micro-batches. `device` and
  // `world` must outlive the object. Throws Error(kData) for a store with ids outside the model's
  // vocabulary.
  void prepare(const DecoderConfig& decoder, std::int64_t max_tokens_per_micro_batch,
               Device& device, World& world, const ProcessMesh& mesh);

  // After prepare(), where the objective has a reference. `model`: computes it; `open`: the values
  // of a store from files, or null.
  void set_reference(
      const ReferenceModel& model,
      const std::function<std::unique_ptr<RowValues>(const TokenStore& store)>& open);

  // Collective. Every rank gets the same record: that of the deciding set, and when sets have names
  // those of all. Throws the errors of Evaluator::evaluate().
  EvaluationRecord evaluate(ShardedModel& model, std::int64_t step,
                            const std::function<bool()>& stop_requested = {});

  // Calls visit() with each set after prepare().
  void for_each_evaluator(const std::function<void(const std::string& name, const TokenStore& store,
                                                   Evaluator& evaluator)>& visit);

  // Lowers the budget of all sets (Evaluator::lower_budget).
  void lower_budget(std::int64_t max_tokens);
  // Of all sets (Evaluator::leave_adapter_out). After prepare().
  void leave_adapter_out();

  // `adapter`: the number of the set's adapter.
  void for_each(const std::function<void(const std::string& name, const TokenStore& store,
                                         std::size_t adapter)>& visit) const;

  bool empty() const { return sets_.empty(); }
  // Name of the deciding set; empty without names.
  std::string deciding() const { return empty() ? "" : sets_[early_stopping_set_].name; }

 private:
  struct Set {
    std::string name;
    std::unique_ptr<TokenStore> store;
    EvaluatedAdapter adapter;
    EvaluatedObjective objective;
    std::unique_ptr<RowValues> log_probs = nullptr;  // of the reference, or none
    std::unique_ptr<Evaluator> evaluator = nullptr;
  };
  std::vector<Set> sets_;
  std::size_t early_stopping_set_ = 0;
};

}  // namespace packtrain
