#include "training/loop/scoring.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "framework/config/load.h"
#include "framework/core/clock.h"
#include "framework/core/hash.h"
#include "framework/core/logging.h"
#include "framework/data/store_format.h"
#include "training/evaluation/score_file.h"
#include "training/evaluation/score_parts.h"
#include "training/setup/base_digest.h"

namespace packtrain {
namespace {

// Micro-batches of a part: minutes of a large model on one GPU. It does not depend on the number of
// ranks, and neither do the values.
constexpr std::int64_t kPartMicroBatches = 256;

// The settings that change what the weights compute. Paths do not: digests replace them. The keys
// of the model's configuration are sorted, because a checkpoint may have another order of them.
std::string settings_digest(const LoadedEvaluation& loaded, bool with_adapter) {
  std::string text = nlohmann::json::parse(loaded.source.config_json).dump();
  for (const std::string& key : config_keys()) {
    const bool counts = key.starts_with("model.") || key.starts_with("precision.") ||
                        (key.starts_with("adapter.") && with_adapter);
    if (counts && !key.ends_with(".path"))
      text += fmt::format("\n{}: {}", key, config_value(loaded.config, key));
  }
  return hash_bytes(std::as_bytes(std::span(text)));
}

ScoreIdentity identity_of(const std::string& model, const std::string& settings,
                          const std::string& set, const TokenStore& store) {
  return {{"format", "packtrain log-probabilities 1"},
          {"model", model},
          {"model_settings", settings},
          {"set", set},
          {kScoresDataKey, scored_data(store)}};
}

std::string file_of(const std::string& out, const std::string& set, const TokenStore& store,
                    const std::string& model) {
  if (out.empty()) return fmt::format("{}/{}", store.folder(), scores_name(model));
  return set.empty() ? out : fmt::format("{}/{}.safetensors", out, set);
}

std::unique_ptr<CandidateTokens> open_candidates(const std::string& path, const TokenStore& store) {
  return path.empty() ? nullptr : std::make_unique<CandidateTokens>(path, store);
}

EvaluationRecord counts_of(const TokenStore& store) {
  EvaluationRecord record;
  record.num_examples = store.info().num_examples;
  record.num_tokens = store.info().num_tokens;
  record.num_loss_tokens = store.info().num_loss_tokens;
  return record;
}

// Examples with candidates may lack labels, which a part needs: they are one part.
std::int64_t tokens_of_part(const ScoringOptions& options, bool has_candidates,
                            std::int64_t micro_batch_tokens) {
  if (has_candidates) return std::numeric_limits<std::int64_t>::max();
  return options.part_tokens > 0 ? options.part_tokens : kPartMicroBatches * micro_batch_tokens;
}

// Scores one store part by part.
class StoreScoring {
 public:
  StoreScoring(const TokenStore& store, Evaluator& evaluator, LoadedEvaluation& loaded,
               World& world, const CandidateTokens* candidates)
      : store_(store), evaluator_(evaluator), loaded_(loaded), world_(world), scores_(candidates) {}

  void run(const ScoreIdentity& identity, std::int64_t part_tokens, ScoredSet& set);

 private:
  struct Range {
    std::int64_t first = 0;
    std::int64_t end = 0;
    std::int64_t num_tokens = 0;
    std::int64_t num_labels = 0;
  };

  Range next_range(std::int64_t first, std::int64_t part_tokens) const;
  ScorePart score(const Range& range);

  const TokenStore& store_;
  Evaluator& evaluator_;
  LoadedEvaluation& loaded_;
  World& world_;
  TokenScores scores_;
};

// A part has whole groups where their examples share rows.
StoreScoring::Range StoreScoring::next_range(std::int64_t first, std::int64_t part_tokens) const {
  const ExampleCounts lengths = store_.lengths();
  const ExampleCounts labels = store_.num_loss_tokens();
  const ExampleGroups* groups = evaluator_.shares_prefixes() ? store_.groups() : nullptr;
  const auto divides_group = [&](std::int64_t end) {
    return groups != nullptr && end > first && groups->group_of(end - 1) == groups->group_of(end);
  };
  Range range{first, first};
  while (range.end < store_.info().num_examples &&
         (range.num_tokens < part_tokens || divides_group(range.end))) {
    const auto example = static_cast<std::size_t>(range.end++);
    range.num_tokens += lengths[example];
    range.num_labels += labels[example];
  }
  return range;
}

ScorePart StoreScoring::score(const Range& range) {
  ScorePart part{range.first, range.end};
  scores_.clear();
  if (range.num_labels == 0) return part;  // its file has no value
  Evaluator evaluator = evaluator_.of_examples(range.first, range.end);
  evaluator.evaluate(*loaded_.model, 0, loaded_.stop_never(), &scores_);
  evaluator_.lower_budget(evaluator.budget());  // memory ran out: not again
  part.loss_sum = evaluator.loss_sum();
  part.loss_weight = evaluator.loss_weight();
  return part;
}

void StoreScoring::run(const ScoreIdentity& identity, std::int64_t part_tokens, ScoredSet& set) {
  Communicator& control = world_.control();
  std::vector<ScorePart> parts = find_score_parts(set.file, identity, control);
  const std::int64_t num_examples = store_.info().num_examples;
  std::int64_t next = parts.empty() ? 0 : parts.back().end;
  set.num_examples_found = next;
  if (next > 0) log_info("{}: continues after {} of {} examples", set.file, next, num_examples);
  while (next < num_examples) {
    const Range range = next_range(next, part_tokens);
    parts.push_back(score(range));
    loaded_.begin_part();
    write_score_part(set.file, parts.back(), store_, scores_, identity, control);
    set.num_tokens_scored += range.num_tokens;
    next = range.end;
    log_info("{}: {} of {} examples", set.file, next, num_examples);
  }
  double sum = 0;
  double weight = 0;
  for (const ScorePart& part : parts) {
    sum += part.loss_sum;
    weight += part.loss_weight;
  }
  set.record.loss = sum / weight;
  loaded_.begin_part();
  join_score_parts(set.file, parts, store_, scores_.candidates(), identity, control);
}

}  // namespace

std::vector<ScoredSet> run_scoring(const Config& config, const ScoringOptions& options,
                                   World& world) {
  EvaluationRequest request = options.request;
  request.without_groups = true;
  Config next_token = config;
  next_token.objective = {};
  const auto loaded = load_evaluation(next_token, request, world);
  const bool without_adapter = options.request.without_adapter;
  const std::string model = without_adapter ? base_digest(*loaded->model, world.control())
                                            : model_digest(*loaded->model, world.control());
  const std::string settings = settings_digest(*loaded, loaded->source.adapter && !without_adapter);
  std::vector<ScoredSet> scored;
  loaded->sets->for_each_evaluator(
      [&](const std::string& set, const TokenStore& store, Evaluator& evaluator) {
        loaded->begin_part();
        const std::unique_ptr<CandidateTokens> candidates =
            open_candidates(options.candidate_tokens, store);
        ScoreIdentity identity = identity_of(model, settings, set, store);
        if (candidates) identity["candidate_tokens"] = candidates->digest();
        ScoredSet& one = scored.emplace_back();
        one.store = store.folder();
        one.file = file_of(options.out, set, store, model);
        one.kept = has_scores(one.file, identity, world.control());
        one.record = counts_of(store);
        if (!one.kept) {
          const auto begin = std::chrono::steady_clock::now();
          const std::int64_t part_tokens =
              tokens_of_part(options, candidates != nullptr, evaluator.budget());
          StoreScoring(store, evaluator, *loaded, world, candidates.get())
              .run(identity, part_tokens, one);
          one.seconds = seconds_since(begin);
        }
        one.record.set = set;
      });
  return scored;
}

}  // namespace packtrain
