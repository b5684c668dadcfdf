#include "framework/core/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>

namespace packtrain {
namespace {

// Maximum size of one write, so that sizes fit all types. Linux itself stops at 2 GiB.
constexpr std::size_t kMaxWriteBytes = std::size_t{1} << 30U;

std::size_t regular_file_size(const Descriptor& file, const std::string& path,
                              ErrorCategory category) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_on(path, "fstat", errno, category);
  check_regular_file(status, path, category);
  return static_cast<std::size_t>(status.st_size);
}

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

}  // namespace

OutputFile::OutputFile(std::string path, Mode mode, ErrorCategory category)
    : path_(std::move(path)), category_(category) {
  const int flags = mode == Mode::kCreate ? O_TRUNC : O_APPEND;
  descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0666);
  if (descriptor_ < 0) fail("open");
}

OutputFile::~OutputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void OutputFile::fail(const char* call) const {
  fail_on(path_, call, errno, category_);
}

void OutputFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::write(descriptor_, bytes.data(), std::min(bytes.size(), kMaxWriteBytes));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("write");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
}

void OutputFile::write(std::string_view text) {
  write(std::as_bytes(std::span(text)));
}

void OutputFile::write_at(std::size_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, bytes.data(), std::min(bytes.size(), kMaxWriteBytes),
                 static_cast<off_t>(offset));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("pwrite");
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += static_cast<std::size_t>(written);
  }
}

std::size_t OutputFile::size() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) fail("fstat");
  return static_cast<std::size_t>(status.st_size);
}

void OutputFile::truncate(std::size_t size) {
  if (::ftruncate(descriptor_, static_cast<off_t>(size)) != 0) fail("ftruncate");
}

void OutputFile::sync() {
  if (::fsync(descriptor_) != 0) fail("fsync");
}

void OutputFile::close() {
  // On Linux the descriptor is closed even when close() returns an error.
  if (::close(std::exchange(descriptor_, -1)) != 0) fail("close");
}

std::string read_text(const std::string& path, ErrorCategory category, std::size_t max_bytes) {
  const Descriptor file(path, O_RDONLY, category);
  const auto check = [&](std::size_t size) {
    if (size <= max_bytes) return;
    throw Error(category, fmt::format("{}: has {} bytes or more, at most {} are read", path, size,
                                      max_bytes));
  };
  const std::size_t size = regular_file_size(file, path, category);
  check(size);
  // The size is a first guess: files in /proc have size 0, and other files can grow.
  std::string text(size + 1, '\0');
  std::size_t length = 0;
  for (;;) {
    check(length);
    if (length == text.size()) text.resize(2 * text.size());
    const ssize_t got = ::read(file.get(), text.data() + length, text.size() - length);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_on(path, "read", errno, category);
    if (got == 0) break;
    length += static_cast<std::size_t>(got);
  }
  text.resize(length);
  return text;
}

void write_text_atomically(const std::string& path, std::string_view text, ErrorCategory category) {
  replace_atomically(path, category, [&](OutputFile& file) { file.write(text); });
}

void replace_atomically(const std::string& path, ErrorCategory category,
                        const std::function<void(OutputFile&)>& write) {
  const std::string temporary = path + ".tmp";
  OutputFile file(temporary, OutputFile::Mode::kCreate, category);
  write(file);
  file.sync();
  file.close();
  if (::rename(temporary.c_str(), path.c_str()) != 0) fail_on(path, "rename", errno, category);
  sync_folder(parent_of(path), category);
}

std::size_t read_at(const Descriptor& file, const std::string& path, std::uint64_t begin,
                    std::span<char> bytes, ErrorCategory category) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t got = ::pread(file.get(), bytes.data() + done, bytes.size() - done,
                                static_cast<off_t>(begin + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_on(path, "pread", errno, category);
    if (got == 0) break;
    done += static_cast<std::size_t>(got);
  }
  return done;
}

void make_folders(const std::string& path, ErrorCategory category) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) {
    throw Error(category, fmt::format("{}: cannot make the folder: {}", path, error.message()));
  }
}

void sync_folder(const std::string& path, ErrorCategory category) {
  const Descriptor folder(path, O_RDONLY | O_DIRECTORY, category);
  if (::fsync(folder.get()) != 0) fail_on(path, "fsync", errno, category);
}

}  // namespace packtrain
