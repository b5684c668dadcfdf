// The file of a store's log-probabilities: safetensors with
// - offsets int64 [num_examples + 1]: example e of the store has values offsets[e] to
//   offsets[e + 1] - 1, one for each supervised token in order (framework/data/token_store.h);
// - log_probs float32 [num_loss_tokens]: natural logarithms;
// - greedy uint8 [num_loss_tokens]: 1 where the token has the largest logit, of equal ones the
//   lowest id;
// - with candidate tokens (candidate_tokens.h) also candidate_offsets, candidate_log_probs and
// candidate_greedy of these. Its metadata name the model and the data. It does not depend on the
// number of ranks.
#pragma once

#include <map>
#include <string>

#include "framework/data/token_store.h"
#include "parallel/communicators/communicator.h"
#include "training/evaluation/token_scores.h"

namespace packtrain {

// Keys and values that decide whether a file is of the same model and data.
using ScoreIdentity = std::map<std::string, std::string>;

// The key of ScoreIdentity that names the data, and its value for a store.
inline constexpr const char* kScoresDataKey = "data";
std::string scored_data(const TokenStore& store);

// True if the file exists with this identity. Collective: rank 0 looks. Throws Error(kData) when it
// has another identity, with the first key that differs, or is no such file.
bool has_scores(const std::string& path, const ScoreIdentity& identity, Communicator& control);

// Collective. `scores`: those of this rank's examples; `control` has all ranks. Rank 0 holds all
// values in memory, 5 bytes each, and writes the file under a temporary name first. Throws
// Error(kData) on every rank when the file cannot be written.
void write_scores(const std::string& path, const TokenStore& store, const TokenScores& scores,
                  const ScoreIdentity& identity, Communicator& control);

}  // namespace packtrain
