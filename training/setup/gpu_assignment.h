// Assigns a GPU to each rank from the GPUs that every rank sees.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "parallel/communicators/world.h"

namespace packtrain {

struct GpusOfRank {
  std::string host;
  std::vector<std::string> visible;  // PCI bus ids, in CUDA's order
};

// Among ranks on one host that see the same GPUs, the i-th rank takes the i-th GPU. Ranks may see
// all GPUs, or each its own, as Slurm, Kubernetes and CUDA_VISIBLE_DEVICES set them.
// [rank]: index into the GPUs that the rank sees; nothing when it sees too few.
std::vector<std::optional<int>> assign_gpus(const std::vector<GpusOfRank>& ranks);

// Why ranks cannot have a GPU each: one sees none, or two would share one (with the rank numbers).
// "" when every rank has one. The same on every rank.
std::string find_shared_gpu(const std::vector<GpusOfRank>& ranks);

// The GPUs that every rank of the world sees, by rank. Collective.
std::vector<GpusOfRank> gather_gpus(World& world);

}  // namespace packtrain
