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

#include "framework/core/safetensors.h"
#include "framework/data/token_store.h"
#include "parallel/communicators/communicator.h"

namespace packtrain {

// Keys and values that decide whether a file is of the same model and data.
using ScoreIdentity = std::map<std::string, std::string>;

// The key of ScoreIdentity that names the data, and its value for a store.
inline constexpr const char* kScoresDataKey = "data";
std::string scored_data(const TokenStore& store);

// Throws Error(kData) with the first key that differs in the file's metadata.
void check_identity(const std::string& path, const SafetensorsFile& file,
                    const ScoreIdentity& identity);

// Renames the file `unfinished` to `path`, and syncs the folder. Throws Error(kData).
void put_score_file(const std::string& unfinished, const std::string& path);

// True if the file exists with this identity. Collective: rank 0 looks. Throws Error(kData) when it
// has another identity, with the first key that differs, or is no such file.
bool has_scores(const std::string& path, const ScoreIdentity& identity, Communicator& control);

}  // namespace packtrain
