// Exchanges texts and errors between ranks, so that all ranks continue or all stop.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/core/error.h"
#include "parallel/communicators/communicator.h"

namespace packtrain {

// Collective. Returns every rank's text, by rank; texts may differ in length.
std::vector<std::string> all_gather_texts(const std::string& text, Communicator& control);

// Collective. Returns every rank's text on rank `root`, and an empty vector on the others.
std::vector<std::string> gather_texts(const std::string& text, int root, Communicator& control);

// Collective. Returns the text of rank `root` on every rank.
std::string broadcast_text(const std::string& text, int root, Communicator& control);

// Collective. True on every rank when `value` is true on any rank.
bool any_rank(bool value, Communicator& control);

// Collective. Calls `work` on every rank. When it threw on any rank, throws Error(kCheckpoint) on
// every rank, with `what` and the reasons of these ranks. Success sends one number.
void collective_try(const std::string& what, Communicator& control,
                    const std::function<void()>& work);

// Collective. Calls `work` on rank 0 alone. Every rank returns its result, or throws its Error.
std::string run_on_first_rank(Communicator& control, const std::function<std::string()>& work);

struct RankError {
  int rank = 0;
  Error error;
};
// Collective. Returns on every rank the error of the lowest rank that has one.
std::optional<RankError> first_rank_error(const std::optional<Error>& own, Communicator& control);

// Collective. Throws the error of the lowest rank that has one, on every rank.
void throw_first_rank_error(const std::optional<Error>& own, Communicator& control);

}  // namespace packtrain
