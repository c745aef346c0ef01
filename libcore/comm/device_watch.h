// Lets the progress thread supervise operations that run asynchronously on a device. The host does not wait for these,
// so they must be polled for faults.
#pragma once

#include "comm/operation_label.h"

namespace mtl {

class DeviceWatch {
 public:
  virtual ~DeviceWatch() = default;
  /// Checks operations in progress for faults. If it finds a fault, aborts all of them and throws CommunicationError.
  /// The calling thread must hold the progress lock.
  virtual void check_faults(const OperationProgress& at) = 0;
  /// Must be called after a rank has failed. Aborts operations in progress so that the host can continue. Does not wait
  /// for them.
  virtual void abandon() noexcept = 0;
};

}  // namespace mtl
