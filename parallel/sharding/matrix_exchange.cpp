#include "parallel/sharding/matrix_exchange.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>

#include "framework/device/tensor_device.h"
#include "framework/device/trace_range.h"
#include "parallel/communicators/collective_log.h"
#include "parallel/sharding/arena.h"

namespace packtrain {
namespace {

struct BufferSizes {
  std::size_t num_slots = 0;
  std::int64_t outgoing = 0;  // elements of a slot
  std::int64_t incoming = 0;
};

// One rank sends nothing, so one slot suffices.
BufferSizes buffer_sizes(const std::vector<ExchangeLoad>& loads, const ProcessMesh& mesh) {
  const bool is_alone = mesh.shard.size * mesh.replicate.size == 1;
  BufferSizes sizes{std::min(is_alone ? 1 : kExchangeSlots, loads.size())};
  for (const ExchangeLoad& load : loads) {
    sizes.outgoing = std::max(sizes.outgoing, load.outgoing_numel);
    if (mesh.shard.size > 1) sizes.incoming = std::max(sizes.incoming, load.incoming_numel);
  }
  return sizes;
}

void copy_all(std::span<const MatrixCopy> copies, const at::Tensor& from, const at::Tensor& to) {
  for (const MatrixCopy& copy : copies) {
    to.narrow(0, copy.to, copy.numel).copy_(from.narrow(0, copy.from, copy.numel));
  }
}

void copy_back(std::span<const MatrixCopy> copies, const at::Tensor& to, const at::Tensor& from) {
  for (const MatrixCopy& copy : copies) {
    from.narrow(0, copy.from, copy.numel).copy_(to.narrow(0, copy.to, copy.numel));
  }
}

}  // namespace

std::int64_t exchange_bytes(const std::vector<ExchangeLoad>& loads, const ProcessMesh& mesh,
                            at::ScalarType type) {
  const BufferSizes sizes = buffer_sizes(loads, mesh);
  return static_cast<std::int64_t>(sizes.num_slots * at::elementSize(type)) *
         (sizes.outgoing + sizes.incoming);
}

MatrixExchange::MatrixExchange(const UnitTable& table, const std::vector<PlacedMatrix>& matrices,
                               const ShardRanks& ranks, ShardingStreams& streams, Device& device,
                               at::ScalarType type)
    : ranks_(ranks),
      mesh_(ranks.mesh()),
      streams_(streams),
      type_(type),
      buckets_(exchange_buckets(table, matrices, mesh_)) {
  allocate(device);
}

void MatrixExchange::allocate(Device& device) {
  std::vector<ExchangeLoad> loads;
  for (const ExchangeBucket& bucket : buckets_) loads.push_back(bucket.load());
  const BufferSizes sizes = buffer_sizes(loads, mesh_);
  const auto options = at::TensorOptions().dtype(type_).device(tensor_device(device));
  for (std::size_t slot = 0; slot < sizes.num_slots; ++slot) {
    slots_.push_back({at::empty({sizes.outgoing}, options),
                      mesh_.shard.size > 1 ? at::empty({sizes.incoming}, options) : at::Tensor()});
  }
  for (std::size_t bucket = 0; bucket < buckets_.size(); ++bucket) {
    events_.push_back(
        {device.make_event(), device.make_event(), device.make_event(), device.make_event()});
  }
}

at::Tensor MatrixExchange::own_section(std::size_t bucket) const {
  const auto& begin = buckets_[bucket].section_begin;
  const auto replica = static_cast<std::size_t>(mesh_.replicate.rank);
  return slots_[bucket % slots_.size()].outgoing.slice(0, begin[replica], begin[replica + 1]);
}

void MatrixExchange::run(const at::Tensor& flat, const Work& work) {
  const std::size_t ahead = std::min(kExchangeAhead, slots_.size() > 1 ? slots_.size() - 1 : 1);
  for (std::size_t b = 0; b < std::min(ahead, buckets_.size()); ++b) send(b, flat);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    work_on(b, work);
    send_back(b, flat);
    if (b + ahead < buckets_.size()) send(b + ahead, flat);
  }
}

// The slot is free when the elements of the bucket before in it have returned.
void MatrixExchange::send(std::size_t b, const at::Tensor& flat) {
  const ExchangeBucket& bucket = buckets_[b];
  const Slot& slot = slots_[b % slots_.size()];
  if (b >= slots_.size()) streams_.compute->wait(*events_[b - slots_.size()].returned);
  streams_.compute->run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const auto elements =
        std::span(bucket.elements).subspan(bucket.first_own, bucket.end_own - bucket.first_own);
    copy_all(elements, flat, slot.outgoing);
  });
  streams_.compute->record(*events_[b].packed);
  if (!bucket.exchanges) return;
  streams_.reduce->wait(*events_[b].packed);
  streams_.reduce->run([this, &bucket, &slot, sent = own_section(b)](StreamHandle stream) {
    const TraceRange range("matrices to their owners");
    const CollectiveLabel label("matrices");
    ranks_.reduce().all_to_all(sent.const_data_ptr(), bucket.send_counts,
                               slot.incoming.mutable_data_ptr(), bucket.receive_counts,
                               communicator_type(type_), stream);
  });
  streams_.reduce->record(*events_[b].arrived);
}

void MatrixExchange::work_on(std::size_t b, const Work& work) {
  const ExchangeBucket& bucket = buckets_[b];
  const Slot& slot = slots_[b % slots_.size()];
  if (bucket.exchanges) streams_.compute->wait(*events_[b].arrived);
  streams_.compute->run([&](StreamHandle) {
    const at::NoGradGuard no_grad;
    const bool is_cut = mesh_.shard.size > 1;  // else the section has the whole matrices
    const at::Tensor matrices =
        is_cut ? at::empty({bucket.incoming_numel()}, slot.outgoing.options()) : own_section(b);
    if (is_cut) copy_all(bucket.placed, slot.incoming, matrices);
    for (const MatrixBatch& batch : bucket.batches) {
      const std::int64_t numel = batch.count * batch.rows * batch.columns;
      work(matrices.narrow(0, batch.begin, numel).view({batch.count, batch.rows, batch.columns}));
    }
    if (is_cut) copy_back(bucket.placed, matrices, slot.incoming);
  });
  streams_.compute->record(*events_[b].done);
}

void MatrixExchange::send_back(std::size_t b, const at::Tensor& flat) {
  streams_.gather->wait(*events_[b].done);
  streams_.gather->run([this, b, flat](StreamHandle stream) {
    const at::NoGradGuard no_grad;
    const TraceRange range("matrices to their shards");
    const CollectiveLabel label("orthogonal matrices");
    const ExchangeBucket& bucket = buckets_[b];
    const Slot& slot = slots_[b % slots_.size()];
    if (bucket.exchanges) {
      ranks_.gather().all_to_all(slot.incoming.const_data_ptr(), bucket.receive_counts,
                                 own_section(b).mutable_data_ptr(), bucket.send_counts,
                                 communicator_type(type_), stream);
    }
    share_with_replicas(bucket, slot.outgoing, stream);
    copy_back(bucket.elements, slot.outgoing, flat);
  });
  streams_.gather->record(*events_[b].returned);
}

// Each replica has orthogonalised the matrices of its section.
void MatrixExchange::share_with_replicas(const ExchangeBucket& bucket, const at::Tensor& outgoing,
                                         StreamHandle stream) const {
  if (ranks_.replicas() == nullptr) return;
  for (int replica = 0; replica < mesh_.replicate.size; ++replica) {
    const auto r = static_cast<std::size_t>(replica);
    const at::Tensor section =
        outgoing.slice(0, bucket.section_begin[r], bucket.section_begin[r + 1]);
    if (section.numel() == 0) continue;
    ranks_.replicas()->broadcast(section.mutable_data_ptr(), section.nbytes(), replica, stream);
  }
}

void MatrixExchange::wait_for(int unit) {
  const auto after = std::ranges::upper_bound(buckets_, unit, {}, &ExchangeBucket::unit);
  if (after == buckets_.begin()) return;
  const auto last = static_cast<std::size_t>(after - buckets_.begin()) - 1;
  streams_.compute->wait(*events_[last].returned);
}

void MatrixExchange::wait_for_all() {
  if (!buckets_.empty()) streams_.compute->wait(*events_.back().returned);
}

}  // namespace packtrain
