// Thrown by an exchange of totals in which a rank reported a failure.
#pragma once

#include "base/error.h"

namespace mtl {

class RankFailed : public Error {
 public:
  explicit RankFailed(bool can_save) : Error(Exit::failure, "a rank failed"), can_save(can_save) {}
  const bool can_save;  // all ranks hold a consistent state that is not saved yet
};

}  // namespace mtl
