#include "launch/doctor/exchange.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "framework/support/error.h"

namespace packtrain {
namespace {

void share_from(World& world, std::string& text, int root) {
  auto size = static_cast<std::int64_t>(text.size());
  world.control().broadcast(&size, sizeof size, root, nullptr);
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) world.control().broadcast(text.data(), text.size(), root, nullptr);
}

}  // namespace

std::vector<std::string> exchange_texts(World& world, const std::string& text) {
  std::vector<std::string> texts(static_cast<std::size_t>(world.size()));
  texts[static_cast<std::size_t>(world.rank())] = text;
  for (int root = 0; root < world.size(); ++root) {
    share_from(world, texts[static_cast<std::size_t>(root)], root);
  }
  return texts;
}

std::string share_text(World& world, std::string text) {
  share_from(world, text, 0);
  return text;
}

ProbeWatch::ProbeWatch(const World& world, double limit_s) {
  const std::string who = fmt::format("rank {} on {}", world.rank(), world.host());
  thread_ = std::thread([this, who, limit_s] {
    std::unique_lock lock(mutex_);
    const std::chrono::duration<double> limit(limit_s);
    if (done_changed_.wait_for(lock, limit, [this] { return done_; })) return;
    const std::string text = fmt::format(
        "packtrain doctor: BROKEN: after {:.0f} s {} is still at: {}\n", limit_s, who, check_);
    std::fputs(text.c_str(), stderr);
    std::_Exit(static_cast<int>(ErrorCategory::kHang));
  });
}

ProbeWatch::~ProbeWatch() {
  {
    const std::scoped_lock lock(mutex_);
    done_ = true;
  }
  done_changed_.notify_all();
  thread_.join();
}

void ProbeWatch::begin(const std::string& check) {
  const std::scoped_lock lock(mutex_);
  check_ = check;
}

}  // namespace packtrain
