// A group of ranks over NCCL: tensors are in the memory of the ranks' GPUs. Each operation runs on a stream of the
// group's own, after the earlier work of the caller's stream; Work::wait() orders streams without blocking the host,
// and Work::join() blocks.
//
// Differences from ranks over MPI:
//   - Sums are added in the order of NCCL's algorithm, not in that of ranks, and sums of bf16 and f16 are rounded at
//     each step from rank to rank. All members get the same bits, and a run of the same layout on as many hosts of the
//     same kind repeats them: algorithms that add in the network's switches are off unless NCCL_ALGO is set
//     (comm/nccl_environment.h).
//   - Only neighbors of a pipeline exchange messages, and each ordered pair of them has its own channel, so that a
//     receive that is started early delays no send. Other groups have no messages.
//   - Operations may be captured in a graph. Their Work must be waited for within the capture. The watchdog does not
//     name captured operations.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "comm/nccl_transport.h"

namespace mtl {

class NcclCommunicator final : public Communicator {
 public:
  /// `ids`: one unique id for the group and, if its members exchange messages, one for each of message_pairs().
  /// Collective over the members.
  NcclCommunicator(NcclTransport& transport, int rank, std::vector<int> ranks, std::string name,
                   const std::vector<std::string>& ids);
  NcclCommunicator(const NcclCommunicator&) = delete;

  /// Returns the ordered pairs of members that exchange messages, neighbors in the ring, in the order in which their
  /// channels are opened: first the pairs of even members with their successors, then those of odd members, so that
  /// most links connect in parallel.
  static std::vector<std::pair<int, int>> message_pairs(int size);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(identity_.ranks.size()); }
  Work all_reduce(Stream& stream, Tensor data) override;
  Work all_gather(Stream& stream, Tensor out, Tensor in) override;
  Work reduce_scatter(Stream& stream, Tensor out, Tensor in) override;
  Work broadcast(Stream& stream, Tensor data, int root) override;
  Work send(Stream& stream, Tensor data, int peer) override;
  Work receive(Stream& stream, Tensor data, int peer) override;
  std::shared_ptr<void> register_memory(const Tensor& memory) override;
  bool is_intact() const override { return transport_.is_intact(); }

 private:
  /// A channel for messages in one direction, and the number of messages started.
  struct Messages {
    NcclChannel* channel = nullptr;
    std::int64_t started = 0;
  };
  template <class Start>
  Work start(Stream& stream, NcclChannel& channel, OperationLabel label, Start start);
  OperationLabel label(OperationKind kind, const Tensor& data, int peer = -1);
  void connect_channels(const std::vector<std::string>& ids);

  NcclTransport& transport_;
  GroupIdentity identity_;
  int rank_;
  NcclChannel& collectives_;
  std::int64_t started_ = 0;
  std::map<int, Messages> to_, from_;  // by peer
};

}  // namespace mtl
