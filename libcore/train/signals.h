// Signals as requests that the training loop reads between steps.
//
//   USR1  save and go on        TERM, INT  save and end (a second INT ends at once)        USR2  print a status line
#pragma once

namespace mtl {

/// While it lives, the signals above are recorded instead of ending the process. At most one at a time.
class SignalRequests {
 public:
  SignalRequests();
  ~SignalRequests();
  SignalRequests(const SignalRequests&) = delete;

  /// Each returns whether it was asked for since the last call.
  bool take_save();
  bool take_status();
  /// Once asked, stays asked.
  bool wants_end() const;
};

}  // namespace mtl
