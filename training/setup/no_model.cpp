#include "training/setup/no_model.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/list_text.h"
#include "framework/core/shell_word.h"
#include "training/checkpoint/checkpoint.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAdvice =
    "Give the folder of a Hugging Face model or a checkpoint folder step-N.";

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The folders in `folder` that satisfy `is_wanted`, in order.
template <typename Wanted>
std::vector<std::string> folders_in(const fs::path& folder, Wanted is_wanted) {
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    if (entry->is_directory(ignored) && is_wanted(entry->path())) found.push_back(entry->path());
  }
  std::ranges::sort(found);
  return found;
}

// A name as on the Hub, "Qwen/Qwen2.5-0.5B". It may follow the Hub's address and have a revision.
struct HubName {
  std::string name;
  std::string revision;
};

std::optional<HubName> hub_name(std::string_view text) {
  for (const std::string_view address : {"https://huggingface.co/", "https://hf.co/", "hf://"}) {
    if (text.starts_with(address)) text.remove_prefix(address.size());
  }
  while (text.ends_with('/')) text.remove_suffix(1);
  const std::size_t at = text.find('@');
  const std::string revision(at == std::string_view::npos ? "" : text.substr(at + 1));
  const std::string_view name = text.substr(0, at);
  const auto is_part = [](std::string_view part) {
    return !part.empty() && part.front() != '.' && part.front() != '~' &&
           part.find_first_of("/:") == std::string_view::npos;
  };
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos || !is_part(name.substr(0, slash)) ||
      !is_part(name.substr(slash + 1))) {
    return std::nullopt;
  }
  return HubName{std::string(name), revision};
}

std::string download_advice(const HubName& hub) {
  const std::string folder = "hf/" + hub.name.substr(hub.name.find('/') + 1);
  return fmt::format(
      "Give a model's folder. If that is its name on the Hub: model.path=hf:{}{}, or `hf download "
      "{}{} --local-dir {}`, then model.path: {}.",
      hub.name, hub.revision.empty() ? "" : "@" + hub.revision, hub.name,
      hub.revision.empty() ? "" : " --revision " + hub.revision, folder, folder);
}

// For a run that has a checkpoint.
std::string run_advice(const std::string& run, const std::string& newest) {
  return fmt::format(
      "It is a run's folder: give its newest checkpoint, {}; or `packtrain export {} --out "
      "{}` (--best: its best checkpoint), then model.path: {}-exported.",
      newest, shell_word(run), shell_word(run + "-exported"), run);
}

std::optional<std::string> advice_of_runs(fs::path folder) {
  if (folder.filename().empty()) folder = folder.parent_path();
  const fs::path run = folder.filename() == "checkpoints" ? folder.parent_path() : folder;
  if (const auto newest = find_latest_checkpoint(checkpoints_folder(run))) {
    return run_advice(run, *newest);
  }
  if (is_there(run / "checkpoints")) {
    return "It is a run's folder without a usable checkpoint: train it first, or give its "
           "model.path.";
  }
  const auto runs =
      folders_in(folder, [](const fs::path& part) { return is_there(part / "checkpoints"); });
  if (runs.empty()) return std::nullopt;
  return fmt::format(
      "It holds runs (of compare or sweep): `packtrain export {} --out {}` makes a model "
      "of one, then model.path: {}-exported. Its runs: {}.",
      shell_word(runs.front()), shell_word(runs.front() + "-exported"), runs.front(),
      list_start(runs));
}

// For a folder or file that exists.
std::string advice_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) {
    const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
    return fmt::format("It is a file: give its folder, {}.", folder.string());
  }
  const auto is_model = [](const fs::path& part) { return is_there(part / "config.json"); };
  if (const auto snapshots = folders_in(path / "snapshots", is_model); !snapshots.empty()) {
    return fmt::format("It is a download cache: give a snapshot in it, {}.", list_start(snapshots));
  }
  if (const auto advice = advice_of_runs(path)) return *advice;
  const auto models = folders_in(path, is_model);
  return models.empty() ? kAdvice : fmt::format("Give a model in it: {}.", list_start(models));
}

}  // namespace

void throw_no_model(const std::string& path) {
  const bool found = is_there(path);
  const auto hub = found ? std::nullopt : hub_name(path);
  const char* fault = found ? "is no model: it has neither config.json (Hugging Face) nor "
                              "manifest.json (a checkpoint of packtrain)"
                            : "does not exist";
  throw Error(ErrorCategory::kConfig, fmt::format("model.path: {} {}", path, fault),
              found ? advice_of(path)
              : hub ? download_advice(*hub)
                    : kAdvice);
}

}  // namespace packtrain
