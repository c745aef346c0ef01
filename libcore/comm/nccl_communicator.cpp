#include "comm/nccl_communicator.h"

#include "device/memory.h"

namespace mtl {

namespace {

/// Blocks for messages. A pipeline receives early: the operation occupies its blocks from then on until the message
/// arrives, which can be most of a step, and computation has to do without these multiprocessors.
constexpr int kMessageBlocks = 4;

/// The caller's handle to an operation.
class NcclWork final : public Work::Operation {
 public:
  NcclWork(NcclTransport& transport, std::shared_ptr<NcclOperation> operation)
      : transport_(transport), operation_(std::move(operation)) {}
  bool done() override {
    transport_.check();
    return operation_->end.done();
  }
  /// No timeout needed: the progress thread aborts operations that take too long.
  void join() override {
    operation_->end.wait();
    transport_.check();
  }
  void order(Stream& stream) override { operation_->end.order(stream); }

 private:
  NcclTransport& transport_;
  std::shared_ptr<NcclOperation> operation_;
};

}  // namespace

std::vector<NcclCommunicator::MessageLink> NcclCommunicator::message_links(int size, MessagePaths paths) {
  std::vector<MessageLink> out;
  if (paths == MessagePaths::none) return out;
  for (int parity : {0, 1}) {
    for (int member = parity; member < (paths == MessagePaths::ring ? size : size - 1); member += 2) {
      const int next = (member + 1) % size;
      out.push_back({member, next, Channel::activations});
      out.push_back({next, member, Channel::gradients});
      if (paths != MessagePaths::vee) continue;
      out.push_back({member, next, Channel::gradients});
      out.push_back({next, member, Channel::activations});
    }
  }
  return out;
}

NcclCommunicator::NcclCommunicator(NcclTransport& transport, int rank, std::vector<int> ranks, std::string name,
                                   MessagePaths paths, const std::vector<std::string>& ids)
    : transport_(transport),
      identity_{std::move(name), std::move(ranks)},
      rank_(rank),
      collectives_{&transport.open(ids[0], rank, size(), identity_.name, 0)} {
  connect_channels(message_links(size(), paths), ids);
}

/// Opens the message channels and connects their members. NCCL connects a channel's members in its first operation,
/// which blocks the host. We run all first operations here, in an order that cannot deadlock, so that network faults
/// are reported when the run starts.
void NcclCommunicator::connect_channels(const std::vector<MessageLink>& links, const std::vector<std::string>& ids) {
  Buffer memory(Device::cuda, sizeof(float));
  const Tensor value = memory.tensor(DType::f32, {1});
  Stream stream(Device::cuda);
  all_reduce(stream, value).join();
  for (std::size_t i = 0; i < links.size(); ++i) {
    const auto [from, to, channel] = links[i];
    if (rank_ != from && rank_ != to) continue;
    const bool sends = rank_ == from;
    const int peer = sends ? to : from;
    const std::string name = cat(identity_.name, " ", identity_.ranks[from], "-", identity_.ranks[to]);
    (sends ? to_ : from_)[{peer, channel}].channel =
        &transport_.open(ids[i + 1], sends ? 0 : 1, 2, name, kMessageBlocks);
    (sends ? send(stream, value, peer, channel) : receive(stream, value, peer, channel)).join();
  }
}

NcclCommunicator::CountedChannel& NcclCommunicator::channel_of(const Transfer& transfer) {
  if (!transfer.is_message()) return collectives_;
  const bool sends = transfer.kind == OperationKind::send;
  CountedChannel& out = (sends ? to_ : from_)[{transfer.peer, transfer.channel}];
  require(out.channel != nullptr, "group '", identity_.name, "': rank ", rank_,
          sends ? " sends no such messages to rank " : " receives no such messages from rank ", transfer.peer);
  return out;
}

/// Calls the library without holding the progress lock, because NCCL may block the host while the GPU's queue is full.
Work NcclCommunicator::start(Stream& stream, const Transfer& transfer) {
  CountedChannel& on = channel_of(transfer);
  const OperationLabel label = make_label(transfer, identity_, on.started, transport_.check());
  ++on.started;
  if (label.bytes == 0) return {};
  require(stream.device() == Device::cuda, label, ": the stream is on the cpu; this group needs one on a GPU");
  NcclChannel& channel = *on.channel;
  auto operation = std::make_shared<NcclOperation>(label);
  operation->begin.record(stream);
  operation->begin.order(channel.stream);
  transport_.library().start(channel.handle, channel.stream.handle(), transfer);
  operation->end.record(channel.stream);
  if (cuda::is_captured(channel.stream.handle())) {
    captured_ = true;
  } else {
    transport_.started(operation);
  }
  return Work(std::make_shared<NcclWork>(transport_, std::move(operation)));
}

void NcclCommunicator::supervise(Stream& stream, const std::function<void()>& launch) {
  auto operation = std::make_shared<NcclOperation>(
      OperationLabel{.kind = OperationKind::graph, .group = &identity_, .number = graphs_++, .at = transport_.check()});
  operation->begin.record(stream);
  launch();
  operation->end.record(stream);
  transport_.started(std::move(operation));
}

std::shared_ptr<void> NcclCommunicator::register_memory(const Tensor& memory) {
  if (memory.bytes() == 0) return {};
  return transport_.register_memory(collectives_.channel->handle, memory);
}

}  // namespace mtl
