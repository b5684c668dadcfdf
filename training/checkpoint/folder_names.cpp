#include "training/checkpoint/folder_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace packtrain {
namespace {

constexpr std::string_view kPrefix = "step-";

const char* suffix(FolderKind kind) {
  switch (kind) {
    case FolderKind::kTemporary:
      return ".tmp";
    case FolderKind::kReplaced:
      return ".old";
    case FolderKind::kFinal:
      break;
  }
  return "";
}

bool all_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool is_rank_file_name(std::string_view name) {
  constexpr std::string_view kRank = "rank-";
  constexpr std::string_view kOf = "-of-";
  constexpr std::string_view kExtension = ".safetensors";
  if (!name.starts_with(kRank) || !name.ends_with(kExtension)) return false;
  name = name.substr(kRank.size(), name.size() - kRank.size() - kExtension.size());
  const std::size_t of = name.find(kOf);
  return of != std::string_view::npos && all_digits(name.substr(0, of)) &&
         all_digits(name.substr(of + kOf.size()));
}

}  // namespace

std::string folder_name(std::int64_t step, FolderKind kind) {
  return fmt::format("{}{}{}", kPrefix, step, suffix(kind));
}

std::string folder_path(const std::string& root, std::int64_t step, FolderKind kind) {
  return fmt::format("{}/{}", root, folder_name(step, kind));
}

std::optional<FolderName> parse_folder_name(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  FolderName result;
  const std::string_view rest = name.substr(kPrefix.size());
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), result.step);
  if (error != std::errc{} || result.step < 0) return std::nullopt;
  for (const FolderKind kind :
       {FolderKind::kFinal, FolderKind::kTemporary, FolderKind::kReplaced}) {
    result.kind = kind;
    if (folder_name(result.step, kind) == name) return result;  // rejects `step-03`, `step--0`
  }
  return std::nullopt;
}

std::string rank_file_name(int rank, int num_ranks) {
  return fmt::format("rank-{:05}-of-{:05}.safetensors", rank, num_ranks);
}

bool is_checkpoint_file_name(std::string_view name) {
  return name == kManifestName || name == std::string(kManifestName) + ".tmp" ||
         is_rank_file_name(name);
}

}  // namespace packtrain
