#include "parallel/sharding/input_offload.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "framework/device/tensor_device.h"

namespace packtrain {

InputOffload::InputOffload(Device& device, ShardingStreams& streams, std::size_t num_blocks)
    : device_(device),
      streams_(streams),
      inputs_(num_blocks),
      copy_(device.make_stream(StreamKind::kCopy)) {
  for (Input& input : inputs_) {
    input.made = device.make_event();
    input.copied = device.make_event();
  }
}

void InputOffload::save(int block, Tape& tape) {
  Input& saved = input(block);
  saved.on_device = tape.take_input();
  if (!saved.on_device.defined()) return;
  saved.is_saved = true;
  hold_memory(saved);
  copy_after_compute(saved, saved.on_device, saved.on_host);
  in_flight_.push_back(block);
  if (in_flight_.size() <= kMaxInputsInFlight) return;
  free_after_copy(input(in_flight_.front()));
  in_flight_.pop_front();
}

void InputOffload::restore(int block, Tape& tape) {
  Input& saved = input(block);
  if (!saved.is_saved) return;
  if (!saved.on_device.defined()) fetch(saved);
  std::erase(in_flight_, block);
  compute().wait(*saved.copied);
  tape.return_input(std::exchange(saved.on_device, {}));
  saved.is_saved = false;
  if (block == 0) return;
  Input& next = input(block - 1);
  if (next.is_saved && !next.on_device.defined()) fetch(next);
}

void InputOffload::clear() {
  in_flight_.clear();
  for (Input& saved : inputs_) {
    if (saved.on_device.defined()) free_after_copy(saved);
    saved.is_saved = false;
  }
}

// The first micro-batch gets what it needs, because a run's are often equal in size.
void InputOffload::hold_memory(Input& input) {
  const at::Tensor& x = input.on_device;
  const std::size_t size = x.nbytes();
  if (input.memory.size < size) {
    const std::size_t more = input.memory.size + input.memory.size / 4;
    input.copied->synchronize();
    input.memory = {};
    input.memory = device_.allocate_host(std::max(size, more));
  }
  input.on_host = at::from_blob(input.memory.data, x.sizes(), at::TensorOptions(x.scalar_type()));
}

void InputOffload::copy_after_compute(Input& input, const at::Tensor& from, const at::Tensor& to) {
  compute().record(*input.made);
  copy_->wait(*input.made);
  copy_->run([from, to](StreamHandle) {
    const at::NoGradGuard no_grad;
    to.copy_(from, /*non_blocking=*/true);
  });
  copy_->record(*input.copied);
}

// The memory belongs to the compute stream, whose later work may use it.
void InputOffload::free_after_copy(Input& input) {
  compute().wait(*input.copied);
  input.on_device = at::Tensor();
}

void InputOffload::fetch(Input& input) {
  compute().run([&](StreamHandle) {
    const auto options =
        at::TensorOptions(input.on_host.scalar_type()).device(tensor_device(device_));
    input.on_device = at::empty(input.on_host.sizes(), options);
  });
  copy_after_compute(input, input.on_host, input.on_device);
}

}  // namespace packtrain
