#include "framework/core/blake2b.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

namespace packtrain {
namespace {

std::string digest(std::string_view text, std::size_t piece) {
  Blake2b hasher;
  for (; !text.empty(); text.remove_prefix(std::min(piece, text.size()))) {
    hasher.update(std::as_bytes(std::span(text.substr(0, piece))));
  }
  return hasher.hex();
}

// hashlib.blake2b(text, digest_size=16).hexdigest()
TEST(Blake2b, IsThatOfPythonForAnyPieces) {
  for (const std::size_t piece : {1, 7, 128, 129, 4096}) {
    EXPECT_EQ(digest("", piece), "cae66941d9efbd404e4d88758ea67670");
    EXPECT_EQ(digest("packtrain", piece), "df698285f76bfcb4a2a28d4a45b82849");
    EXPECT_EQ(digest(std::string(128, 'a'), piece), "1271d28e731afb57bdfba6bdaf3501be");
    EXPECT_EQ(digest(std::string(1000, 'a'), piece), "a0e5a332e985551c28a377c40f4139c3");
  }
}

}  // namespace
}  // namespace packtrain
