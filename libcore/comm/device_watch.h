// Lets the progress thread supervise operations that run asynchronously on a device. The host does not wait for these,
// so the progress thread must poll them for faults.
#pragma once

#include "comm/operation_label.h"

namespace mtl {

class DeviceWatch {
 public:
  virtual ~DeviceWatch() = default;
  /// Checks operations in progress for faults. The calling thread must hold the progress lock. If there is a fault,
  /// aborts all operations in progress and throws CommunicationError.
  virtual void check_faults(const OperationProgress& at) = 0;
  /// Must be called after a rank has failed. Aborts operations in progress, so that the host can continue.
  virtual void abandon() noexcept = 0;
};

}  // namespace mtl
