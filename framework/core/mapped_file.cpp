#include "framework/core/mapped_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "framework/core/bus_errors.h"
#include "framework/core/descriptor.h"

namespace packtrain {
namespace {

std::int64_t modified_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

[[noreturn]] void fail_full(const std::string& path, ErrorCategory category) {
  throw Error(category,
              fmt::format("{}: cannot be mapped: this process has as many maps of files as the "
                          "system lets it have (vm.max_map_count), or no address space is left",
                          path),
              "Raise it on every host, as by `sysctl vm.max_map_count=1048576`, and `ulimit -v`.");
}

}  // namespace

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path,
                                                   ErrorCategory category) {
  const Descriptor file(path, O_RDONLY, category);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_on(path, "fstat", errno, category);
  check_regular_file(status, path, category);
  std::shared_ptr<MappedFile> result(new MappedFile(path, category));
  result->identity_ = {status.st_dev, status.st_ino, status.st_size, modified_ns(status)};
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return result;
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.get(), 0);
  if (address == MAP_FAILED && errno == ENOMEM) fail_full(path, category);
  if (address == MAP_FAILED) fail_on(path, "mmap", errno, category);
  result->bytes_ = {static_cast<const std::byte*>(address), size};
  name_bus_errors(result->bytes_, result->path_.c_str(), static_cast<int>(category));
  return result;
}

MappedFile::~MappedFile() {
  if (bytes_.empty()) return;
  forget_bus_errors(bytes_);
  // munmap takes a mutable pointer, although the pages were mapped read-only.
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

void MappedFile::check_unchanged() const {
  struct stat status{};
  if (::stat(path_.c_str(), &status) != 0) return;
  if (status.st_dev != identity_.device || status.st_ino != identity_.inode) return;
  if (status.st_size == identity_.num_bytes && modified_ns(status) == identity_.modified_ns) return;
  throw Error(category_,
              fmt::format("{}: was written to while it was in use: it had {} bytes, now {}", path_,
                          identity_.num_bytes, status.st_size),
              "Leave files alone that a run uses; put new ones in place by renaming.");
}

}  // namespace packtrain
