// Operations of groups that a device moves by itself, as those who poll for this rank see them: the host does not wait
// for them, so a fault there must be looked for.
#pragma once

#include "comm/operation_label.h"

namespace mtl {

class DeviceWatch {
 public:
  virtual ~DeviceWatch() = default;
  /// Looks for faults of what is under way, from any thread that holds the progress lock. Throws CommunicationError
  /// after it has ended everything.
  virtual void look(const OperationProgress& at) = 0;
  /// A rank failed: ends what is under way, without results, so that the host can continue.
  virtual void abandon() noexcept = 0;
};

}  // namespace mtl
