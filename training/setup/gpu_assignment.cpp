#include "training/setup/gpu_assignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <utility>

#include "framework/device/visible_gpus.h"

namespace packtrain {
namespace {

constexpr std::size_t kMaxGpus = 32;  // of a host
constexpr std::size_t kMaxName = 64;
constexpr std::size_t kMaxBusId = 16;

// Fixed-size form for the exchange; texts end in zeros.
struct Sent {
  std::array<char, kMaxName> host{};
  std::array<std::array<char, kMaxBusId>, kMaxGpus> bus_ids{};
  std::int32_t num_gpus = 0;
};

template <std::size_t Size>
void put(const std::string& text, std::array<char, Size>& place) {
  std::memcpy(place.data(), text.data(), std::min(text.size(), Size));
}

template <std::size_t Size>
std::string text_in(const std::array<char, Size>& place) {
  return {place.begin(), std::ranges::find(place, '\0')};
}

int num_ranks_of(const std::vector<GpusOfRank>& ranks, const std::string& host) {
  return static_cast<int>(std::ranges::count(ranks, host, &GpusOfRank::host));
}

// Why this rank has no GPU.
std::string lack_of(const std::vector<GpusOfRank>& ranks, std::size_t rank) {
  const GpusOfRank& own = ranks[rank];
  std::string begin =
      fmt::format("{} ranks were started on host {}, which has {} GPUs for rank {}",
                  num_ranks_of(ranks, own.host), own.host, own.visible.size(), rank);
  for (std::size_t other = 0; other < rank && !own.visible.empty(); ++other) {
    if (ranks[other].host != own.host || ranks[other].visible != own.visible) continue;
    return fmt::format("{}: ranks {} and {} would share GPU {}", begin, other, rank,
                       own.visible.front());
  }
  return begin;
}

}  // namespace

std::vector<std::optional<int>> assign_gpus(const std::vector<GpusOfRank>& ranks) {
  std::map<std::pair<std::string, std::vector<std::string>>, std::size_t> taken;
  std::vector<std::optional<int>> indices;
  for (const GpusOfRank& rank : ranks) {
    const std::size_t index = taken[{rank.host, rank.visible}]++;
    indices.emplace_back();
    if (index < rank.visible.size()) indices.back() = static_cast<int>(index);
  }
  return indices;
}

std::string find_shared_gpu(const std::vector<GpusOfRank>& ranks) {
  const std::vector<std::optional<int>> indices = assign_gpus(ranks);
  std::map<std::pair<std::string, std::string>, std::size_t> owners;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const GpusOfRank& own = ranks[rank];
    if (!indices[rank]) return lack_of(ranks, rank);
    const std::string& bus_id = own.visible[static_cast<std::size_t>(*indices[rank])];
    if (bus_id.empty()) continue;
    const auto [place, is_first] = owners.try_emplace({own.host, bus_id}, rank);
    if (!is_first) {
      return fmt::format("ranks {} and {} on host {} would share GPU {}", place->second, rank,
                         own.host, bus_id);
    }
  }
  return "";
}

std::vector<GpusOfRank> gather_gpus(World& world) {
  const std::vector<std::string> visible = visible_gpus();
  Sent mine;
  put(world.host(), mine.host);
  mine.num_gpus = static_cast<std::int32_t>(std::min(visible.size(), kMaxGpus));
  for (std::size_t i = 0; i < static_cast<std::size_t>(mine.num_gpus); ++i) {
    put(visible[i], mine.bus_ids[i]);
  }
  std::vector<Sent> all(static_cast<std::size_t>(world.size()));
  world.control().all_gather(&mine, all.data(), sizeof mine, DataType::kUInt8, nullptr);
  std::vector<GpusOfRank> ranks;
  for (const Sent& sent : all) {
    ranks.push_back({text_in(sent.host), {}});
    for (std::size_t i = 0; i < static_cast<std::size_t>(sent.num_gpus); ++i) {
      ranks.back().visible.push_back(text_in(sent.bus_ids[i]));
    }
  }
  return ranks;
}

}  // namespace packtrain
