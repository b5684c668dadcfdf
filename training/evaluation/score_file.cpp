#include "training/evaluation/score_file.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "framework/core/descriptor.h"
#include "framework/core/error.h"
#include "framework/core/file.h"
#include "parallel/communicators/collectives.h"

namespace packtrain {

std::string scored_data(const TokenStore& store) {
  const std::string content = store.content_digest();
  return content.empty() ? store.fingerprint() : content;
}

void check_identity(const std::string& path, const SafetensorsFile& file,
                    const ScoreIdentity& identity) {
  for (const auto& [key, wanted] : identity) {
    const auto found = file.metadata().find(key);
    const std::string got = found == file.metadata().end() ? "" : found->second;
    if (got == wanted) continue;
    throw Error(
        ErrorCategory::kData,
        fmt::format("{}: exists with another {}: got '{}', wanted '{}'", path, key, got, wanted),
        "Give another --out, or remove the file.");
  }
}

void put_score_file(const std::string& unfinished, const std::string& path) {
  std::error_code fault;
  std::filesystem::rename(unfinished, path, fault);
  if (fault) fail_on(path, "rename", fault.value(), ErrorCategory::kData);
  const std::string folder = std::filesystem::path(path).parent_path().string();
  sync_folder(folder.empty() ? "." : folder, ErrorCategory::kData);
}

bool has_scores(const std::string& path, const ScoreIdentity& identity, Communicator& control) {
  const auto look = [&]() -> std::string {
    if (!std::filesystem::exists(path)) return "";
    check_identity(path, *SafetensorsFile::open(path, ErrorCategory::kData), identity);
    return "same";
  };
  return !run_on_first_rank(control, look).empty();
}

}  // namespace packtrain
