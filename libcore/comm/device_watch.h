// The interface through which the progress thread supervises operations that run asynchronously on a device. The host
// does not wait for these operations, so the progress thread must poll for their faults.
#pragma once

#include "comm/operation_label.h"

namespace mtl {

class DeviceWatch {
 public:
  virtual ~DeviceWatch() = default;
  /// Checks the operations in progress for faults. The calling thread must hold the progress lock. If there is a fault,
  /// aborts all operations in progress and throws CommunicationError.
  virtual void check_faults(const OperationProgress& at) = 0;
  /// Call this after a rank failed. Aborts the operations in progress, so that the host can continue.
  virtual void abandon() noexcept = 0;
};

}  // namespace mtl
