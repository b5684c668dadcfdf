// The messages for a user who stops a run on a terminal.
#pragma once

#include <string>

namespace packtrain {

// The newest checkpoint of this run, for the texts of StopSignal; "": none. For rank 0, and one
// thread at a time.
void note_newest_checkpoint(const std::string& folder);

}  // namespace packtrain
