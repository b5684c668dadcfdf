#include "launch/doctor/probe_watch.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "framework/core/error.h"

namespace packtrain {

double probe_limit_s(int num_ranks) {
  return 60 + num_ranks / 20.0;
}

ProbeWatch::ProbeWatch(const World& world, double limit_s)
    : deadline_(std::chrono::duration<double>(limit_s),
                [this, who = fmt::format("rank {} on {}", world.rank(), world.host()), limit_s] {
                  const std::scoped_lock lock(mutex_);
                  const std::string text =
                      fmt::format("packtrain doctor: BROKEN: after {:.0f} s {} is still at: {}\n",
                                  limit_s, who, check_);
                  std::fputs(text.c_str(), stderr);
                  std::_Exit(static_cast<int>(ErrorCategory::kHang));
                }) {}

void ProbeWatch::begin(const std::string& check) {
  const std::scoped_lock lock(mutex_);
  check_ = check;
}

}  // namespace packtrain
