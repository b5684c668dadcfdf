// Which GPU each rank takes, from what every rank sees.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/world.h"

namespace packtrain {

struct GpusOfRank {
  std::string host;
  std::vector<std::string> visible;  // PCI bus ids, in CUDA's order
};

// Of ranks on one host that see the same GPUs the i-th takes the i-th of them: all may see all, or
// each one its own, as Slurm, Kubernetes and CUDA_VISIBLE_DEVICES show them.
// [rank]: the index in what it sees; nothing where it sees too few.
std::vector<std::optional<int>> assign_gpus(const std::vector<GpusOfRank>& ranks);

// Why ranks cannot have a GPU each: one sees none, or two would share one, by number; "" where all
// have one. The same on every rank.
std::string find_shared_gpu(const std::vector<GpusOfRank>& ranks);

// What every rank of the world sees, by rank. Collective.
std::vector<GpusOfRank> gather_gpus(World& world);

}  // namespace packtrain
