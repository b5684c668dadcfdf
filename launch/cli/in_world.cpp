#include "launch/cli/in_world.h"

#include <cstdio>
#include <exception>

#include "framework/core/error.h"
#include "launch/cli/output.h"

namespace packtrain {
namespace {

bool all_ranks_agree(int exit_code) {
  return exit_code == static_cast<int>(ErrorCategory::kStopped) ||
         exit_code == static_cast<int>(ErrorCategory::kVerify);
}

}  // namespace

int in_world(const std::function<void(World&)>& body) {
  const std::unique_ptr<World> world = join_world();
  try {
    body(*world);
    return 0;
  } catch (const std::exception& failure) {
    const Failure described = describe(failure);
    if (!all_ranks_agree(described.exit_code)) {
      world->fail(described.text, described.exit_code);
    }
    if (world->rank() == 0) std::fputs((described.text + "\n").c_str(), stderr);
    return described.exit_code;
  }
}

}  // namespace packtrain
