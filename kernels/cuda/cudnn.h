// cuDNN's backend API. It takes descriptors with attributes, and compiles a graph of operations into one kernel. We
// open the library when a run on a GPU loads its choices, or at the first attention call that can use it.
// tests/cuda_on_cpu has a header with the same name that emulates the library.
#pragma once

#include <cudnn.h>

#include "base/error.h"
#include "base/str.h"
#include "device/cuda_library.h"

namespace mtl::cuda {

/// The library and the functions that mtl uses.
struct Cudnn {
  CudaLibrary library{{cat("libcudnn.so.", CUDNN_MAJOR)},
                      "computes attention on the GPU",
                      cat("install cuDNN ", CUDNN_MAJOR,
                          " or add its folder to LD_LIBRARY_PATH, or choose another --attention-backend")};
  decltype(&::cudnnGetVersion) version = library["cudnnGetVersion"];
  decltype(&::cudnnGetErrorString) text_of = library["cudnnGetErrorString"];
  decltype(&::cudnnCreate) create = library["cudnnCreate"];
  decltype(&::cudnnDestroy) destroy = library["cudnnDestroy"];
  decltype(&::cudnnSetStream) set_stream = library["cudnnSetStream"];
  decltype(&::cudnnBackendCreateDescriptor) create_descriptor = library["cudnnBackendCreateDescriptor"];
  decltype(&::cudnnBackendDestroyDescriptor) destroy_descriptor = library["cudnnBackendDestroyDescriptor"];
  decltype(&::cudnnBackendSetAttribute) set_attribute = library["cudnnBackendSetAttribute"];
  decltype(&::cudnnBackendGetAttribute) get_attribute = library["cudnnBackendGetAttribute"];
  decltype(&::cudnnBackendFinalize) finalize = library["cudnnBackendFinalize"];
  decltype(&::cudnnBackendExecute) execute = library["cudnnBackendExecute"];

  /// True if the library can be opened. The first call decides for the rest of the process.
  static bool is_installed() {
    static const bool installed = [] {
      try {
        (void)Cudnn();
        return true;
      } catch (const Error&) {
        return false;
      }
    }();
    return installed;
  }
};

}  // namespace mtl::cuda
