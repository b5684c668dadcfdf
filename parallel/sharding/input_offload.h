// Inputs of blocks in host memory, from forward to backward (memory.offload). They are copied to
// the host during the forward of the next blocks. They are copied back during the backward of the
// next block. Only the inputs of a few blocks are on the device at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "framework/device/device.h"
#include "models/block/block.h"
#include "parallel/sharding/sharding_streams.h"

namespace packtrain {

// Inputs that are on the device only because they are being copied to the host.
inline constexpr std::size_t kMaxInputsInFlight = 2;

class InputOffload {
 public:
  // Device and streams must outlive it. Streams may be made later.
  InputOffload(Device& device, ShardingStreams& streams, std::size_t num_blocks);

  // After the forward of the block: takes the tape's input. Does nothing when it has none.
  void save(int block, Tape& tape);
  // Before the backward of the block: gives the input back if it was taken. Starts to copy the
  // previous block's back.
  void restore(int block, Tape& tape);
  // Forgets all inputs, when their backward does not run.
  void clear();

 private:
  struct Input {
    HostBuffer memory;  // kept for the next micro-batch
    at::Tensor on_host;
    at::Tensor on_device;
    bool is_saved = false;
    std::unique_ptr<Event> made;    // on_device has memory, or its values
    std::unique_ptr<Event> copied;  // the latest copy, to or from the host
  };

  Input& input(int block) { return inputs_.at(static_cast<std::size_t>(block)); }
  Stream& compute() { return *streams_.compute; }
  void hold_memory(Input& input);
  void copy_after_compute(Input& input, const at::Tensor& from, const at::Tensor& to);
  void free_after_copy(Input& input);
  void fetch(Input& input);

  Device& device_;
  ShardingStreams& streams_;
  std::vector<Input> inputs_;  // by block
  std::deque<int> in_flight_;  // blocks whose inputs are still on the device after save()
  std::unique_ptr<Stream> copy_;
};

}  // namespace packtrain
