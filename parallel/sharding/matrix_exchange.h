// Brings each matrix of a flat sharded buffer to one rank as a whole, and its replacement back to
// the ranks that own its elements. Work on the matrices of other units hides the communication:
//    compute: pack unit u + 2 | work on unit u        | ...
//    reduce:  all-to-all of unit u + 1, u + 2         the matrices to their owners
//    gather:  all-to-all of unit u - 1                back; then the replicas send each other
//    theirs
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "framework/device/device.h"
#include "parallel/sharding/matrix_plan.h"
#include "parallel/sharding/shard_ranks.h"
#include "parallel/sharding/sharding_streams.h"

namespace packtrain {

// Buffers of units in flight, which several ranks have.
inline constexpr std::size_t kExchangeSlots = 4;
// Units whose matrices are sent before they are worked on.
inline constexpr std::size_t kExchangeAhead = 2;

// Bytes of the buffers of an exchange of elements of `type`.
std::int64_t exchange_bytes(const std::vector<ExchangeLoad>& loads, const ProcessMesh& mesh,
                            at::ScalarType type);

class MatrixExchange {
 public:
  // Replaces the numbers of matrices [count, rows, columns] on the compute stream.
  using Work = std::function<void(const at::Tensor& matrices)>;

  // Collective. `type`: of the elements that ranks send, float32 or bfloat16. The other arguments
  // outlive it.
  MatrixExchange(const UnitTable& table, const std::vector<PlacedMatrix>& matrices,
                 const ShardRanks& ranks, ShardingStreams& streams, Device& device,
                 at::ScalarType type);

  // Collective, between calls of train and evaluate. `flat`: this rank's elements, 1-D, in the
  // layout of FlatState::master, float32 or bfloat16. Work enqueued on the compute stream has
  // written it. The elements of the matrices are replaced. Call wait_for() before reading them.
  void run(const at::Tensor& flat, const Work& work);
  // Later work of the compute stream sees the elements of all units up to this one.
  void wait_for(int unit);
  // The same for all units. Call it before the next collective on the compute stream.
  void wait_for_all();

 private:
  struct Slot {
    at::Tensor outgoing;
    at::Tensor incoming;  // undefined for one rank in a shard group
  };
  struct BucketEvents {
    std::unique_ptr<Event> packed;
    std::unique_ptr<Event> arrived;
    std::unique_ptr<Event> done;
    std::unique_ptr<Event> returned;
  };

  void allocate(Device& device);
  at::Tensor own_section(std::size_t bucket) const;
  void send(std::size_t bucket, const at::Tensor& flat);
  void work_on(std::size_t bucket, const Work& work);
  void send_back(std::size_t bucket, const at::Tensor& flat);
  void share_with_replicas(const ExchangeBucket& bucket, const at::Tensor& outgoing,
                           StreamHandle stream) const;

  const ShardRanks& ranks_;
  ProcessMesh mesh_;
  ShardingStreams& streams_;
  at::ScalarType type_;
  std::vector<ExchangeBucket> buckets_;
  std::vector<Slot> slots_;
  std::vector<BucketEvents> events_;  // [buckets]
};

}  // namespace packtrain
