#include "tests/fuzz/input_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

namespace packtrain::fuzz {
namespace {

void write_all(int descriptor, std::string_view bytes) {
  require(::ftruncate(descriptor, 0) == 0, "ftruncate");
  require(::pwrite(descriptor, bytes.data(), bytes.size(), 0) == std::ssize(bytes), "pwrite");
}

}  // namespace

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz: not true: %s\n", what);
  std::abort();
}

InputFile::InputFile()
    : descriptor_(::memfd_create("input", MFD_CLOEXEC)),
      path_("/proc/self/fd/" + std::to_string(descriptor_)) {
  require(descriptor_ >= 0, "memfd_create");
}

InputFile::~InputFile() {
  ::close(descriptor_);
}

void InputFile::write(std::string_view bytes) {
  write_all(descriptor_, bytes);
}

InputFolder::InputFolder() {
  std::string path = "/dev/shm/packtrain-fuzz-XXXXXX";
  require(::mkdtemp(path.data()) != nullptr, "mkdtemp");
  path_ = path;
}

InputFolder::~InputFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void InputFolder::write(const std::string& name, std::string_view bytes) const {
  const int descriptor = ::open((path_ + "/" + name).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  require(descriptor >= 0, "open");
  write_all(descriptor, bytes);
  ::close(descriptor);
}

}  // namespace packtrain::fuzz
