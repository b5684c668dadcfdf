// Ranks telling each other how a piece of work went, so that all go on or all stop.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "framework/support/error.h"
#include "parallel/communicator.h"

namespace packtrain {

// Collective. Every rank's text, by rank; texts may differ in length.
std::vector<std::string> all_gather_texts(const std::string& text, Communicator& control);

// Collective. The same, told to rank `root` alone; the others get none.
std::vector<std::string> gather_texts(const std::string& text, int root, Communicator& control);

// Collective. The text of rank `root`, on every rank.
std::string broadcast_text(const std::string& text, int root, Communicator& control);

// Collective. Whether it is so on any rank.
bool is_so_anywhere(bool is_so_here, Communicator& control);

// Collective. Does `work` on every rank. When any rank's work threw, throws Error(kCheckpoint) with
// `what` and those ranks' reasons, the same on every rank. One number is sent where all went well.
void agree(const std::string& what, Communicator& control, const std::function<void()>& work);

// Collective. Does `work` on rank 0 alone. What it returns, every rank returns; the Error that it
// throws, every rank throws.
std::string ask_first_rank(Communicator& control, const std::function<std::string()>& work);

// Collective. The error of the first rank that has one, on every rank, and which rank that is.
struct RankError {
  int rank = 0;
  Error error;
};
std::optional<RankError> first_error(const std::optional<Error>& own, Communicator& control);

}  // namespace packtrain
