// For builds without NCCL. GPU groups cannot be created.
#include "base/error.h"
#include "comm/nccl_library.h"

namespace mtl {

NcclLibrary& nccl_library() {
  fail(Exit::usage,
       "several ranks cannot use GPUs, because this program was built without NCCL; start one rank, choose "
       "--device cpu, or install NCCL's headers (nccl.h) and build the program again");
}

}  // namespace mtl
