#include "parallel/sharding/model_parameters.h"

#include <ATen/core/grad_mode.h>

namespace packtrain {

ModelParameters::ModelParameters(const UnitTable& table, const SlotTable& slots,
                                 const ShardRanks& ranks, ShardedStorage& storage,
                                 ShardingStreams& streams, Device& device)
    : table_(table),
      slots_(slots),
      ranks_(ranks),
      storage_(storage),
      streams_(streams),
      device_(device) {}

std::unique_ptr<MatrixExchange> ModelParameters::make_matrix_exchange(
    const IsOrthogonalised& choose, at::ScalarType type) {
  const auto matrices = place_matrices(table_, choose, ranks_.mesh().data_parallel_size());
  return std::make_unique<MatrixExchange>(table_, matrices, ranks_, streams_, device_, type);
}

std::unique_ptr<StateStream> ModelParameters::make_state_stream(std::int64_t slot_bytes) {
  return std::make_unique<StateStream>(device_, streams_, slot_bytes);
}

void ModelParameters::weights_changed() {
  streams_.compute->run([this](StreamHandle) {
    const at::NoGradGuard no_grad;
    storage_.owned().encode_master();
    storage_.scales().find(table_, storage_.owned());
  });
  write_scales();
  if (!slots_.gathers()) return;
  for (int unit = 0; unit < slots_.num_units; ++unit) record_updated(unit);
}

void ModelParameters::write_scales() {
  WeightScales& scales = storage_.scales();
  if (scales.empty()) return;
  ranks_.max(scales.amax(), *streams_.compute);
  streams_.compute->run([&](StreamHandle) { scales.write(); });
}

void ModelParameters::begin_update(const at::Tensor& skip) {
  if (storage_.scales().empty()) return;
  streams_.compute->run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    storage_.scales().clear_trained(skip);
  });
}

void ModelParameters::end_update() {
  write_scales();
  for (int unit = 0; slots_.gathers() && unit < slots_.num_units; ++unit) {
    if (table_.units[unit].gathers_codes()) record_updated(unit);
  }
}

void ModelParameters::unit_updated(int unit) {
  if (!table_.units[unit].gathers_codes()) record_updated(unit);
}

void ModelParameters::record_updated(int unit) {
  streams_.compute->record(*streams_.events[slots_.updated(unit)]);
}

void ModelParameters::broadcast_first_replica() {
  Communicator* replicas = ranks_.replicas();
  if (replicas == nullptr) return;
  streams_.compute->run([this, replicas](StreamHandle handle) {
    for (int unit = 0; unit < slots_.num_units; ++unit) {
      for (const at::Tensor& part : storage_.owned().of_unit(unit)) {
        const at::NoGradGuard no_grad;
        for_each_on_device(part, storage_.owned().flat().device, [&](const at::Tensor& on_device) {
          replicas->broadcast(on_device.data_ptr(), on_device.nbytes(), 0, handle);
          return true;  // written
        });
      }
    }
  });
  streams_.compute->synchronize();
}

}  // namespace packtrain
