#include "training/loop/scoring.h"

#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "framework/config/load.h"
#include "framework/core/clock.h"
#include "framework/core/hash.h"
#include "framework/core/logging.h"
#include "framework/data/store_format.h"
#include "training/evaluation/score_file.h"
#include "training/setup/base_digest.h"

namespace packtrain {
namespace {

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

}  // namespace

std::vector<ScoredSet> run_scoring(const Config& config, const ScoringOptions& options,
                                   World& world) {
  const auto loaded = load_evaluation(config, options.request, world);
  const bool without_adapter = options.request.without_adapter;
  const std::string model = without_adapter ? base_digest(*loaded->model, world.control())
                                            : model_digest(*loaded->model, world.control());
  const std::string settings = settings_digest(*loaded, loaded->source.adapter && !without_adapter);
  std::vector<ScoredSet> scored;
  loaded->sets->for_each_evaluator(
      [&](const std::string& set, const TokenStore& store, Evaluator& evaluator) {
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
          TokenScores scores(candidates.get());
          one.record = evaluator.evaluate(*loaded->model, 0, {}, &scores);
          write_scores(one.file, store, scores, identity, world.control());
          one.seconds = seconds_since(begin);
        }
        one.record.set = set;
      });
  return scored;
}

}  // namespace packtrain
