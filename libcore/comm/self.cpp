#include "comm/communicator.h"
#include "comm/rank_sums.h"
#include "device/copy.h"

namespace mtl {

namespace {

void copy_to_self(Stream& stream, Tensor out, Tensor in) {
  require(out.bytes() == in.bytes() && out.dtype() == in.dtype(), "group of one: cannot copy ", in.shape(), " ",
          name_of(in.dtype()), " to ", out.shape(), " ", name_of(out.dtype()));
  copy_on_device(stream, out, in);
}

}  // namespace

Work SelfCommunicator::all_reduce(Stream&, Tensor data) {
  check_summable(data);
  return {};
}

Work SelfCommunicator::all_gather(Stream& stream, Tensor out, Tensor in) {
  copy_to_self(stream, out, in);
  return {};
}

Work SelfCommunicator::reduce_scatter(Stream& stream, Tensor out, Tensor in) {
  check_summable(in);
  copy_to_self(stream, out, in);
  return {};
}

Work SelfCommunicator::broadcast(Stream&, Tensor, int) { return {}; }
Work SelfCommunicator::send(Stream&, Tensor, int, Channel) {
  fail(Exit::failure, "a group of one has no rank to send to");
}
Work SelfCommunicator::receive(Stream&, Tensor, int, Channel) {
  fail(Exit::failure, "a group of one has no rank to receive from");
}

}  // namespace mtl
