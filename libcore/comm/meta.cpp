#include "comm/communicator.h"

namespace mtl {

double MetaCommunicator::bytes_sent(const Transfer& transfer) const {
  const double bytes = double(transfer.whole().bytes()), of_parts = bytes * (size_ - 1) / size_;
  switch (transfer.kind) {
    case OperationKind::all_reduce:
      return 2 * of_parts;
    case OperationKind::broadcast:
      return transfer.peer == rank_ ? bytes * (size_ - 1) : 0;
    case OperationKind::send:
      return bytes;
    case OperationKind::receive:
      return 0;
    default:
      return of_parts;
  }
}

Work MetaCommunicator::start(Stream& stream, const Transfer& transfer) {
  const double bytes = bytes_sent(transfer);
  traffic_.bytes += bytes;
  if (transfer.kind != OperationKind::receive) ++traffic_.operations;
  Profile* profile = stream.profile();
  if (profile == nullptr) return {};
  const int entry = profile->begin(stream, {.kind = ProfileKind::communication,
                                            .name = name_of(transfer.kind),
                                            .detail = name_,
                                            .work = {.flops = 0, .bytes = bytes}});
  profile->end(stream, entry);
  return Work(entry);
}

}  // namespace mtl
