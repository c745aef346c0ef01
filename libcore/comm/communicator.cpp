#include "comm/communicator.h"

#include "base/count_of.h"
#include "comm/rank_sums.h"
#include "device/copy.h"

namespace mtl {

namespace {

/// Begins a message about an operation of a group.
std::string describe(OperationKind kind, const Communicator& group) {
  return cat(name_of(kind), " in group '", group.name(), "' of ", count_of(group.size(), "rank"), ": ");
}

/// Throws unless `whole` has the same dtype as `part` and as many times its elements as there are ranks.
void check_parts(OperationKind kind, const Communicator& group, const Tensor& whole, const Tensor& part) {
  if (whole.numel() == part.numel() * group.size() && whole.dtype() == part.dtype()) return;
  fail(Exit::failure, describe(kind, group), whole.shape(), " ", name_of(whole.dtype()), " is not ", group.size(),
       " times ", part.shape(), " ", name_of(part.dtype()));
}

}  // namespace

Work Communicator::all_reduce(Stream& stream, Tensor data) {
  check_summable(data);
  return start(stream, {OperationKind::all_reduce, data, data});
}

Work Communicator::all_gather(Stream& stream, Tensor out, Tensor in) {
  check_parts(OperationKind::all_gather, *this, out, in);
  return start(stream, {OperationKind::all_gather, out, in});
}

Work Communicator::reduce_scatter(Stream& stream, Tensor out, Tensor in) {
  check_parts(OperationKind::reduce_scatter, *this, in, out);
  check_summable(in);
  return start(stream, {OperationKind::reduce_scatter, out, in});
}

Work Communicator::broadcast(Stream& stream, Tensor data, int root) {
  if (root < 0 || root >= size())
    fail(Exit::failure, describe(OperationKind::broadcast, *this), "it has no rank ", root);
  return start(stream, {OperationKind::broadcast, data, data, root});
}

Work Communicator::start_message(Stream& stream, const Transfer& transfer) {
  const int peer = transfer.peer;
  if (peer < 0 || peer >= size() || peer == rank())
    fail(Exit::failure, describe(transfer.kind, *this), "no peer ", peer);
  return start(stream, transfer);
}

Work Communicator::send(Stream& stream, Tensor data, int peer, Channel channel) {
  return start_message(stream, {OperationKind::send, data, data, peer, channel});
}

Work Communicator::receive(Stream& stream, Tensor data, int peer, Channel channel) {
  return start_message(stream, {OperationKind::receive, data, data, peer, channel});
}

Work SelfCommunicator::start(Stream& stream, const Transfer& transfer) {
  copy_on_device(stream, transfer.out, transfer.in);
  return {};
}

}  // namespace mtl
