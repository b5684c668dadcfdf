// Log-probabilities of every supervised token of the validation stores, in files.
#pragma once

#include <cstdint>
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
  // Tokens of the examples that are scored between two saves. 0: those of 256 micro-batches.
  std::int64_t part_tokens = 0;
};

struct ScoredSet {
  std::string store;                    // its folder
  std::string file;                     // see training/evaluation/score_file.h
  bool kept = false;                    // the file was there, of the same model and data
  std::int64_t num_examples_found = 0;  // examples that an earlier, stopped command scored
  std::int64_t num_tokens_scored = 0;   // tokens of the others
  double seconds = 0;                   // of these, and of writing the file
  EvaluationRecord record;              // counts and loss; of a kept file without the loss
};

// Collective. Every rank gets the same result.
std::vector<ScoredSet> run_scoring(const Config& config, const ScoringOptions& options,
                                   World& world);

}  // namespace packtrain
