#include "training/setup/collective_read.h"

#include "framework/device/tensor_device.h"
#include "parallel/communicators/collectives.h"
#include "training/checkpoint/manifest.h"

namespace packtrain {

std::optional<ReadFailure> collective_read(
    ShardedModel& model, Communicator& control,
    const std::function<void(std::span<const ShardView>)>& read) {
  std::optional<Error> own;
  bool is_other = false;
  try {
    if (model.ranks().saves_shards()) read(model.parameters().shards());
    wait_for_current_stream(model.parameters().state().device);
  } catch (const DamagedCheckpoint& error) {
    own = error;
  } catch (const Error& error) {
    own = error;
    is_other = true;
  }
  if (const auto failed = first_rank_error(own, control)) {
    return ReadFailure{failed->error, !any_rank(is_other, control)};
  }
  model.parameters().broadcast_first_replica();
  return std::nullopt;
}

}  // namespace packtrain
