// Control messages of many ranks: counted for any number of ranks in one process, or timed between
// the ranks that mpirun has started.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "framework/core/clock.h"
#include "framework/core/error.h"
#include "parallel/communicators/collective_tree.h"
#include "parallel/communicators/world.h"

namespace packtrain {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kFactsBytes = 2048;  // of a rank, in doctor
constexpr int kRepeats = 20;

// The messages that the busiest rank sends, and the largest number of ranks that one rank
// communicates with.
struct Traffic {
  std::size_t messages = 0;
  std::size_t bytes = 0;
  std::set<int> peers;

  void send(int to, std::size_t num_bytes) {
    ++messages;
    bytes += num_bytes;
    peers.insert(to);
  }
};

Traffic all_gather_traffic(int rank, int size, std::size_t bytes) {
  Traffic traffic;
  for (const GatherRound& round : all_gather_rounds(rank, size)) {
    for (const BlockRange& blocks : blocks_from(rank, round.num_blocks, size)) {
      traffic.send(round.to, blocks.num * bytes);
    }
    traffic.peers.insert(round.from);
  }
  return traffic;
}

Traffic tree_traffic(int rank, int size, std::size_t bytes, bool is_gather) {
  const TreeNode place = tree_position(rank, size, 0);
  Traffic traffic;
  if (place.parent >= 0) traffic.peers.insert(place.parent);
  if (is_gather && place.parent >= 0) traffic.send(place.parent, place.num_ranks * bytes);
  for (const TreeChild& child : place.children) {
    traffic.peers.insert(child.rank);
    if (!is_gather) traffic.send(child.rank, bytes);
  }
  return traffic;
}

void print_counted(const char* what, int size, const std::vector<Traffic>& ranks,
                   std::size_t direct_bytes) {
  Traffic most;
  std::size_t peers = 0;
  for (const Traffic& traffic : ranks) {
    most.messages = std::max(most.messages, traffic.messages);
    most.bytes = std::max(most.bytes, traffic.bytes);
    peers = std::max(peers, traffic.peers.size());
  }
  fmt::print("| {} | {} | {} / {} | {} / {} | {} / {} |\n", size, what, most.messages, size - 1,
             peers, size - 1, most.bytes, direct_bytes);
}

void count(int size) {
  const std::size_t others = static_cast<std::size_t>(size) - 1;
  std::vector<Traffic> numbers;
  std::vector<Traffic> broadcasts;
  std::vector<Traffic> facts;
  for (int rank = 0; rank < size; ++rank) {
    numbers.push_back(all_gather_traffic(rank, size, 8));
    broadcasts.push_back(tree_traffic(rank, size, 16, false));
    facts.push_back(tree_traffic(rank, size, kFactsBytes, true));
  }
  print_counted("a number agreed on", size, numbers, 8 * others);
  print_counted("a digest told to all", size, broadcasts, 16 * others);
  print_counted("2 KiB of each to rank 0", size, facts, kFactsBytes * others);
}

int num_sockets() {
  int num = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const auto target = std::filesystem::read_symlink(entry.path(), gone);
    num += static_cast<int>(target.string().starts_with("socket:"));
  }
  return num;
}

// The time of the slowest rank, or the greatest number.
double most_of(double value, World& world) {
  world.control().all_reduce(&value, 1, DataType::kFloat64, ReduceOp::kMax, nullptr);
  return value;
}

template <typename Work>
void time_control(const char* what, World& world, const Work& work) {
  world.control().barrier();
  const auto begin = Clock::now();
  work();
  const double first_s = seconds_since(begin);
  const auto again = Clock::now();
  for (int k = 0; k < kRepeats; ++k) work();
  const double usual_s = seconds_since(again) / kRepeats;
  const double most_first_s = most_of(first_s, world);
  const double most_usual_s = most_of(usual_s, world);
  const double sockets = most_of(num_sockets(), world);
  if (world.rank() != 0) return;
  fmt::print("| {} | {} | {:.1f} | {:.2f} | {:.0f} |\n", world.size(), what, most_first_s * 1e3,
             most_usual_s * 1e3, sockets);
}

void time_all(World& world, double join_s) {
  Communicator& control = world.control();
  const int before = num_sockets();
  const double slowest_s = most_of(join_s, world);
  const double most_before = most_of(before, world);
  if (world.rank() == 0) {
    fmt::print("joined within {:.2f} s, {:.0f} sockets a rank at most\n", slowest_s, most_before);
    fmt::print("| ranks | | first, ms | then, ms | sockets |\n|---|---|---|---|---|\n");
  }
  const auto size = static_cast<std::size_t>(world.size());
  std::vector<std::byte> mine(kFactsBytes);
  std::vector<std::byte> all(kFactsBytes * size);
  time_control("barrier", world, [&] { control.barrier(); });
  time_control("a number agreed on", world, [&] {
    std::int64_t number = world.rank();
    control.all_reduce(&number, 1, DataType::kInt64, ReduceOp::kMax, nullptr);
  });
  time_control("a digest told to all", world,
               [&] { control.broadcast(mine.data(), 16, 0, nullptr); });
  time_control("2 KiB of each to rank 0", world,
               [&] { control.gather(mine.data(), all.data(), mine.size(), DataType::kUInt8, 0); });
  time_control("2 KiB of each to all", world, [&] {
    control.all_gather(mine.data(), all.data(), mine.size(), DataType::kUInt8, nullptr);
  });
}

// Reads a list such as "8,64,512". Returns nothing where it cannot be read.
std::vector<int> read_numbers(std::string_view text) {
  std::vector<int> numbers;
  while (!text.empty()) {
    int number = 0;
    const auto [rest, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
    const auto used = static_cast<std::size_t>(rest - text.data());
    const bool goes_on = used < text.size() && text[used] == ',';
    if (failure != std::errc() || number < 1 || (used < text.size() && !goes_on)) return {};
    numbers.push_back(number);
    text.remove_prefix(used + (goes_on ? 1 : 0));
  }
  return numbers;
}

int run(int argc, char** argv) {
  if (argc == 1) {
    const auto begin = Clock::now();
    const auto world = join_world();
    time_all(*world, seconds_since(begin));
    return 0;
  }
  std::vector<int> sizes;
  if (argc == 3 && std::strcmp(argv[1], "--ranks") == 0) sizes = read_numbers(argv[2]);
  if (sizes.empty()) {
    throw Error(ErrorCategory::kConfig, "wanted `--ranks N,N`, or nothing under mpirun");
  }
  fmt::print("| ranks | | messages of a rank, tree / direct | peers | bytes |\n");
  fmt::print("|---|---|---|---|---|\n");
  for (const int size : sizes) count(size);
  return 0;
}

}  // namespace
}  // namespace packtrain

int main(int argc, char** argv) {
  try {
    return packtrain::run(argc, argv);
  } catch (const packtrain::Error& error) {
    fmt::print(stderr, "control_benchmark: {}\n", error.what());
    return error.exit_code();
  }
}
