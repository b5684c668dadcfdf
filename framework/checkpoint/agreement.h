// Ranks telling each other how a piece of work went, so that all go on or all stop.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "parallel/communicator.h"

namespace packtrain {

// Collective. Every rank's text, by rank; texts may differ in length.
std::vector<std::string> all_gather_texts(const std::string& text, Communicator& control);

// Collective. Does `work` on every rank and returns what each returned. When any rank's work threw,
// throws Error(kCheckpoint) with `what` and those ranks' reasons, the same on every rank.
std::vector<std::string> agree(const std::string& what, Communicator& control,
                               const std::function<std::string()>& work);

}  // namespace packtrain
