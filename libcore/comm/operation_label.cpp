#include "comm/operation_label.h"

#include "base/str.h"

namespace mtl {

std::string OperationProgress::text() const {
  std::string out;
  if (iteration >= 0) out += cat(", iteration ", iteration);
  if (action != nullptr) out += cat(", ", action, " of micro-batch ", micro_batch);
  if (action != nullptr && chunk >= 0) out += cat(" in chunk ", chunk);
  return out;
}

std::string OperationLabel::text() const {
  const std::string in_group = cat(" in group '", group == nullptr ? "" : group->name, "' (");
  if (kind == OperationKind::graph)
    return cat("CUDA graph #", number, " with operations", in_group, "a part of the step", at.text(), ")");
  const char* content = channel == Channel::activations ? " of activations" : " of gradients";
  std::string from;
  if (kind == OperationKind::broadcast) from = cat(" from rank ", peer);
  if (kind == OperationKind::send) from = cat(content, " to rank ", peer);
  if (kind == OperationKind::receive) from = cat(content, " from rank ", peer);
  return cat(name_of(kind), " #", number, from, in_group, with_commas(bytes), " bytes", at.text(), ")");
}

OperationLabel make_label(const Transfer& transfer, const GroupIdentity& group, std::int64_t number,
                          const OperationProgress& at) {
  const Tensor& data = transfer.whole();
  require(data.raw() != nullptr || data.bytes() == 0, "group '", group.name, "': cannot send a meta tensor");
  return {.kind = transfer.kind,
          .group = &group,
          .number = number,
          .bytes = data.bytes(),
          .peer = transfer.peer < 0 ? -1 : group.ranks[transfer.peer],
          .at = at,
          .channel = transfer.channel};
}

}  // namespace mtl
