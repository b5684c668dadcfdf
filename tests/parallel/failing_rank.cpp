// Fails as told, for failure_test.cmake: failing_rank alike|different|RANK
#include <chrono>
#include <cstdlib>
#include <string>
#include <thread>

#include "parallel/world.h"

int main(int argc, char** argv) {
  const auto world = packtrain::join_world();
  const std::string who = argc > 1 ? argv[1] : "alike";
  if (who == "alike") world->fail("error: the same everywhere\n  do this", 64);
  if (who == "different") world->fail("error: unlike " + std::to_string(world->rank()), 65);
  if (world->rank() == std::atoi(who.c_str())) world->fail("error: only here", 66);
  std::this_thread::sleep_for(std::chrono::seconds(30));  // busy with something else
  return 0;
}
