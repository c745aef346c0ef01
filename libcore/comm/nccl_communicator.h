// A group of ranks over NCCL, for tensors in GPU memory. Operations run on the group's own streams, after all earlier
// work on the caller's stream. Work::wait() orders streams without blocking the host. Work::join() blocks the host.
//
// Differences from groups over MPI:
// - NCCL's algorithm chooses the order of additions, and rounds bf16 and f16 sums at each step from rank to rank. All
//   members get the same bits. Another run gets them too if it has the same layout and the same number and kind of
//   hosts. For this, we disable algorithms that add inside network switches, unless the user sets NCCL_ALGO
//   (comm/nccl_environment.h).
// - Only the members on a pipeline's MessagePaths exchange messages. Each direction of each channel has a communicator
//   of its own, so that a receive that starts early does not delay a send. Other groups have no messages.
// - Operations can be captured in a graph. The caller must wait for their Work within the same capture, and launch the
//   graph through supervise(). The watchdog then supervises each launch, not the single operations.
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
  /// Collective over the members. `ids` contains a unique id for the group, and another id for each of
  /// message_links().
  NcclCommunicator(NcclTransport& transport, int rank, std::vector<int> ranks, std::string name, MessagePaths paths,
                   const std::vector<std::string>& ids);
  NcclCommunicator(const NcclCommunicator&) = delete;

  struct MessageLink {
    int from, to;  // members
    Channel channel;
  };
  /// Returns the links on these paths, in the order in which we open them. Those of an even member to the next come
  /// before those of an odd one, so that most links connect in parallel.
  static std::vector<MessageLink> message_links(int size, MessagePaths paths);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(identity_.ranks.size()); }
  std::string name() const override { return identity_.name; }
  std::shared_ptr<void> register_memory(const Tensor& memory) override;
  bool take_captured() override { return std::exchange(captured_, false); }
  void supervise(Stream& stream, const std::function<void()>& launch) override;
  bool is_intact() const override { return transport_.is_intact(); }

 private:
  /// A channel for collectives, or for messages in one direction, and how many have started.
  struct CountedChannel {
    NcclChannel* channel = nullptr;
    std::int64_t started = 0;
  };
  Work start(Stream& stream, const Transfer& transfer) override;
  CountedChannel& channel_of(const Transfer& transfer);
  void connect_channels(const std::vector<MessageLink>& links, const std::vector<std::string>& ids);

  NcclTransport& transport_;
  GroupIdentity identity_;
  int rank_;
  std::int64_t graphs_ = 0;  // launches that were supervised
  bool captured_ = false;
  CountedChannel collectives_;
  std::map<std::pair<int, Channel>, CountedChannel> to_, from_;  // by peer and channel
};

}  // namespace mtl
