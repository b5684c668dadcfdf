#include "training/evaluation/evaluation_sets.h"

#include "training/setup/model_source.h"

namespace packtrain {

EvaluationSets::EvaluationSets(const std::vector<ValidationStore>& stores,
                               const std::string& best_by) {
  for (const ValidationStore& store : stores) {
    if (store.name == best_by) early_stopping_set_ = sets_.size();
    sets_.push_back({store.name, TokenStore::open(store.path), nullptr});
  }
}

void EvaluationSets::prepare(const DecoderConfig& decoder, std::int64_t max_tokens_per_micro_batch,
                             Device& device, World& world, const ProcessMesh& mesh) {
  for (Set& set : sets_) {
    check_vocabulary(set.store->folder(), set.store->info().vocab_size, decoder);
    set.evaluator =
        std::make_unique<Evaluator>(*set.store, max_tokens_per_micro_batch, device, world, mesh);
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

void EvaluationSets::for_each(
    const std::function<void(const std::string& name, const TokenStore& store)>& visit) const {
  for (const Set& set : sets_) visit(set.name, *set.store);
}

}  // namespace packtrain
