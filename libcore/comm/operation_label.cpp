#include "comm/operation_label.h"

#include "base/str.h"

namespace mtl {

namespace {

const char* name_of(OperationKind kind) {
  switch (kind) {
    case OperationKind::all_reduce:
    case OperationKind::all_reduce_sums:
      return "all-reduce";
    case OperationKind::all_gather:
      return "all-gather";
    case OperationKind::reduce_scatter:
      return "reduce-scatter";
    case OperationKind::broadcast:
      return "broadcast";
    case OperationKind::send:
      return "send";
    case OperationKind::receive:
      return "receive";
  }
  return "";
}

}  // namespace

std::string OperationProgress::text() const {
  std::string out;
  if (iteration >= 0) out += cat(", iteration ", iteration);
  if (micro_batch >= 0) out += cat(", micro-batch ", micro_batch);
  return out;
}

std::string OperationLabel::text() const {
  std::string from;
  if (kind == OperationKind::send) from = cat(" to rank ", peer);
  if (kind == OperationKind::receive || kind == OperationKind::broadcast) from = cat(" from rank ", peer);
  return cat(name_of(kind), " #", number, from, " in group '", group == nullptr ? "" : group->name, "' (",
             with_commas(bytes), " bytes", at.text(), ")");
}

}  // namespace mtl
