// Digests are of the bytes that a rank hands to the system, not of what the system gives back.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <vector>

#include "tests/helpers/temporary_folder.h"
#include "tests/training/checkpoint/sample_shards.h"
#include "training/checkpoint/checkpoint.h"

namespace {

// The bytes of a write that are changed on their way: of the first write that has as many.
std::atomic<std::size_t> g_spoilt_size{0};

}  // namespace

// This program's write() is called instead of the library's.
extern "C" ssize_t write(int descriptor, const void* data, std::size_t size) {
  using Write = ssize_t (*)(int, const void*, std::size_t);
  static const auto kWrite = reinterpret_cast<Write>(::dlsym(RTLD_NEXT, "write"));
  if (size == 0 || size != g_spoilt_size.load()) return kWrite(descriptor, data, size);
  g_spoilt_size = 0;
  std::vector<char> spoilt(size);
  std::memcpy(spoilt.data(), data, size);
  spoilt[size / 2] = static_cast<char>(spoilt[size / 2] ^ 1);
  return kWrite(descriptor, spoilt.data(), size);
}

namespace packtrain::test {
namespace {

TEST(WrittenBytes, ThatChangeOnTheirWayToTheDiskAreNotTakenForTheSavedOnes) {
  const TemporaryFolder root;
  g_spoilt_size = 28 * sizeof(float);  // a tensor of 'embed'
  const std::string folder = save_sample(root.path(), 1);
  ASSERT_EQ(g_spoilt_size.load(), 0U) << "nothing was spoilt";
  const auto shards = sample_shards(0, 1, false);
  const Error error = error_of([&] { load_checkpoint(folder, shards, true); });
  EXPECT_NE(error.message().find("block 0 of 'weight/embed@0' has the digest"), std::string::npos)
      << error.message();
}

}  // namespace
}  // namespace packtrain::test
