// How ranks communicate. The configuration chooses among these, and parallel/communicators
// implements them.
#pragma once

namespace packtrain {

enum class Backend { kLocal, kMpi, kTcp, kNccl };

// How NCCL moves data in memory of Communicator::allocate(). The other backends have one way. Both
// symmetric paths need all ranks on one host.
// kSymmetric: kernels read and write the memory of other ranks.
// kCopyEngine: all-gathers use no SM. Reduce-scatters are copied by copy engines into scratch
// memory and summed there in the order of the ranks, with one rounding.
enum class CollectivePath { kRing, kSymmetric, kCopyEngine };

}  // namespace packtrain
