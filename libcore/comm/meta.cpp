#include "comm/communicator.h"
#include "comm/rank_sums.h"

namespace mtl {

namespace {

double parts_sent(const Tensor& whole, int size) { return double(whole.bytes()) * (size - 1) / size; }

}  // namespace

Work MetaCommunicator::all_reduce(Stream&, Tensor data) {
  check_summable(data);
  sent_bytes_ += 2 * parts_sent(data, size_);
  return {};
}

Work MetaCommunicator::all_gather(Stream&, Tensor out, Tensor in) {
  check_parts("planned", out, in, size_);
  sent_bytes_ += parts_sent(out, size_);
  return {};
}

Work MetaCommunicator::reduce_scatter(Stream&, Tensor out, Tensor in) {
  check_parts("planned", in, out, size_);
  check_summable(in);
  sent_bytes_ += parts_sent(in, size_);
  return {};
}

Work MetaCommunicator::broadcast(Stream&, Tensor data, int root) {
  if (rank_ == root) sent_bytes_ += double(data.bytes()) * (size_ - 1);
  return {};
}

Work MetaCommunicator::send(Stream&, Tensor data, int peer, Channel) {
  require(peer >= 0 && peer < size_ && peer != rank_, "no peer ", peer, " in a group of ", size_);
  sent_bytes_ += data.bytes();
  return {};
}

Work MetaCommunicator::receive(Stream&, Tensor, int peer, Channel) {
  require(peer >= 0 && peer < size_ && peer != rank_, "no peer ", peer, " in a group of ", size_);
  return {};
}

}  // namespace mtl
