// Which checkpoint of a run is exported.
#pragma once

#include <string>

namespace packtrain {

// `source` itself when it is a checkpoint, else the newest one of a run folder. Throws
// Error(kCheckpoint) where there is none.
std::string newest_checkpoint(const std::string& source);

// Of a run folder the one of the lowest validation loss, the newest of equals. Throws
// Error(kConfig) for a checkpoint, Error(kCheckpoint) where none has a loss.
std::string best_checkpoint(const std::string& source);

// Warns of a run whose newest checkpoint is not its best.
void log_best_checkpoint(const std::string& source);

}  // namespace packtrain
