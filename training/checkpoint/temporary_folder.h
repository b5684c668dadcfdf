// A folder that appears complete or not at all.
#pragma once

#include <string>

namespace packtrain {

// Holds `folder`.tmp while it is written. The destructor removes it unless commit() was called.
class TemporaryFolder {
 public:
  // `folder` may end with slashes. Throws Error(kCheckpoint) when `folder` or `folder`.tmp exists,
  // or the latter cannot be made.
  explicit TemporaryFolder(const std::string& folder);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }

  // Syncs the folder and gives it its name. Throws Error(kCheckpoint).
  void commit();

 private:
  std::string folder_;
  std::string path_;
  bool committed_ = false;
};

}  // namespace packtrain
