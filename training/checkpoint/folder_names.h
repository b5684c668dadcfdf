// Names of checkpoint folders and of the files in them. Only folders with exact names are read or
// removed. Other names (`step-3.bak`, `xstep-3`, `step-03`) belong to the user.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace packtrain {

enum class FolderKind {
  kFinal,      // step-N
  kTemporary,  // step-N.tmp: being written, or left by a crash
  kReplaced,   // step-N.old: the previous step-N while a new one replaces it
};

struct FolderName {
  std::int64_t step = 0;
  FolderKind kind = FolderKind::kFinal;
};

inline constexpr const char* kManifestName = "manifest.json";

std::string folder_name(std::int64_t step, FolderKind kind = FolderKind::kFinal);
std::string folder_path(const std::string& root, std::int64_t step,
                        FolderKind kind = FolderKind::kFinal);
// Parses a name. Returns nothing unless it is exactly a result of folder_name().
std::optional<FolderName> parse_folder_name(std::string_view name);

std::string rank_file_name(int rank, int num_ranks);  // rank-00000-of-00004.safetensors
// Whether save_checkpoint() can leave a file with this name, at any point of an interruption.
bool is_checkpoint_file_name(std::string_view name);

}  // namespace packtrain
