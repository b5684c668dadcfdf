// The planning part of a run's start: opening a store and planning its first step.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace packtrain {

// Writes a store of `num_examples` examples of 16 to 976 tokens with real offsets and counts. Its
// tokens and masks are holes in their files: 12 bytes of disk an example. It can be planned, but
// not trained.
void write_sparse_store(const std::string& folder, std::int64_t num_examples);

// Opens the store as a rank does and plans the first step of `num_ranks` ranks. `hashes`: also
// hashes its lengths, as for a checkpoint. Returns the seconds of each, and this process's own
// memory in MiB.
nlohmann::ordered_json time_start(const std::string& folder, int num_ranks, bool hashes);

}  // namespace packtrain
