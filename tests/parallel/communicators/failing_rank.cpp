// Fails as its argument says, for failure_test.cmake: failing_rank same|different|RANK
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

#include "framework/core/error.h"
#include "parallel/communicators/world.h"

namespace {

int fail_as_told(const std::string& who) {
  const auto world = packtrain::join_world();
  if (who == "same") world->fail("error: the same everywhere\n  do this", 64);
  if (who == "different") world->fail("error: unlike " + std::to_string(world->rank()), 65);
  if (std::to_string(world->rank()) == who) world->fail("error: only here", 66);
  std::this_thread::sleep_for(std::chrono::seconds(150));  // busy with something else
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return fail_as_told(argc > 1 ? argv[1] : "same");
  } catch (const packtrain::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return error.exit_code();
  }
}
