#include "launch/doctor/exchange.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "framework/support/error.h"

namespace packtrain {

std::vector<std::string> gather_texts(World& world, const std::string& text) {
  Communicator& control = world.control();
  auto longest = static_cast<std::int64_t>(text.size());
  const std::int64_t length = longest;
  control.all_reduce(&longest, 1, DataType::kInt64, ReduceOp::kMax, nullptr);
  // One block a rank, all of one size: its length, then the text.
  std::vector<char> block(sizeof length + static_cast<std::size_t>(longest));
  std::memcpy(block.data(), &length, sizeof length);
  std::ranges::copy(text, block.begin() + sizeof length);
  const bool is_read = world.rank() == 0;
  std::vector<char> blocks(is_read ? block.size() * static_cast<std::size_t>(world.size()) : 0);
  control.gather(block.data(), blocks.data(), block.size(), DataType::kUInt8, 0);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < blocks.size(); at += block.size()) {
    std::int64_t size = 0;
    std::memcpy(&size, &blocks[at], sizeof size);
    texts.emplace_back(&blocks[at] + sizeof size, static_cast<std::size_t>(size));
  }
  return texts;
}

std::string share_text(World& world, std::string text) {
  auto size = static_cast<std::int64_t>(text.size());
  world.control().broadcast(&size, sizeof size, 0, nullptr);
  text.resize(static_cast<std::size_t>(size));
  if (size > 0) world.control().broadcast(text.data(), text.size(), 0, nullptr);
  return text;
}

double probe_limit_s(int num_ranks) {
  return 60 + num_ranks / 20.0;
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
