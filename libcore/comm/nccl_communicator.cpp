#include "comm/nccl_communicator.h"

#include "comm/rank_sums.h"
#include "device/memory.h"

namespace mtl {

namespace {

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

std::vector<std::pair<int, int>> NcclCommunicator::message_pairs(int size) {
  std::vector<std::pair<int, int>> out;
  for (int parity : {0, 1}) {
    for (int member = parity; member < (size == 2 ? 1 : size); member += 2) {
      out.emplace_back(member, (member + 1) % size);
      out.emplace_back((member + 1) % size, member);
    }
  }
  return out;
}

NcclCommunicator::NcclCommunicator(NcclTransport& transport, int rank, std::vector<int> ranks, std::string name,
                                   const std::vector<std::string>& ids)
    : transport_(transport),
      identity_{std::move(name), std::move(ranks)},
      rank_(rank),
      collectives_(transport.open(ids[0], rank, size(), identity_.name)) {
  connect_channels(ids);
}

/// Opens the message channels and connects their members. NCCL connects a channel's members in its first operation,
/// which blocks the host. We run all first operations here, in an order that cannot deadlock, so that network faults
/// are reported when the run starts.
void NcclCommunicator::connect_channels(const std::vector<std::string>& ids) {
  Buffer memory(Device::cuda, sizeof(float));
  const Tensor value = memory.tensor(DType::f32, {1});
  Stream stream(Device::cuda);
  all_reduce(stream, value).join();
  const auto pairs = message_pairs(size());
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
    const auto [from, to] = pairs[i];
    if (rank_ != from && rank_ != to) continue;
    const bool sends = rank_ == from;
    const int peer = sends ? to : from;
    const std::string name = cat(identity_.name, " ", identity_.ranks[from], "-", identity_.ranks[to]);
    (sends ? to_ : from_)[peer].channel = &transport_.open(ids[i + 1], sends ? 0 : 1, 2, name);
    (sends ? send(stream, value, peer) : receive(stream, value, peer)).join();
  }
}

OperationLabel NcclCommunicator::label(OperationKind kind, const Tensor& data, int peer) {
  require(data.raw() != nullptr || data.bytes() == 0, "group '", identity_.name, "': cannot send a meta tensor");
  OperationLabel label{
      .kind = kind, .group = &identity_, .number = started_, .bytes = data.bytes(), .at = transport_.check()};
  if (peer >= 0) label.peer = identity_.ranks[peer];
  return label;
}

/// Calls start() without holding the progress lock, because NCCL may block the host while the GPU's queue is full.
template <class Start>
Work NcclCommunicator::start(Stream& stream, NcclChannel& channel, OperationLabel label, Start start) {
  if (label.bytes == 0) return {};
  require(stream.device() == Device::cuda, label.text(), ": the stream is on the cpu; this group needs one on a GPU");
  auto operation = std::make_shared<NcclOperation>(label);
  operation->begin.record(stream);
  operation->begin.order(channel.stream);
  start(transport_.library(), channel.handle, channel.stream.handle());
  operation->end.record(channel.stream);
  transport_.started(operation, cuda::is_captured(channel.stream.handle()));
  return Work(std::make_shared<NcclWork>(transport_, std::move(operation)));
}

Work NcclCommunicator::all_reduce(Stream& stream, Tensor data) {
  check_summable(data);
  OperationLabel operation_label = label(OperationKind::all_reduce, data);
  ++started_;
  return start(stream, collectives_, operation_label,
               [&](NcclLibrary& nccl, NcclHandle group, cuda::StreamHandle on) { nccl.all_reduce(group, on, data); });
}

Work NcclCommunicator::all_gather(Stream& stream, Tensor out, Tensor in) {
  check_parts(identity_.name, out, in, size());
  OperationLabel operation_label = label(OperationKind::all_gather, out);
  ++started_;
  return start(stream, collectives_, operation_label, [&](NcclLibrary& nccl, NcclHandle group, cuda::StreamHandle on) {
    nccl.all_gather(group, on, out, in);
  });
}

Work NcclCommunicator::reduce_scatter(Stream& stream, Tensor out, Tensor in) {
  check_parts(identity_.name, in, out, size());
  check_summable(in);
  OperationLabel operation_label = label(OperationKind::reduce_scatter, in);
  ++started_;
  return start(stream, collectives_, operation_label, [&](NcclLibrary& nccl, NcclHandle group, cuda::StreamHandle on) {
    nccl.reduce_scatter(group, on, out, in);
  });
}

Work NcclCommunicator::broadcast(Stream& stream, Tensor data, int root) {
  require(root >= 0 && root < size(), "group '", identity_.name, "' of ", size(), " has no rank ", root);
  OperationLabel operation_label = label(OperationKind::broadcast, data, root);
  ++started_;
  return start(stream, collectives_, operation_label, [&](NcclLibrary& nccl, NcclHandle group, cuda::StreamHandle on) {
    nccl.broadcast(group, on, data, root);
  });
}

Work NcclCommunicator::send(Stream& stream, Tensor data, int peer) {
  Messages& messages = to_[peer];
  require(messages.channel != nullptr, "group '", identity_.name, "': rank ", rank_, " sends no messages to rank ",
          peer);
  OperationLabel operation_label = label(OperationKind::send, data, peer);
  operation_label.number = messages.started++;
  return start(stream, *messages.channel, operation_label,
               [&](NcclLibrary& nccl, NcclHandle group, cuda::StreamHandle on) { nccl.send(group, on, data, 1); });
}

Work NcclCommunicator::receive(Stream& stream, Tensor data, int peer) {
  Messages& messages = from_[peer];
  require(messages.channel != nullptr, "group '", identity_.name, "': rank ", rank_, " receives no messages from rank ",
          peer);
  OperationLabel operation_label = label(OperationKind::receive, data, peer);
  operation_label.number = messages.started++;
  return start(stream, *messages.channel, operation_label,
               [&](NcclLibrary& nccl, NcclHandle group, cuda::StreamHandle on) { nccl.receive(group, on, data, 0); });
}

std::shared_ptr<void> NcclCommunicator::register_memory(const Tensor& memory) {
  if (memory.bytes() == 0) return {};
  return transport_.register_memory(collectives_.handle, memory);
}

}  // namespace mtl
