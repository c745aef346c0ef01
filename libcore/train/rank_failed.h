// Thrown when ranks exchange totals and one of them reports a failure.
#pragma once

#include "base/error.h"

namespace mtl {

class RankFailed : public Error {
 public:
  explicit RankFailed(bool can_save) : Error(Exit::failure, "a rank failed"), can_save(can_save) {}
  const bool can_save;  // all ranks hold a consistent state that has not been saved yet
};

}  // namespace mtl
