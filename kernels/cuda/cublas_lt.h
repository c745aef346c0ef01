// Loads cuBLASLt at the first matmul: it uses half a gigabyte of memory, and a program that uses only the cpu must
// start without it. tests/cuda_on_cpu has a header with the same name that emulates the library.
#pragma once

#include <cublasLt.h>

#include "base/str.h"
#include "device/cuda_library.h"

namespace mtl::cuda {

/// The library and the functions that mtl uses.
struct CublasLt {
  CudaLibrary library{
      {cat("libcublasLt.so.", CUBLAS_VER_MAJOR)},
      "multiplies matrices on the GPU",
      cat("install cuBLAS ", CUBLAS_VER_MAJOR, " or add its folder to LD_LIBRARY_PATH, or choose --device cpu")};
  decltype(&::cublasLtGetVersion) version = library["cublasLtGetVersion"];
  decltype(&::cublasLtGetStatusString) status_text = library["cublasLtGetStatusString"];
  decltype(&::cublasLtCreate) create = library["cublasLtCreate"];
  decltype(&::cublasLtDestroy) destroy = library["cublasLtDestroy"];
  decltype(&::cublasLtMatmul) matmul = library["cublasLtMatmul"];
  decltype(&::cublasLtMatmulAlgoGetHeuristic) find_algorithms = library["cublasLtMatmulAlgoGetHeuristic"];
  decltype(&::cublasLtMatmulAlgoInit) make_algorithm = library["cublasLtMatmulAlgoInit"];
  decltype(&::cublasLtMatmulAlgoCheck) check_algorithm = library["cublasLtMatmulAlgoCheck"];
  decltype(&::cublasLtMatmulAlgoConfigGetAttribute) get_config = library["cublasLtMatmulAlgoConfigGetAttribute"];
  decltype(&::cublasLtMatmulAlgoConfigSetAttribute) set_config = library["cublasLtMatmulAlgoConfigSetAttribute"];
  decltype(&::cublasLtMatmulDescCreate) create_desc = library["cublasLtMatmulDescCreate"];
  decltype(&::cublasLtMatmulDescDestroy) destroy_desc = library["cublasLtMatmulDescDestroy"];
  decltype(&::cublasLtMatmulDescSetAttribute) set_desc = library["cublasLtMatmulDescSetAttribute"];
  decltype(&::cublasLtMatrixLayoutCreate) create_layout = library["cublasLtMatrixLayoutCreate"];
  decltype(&::cublasLtMatrixLayoutDestroy) destroy_layout = library["cublasLtMatrixLayoutDestroy"];
  decltype(&::cublasLtMatmulPreferenceCreate) create_preference = library["cublasLtMatmulPreferenceCreate"];
  decltype(&::cublasLtMatmulPreferenceDestroy) destroy_preference = library["cublasLtMatmulPreferenceDestroy"];
  decltype(&::cublasLtMatmulPreferenceSetAttribute) set_preference = library["cublasLtMatmulPreferenceSetAttribute"];
};

}  // namespace mtl::cuda
