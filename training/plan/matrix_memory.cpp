#include "training/plan/matrix_memory.h"

#include <algorithm>

#include "parallel/sharding/matrix_exchange.h"
#include "training/optimizers/newton_schulz.h"
#include "training/optimizers/parameter_groups.h"
#include "training/steps/factored_moments.h"

namespace packtrain {
namespace {

std::int64_t workspace_bytes(const ExchangeLoad& load, const ProcessMesh& mesh,
                             at::ScalarType type) {
  std::int64_t most = 0;
  for (const MatrixBatch& batch : load.batches) {
    most = std::max(most, newton_schulz_bytes(batch.count, batch.rows, batch.columns, type));
  }
  const auto width = static_cast<std::int64_t>(at::elementSize(type));
  return most + (mesh.shard.size > 1 ? load.incoming_numel * width : 0);
}

// Of Adafactor's sums, and of the values that one operator takes.
MatrixMemory factored_memory(const UnitTable& table, const ParameterGroups& groups) {
  constexpr std::int64_t kTemporaries = 4;  // float32
  std::vector<const ParameterSpec*> factored;
  std::int64_t largest = 0;
  for (const auto& [name, spec] : parameters_by_name(table)) {
    if (!spec->trainable || !groups.factors(spec->optimizer)) continue;
    factored.push_back(spec);
    largest = std::max(largest, std::min(spec->numel(), kFactoredElements));
  }
  return {factored_sum_bytes(factored),
          kTemporaries * largest * static_cast<std::int64_t>(sizeof(float))};
}

}  // namespace

MatrixMemory matrix_memory(const UnitTable& table, const OptimizerSection& optimizer,
                           int shard_size, int num_ranks, DeviceKind device) {
  const ParameterGroups groups(optimizer);
  const std::vector<PlacedMatrix> matrices = place_matrices(
      table, [&](const ParameterSpec& spec) { return groups.orthogonalises(spec.optimizer); },
      num_ranks);
  const at::ScalarType type = exchanged_type(device == DeviceKind::kCuda);
  const ExchangeLoads loads(table, matrices, shard_size);
  MatrixMemory memory;
  for (int rank = 0; rank < num_ranks && !matrices.empty(); ++rank) {
    const ProcessMesh mesh{.replicate = {num_ranks / shard_size, rank / shard_size},
                           .shard = {shard_size, rank % shard_size}};
    const std::vector<ExchangeLoad> of_rank = loads.of(rank);
    memory.buffers = std::max(memory.buffers, exchange_bytes(of_rank, mesh, type));
    for (const ExchangeLoad& load : of_rank) {
      memory.workspace = std::max(memory.workspace, workspace_bytes(load, mesh, type));
    }
  }
  const MatrixMemory factored = factored_memory(table, groups);
  if (matrices.empty() && factored.buffers > 0) {
    memory.buffers_text = "Adafactor's sums of rows and columns";
    memory.workspace_text = "Adafactor's updates, beyond the activations that are free then";
  }
  memory.buffers += factored.buffers;
  memory.workspace = std::max(memory.workspace, factored.workspace);
  return memory;
}

}  // namespace packtrain
