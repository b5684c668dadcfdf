#include "training/checkpoint/temporary_folder.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "framework/core/file.h"
#include "training/checkpoint/checkpoint_error.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

// `folder` without a suffix that does not change it: "out/", "out/.".
std::string without_slashes(const std::string& folder) {
  fs::path path = folder;
  while (path.has_parent_path() && path != path.parent_path() &&
         (path.filename().empty() || path.filename() == ".")) {
    path = path.parent_path();
  }
  return path;
}

}  // namespace

TemporaryFolder::TemporaryFolder(const std::string& folder)
    : folder_(without_slashes(folder)), path_(folder_ + ".tmp") {
  std::error_code error;
  if (fs::exists(fs::symlink_status(folder_, error))) {
    fail_at(folder_, "exists already", "Give another folder, or remove this one.");
  }
  if (fs::exists(fs::symlink_status(path_, error))) {
    fail_at(path_, "is left from an export that was cut short", "Remove it.");
  }
  try {
    make_folders(path_, ErrorCategory::kCheckpoint);
  } catch (const Error& fault) {
    throw Error(
        fault.category(), fault.message(),
        "Give a folder that this user can make, or the right to write to the folder that it "
        "is to be in.");
  }
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!committed_) fs::remove_all(path_, ignored);
}

void TemporaryFolder::commit() {
  sync_folder(path_, ErrorCategory::kCheckpoint);
  std::error_code error;
  fs::rename(path_, folder_, error);
  if (error) fail_at(path_, fmt::format("cannot rename to {}: {}", folder_, error.message()));
  committed_ = true;
  const std::string parent = fs::path(folder_).parent_path().string();
  sync_folder(parent.empty() ? "." : parent, ErrorCategory::kCheckpoint);
}

}  // namespace packtrain
