// The progress thread's view of operations that run asynchronously on a device. The host does not wait for them, so it
// must poll for their faults.
#pragma once

#include "comm/operation_label.h"

namespace mtl {

class DeviceWatch {
 public:
  virtual ~DeviceWatch() = default;
  /// Checks the operations in progress for faults, in any thread that holds the progress lock. On a fault, aborts all
  /// of them and throws CommunicationError.
  virtual void check_faults(const OperationProgress& at) = 0;
  /// Call after a rank failed: aborts the operations in progress, so that the host can continue.
  virtual void abandon() noexcept = 0;
};

}  // namespace mtl
