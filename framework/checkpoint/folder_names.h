// Names of checkpoint folders and of the files in them. Only exact names are ever looked at or
// removed: `step-3.bak`, `xstep-3` and `step-03` belong to somebody else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace packtrain {

enum class FolderKind {
  kFinal,      // step-N
  kTemporary,  // step-N.tmp: being written, or left by a crash
  kReplaced,   // step-N.old: what step-N was, for the moment in which another one takes its place
};

struct FolderName {
  std::int64_t step = 0;
  FolderKind kind = FolderKind::kFinal;
};

inline constexpr const char* kManifestName = "manifest.json";

std::string folder_name(std::int64_t step, FolderKind kind = FolderKind::kFinal);
std::string folder_path(const std::string& root, std::int64_t step,
                        FolderKind kind = FolderKind::kFinal);
// Nothing when the name is not exactly one that folder_name() makes.
std::optional<FolderName> parse_folder_name(std::string_view name);

std::string rank_file_name(int rank, int num_ranks);  // rank-00000-of-00004.safetensors
// A file that save_checkpoint writes, at whatever moment it was stopped.
bool is_checkpoint_file_name(std::string_view name);

}  // namespace packtrain
