// CUDA shared libraries (cuBLASLt, NCCL, CUPTI, cuDNN). They are large, and a program that uses only the cpu must start
// on machines without them, so we open each library when it is first needed.
//
//   struct CublasLt {
//     CudaLibrary library{{"libcublasLt.so.13"}, "multiplies matrices on the GPU", "install cuBLAS 13"};
//     decltype(&::cublasLtCreate) create = library["cublasLtCreate"];
//   };
#pragma once

#include <string>
#include <vector>

namespace mtl {

class CudaLibrary {
 public:
  /// A library function, convertible to any function pointer type.
  class Symbol {
   public:
    explicit Symbol(void* address) : address_(address) {}
    template <class Function>
    operator Function*() const {
      return reinterpret_cast<Function*>(address_);
    }

   private:
    void* address_;
  };

  /// Opens the first library in `names` that loads. A name without a slash is searched for in LD_LIBRARY_PATH and the
  /// system folders, then in CUDA's folders (/usr/local/cuda). A name with a slash is a path. The library stays open
  /// until the process ends.
  ///
  /// If nothing loads, throws Error with the loader's reasons: "cannot open NAME, which PURPOSE (...); REMEDY".
  CudaLibrary(const std::vector<std::string>& names, const std::string& purpose, const std::string& remedy);

  /// Returns a function. Throws Error if the library does not have it.
  Symbol operator[](const char* function) const;
  /// Returns true if the library has this function. Older versions may not.
  bool has(const char* function) const;
  /// Returns the name or path that we opened.
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  void* handle_ = nullptr;
};

}  // namespace mtl
