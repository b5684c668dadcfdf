// Parts of a file of log-probabilities (score_file.h) that are written while a store is scored, so
// that a stopped command continues from them. A part has the values of consecutive examples:
// FILE.part-FIRST-END, a safetensors file with the tensors log_probs and greedy, and those of
// candidates without their offsets. Its metadata have the identity of the file, FIRST and END, the
// loss, and a digest of its tensors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/token_store.h"
#include "training/evaluation/candidate_tokens.h"
#include "training/evaluation/score_file.h"
#include "training/evaluation/token_scores.h"

namespace packtrain {

struct ScorePart {
  std::int64_t first = 0;  // examples first to end - 1
  std::int64_t end = 0;
  double loss_sum = 0;  // over their labels, weighted by the mask
  double loss_weight = 0;
};

inline constexpr const char* kScorePartMark = ".part-";
std::string score_part_name(const std::string& path, const ScorePart& part);

// The parts of `path` from example 0 on, without gaps. Rank 0 reads all of their values. It warns
// of damaged ones, and removes them and others that do not continue the first ones. Collective.
// Throws Error(kData) for a part with another identity.
std::vector<ScorePart> find_score_parts(const std::string& path, const ScoreIdentity& identity,
                                        Communicator& control);

// Collective. Writes the values of a part. `scores`: those of this rank's examples. Rank 0 holds
// all values of the part in memory, 5 bytes each. Throws Error(kData) on every rank when the file
// cannot be written.
void write_score_part(const std::string& path, const ScorePart& part, const TokenStore& store,
                      const TokenScores& scores, const ScoreIdentity& identity,
                      Communicator& control);

// Collective. Joins the parts, which have all examples of the store, to `path`, and removes them.
// Rank 0 holds a few MiB in memory. The bytes do not depend on the division into parts.
void join_score_parts(const std::string& path, const std::vector<ScorePart>& parts,
                      const TokenStore& store, const CandidateTokens* candidates,
                      const ScoreIdentity& identity, Communicator& control);

}  // namespace packtrain
