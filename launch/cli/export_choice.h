// Selects the checkpoint of a run that is exported.
#pragma once

#include <string>

namespace packtrain {

// Returns `source` itself when it is a checkpoint, else the newest checkpoint of a run folder.
// Throws Error(kCheckpoint) where there is none.
std::string newest_checkpoint(const std::string& source);

// The checkpoint of a run folder with the lowest validation loss, the newest of equals. Throws
// Error(kConfig) for a checkpoint, Error(kCheckpoint) where none has a loss.
std::string best_checkpoint(const std::string& source);

// Warns when the newest checkpoint of a run is not its best.
void log_best_checkpoint(const std::string& source);

}  // namespace packtrain
