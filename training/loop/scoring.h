// Log-probabilities of every supervised token of the validation stores, in files.
#pragma once

#include <string>
#include <vector>

#include "framework/config/config.h"
#include "framework/metrics/metrics.h"
#include "parallel/communicators/world.h"
#include "training/loop/loaded_evaluation.h"

namespace packtrain {

struct ScoringOptions {
  EvaluationRequest request;
  // A file, or with several sets the folder of SET.safetensors. Empty: in the folder of each store,
  // log-probs-DIGEST.safetensors with the digest of the model.
  std::string out;
  std::string candidate_tokens;  // a file of candidate tokens
                                 // (training/evaluation/candidate_tokens.h), or none
};

struct ScoredSet {
  std::string store;        // its folder
  std::string file;         // see training/evaluation/score_file.h
  bool kept = false;        // the file was there, of the same model and data
  double seconds = 0;       // of the evaluation and of writing the file
  EvaluationRecord record;  // counts and loss; of a kept file without the loss
};

// Collective. Every rank gets the same result.
std::vector<ScoredSet> run_scoring(const Config& config, const ScoringOptions& options,
                                   World& world);

}  // namespace packtrain
