#include "training/evaluation/evaluation_sets.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "training/setup/model_source.h"
#include "training/setup/shared_group_rows.h"
#include "training/setup/store_kind.h"
#include "training/setup/training_store.h"

namespace packtrain {

namespace {

std::string set_name(const std::string& adapter, const std::string& set) {
  if (adapter.empty() || set.empty()) return adapter + set;
  return adapter + "." + set;
}

}  // namespace

EvaluationSets::EvaluationSets(std::span<const Config> own, const std::string& best_by,
                               bool without_groups) {
  for (std::size_t a = 0; a < own.size(); ++a) {
    const std::string adapter = own.size() > 1 ? own[a].adapter.name : "";
    for (const ValidationStore& store : own[a].data.validation) {
      const std::string name = set_name(adapter, store.name);
      if (name == best_by) early_stopping_set_ = sets_.size();
      auto opened = TokenStore::open(store.path);
      if (!without_groups) check_store_kind(*opened, own[a].objective, "data.validation");
      auto objective =
          without_groups ? next_tokens_of(*opened, own[a]) : evaluated_objective(own[a]);
      sets_.push_back({name, std::move(opened), {a, own.size()}, std::move(objective)});
    }
  }
}

void EvaluationSets::prepare(const DecoderConfig& decoder, std::int64_t max_tokens_per_micro_batch,
                             Device& device, World& world, const ProcessMesh& mesh) {
  for (Set& set : sets_) {
    require_shareable_rows(decoder, set.objective.share_prefixes, "the model");
    check_vocabulary(set.store->folder(), set.store->info().vocab_size, decoder);
    check_learned_positions(*set.store, std::numeric_limits<std::int64_t>::max(), decoder);
    if (set.objective.share_prefixes) share_group_rows(*set.store, world.control());
    set.evaluator = std::make_unique<Evaluator>(*set.store, max_tokens_per_micro_batch, device,
                                                world, mesh, set.adapter, set.objective);
  }
}

void EvaluationSets::set_reference(
    const ReferenceModel& model,
    const std::function<std::unique_ptr<RowValues>(const TokenStore& store)>& open) {
  for (Set& set : sets_) {
    set.log_probs = open(*set.store);
    set.evaluator->set_reference({model, set.log_probs.get()});
  }
}

EvaluationRecord EvaluationSets::evaluate(ShardedModel& model, std::int64_t step,
                                          const std::function<bool()>& stop_requested) {
  std::vector<EvaluationRecord> records;
  for (Set& set : sets_) {
    records.push_back(set.evaluator->evaluate(model, step, stop_requested));
    records.back().set = set.name;
    lower_budget(set.evaluator->budget());
  }
  EvaluationRecord record = records.at(early_stopping_set_);
  if (!record.set.empty()) record.all_sets = std::move(records);
  return record;
}

void EvaluationSets::lower_budget(std::int64_t max_tokens) {
  for (const Set& set : sets_) set.evaluator->lower_budget(max_tokens);
}

void EvaluationSets::leave_adapter_out() {
  for (const Set& set : sets_) set.evaluator->leave_adapter_out();
}

void EvaluationSets::for_each(
    const std::function<void(const std::string& name, const TokenStore& store,
                             std::size_t adapter)>& visit) const {
  for (const Set& set : sets_) visit(set.name, *set.store, set.adapter.number);
}

void EvaluationSets::for_each_evaluator(
    const std::function<void(const std::string& name, const TokenStore& store,
                             Evaluator& evaluator)>& visit) {
  for (const Set& set : sets_) visit(set.name, *set.store, *set.evaluator);
}

}  // namespace packtrain
